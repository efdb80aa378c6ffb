"""From what the runs said to a reward: a pure function, outside every sandbox.

The reward is the share of the task's units (hidden tests that count together) that passed; 0 where a guard is broken,
time ran out, or a run said what no honest run says.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..tasks.task import CodeTask, Grade
from .challenge import Challenge
from .trusted_run import RunOutcome

MAX_NAMED = 3


@dataclass(frozen=True)
class FirstRuns:
    outcomes: tuple[RunOutcome, ...]
    hidden_passed: frozenset[str]
    facts: frozenset[str]
    """Ids of the file about the interpreter itself; they are in the first outcome."""
    guards: RunOutcome | None = None
    """Not run where no unit passed or something is objected to: the reward is 0 without them."""

    def guards_broken(self, code_task: CodeTask) -> tuple[str, ...]:
        return tuple(test for test in code_task.guard_tests if self.guards and test not in self.guards.passed)

    def objections(self) -> tuple[str, ...]:
        """Why nothing of these runs counts; empty: it does."""
        outcomes = (*self.outcomes, *((self.guards,) if self.guards else ()))
        late = any(outcome.timed_out for outcome in outcomes)
        notes = dict.fromkeys(note for outcome in outcomes for note in outcome.notes)
        unsound = self.facts - self.outcomes[0].passed
        facts = (f"{len(unsound)} facts about the interpreter itself do not hold",) if unsound else ()
        return (*(("the tests did not end in time",) if late else ()), *notes, *facts)


def challenge_objections(challenge: Challenge, outcome: RunOutcome) -> tuple[str, ...]:
    """How the second run differs from what an honest solution shows."""
    late = ("the second run did not end in time",) if outcome.timed_out else ()
    believed = sorted(challenge.must_fail & outcome.passed)
    changed = sorted(challenge.must_pass - outcome.passed)
    both = (f"{len(believed)} contradicted tests passed: {_few(believed)}",) if believed else ()
    unstable = (f"{len(changed)} tests that passed once failed when run again: {_few(changed)}",) if changed else ()
    return (*late, *outcome.notes, *both, *unstable)


def settle(
    code_task: CodeTask,
    first: FirstRuns,
    later_objections: tuple[str, ...],
    dropped: tuple[str, ...],
    wall_s: float,
) -> Grade:
    passed = tuple(test for test in code_task.hidden_tests if test in first.hidden_passed)
    broken = first.guards_broken(code_task)
    objections = (*first.objections(), *later_objections)
    honest = not objections and not broken
    return Grade(
        reward=code_task.share_of_units(passed) if honest else 0.0,
        hidden_passed=passed,
        hidden_failed=tuple(test for test in code_task.hidden_tests if test not in first.hidden_passed),
        guards_broken=broken,
        dropped=dropped,
        notes=objections,
        wall_s=wall_s,
    )


def _few(tests: list[str]) -> str:
    return ", ".join(tests[:MAX_NAMED]) + (" …" if len(tests) > MAX_NAMED else "")
