"""Traces, hints and pairs as token rows for the collator: one builder for stored rollouts and ingested sessions.

Reads rows of ids with the spans of their turns, and only cuts and splices them. What fits its row shares it: a trace
is read once for all of its sites. What does not fit gets a window of its own, and what was cut is on the example.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

from composer_replication.records import ErrorSite, Hint, PreferencePair, Trace
from composer_replication.sites.marking import failed_calls
from composer_replication.windows import Cut

from ..models.tokens import ChatTokens
from .lines import CannotRenderError, Context, StoredTokens, TraceTokens, fitting_context
from .records import TokenizedTrace
from .sessions import RenderedSessions

# Beyond a half the preference would be turned round.
MAX_SMOOTHING = 0.5
NOTHING = Cut()
REREAD_CONTEXT_TOKENS = 256
FEWEST_REREAD_TOKENS, MOST_REREAD_TOKENS = 4, 64


@dataclass(frozen=True)
class SiteTokens:
    """One hinted turn: `start` to `end` in the ids of its trace; `teacher_context` are the hinted ids before it."""

    start: int
    end: int
    teacher_context: list[int]


@dataclass(frozen=True)
class PairTokens:
    """One preference pair as ids."""

    prompt: list[int]
    """One list for all pairs of a state."""
    chosen: list[int]
    """The better turn."""
    rejected: list[int]
    """The worse one."""
    reference_chosen: float = 0.0
    """Log-probability of the chosen action under the frozen reference; likewise of the rejected one."""
    reference_rejected: float = 0.0
    """Log-probability of the rejected action under the frozen reference."""
    label_smoothing: float = 0.0
    """The chance that the preference is wrong, where it was measured."""


@dataclass(frozen=True)
class RereadTurn:
    """A turn of the actor that has no error site and no pair."""

    context: list[int]
    """The end of what stands before it."""
    ids: list[int]
    """Its beginning."""


@dataclass(frozen=True)
class TraceExample:
    """A stored trace as ids, with its hinted turns and its pairs."""

    ids: list[int]
    """Of the whole row."""
    response_mask: list[int]
    """1 where the actor wrote the token."""
    reward: float
    """Of the trace."""
    sites: list[SiteTokens] = field(default_factory=list[SiteTokens])
    pairs: list[PairTokens] = field(default_factory=list[PairTokens])
    advantage: float = 0.0
    """Within its group of traces of the same task; 0 without one."""
    logprobs: list[float] = field(default_factory=list[float])
    """With which the ids were sampled, where they were; empty for traces of other models."""
    trace_id: str = ""
    """Of the trace."""
    cut: Cut = NOTHING
    """What the context lost to fit."""
    reread: RereadTurn | None = None
    """Of the same trace, to see whether training harms it."""

    @property
    def longest_row(self) -> int:
        """Tokens of the longest row that any channel reads."""
        teachers = (len(site.teacher_context) + site.end - site.start for site in self.sites)
        pairs = (len(pair.prompt) + max(len(pair.chosen), len(pair.rejected)) for pair in self.pairs)
        return max([len(self.ids), *teachers, *pairs])


def build_examples(
    tokens: ChatTokens,
    tokenized: Iterable[TokenizedTrace],
    sites: Mapping[str, ErrorSite],
    hints: Iterable[Hint],
    pairs: Iterable[PreferencePair],
    max_tokens: int,
    advantages: Mapping[str, float] | None = None,
    traces: Iterable[Trace] = (),
    sessions: RenderedSessions | None = None,
) -> tuple[list[TraceExample], Counter[str]]:
    """Examples of every trace with something to learn from. What cannot be used is counted, by reason.

    `advantages`, by trace, are for training without rollouts. `traces` without a row are rendered by `sessions`.
    """
    advantages, known = advantages or {}, {trace.trace_id: trace for trace in traces}
    rows: dict[str, list[TokenizedTrace]] = defaultdict(list)
    for row in tokenized:
        rows[row.trace_id].append(row)
    failed = failed_calls(sites.values())
    went_wrong: dict[str, set[int]] = defaultdict(set)
    for site in sites.values():
        went_wrong[site.trace_id].add(site.turn)
    taught: dict[str, dict[int, _Numbered]] = defaultdict(lambda: defaultdict(list))
    for number, item in enumerate(chain(hints, pairs)):
        where = sites[item.site_id] if isinstance(item, Hint) else item
        taught[where.trace_id][where.turn].append((number, item))
    builder = _Builder(tokens, max_tokens)
    for trace_id in sorted(taught.keys() | advantages.keys()):
        by_turn = taught[trace_id]
        if trace_id in rows:
            stored = StoredTokens(tokens, rows[trace_id], known.get(trace_id), failed[trace_id])
            builder.add(stored, by_turn, went_wrong[trace_id], advantages.get(trace_id, 0.0))
        elif sessions and trace_id in known:
            opened = sessions.open(known[trace_id], sorted(by_turn), failed[trace_id])
            builder.add(opened, by_turn, went_wrong[trace_id])
    return builder.examples, builder.skipped


_Numbered = list[tuple[int, Hint | PreferencePair]]
"""In the order of the records, which an example keeps."""


class _Lesson(NamedTuple):
    """A hint, or a pair with its sides."""

    number: int
    item: Hint | PreferencePair
    sides: tuple[list[int], list[int]]
    tokens: int
    """Behind the context."""

    @property
    def noun(self) -> str:
        return "site" if isinstance(self.item, Hint) else "pair"


class _State(NamedTuple):
    context: Context
    own: list[int]
    lessons: list[_Lesson]

    @property
    def span(self) -> tuple[int, int]:
        return len(self.context.ids), len(self.context.ids) + len(self.own)


class _Builder:
    def __init__(self, tokens: ChatTokens, max_tokens: int) -> None:
        self._tokens, self._max_tokens = tokens, max_tokens
        self.examples: list[TraceExample] = []
        self.skipped: Counter[str] = Counter()

    def add(
        self,
        source: TraceTokens,
        taught: Mapping[int, _Numbered],
        went_wrong: Collection[int] = (),
        advantage: float = 0.0,
    ) -> None:
        first = len(self.examples)
        found = [self._state(source, turn, taught[turn]) for turn in sorted(taught)]
        states = [state for state in found if state]
        shared: dict[int, tuple[TokenizedTrace, list[_State]]] = {}
        if advantage:
            shared |= {id(row): (row, list[_State]()) for row in source.rollouts}
        for state in states:
            if state.context.cut == NOTHING:
                shared.setdefault(id(state.context.row), (state.context.row, []))[1].append(state)
        for row, whole in shared.values():
            # Channel 1 reads a rollout to its end.
            to_the_end = len(row.ids) <= self._max_tokens or advantage
            end = len(row.ids) if to_the_end else max(state.span[1] for state in whole)
            example = self._example(source, list(row.ids[:end]), [s for s in row.turn_spans if s[1] <= end], whole)
            self.examples.append(replace(example, advantage=advantage, logprobs=list(row.logprobs[:end])))
        for state in states:
            if state.context.cut != NOTHING:
                self.examples.append(self._example(source, state.context.ids + state.own, [state.span], [state]))
        rows = [*source.rollouts, *(state.context.row for state in states)]
        # Channel 1 is to make the turns of such a rollout less likely.
        turn = None if advantage < 0 else _reread(source, rows, {*taught, *went_wrong})
        self.examples[first:] = [replace(example, reread=turn) for example in self.examples[first:]]

    def _example(
        self, source: TraceTokens, ids: list[int], spans: Sequence[tuple[int, int]], states: Sequence[_State]
    ) -> TraceExample:
        mask = [0] * len(ids)
        for start, end in spans:
            mask[start:end] = [1] * (end - start)
        sites: list[SiteTokens] = []
        pairs: list[PairTokens] = []
        taught = [(lesson, state) for state in states for lesson in state.lessons]
        for lesson, state in sorted(taught, key=lambda both: both[0].number):
            before, item = state.context.ids, lesson.item
            if isinstance(item, Hint):
                sites.append(SiteTokens(*state.span, self._tokens.splice_hint(before, item.text)))
            else:
                pairs.append(PairTokens(before, *lesson.sides, label_smoothing=label_smoothing(item)))
        cut = states[0].context.cut if states else NOTHING
        return TraceExample(ids, mask, source.reward, sites, pairs, trace_id=source.trace_id, cut=cut)

    def _state(self, source: TraceTokens, turn: int, taught: _Numbered) -> _State | None:
        """With one window for all that is taught there; None where nothing of it can be used."""
        lessons = [lesson for number, item in taught if (lesson := self._lesson(source, turn, number, item))]
        while lessons:
            longest = max(lessons, key=lambda lesson: lesson.tokens)
            try:
                context = fitting_context(source, turn, longest.tokens, self._max_tokens)
            except CannotRenderError:
                return self._skip(lessons, "refused_by_the_template")
            own = source.own(turn)
            if context and source.unknown_id in {*context.ids, *own} - {None}:
                return self._skip(lessons, "unknown_tokens")
            if context:
                return _State(context, own, lessons)
            self._skip([longest], "too_long")
            lessons.remove(longest)
        return None

    def _lesson(self, source: TraceTokens, turn: int, number: int, item: Hint | PreferencePair) -> _Lesson | None:
        try:
            own = source.own(turn)
            if isinstance(item, Hint):
                return _Lesson(number, item, ([], own), self._tokens.hint_tokens(item.text) + len(own))
            chosen, rejected = (
                own if origin == "actor" and source.wrote(turn, side) else source.written(side)
                for side, origin in ((item.chosen, item.chosen_from), (item.rejected, item.rejected_from))
            )
        except CannotRenderError:
            return self._skip([_Lesson(number, item, ([], []), 0)], "refused_by_the_template")
        if chosen == rejected:
            return self._skip([_Lesson(number, item, (chosen, rejected), 0)], "sides_are_the_same")
        if min(len(chosen), len(rejected)) <= 1:  # the end of the turn alone
            return self._skip([_Lesson(number, item, (chosen, rejected), 0)], "side_is_empty")
        return _Lesson(number, item, (chosen, rejected), max(len(chosen), len(rejected), len(own)))

    def _skip(self, lessons: Sequence[_Lesson], reason: str) -> None:
        self.skipped.update(f"{lesson.noun}_{reason}" for lesson in lessons)


def _reread(source: TraceTokens, rows: Iterable[TokenizedTrace], taught: Collection[int]) -> RereadTurn | None:
    """From the middle of the first row that has one."""
    for row in rows:
        spans = zip(source.numbers(row), row.turn_spans, strict=False)
        free = [(start, end) for number, (start, end) in spans if number not in taught and start]
        free = [(start, end) for start, end in free if end - start >= FEWEST_REREAD_TOKENS]
        if free:
            start, end = free[len(free) // 2]
            before = row.ids[max(0, start - REREAD_CONTEXT_TOKENS) : start]
            return RereadTurn(list(before), list(row.ids[start : min(end, start + MOST_REREAD_TOKENS)]))
    return None


def label_smoothing(pair: PreferencePair) -> float:
    return 0.0 if pair.precision is None else min(MAX_SMOOTHING, 1 - pair.precision)


def summarise_cuts(examples: Iterable[TraceExample]) -> dict[str, int]:
    """What windows took from all examples together."""
    cuts = [example.cut for example in examples if example.cut != NOTHING]
    return {
        "examples": len(cuts),
        "dropped_turns": sum(cut.turns for cut in cuts),
        "elided_messages": sum(cut.elided_messages for cut in cuts),
        "tokens": sum(cut.tokens for cut in cuts),
    }


def window_lines(examples: Iterable[TraceExample]) -> str:
    """A JSON line for every example that lost something."""
    cut = (example for example in examples if example.cut != NOTHING)
    return "".join(json.dumps({"trace_id": one.trace_id, **one.cut._asdict()}) + "\n" for one in cut)
