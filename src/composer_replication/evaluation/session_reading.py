"""Held-out turns of sessions under one policy: how likely it finds them, and what it writes at error turns itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from composer_replication.records import ErrorSite, Message, PreferencePair, Trace, content_id

from .compare import Phase
from .sessions import Measure, TurnMeasure, TwoActions, corrections, error_turns, good_turns, preferred, what_is_wrong

if TYPE_CHECKING:
    from composer_replication.training.stored.sessions import RenderedSessions, SessionTokens

Judge = Callable[[Trace, int, str], bool | None]
"""Whether the environment takes what is written at a turn; None where it does not know the trace."""


class HeldOutTurn(NamedTuple):
    """The same for both policies."""

    measure: Measure
    trace: Trace
    turn: int
    actions: tuple[Message, ...] = ()
    """How likely they are is told: of the first one, less that of the second where there is one."""
    site: ErrorSite | None = None
    """Of a turn that is written again."""


def choose_turns(
    traces: Sequence[Trace], sites: Sequence[ErrorSite], pairs: Sequence[PreferencePair], at_most: int
) -> list[HeldOutTurn]:
    """Up to `at_most` turns of each kind, the same in every run."""
    good = (
        HeldOutTurn("good turns", trace, turn, (trace.messages[trace.turns[turn].start],))
        for trace, turn in good_turns(traces, sites)
    )
    by_actor = (_compared("corrections", one) for one in corrections(traces, sites))
    by_teachers = (_compared("preferred", one) for one in preferred(traces, pairs))
    wrong = (HeldOutTurn("rewritten", trace, site.turn, site=site) for trace, site in error_turns(traces, sites))
    return [turn for kind in (good, by_actor, by_teachers, wrong) for turn in sorted(kind, key=_order)[:at_most]]


def _compared(measure: Measure, two: TwoActions) -> HeldOutTurn:
    return HeldOutTurn(measure, two.trace, two.turn, (two.better, two.worse))


def _order(one: HeldOutTurn) -> str:
    return content_id(one.site.site_id) if one.site else content_id(one.trace.trace_id, one.turn)


class SessionReader:
    """Shows the policy what the actor saw, in a window where that is too long."""

    def __init__(
        self, sessions: RenderedSessions, failed_calls: Mapping[str, set[str]], phase: Phase, max_turn_tokens: int,
        judge: Judge,
    ) -> None:  # fmt: skip
        self._sessions, self._failed_calls, self._policy = sessions, failed_calls, sessions.policy
        self._max_turn_tokens, self._judge = max_turn_tokens, judge
        self.phase: Phase = phase
        self._opened: dict[str, SessionTokens] = {}

    def measure(self, one: HeldOutTurn) -> list[TurnMeasure]:
        """None where the policy cannot be shown the turn."""
        if one.site is not None:
            return self._rewritten(one.trace, one.site)
        likely = self._likelihoods(one.trace, one.turn, *one.actions)
        return [] if likely is None else self._row(one.measure, one.trace, one.turn, likely[0] - sum(likely[1:]))

    def _likelihoods(self, trace: Trace, turn: int, *actions: Message) -> list[float] | None:
        """Per token, so that long turns do not decide; all behind the same context."""
        from composer_replication.training.models.states import turn_logprob
        from composer_replication.training.stored.lines import CannotRenderError

        try:
            written = [self._tokens(trace).written(action) for action in actions]
        except CannotRenderError:
            return None
        before = self._before(trace, turn, max(map(len, written)))
        if before is None:
            return None
        return [turn_logprob(self._policy, before, ids) / len(ids) for ids in written]

    def _rewritten(self, trace: Trace, site: ErrorSite) -> list[TurnMeasure]:
        from composer_replication.training.rollouts.state_samples import read_turn, sample_greedily

        before = self._before(trace, site.turn, self._max_turn_tokens)
        if before is None:
            return []
        text = sample_greedily(self._policy, before, self._max_turn_tokens, trace.tools)
        taken = None if text is None else self._judge(trace, site.turn, text)
        if text is None:
            reason = "cut off"
        elif taken is not None:
            reason = None if taken else "refused by the environment"
        else:
            failed = trace.messages[trace.turns[site.turn].start]
            reason = what_is_wrong(read_turn(text), failed, site.call_id, trace.tools)
        return self._row("rewritten", trace, site.turn, float(reason is not None), reason)

    def _before(self, trace: Trace, turn: int, extra: int) -> list[int] | None:
        from composer_replication.training.stored.lines import CannotRenderError, fitting_context

        try:
            found = fitting_context(self._tokens(trace), turn, extra, self._sessions.max_tokens)
        except CannotRenderError:
            return None
        return found.ids if found else None

    def _tokens(self, trace: Trace) -> SessionTokens:
        if trace.trace_id not in self._opened:
            failed = self._failed_calls.get(trace.trace_id, set())
            self._opened[trace.trace_id] = self._sessions.open(trace, range(len(trace.turns)), failed)
        return self._opened[trace.trace_id]

    def _row(
        self, measure: Measure, trace: Trace, turn: int, value: float, reason: str | None = None
    ) -> list[TurnMeasure]:
        own = TurnMeasure(
            measure=measure, trace_id=trace.trace_id, turn=turn, phase=self.phase, value=value, reason=reason
        )
        return [own]
