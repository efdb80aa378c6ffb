"""The ways to make a task from a repository."""
