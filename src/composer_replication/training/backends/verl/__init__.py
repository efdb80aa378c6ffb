"""`--backend verl`: one list of overrides for verl's own entry point, and what its processes load from us.

`launch.py` and `overrides.py` work where `recompose` was started. `inside/` is imported by verl's processes, through the
entry point group `verl.plugins`; nothing else here imports verl.
"""

COMPOSITE = "sampled-token"
