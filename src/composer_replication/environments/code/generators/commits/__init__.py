"""Tasks from a git history: a commit that changed source and tests together is taken back."""
