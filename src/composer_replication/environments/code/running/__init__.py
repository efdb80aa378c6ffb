"""Running a repository's tests, warm."""
