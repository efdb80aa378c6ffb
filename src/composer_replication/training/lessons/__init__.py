"""Error turns of fresh rollouts, and what the policy is taught there."""
