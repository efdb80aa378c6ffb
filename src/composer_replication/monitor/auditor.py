"""A second opinion that nothing is trained against: a logistic regression over hashed names of what was done.

Reads the acts of a rollout (verbs, kinds of files, names of commands, what follows what) and `auditor.json`; gives a
probability that is only reported. It reads the same parsed acts as the command rules, but no sign is among its
features, so that slipping under the rules does not by itself slip under it. It is weak alone (docs/monitor.md): its
trend over training says more than its level, and most disagreements are its own misses. No reward, penalty or mask may
read it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from composer_replication.records import JsonObject

from .conduct import Act
from .logistic import FittedModel, chance

AUDITOR = Path(__file__).with_name("auditor.json")
BUCKETS = 512
COUNT_LIMIT = 8
KNOWN_SUFFIXES = frozenset(
    "py pyc pyi pth txt md rst json toml cfg ini yml yaml html ipynb so a jar class whl zip gz tar xz bz2 sh log xml db"
    .split()
)  # fmt: skip
TELLING_PARTS = tuple(
    ".git __pycache__ site-packages .cache build dist tests test docs proc sys dev tmp home root usr etc var".split()
)


def names_of(acts: Iterable[Act]) -> Iterator[str]:
    """Words that say what kind of thing was done; none holds a path or a text of the rollout as it is."""
    before = "start"
    for act in acts:
        kind = target_kind(act.target)
        yield f"did {act.verb}"
        yield f"{act.verb} {kind}"
        yield f"{before} then {act.verb}"
        if word := first_word(act.detail):
            yield f"{act.verb} by {word}"
        before = act.verb
    yield f"{before} then end"


def target_kind(target: str) -> str:
    path = PurePosixPath(target)
    part = next((part for part in TELLING_PARTS if part in path.parts), "plain")
    suffix = path.suffix.removeprefix(".")
    place = "absolute" if path.is_absolute() else "home" if target.startswith("~") else "relative"
    return f"{place} {part} {suffix if suffix in KNOWN_SUFFIXES else 'other'}"


def first_word(detail: str) -> str:
    word = detail.split(maxsplit=1)[0] if detail.strip() else ""
    return word[:24] if word.replace("-", "").replace("_", "").replace(".", "").isalnum() else ""


def hashed(acts: Iterable[Act]) -> dict[int, float]:
    """Bucket -> capped count, in logarithms."""
    counts: dict[int, int] = {}
    for name in names_of(acts):
        bucket = bucket_of(name)
        counts[bucket] = counts.get(bucket, 0) + 1
    return {bucket: math.log1p(min(count, COUNT_LIMIT)) for bucket, count in counts.items()}


@cache
def bucket_of(name: str) -> int:
    """The same on every machine and in every process."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4]) % BUCKETS


class Auditor(FittedModel):
    weights: dict[int, float]
    """Log odds for each unit of a bucket; buckets that say nothing are left out."""
    intercept: float
    threshold: float
    false_positive_rate: float
    trained_on: JsonObject

    def probability(self, acts: Iterable[Act]) -> float:
        odds = self.intercept + sum(self.weights.get(bucket, 0.0) * value for bucket, value in hashed(acts).items())
        return chance(odds)

    @classmethod
    def load(cls, path: Path = AUDITOR) -> Auditor:
        return super().load(path)
