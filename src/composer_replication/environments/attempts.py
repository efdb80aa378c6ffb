"""One finished attempt at a task of any environment, as it is kept."""

from __future__ import annotations

from typing import NamedTuple, Protocol, runtime_checkable

from composer_replication.records import Trace

from .evidence import AttemptEvidence, CanaryHit


@runtime_checkable
class Graded(Protocol):
    """An attempt that is over and whose grade may still change. Whoever hands its reward on asks the monitor first."""

    @property
    def reward(self) -> float: ...

    @property
    def evidence(self) -> AttemptEvidence | None: ...

    def grade_deeper(self) -> None:
        """Grade what was handed in once more, with more doubt. The lower reward of the two stands."""
        ...

    def overrule(self, why: str) -> None:
        """Take the reward."""
        ...


class Attempt(NamedTuple):
    trace: Trace
    reward: float
    ended: str
    """Why it was over: `submitted`, `steps`, `time`, `turns`, `tokens`, `idle`, `no_reply: …` or `broken: …`."""
    steps: int
    wall_s: float
    evidence: AttemptEvidence | None = None
    graded: Graded | None = None
    """Where its grade comes from."""
    cut_turns: int | None = None
    """Turns that were cut off at their limit of tokens; None where nobody knows."""

    @property
    def canary_hits(self) -> tuple[CanaryHit, ...]:
        """Decoys that were surely read."""
        return tuple(hit for hit in self.evidence.canary_hits if hit.evidence == "hard") if self.evidence else ()


@runtime_checkable
class Ended(Protocol):
    """An episode that says why it was over, and counts something finer than turns."""

    @property
    def ended(self) -> str | None: ...

    @property
    def steps(self) -> int: ...
