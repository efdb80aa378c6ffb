"""What was recorded of the solution when a task was made: `TASK/tests/checks.json`. Never in the agent's sandbox.

    modules   test file -> the text that is graded, and what each of its checks compares
    tests     hidden test -> where it stands in that text, and the checks that the solution passed through, in order,
              each with the operands that are known
    left      hidden test -> why it is not compared by the trusted side
    cheap     hidden tests of `tests` that pass on answers which can be had without the feature

A task without the file was made before there was one: none of its tests is compared by the trusted side.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ..tasks.store import CHECKS
from ..tasks.task import TaskFolder
from .checks import holds, read_claim
from .lowering import LoweredCheck

Passage = tuple[int, Mapping[int, Any]]
"""A check, and the forms of its known operands."""


@dataclass(frozen=True)
class RecordedModule:
    graded: str
    checks: Mapping[int, LoweredCheck]
    answered: tuple[int, ...] = ()
    """Checks on values without a plain form: the process itself says whether they hold."""


@dataclass(frozen=True)
class RecordedTest:
    path: str
    """The test file that it comes from."""
    name: str
    """Its id in the lowered module, without the file."""
    passages: tuple[Passage, ...]
    exposed: bool = False
    """Whether something that is only expected stands in the graded text, or the process itself compares."""


@dataclass(frozen=True)
class Recorded:
    modules: Mapping[str, RecordedModule] = field(default_factory=dict[str, RecordedModule])
    tests: Mapping[str, RecordedTest] = field(default_factory=dict[str, RecordedTest])
    left: Mapping[str, str] = field(default_factory=dict[str, str])
    cheap: tuple[str, ...] = ()

    def holds(self, test: str, sent: object) -> bool:
        """Whether a process that sent this has passed the test, as far as values go."""
        recorded = self.tests[test]
        return passes(recorded.passages, self.modules[recorded.path].checks, sent)

    def compares_with_itself(self, test: str) -> bool:
        """Whether the submission's process has the last word on each comparison of the test."""
        module = self.modules[self.tests[test].path]
        return all(
            number in module.answered or (len(module.checks[number].live) > 1 and all(module.checks[number].live))
            for number, _ in self.tests[test].passages
        )

    def rests_on_process(self, test: str) -> bool:
        """Whether what the test expects is next to the submission, so that its verdict needs to be doubted."""
        return test not in self.tests or self.tests[test].exposed


RECORDED = TypeAdapter(Recorded)


def passes(passages: Sequence[Passage], checks: Mapping[int, LoweredCheck], sent: object) -> bool:
    """Exactly the solution's checks in the solution's order, and every one of them holds."""
    return false_checks(passages, checks, sent) == frozenset()


def false_checks(
    passages: Sequence[Passage], checks: Mapping[int, LoweredCheck], sent: object
) -> frozenset[int] | None:
    """Numbers of the checks that do not hold; None where other checks were passed through than expected."""
    entries: list[object] = sent if isinstance(sent, list) else []
    seen = [read_claim(entry, "live") for entry in entries if not (isinstance(entry, dict) and "known" in entry)]
    if [each and each.check for each in seen] != [number for number, _ in passages]:
        return None
    return frozenset(
        number
        for each, (number, known) in zip(seen, passages, strict=True)
        if each is None or not holds(checks[number], each, known)
    )


def as_text(recorded: Recorded) -> str:
    return json.dumps({"version": 1, **asdict(recorded)}, indent=0, sort_keys=True) + "\n"


def read_recorded(task: TaskFolder) -> Recorded:
    path = task.folder / "tests" / CHECKS
    return _read(path, path.stat().st_mtime_ns) if path.is_file() else Recorded()


@lru_cache(maxsize=64)
def _read(path: Path, changed_ns: int) -> Recorded:
    return RECORDED.validate_json(path.read_bytes())
