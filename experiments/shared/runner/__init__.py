"""One runner for experiments that train many arms from shared starts: a plan as data, a queue, slices of time."""
