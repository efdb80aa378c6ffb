"""Held-out turns of sessions under one policy: how likely it finds them, and what it writes at error turns itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from statistics import fmean
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
    """Up to `at_most` turns of each kind, the same in every run.

    Kinds take turns, those to be written first: they cost many times as much, so a pace of one kind would mislead.
    """
    good = (
        HeldOutTurn("good turns", trace, turn, (trace.messages[trace.turns[turn].start],))
        for trace, turn in good_turns(traces, sites)
    )
    by_actor = (_compared("corrections", one) for one in corrections(traces, sites))
    by_teachers = (_compared("preferred", one) for one in preferred(traces, pairs))
    wrong = (HeldOutTurn("rewritten", trace, site.turn, site=site) for trace, site in error_turns(traces, sites))
    chosen = [sorted(kind, key=_order)[:at_most] for kind in (wrong, by_actor, by_teachers, good)]
    placed = [(place / len(kind), turn) for kind in chosen for place, turn in enumerate(kind)]
    return [turn for _, turn in sorted(placed, key=itemgetter(0))]


def _compared(measure: Measure, two: TwoActions) -> HeldOutTurn:
    return HeldOutTurn(measure, two.trace, two.turn, (two.better, two.worse))


def _order(one: HeldOutTurn) -> str:
    return content_id(one.site.site_id) if one.site else content_id(one.trace.trace_id, one.turn)


class TimeLeft:
    """By the mean of each kind; of one that was not measured yet, by that of the others."""

    def __init__(self) -> None:
        self._took: dict[str, list[float]] = {}

    def after(self, measure: str, seconds: float, ahead: Mapping[str, int]) -> float:
        """Seconds, once a turn of `measure` took `seconds` and turns are `ahead`, by kind."""
        self._took.setdefault(measure, []).append(seconds)
        means = {kind: fmean(took) for kind, took in self._took.items()}
        return sum(number * means.get(kind, fmean(means.values())) for kind, number in ahead.items())


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

    def fits(self, one: HeldOutTurn) -> bool:
        return self._shown(one) is not None

    def measure(self, one: HeldOutTurn) -> list[TurnMeasure]:
        """None where the policy cannot be shown the turn."""
        from composer_replication.training.models.states import turn_logprob

        shown = self._shown(one)
        if shown is None:
            return []
        before, written = shown
        if one.site is not None:
            return self._rewritten(one.trace, one.site, before)
        # Per token, so that long turns do not decide; all behind the same context.
        likely = [turn_logprob(self._policy, before, ids) / len(ids) for ids in written]
        return self._row(one.measure, one.trace, one.turn, likely[0] - sum(likely[1:]))

    def _rewritten(self, trace: Trace, site: ErrorSite, before: list[int]) -> list[TurnMeasure]:
        from composer_replication.training.rollouts.state_samples import read_turn, sample_greedily

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

    def _shown(self, one: HeldOutTurn) -> tuple[list[int], list[list[int]]] | None:
        """The context, and the actions that are read behind it."""
        from composer_replication.training.stored.lines import CannotRenderError, fitting_context

        tokens = self._tokens(one.trace)
        try:
            written = [tokens.written(action) for action in one.actions]
            extra = self._max_turn_tokens if one.site else max(map(len, written))
            found = fitting_context(tokens, one.turn, extra, self._sessions.max_tokens)
        except CannotRenderError:
            return None
        return (found.ids, written) if found else None

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
