"""What each step learns from stored traces, and how much each channel weighs then: one JSON line per step.

Written before verl starts and read by its trainer, by step: a run that goes on reads what it would have read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from composer_replication.config import Config
from composer_replication.objective import SdpoSettings, TrdpoSettings

from ...channels import scheduled
from ...stored.batches import StoredBatches
from ...stored.collator import ComposerDataCollator
from ...stored.examples import PairTokens, TraceExample


@dataclass(frozen=True)
class StoredSite:
    context: list[int]
    turn: list[int]
    teacher_context: list[int]


@dataclass(frozen=True)
class StoredStep:
    sdpo_weight: float = 0.0
    trdpo_weight: float = 0.0
    sites: list[StoredSite] = field(default_factory=list[StoredSite])
    pairs: list[PairTokens] = field(default_factory=list[PairTokens])


def stored_steps(config: Config, stored: Sequence[TraceExample]) -> Iterator[StoredStep]:
    training, sdpo, trdpo = config.training, config.channel(SdpoSettings), config.channel(TrdpoSettings)
    collator = ComposerDataCollator(pad_id=0)  # for a batch, of which none is made
    batches = StoredBatches(stored, collator, training.traces_per_step, config.seed) if stored else None
    for step in range(training.steps):
        examples = batches.draw() if batches else []
        of_stored = sdpo.weight and sdpo.source == "stored"
        yield StoredStep(
            scheduled(sdpo.weight, sdpo.schedule).at(step, training.steps),
            scheduled(trdpo.weight, trdpo.schedule).at(step, training.steps),
            [
                StoredSite(example.ids[: site.start], example.ids[site.start : site.end], site.teacher_context)
                for example in (examples if of_stored else ())
                for site in example.sites
            ],
            [pair for example in (examples if trdpo.weight else ()) for pair in example.pairs],
        )


def write_steps(path: Path, steps: Iterator[StoredStep]) -> None:
    with path.open("w") as file:
        file.writelines(json.dumps(asdict(step)) + "\n" for step in steps)


def read_steps(path: Path) -> list[StoredStep]:
    with path.open() as file:
        return [_step(json.loads(line)) for line in file]


def _step(line: dict[str, Any]) -> StoredStep:
    sites, pairs = (line.pop(key) for key in ("sites", "pairs"))
    return StoredStep(
        **line, sites=[StoredSite(**site) for site in sites], pairs=[PairTokens(**pair) for pair in pairs]
    )
