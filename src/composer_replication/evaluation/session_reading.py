"""Held-out turns of sessions under one policy: how likely it finds them, and what it writes at error turns itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from composer_replication.records import ErrorSite, Message, PreferencePair, Trace, content_id

from .compare import Phase
from .sessions import Measure, TurnMeasure, TwoActions, corrections, error_turns, good_turns, preferred, what_is_wrong

if TYPE_CHECKING:
    from composer_replication.training.stored.sessions import RenderedSessions, SessionTokens

AnyTurn = TypeVar("AnyTurn")
Judge = Callable[[Trace, int, str], bool | None]
"""Whether the environment takes what is written at a turn; None where it does not know the trace."""


@dataclass(frozen=True)
class HeldOutTurns:
    """The same for both policies."""

    good: Sequence[tuple[Trace, int]]
    choices: Sequence[tuple[Measure, TwoActions]]
    errors: Sequence[tuple[Trace, ErrorSite]]

    def __len__(self) -> int:
        return len(self.good) + len(self.choices) + len(self.errors)


def choose_turns(
    traces: Sequence[Trace], sites: Sequence[ErrorSite], pairs: Sequence[PreferencePair], at_most: int
) -> HeldOutTurns:
    """Up to `at_most` turns of each kind, the same in every run."""
    by_actor: list[tuple[Measure, TwoActions]] = [("corrections", one) for one in corrections(traces, sites)]
    by_teachers: list[tuple[Measure, TwoActions]] = [("preferred", one) for one in preferred(traces, pairs)]
    return HeldOutTurns(
        _some(good_turns(traces, sites), lambda at: content_id(at[0].trace_id, at[1]), at_most),
        [
            *_some(by_actor, lambda one: content_id(one[1].trace.trace_id, one[1].turn), at_most),
            *_some(by_teachers, lambda one: content_id(one[1].trace.trace_id, one[1].turn), at_most),
        ],
        _some(error_turns(traces, sites), lambda at: content_id(at[1].site_id), at_most),
    )


class SessionReader:
    """Shows the policy what the actor saw, in a window where that is too long."""

    def __init__(
        self, sessions: RenderedSessions, failed_calls: Mapping[str, set[str]], phase: Phase, max_turn_tokens: int,
        judge: Judge,
    ) -> None:  # fmt: skip
        self._sessions, self._failed_calls, self._policy = sessions, failed_calls, sessions.policy
        self._max_turn_tokens, self._judge = max_turn_tokens, judge
        self._phase: Phase = phase
        self._opened: dict[str, SessionTokens] = {}
        self.skipped: Counter[str] = Counter()
        """Turns that the policy could not be shown, by measure."""

    def measure(self, turns: HeldOutTurns, on_turn: Callable[[], None]) -> list[TurnMeasure]:
        found: list[TurnMeasure] = []
        for trace, turn in turns.good:
            likely = self._likelihoods(trace, turn, trace.messages[trace.turns[turn].start])
            found += self._row("good turns", trace, turn, None if likely is None else likely[0])
            on_turn()
        for measure, (trace, turn, better, worse) in turns.choices:
            likely = self._likelihoods(trace, turn, better, worse)
            found += self._row(measure, trace, turn, None if likely is None else likely[0] - likely[1])
            on_turn()
        for trace, site in turns.errors:
            found += self._rewritten(trace, site)
            on_turn()
        return found

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
            return self._row("rewritten", trace, site.turn, None)
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
        self, measure: Measure, trace: Trace, turn: int, value: float | None, reason: str | None = None
    ) -> list[TurnMeasure]:
        if value is None:
            self.skipped[measure] += 1
            return []
        own = TurnMeasure(
            measure=measure, trace_id=trace.trace_id, turn=turn, phase=self._phase, value=value, reason=reason
        )
        return [own]


def _some(turns: Iterable[AnyTurn], key: Callable[[AnyTurn], str], at_most: int) -> list[AnyTurn]:
    return sorted(turns, key=key)[:at_most]
