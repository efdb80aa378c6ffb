"""Held-out turns of sessions under one policy: how likely it finds them, and what it writes at error turns itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from composer_replication.records import ErrorSite, Message, PreferencePair, Trace, content_id

from .compare import Phase
from .sessions import Measure, TurnMeasure, TwoActions, corrections, error_turns, good_turns, preferred, what_is_wrong

if TYPE_CHECKING:
    from composer_replication.training.models.loading import Policy
    from composer_replication.training.stored.contexts import Contexts

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
    def __init__(self, policy: Policy, contexts: Contexts, phase: Phase, max_turn_tokens: int, judge: Judge) -> None:
        self._policy, self._contexts = policy, contexts
        self._phase: Phase = phase
        self._max_turn_tokens, self._judge = max_turn_tokens, judge
        self.skipped: Counter[str] = Counter()
        """Turns that the policy could not be shown, by measure."""

    def measure(self, turns: HeldOutTurns, on_turn: Callable[[], None]) -> list[TurnMeasure]:
        found: list[TurnMeasure] = []
        for trace, turn in turns.good:
            likely = self._likelihood(trace, turn, trace.messages[trace.turns[turn].start])
            found += self._row("good turns", trace, turn, likely)
            on_turn()
        for measure, (trace, turn, better, worse) in turns.choices:
            good, bad = self._likelihood(trace, turn, better), self._likelihood(trace, turn, worse)
            found += self._row(measure, trace, turn, None if good is None or bad is None else good - bad)
            on_turn()
        for trace, site in turns.errors:
            found += self._rewritten(trace, site)
            on_turn()
        return found

    def _likelihood(self, trace: Trace, turn: int, action: Message) -> float | None:
        """Per token, so that long turns do not decide."""
        from composer_replication.training.models.turn_logprob import turn_logprob

        before = self._before(trace, turn)
        try:
            ids = self._contexts.turn(action)
        except ValueError:
            return None
        return turn_logprob(self._policy, before, ids) / len(ids) if before else None

    def _rewritten(self, trace: Trace, site: ErrorSite) -> list[TurnMeasure]:
        from composer_replication.training.rollouts.state_samples import read_turn, sample_greedily

        before = self._before(trace, site.turn)
        if not before:
            return self._row("rewritten", trace, site.turn, None)
        text = sample_greedily(self._policy, before, self._max_turn_tokens, trace.tools)
        taken = None if text is None else self._judge(trace, site.turn, text)
        if text is None:
            reason = "cut off"
        elif taken is not None:
            reason = None if taken else "refused by the environment"
        else:
            reason = what_is_wrong(read_turn(text), trace.messages[trace.turns[site.turn].start], trace.tools)
        return self._row("rewritten", trace, site.turn, float(reason is not None), reason)

    def _before(self, trace: Trace, turn: int) -> list[int] | None:
        return self._contexts.before(trace.state_id(turn), trace.history(turn), trace.tools)

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
