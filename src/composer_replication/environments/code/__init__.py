"""Code tasks made from a repository: made, proved, played, graded and served."""
