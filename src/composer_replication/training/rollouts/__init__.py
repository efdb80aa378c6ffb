"""Playing: turns sampled in batches while environments work."""
