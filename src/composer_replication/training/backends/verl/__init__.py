"""`--backend verl`: one list of overrides for verl's own entry point, and what its processes load from us.

`train_verl.py` and `overrides.py` work where `recompose` was started. `inside/` is imported by verl's processes,
through the entry point group `verl.plugins`; nothing else here imports verl.
"""

COMPOSITE = "sampled-token"
LOST = (
    "channel 2 compares sampled tokens and not whole distributions: jsd_beta may be 1 or its default and does nothing; "
    "other values, top_k and token_clip are refused",
    "no gradient-ratio cap: verl adds all channels to one loss, so the weights of the channels hold as they are",
    "no watchdogs and no stored samples: verl's own log and its metrics say what happened",
)
