"""Held-out turns of sessions under one policy: how likely it finds them, and what it writes at error turns itself."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from composer_replication.records import ErrorSite, Message, PreferencePair, Trace, content_id

from .compare import Phase
from .sessions import Measure, TurnMeasure, TwoActions, corrections, error_turns, good_turns, preferred, what_is_wrong

if TYPE_CHECKING:
    from composer_replication.training.models.loading import Policy
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


class ShownTurn(NamedTuple):
    """A turn as token ids."""

    turn: HeldOutTurn
    context: list[int]
    """In a window where what the actor saw is too long."""
    actions: list[list[int]]

    @property
    def is_written(self) -> bool:
        return self.turn.site is not None


def choose_turns(
    traces: Sequence[Trace], sites: Sequence[ErrorSite], pairs: Sequence[PreferencePair], at_most: int
) -> list[HeldOutTurn]:
    """Up to `at_most` turns of each kind, the same in every run.

    Kinds take turns. Those to be written come last: they cost many times as much, and the others tell something alone.
    """
    good = (
        HeldOutTurn("good turns", trace, turn, (trace.messages[trace.turns[turn].start],))
        for trace, turn in good_turns(traces, sites)
    )
    by_actor = (_compared("corrections", one) for one in corrections(traces, sites))
    by_teachers = (_compared("preferred", one) for one in preferred(traces, pairs))
    wrong = (HeldOutTurn("rewritten", trace, site.turn, site=site) for trace, site in error_turns(traces, sites))
    written, *read = (sorted(kind, key=_order)[:at_most] for kind in (wrong, by_actor, by_teachers, good))
    placed = [(place / len(kind), turn) for kind in read for place, turn in enumerate(kind)]
    return [*(turn for _, turn in sorted(placed, key=itemgetter(0))), *written]


def _compared(measure: Measure, two: TwoActions) -> HeldOutTurn:
    return HeldOutTurn(measure, two.trace, two.turn, (two.better, two.worse))


def _order(one: HeldOutTurn) -> str:
    return content_id(one.site.site_id) if one.site else content_id(one.trace.trace_id, one.turn)


def show_turns(
    turns: Sequence[HeldOutTurn],
    sessions: RenderedSessions,
    failed_calls: Mapping[str, set[str]],
    max_turn_tokens: int,
) -> list[ShownTurn]:
    """Those that the policy can be shown."""
    from composer_replication.training.stored.lines import CannotRenderError, fitting_context

    opened: dict[str, SessionTokens] = {}
    shown: list[ShownTurn] = []
    for one in turns:
        trace = one.trace
        if trace.trace_id not in opened:
            failed = failed_calls.get(trace.trace_id, set())
            opened[trace.trace_id] = sessions.open(trace, range(len(trace.turns)), failed)
        tokens = opened[trace.trace_id]
        try:
            actions = [tokens.written(action) for action in one.actions]
            extra = max_turn_tokens if one.site else max(map(len, actions))
            found = fitting_context(tokens, one.turn, extra, sessions.max_tokens)
        except CannotRenderError:
            continue
        if found:
            shown.append(ShownTurn(one, found.ids, actions))
    return shown


class TimeLeft:
    """As foreseen, times what turns of the same kind took so far over what was foreseen of them; of a kind of which
    none was measured yet, as the others."""

    def __init__(self) -> None:
        self._foreseen, self._took = defaultdict[bool, float](float), defaultdict[bool, float](float)

    def add(self, is_written: bool, foreseen_s: float, took_s: float) -> None:
        self._foreseen[is_written] += foreseen_s
        self._took[is_written] += took_s

    def left(self, ahead: Mapping[bool, float]) -> float | None:
        """Seconds, where what is `ahead` was foreseen to take so long; None where nothing was measured yet."""
        known, took = self._foreseen, self._took
        if not known:
            return None
        overall = sum(took.values()) / sum(known.values())
        return sum(
            foreseen_s * (took[kind] / known[kind] if kind in known else overall) for kind, foreseen_s in ahead.items()
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
            return "cut off"
        taken = self._judge(trace, site.turn, text)
        if taken is not None:
            return None if taken else "refused by the environment"
        failed = trace.messages[trace.turns[site.turn].start]
        return what_is_wrong(read_turn(text), failed, site.call_id, trace.tools)

    def _count(self, tokens: int) -> None:
        self.tokens_written = tokens
