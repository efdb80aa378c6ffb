"""Tasks by deleting a tested feature from a repository: which feature, how its source goes, what is said about it."""
