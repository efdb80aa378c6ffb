"""What a task is, and how it and its repository lie on disk."""
