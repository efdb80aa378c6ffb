"""The registered analysis of plans that the shared runner has worked off: a plan's `[tests]`, as data."""
