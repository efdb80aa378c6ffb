"""The scenes by name, so that a process can be told which to run."""

from __future__ import annotations

from trl import GRPOTrainer

from .scenes import Scene

_OFF_ALIGNED = {"steps_per_generation": 4, "num_iterations": 2, "per_device_train_batch_size": 2}
_TWO_MICRO_STEPS = {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 2}
_CAPPED = {"gradient_ratio_cap": 0.5, "measure_every": 1}

SCENES = {
    "plain": Scene(GRPOTrainer, steps=5),
    "off": Scene(online=True, steps=5),
    "plain_accumulated": Scene(GRPOTrainer, steps=5, arguments=_TWO_MICRO_STEPS),
    "off_accumulated": Scene(online=True, steps=5, arguments=_TWO_MICRO_STEPS),
    "plain_off_aligned": Scene(GRPOTrainer, steps=5, arguments=_OFF_ALIGNED),
    "off_off_aligned": Scene(online=True, steps=5, arguments=_OFF_ALIGNED),
    "online": Scene(alpha=0.7, online=True, steps=3),
    "online_one_rank": Scene(alpha=0.7, online=True, errors_everywhere=False, steps=3),
    "online_ema": Scene(alpha=0.7, online=True, steps=3, settings={"teacher": "ema", "ema_rate": 0.5}),
    "online_ema_one_rank": Scene(
        alpha=0.7, online=True, errors_everywhere=False, steps=3, settings={"teacher": "ema", "ema_rate": 0.5}
    ),
    "online_accumulated": Scene(alpha=0.7, online=True, steps=3, arguments=_TWO_MICRO_STEPS),
    "online_capped": Scene(alpha=50.0, online=True, errors_everywhere=False, steps=3, settings=_CAPPED),
    "online_tied": Scene(
        alpha=0.7, online=True, steps=3, tied=True, settings={"teacher": "ema", "ema_rate": 0.5}
    ),
    "online_checkpointed": Scene(
        alpha=0.7, online=True, steps=3, settings=_CAPPED, arguments={"gradient_checkpointing": True}
    ),
    "stored": Scene(alpha=0.7, beta=0.5, steps=3),
    "stored_one_rank": Scene(alpha=0.7, beta=0.5, stored_everywhere=False, steps=3),
    "stored_capped": Scene(alpha=0.7, beta=0.5, steps=3, stored_everywhere=False, settings=_CAPPED),
    "stored_accumulated": Scene(alpha=0.7, beta=0.5, steps=3, arguments=_TWO_MICRO_STEPS),
    "both": Scene(
        alpha=0.7, beta=0.5, online=True, errors_everywhere=False, stored_everywhere=False, steps=3,
        settings={"teacher": "ema", "ema_rate": 0.5},
    ),
}  # fmt: skip
