"""Python source: what its names and constants stand for, and what it would do, as acts. Nothing is run."""
