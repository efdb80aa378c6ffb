"""The scenes by name, so that a process can be told which to run."""

from __future__ import annotations

from dataclasses import replace

from trl import GRPOTrainer

from .scenes import Scene

_OFF_ALIGNED = {"steps_per_generation": 4, "num_iterations": 2, "per_device_train_batch_size": 2}
_AVERAGED = {"teacher": "ema", "ema_rate": 0.5}
_MIXED = {"teacher": "trust_region", "trust_region_rate": 0.3}
_CAP = 0.5
_ONLINE = Scene(alpha=0.7, online=True, steps=3)
_STORED = Scene(alpha=0.7, beta=0.5, steps=3)
_BOTH = replace(_STORED, online=True, errors_everywhere=False, stored_everywhere=False, settings=_AVERAGED)

_OFF = {
    "": Scene(online=True, steps=5),
    "_accumulated": Scene(online=True, steps=5, accumulation=2),
    "_off_aligned": Scene(online=True, steps=5, arguments=_OFF_ALIGNED),
    "_environment": Scene(online=True, steps=3, environment=True),
}
PARITY = list(_OFF)
"""`off` + one of these has every channel without weight; `plain` + the same is TRL's trainer."""

SCENES = {
    **{f"off{name}": scene for name, scene in _OFF.items()},
    **{f"plain{name}": replace(scene, trainer=GRPOTrainer) for name, scene in _OFF.items()},
    "online": _ONLINE,
    "online_one_rank": replace(_ONLINE, errors_everywhere=False),
    "online_ema": replace(_ONLINE, settings=_AVERAGED),
    "online_ema_one_rank": replace(_ONLINE, errors_everywhere=False, settings=_AVERAGED),
    "online_accumulated": replace(_ONLINE, accumulation=2, settings=_AVERAGED),
    "online_checkpointed": replace(_ONLINE, arguments={"gradient_checkpointing": True}),
    "online_tied": replace(_ONLINE, tied=True, settings=_AVERAGED),
    "online_measured": replace(_ONLINE, errors_everywhere=False, cap=1e9),
    "online_capped": replace(_ONLINE, alpha=1e6, errors_everywhere=False, cap=_CAP),
    "stored": _STORED,
    "stored_accumulated": replace(_STORED, accumulation=2, settings=_AVERAGED),
    "stored_one_rank": replace(_STORED, stored_everywhere=False, settings=_MIXED),
    "stored_measured": replace(_STORED, stored_everywhere=False, cap=_CAP, settings=_MIXED),
    "both": _BOTH,
    "both_muon": replace(_BOTH, optimizer="muon"),
}
EVEN = [
    "online", "online_one_rank", "online_ema", "online_ema_one_rank", "online_accumulated", "online_checkpointed",
    "online_tied", "online_measured", "stored", "stored_accumulated",
]  # fmt: skip
UNEVEN = ["stored_one_rank", "stored_measured", "both"]
"""Half of the processes alone have stored sites and pairs, and in `both` errors in their rollouts."""
MUON = "both_muon"
