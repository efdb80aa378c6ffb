"""Held-out turns of sessions under one policy: how likely it finds them, and what it writes at error turns itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from composer_replication.records import ErrorSite, Trace

from .compare import Phase
from .session_drawing import ShownTurn
from .sessions import CUT_OFF, TurnMeasure, what_is_wrong

if TYPE_CHECKING:
    from composer_replication.training.models.loading import Policy

Judge = Callable[[Trace, int, str], bool | None]
"""Whether the environment takes what is written at a turn; None where it does not know the trace."""
TRUSTED = 0.5
"""Share of the work that counts as measured before it begins, at the speed that was foreseen: so one pass moves the
time left by a few times its own share of the work, and no more."""


class TimeLeft:
    """As foreseen by the tokens of each kind, times how much longer passes of that kind took so far. What is not
    known of a kind yet is taken from both together, and that from what was foreseen."""

    def __init__(self, foreseen: Mapping[bool, float], times_as_long: float = 1.0) -> None:
        """Seconds of all that is ahead, by whether it is written; `times_as_long` on a machine that is busy."""
        self._trusted = {kind: TRUSTED * seconds for kind, seconds in foreseen.items()}
        self._known, self._took = defaultdict[bool, float](float), defaultdict[bool, float](float)
        self._times_as_long = times_as_long

    def add(self, is_written: bool, foreseen_s: float, took_s: float) -> None:
        self._known[is_written] += foreseen_s
        self._took[is_written] += took_s

    def left(self, ahead: Mapping[bool, float]) -> float:
        """Seconds, where what is `ahead` was foreseen to take so long."""
        # What an earlier call left may be damaged, so there may be more ahead than there was.
        trusted = {kind: self._trusted.get(kind) or TRUSTED * seconds for kind, seconds in ahead.items() if seconds}
        known, took = sum(self._known.values()), sum(self._took.values())
        before = sum((self._trusted | trusted).values())
        overall = (before * self._times_as_long + took) / (before + known) if trusted else 0.0
        return sum(
            ahead[kind] * (weight * overall + self._took[kind]) / (weight + self._known[kind])
            for kind, weight in trusted.items()
        )


class SessionReader:
    """Shows one policy what the actor saw."""

    def __init__(self, policy: Policy, phase: Phase, max_turn_tokens: int, judge: Judge) -> None:
        self._policy, self._max_turn_tokens, self._judge = policy, max_turn_tokens, judge
        self.phase: Phase = phase
        self.tokens_written = 0
        """Of the turn that is being written."""

    def measure(self, shown: ShownTurn) -> TurnMeasure:
        from composer_replication.training.models.states import turn_logprob

        one, reason = shown.turn, None
        if one.site is not None:
            reason = self._what_is_wrong(one.trace, one.site, shown.context)
            value = float(reason is not None)
        else:
            # Per token, so that long turns do not decide; all behind the same context.
            likely = [turn_logprob(self._policy, shown.context, ids) / len(ids) for ids in shown.actions]
            value = likely[0] - sum(likely[1:])
        return TurnMeasure(
            measure=one.measure,
            trace_id=one.trace.trace_id,
            turn=one.turn,
            phase=self.phase,
            value=value,
            reason=reason,
        )

    def _what_is_wrong(self, trace: Trace, site: ErrorSite, context: Sequence[int]) -> str | None:
        """With what the policy writes there."""
        from composer_replication.training.rollouts.state_samples import read_turn, sample_greedily

        text = sample_greedily(self._policy, context, self._max_turn_tokens, trace.tools, self._count)
        self.tokens_written = 0
        if text is None:
            return CUT_OFF
        taken = self._judge(trace, site.turn, text)
        if taken is not None:
            return None if taken else "refused by the environment"
        failed = trace.messages[trace.turns[site.turn].start]
        return what_is_wrong(read_turn(text), failed, site.call_id, trace.tools)

    def _count(self, tokens: int) -> None:
        self.tokens_written = tokens
