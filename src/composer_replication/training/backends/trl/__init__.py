"""The step inside TRL's GRPO trainer, and over stored traces alone."""
