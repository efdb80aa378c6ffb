"""Which turns of held-out sessions are measured: of each kind some that fit, of as many sessions as have one."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

from composer_replication.records import ErrorSite, Message, PreferencePair, Trace, content_id

from .sessions import Measure, TwoActions, corrections, error_turns, good_turns, preferred

if TYPE_CHECKING:
    from composer_replication.training.stored.sessions import RenderedSessions, SessionTokens

WhyNot = Literal["too_long", "refused"]


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


class DrawnKind(TypedDict):
    """What is measured of one kind, of what there is."""

    turns: int
    sessions: int
    found_turns: int
    found_sessions: int
    too_long: int
    """For `training.max_tokens` even in a window, of those that were looked at."""
    refused: int
    more_fit: bool


Shower = Callable[[HeldOutTurn], ShownTurn | WhyNot]


def turns_by_kind(
    traces: Sequence[Trace], sites: Sequence[ErrorSite], pairs: Sequence[PreferencePair]
) -> dict[Measure, list[HeldOutTurn]]:
    """All that could be measured. Turns to be written come last: they cost many times as much, and the others tell
    something alone."""

    def compared(kind: Measure, two: Iterable[TwoActions]) -> list[HeldOutTurn]:
        return [HeldOutTurn(kind, one.trace, one.turn, (one.better, one.worse)) for one in two]

    good, wrong = good_turns(traces, sites), error_turns(traces, sites)
    return {
        "corrections": compared("corrections", corrections(traces, sites)),
        "preferred": compared("preferred", preferred(traces, pairs)),
        "good turns": [HeldOutTurn("good turns", t, at, (t.messages[t.turns[at].start],)) for t, at in good],
        "rewritten": [HeldOutTurn("rewritten", trace, site.turn, site=site) for trace, site in wrong],
    }


def draw_turns(
    kinds: Mapping[Measure, Sequence[HeldOutTurn]], show: Shower, at_most: int
) -> tuple[list[ShownTurn], dict[Measure, DrawnKind]]:
    """Up to `at_most` of each kind that can be shown, the same in every run; fewer are the first of more.

    Sessions take turns, because each counts once. So do kinds, except for turns to be written.
    """
    placed: list[tuple[float, ShownTurn]] = []
    drawn: dict[Measure, DrawnKind] = {}
    for kind, found in kinds.items():
        missed = Counter[WhyNot]()
        fitting = list(islice(_fitting(found, show, missed), at_most + 1))
        chosen = fitting[:at_most]
        drawn[kind] = DrawnKind(
            turns=len(chosen),
            sessions=len({one.turn.trace.trace_id for one in chosen}),
            found_turns=len(found),
            found_sessions=len({one.trace.trace_id for one in found}),
            too_long=missed["too_long"],
            refused=missed["refused"],
            more_fit=len(fitting) > at_most,
        )
        placed += [(one.is_written + place / len(chosen), one) for place, one in enumerate(chosen)]
    return [one for _, one in sorted(placed, key=itemgetter(0))], drawn


def _fitting(found: Iterable[HeldOutTurn], show: Shower, missed: Counter[WhyNot]) -> Iterator[ShownTurn]:
    by_session: dict[str, list[HeldOutTurn]] = defaultdict(list)
    for one in sorted(found, key=_order):
        by_session[one.trace.trace_id].append(one)
    waiting = deque(map(iter, by_session.values()))
    while waiting:
        session = waiting.popleft()
        for one in session:
            shown = show(one)
            if isinstance(shown, ShownTurn):
                yield shown
                waiting.append(session)
                break
            missed[shown] += 1


def _order(one: HeldOutTurn) -> str:
    return content_id(one.site.site_id) if one.site else content_id(one.trace.trace_id, one.turn)


def shower(sessions: RenderedSessions, failed_calls: Mapping[str, set[str]], max_turn_tokens: int) -> Shower:
    from composer_replication.training.stored.lines import CannotRenderError, fitting_context

    opened: dict[str, SessionTokens] = {}

    def show(one: HeldOutTurn) -> ShownTurn | WhyNot:
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
            return "refused"
        return ShownTurn(one, found.ids, actions) if found else "too_long"

    return show
