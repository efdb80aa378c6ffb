"""The gates that prove a task, and the search for leaks."""
