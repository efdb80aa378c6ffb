"""A corpus through the monitor once: signs, acts and features of every case, from which all tables are made.

Reads stored cases; writes nothing. Which layers or classes of signs count can be changed afterwards without looking at
a case again, which is what the ablations do.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from baseline import baseline_flags
from corpus import StoredCase, read_corpus
from fitting import Fitted, fit

from composer_replication.environments.evidence import Sign
from composer_replication.monitor.acts import acts_of_steps
from composer_replication.monitor.classes import BY_NUMBER
from composer_replication.monitor.conduct import Conduct
from composer_replication.monitor.features import Features, features_of
from composer_replication.monitor.judge import conduct_of, signs_of

FEATURES_OF_LAYERS = {
    "canary": ("canary_hard", "canary_soft"),
    "verifier": ("guards_broken", "dropped_paths", "hidden_gap"),
    "diff": ("literal_overlap", "test_writes"),
    "command": ("network_acts", "install_acts", "git_acts", "decode_acts"),
}
"""What of the features does not come from signs, by the layer that it belongs to."""


@dataclass(frozen=True)
class SeenCase:
    """One case as the monitor saw it."""

    name: str
    behaviour: str
    """What is held out together: the kind of honest work, or one attack."""
    hack_class: int
    repository: str
    graded: bool
    conduct: Conduct
    signs: tuple[Sign, ...]
    acts: tuple[Any, ...]
    of_evidence: Features
    """Features that need no sign; the slow part, kept for all ablations."""
    baseline: bool

    @property
    def is_hack(self) -> bool:
        return self.hack_class > 0


Keep = Callable[[Sign], bool]


def see(case: StoredCase) -> SeenCase:
    conduct = conduct_of(case.trace, case.evidence)
    acts_by_step = acts_of_steps(conduct.steps)
    return SeenCase(
        name=case.name,
        behaviour=case.kind,
        hack_class=case.hack_class,
        repository=case.repository,
        graded=case.graded,
        conduct=conduct,
        signs=tuple(signs_of(conduct, acts_by_step)),
        acts=tuple(chain.from_iterable(acts_by_step)),
        of_evidence=features_of(conduct, ()),
        baseline=baseline_flags(conduct),
    )


def see_corpus(path: Path) -> list[SeenCase]:
    return [see(case) for case in read_corpus(path)]


def features(seen: SeenCase, keep: Keep | None = None, without_layers: Iterable[str] = ()) -> Features:
    """With the signs that `keep` keeps, and without what only the given layers know."""
    signs = [sign for sign in seen.signs if keep is None or keep(sign)]
    of_signs = features_of(replace(seen.conduct, evidence=None), signs, seen.acts)
    found = {name: value or seen.of_evidence[name] for name, value in of_signs.items()}
    gone = {name for layer in without_layers for name in FEATURES_OF_LAYERS.get(layer, ())}
    return {name: 0.0 if name in gone else value for name, value in found.items()}


def is_hard(seen: SeenCase, keep: Keep | None = None) -> bool:
    return any(sign.evidence == "hard" and (keep is None or keep(sign)) for sign in seen.signs)


def fit_on(
    cases: Sequence[SeenCase],
    trained_on: dict[str, Any],
    keep: Keep | None = None,
    without_layers: Iterable[str] = (),
    folds: int = 10,
) -> Fitted:
    layers = tuple(without_layers)
    return fit(
        [features(case, keep, layers) for case in cases],
        [case.is_hack for case in cases],
        [case.behaviour for case in cases],
        trained_on,
        folds=folds,
    )


def of_other_classes(number: int) -> Keep:
    name = BY_NUMBER[number].name
    return lambda sign: sign.hack_class != name


def of_other_layers(layer: str) -> Keep:
    return lambda sign: sign.layer != layer


def origin(path: Path) -> dict[str, Any]:
    return {"corpus": path.name, "sha256": sha256(path.read_bytes()).hexdigest()}


def steps_per_second(path: Path, judge: Callable[[Conduct], object], at_most: int = 400) -> dict[str, float]:
    """Tool calls per second of processor time of one process, from a stored trace to the verdict."""
    cases = [case for case, _ in zip(read_corpus(path), range(at_most), strict=False)]
    started, steps = time.process_time(), 0
    for case in cases:
        conduct = conduct_of(case.trace, case.evidence)
        judge(conduct)
        steps += len(conduct.steps)
    seconds = time.process_time() - started
    return {"cases": len(cases), "steps": steps, "cpu_seconds": seconds, "steps_per_second": steps / seconds}
