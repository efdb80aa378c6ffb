"""What stays of a history that is too long: the one rule for training, exports and questions to teachers.

    [system] [opening] [turn, results] … [failed call, its error] … [turn, results] [the turn itself]
     whole    elided       dropped               whole               as many as fit   whole

Long results lose their middle first, with a mark that says how much; then the oldest turns go, whole. Never cut: the
system prompt, what an assistant wrote, the error that the turn answers together with the call that failed, and a
result that shows an error. Never dropped: the opening, and what the user said last.

Reads the messages of a history and the sizes that the caller measures; knows no tokenizer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Sized
from itertools import pairwise
from typing import NamedTuple, TypeVar

from .records import Message, Trace

AnySized = TypeVar("AnySized", bound=Sized)

CHARACTERS_PER_TOKEN = 4
"""Roughly. A cut follows from characters alone, so that it is the same under every tokenizer."""

ATTEMPTS = 6
"""Windows that are tried where sizes are estimates."""

LEAST_OF_A_TASK = 1000
"""Characters of a message of the opening that always stay."""


class Level(NamedTuple):
    """The most characters of one message; None leaves it whole."""

    opening: int | None = None
    later: int | None = None


WHOLE = Level()


class Cut(NamedTuple):
    """What a history lost."""

    turns: int = 0
    """Whole turns."""
    elided_messages: int = 0
    """Messages whose text was shortened."""
    tokens: int = 0
    """Of both together."""


class Windowed(NamedTuple):
    messages: list[Message]
    cut: Cut


class Stretch(NamedTuple):
    """The opening, or one turn with what follows it."""

    messages: list[Message]
    elided: int = 0


class TurnHistory:
    """The messages before a turn, cut at the turns before it. `own` is the turn itself."""

    def __init__(self, messages: Sequence[Message], own: Message, failed_calls: Collection[str] = ()) -> None:
        starts = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
        bounds = [*starts, len(messages)]
        self._failed_calls = failed_calls
        self.opening = list(messages[: bounds[0]])
        self.turns = [list(messages[start:end]) for start, end in pairwise(bounds)]
        self.needed = self._needed(_called(own))
        """Turns that are never dropped."""

    @classmethod
    def before(cls, trace: Trace, turn: int, failed_calls: Collection[str] = ()) -> TurnHistory:
        return cls(trace.history(turn), trace.messages[trace.turns[turn].start], failed_calls)

    def parts(self, level: Level) -> list[Stretch]:
        """The opening, then the turns."""
        return [self._elided(self.opening, level.opening), *(self._elided(turn, level.later) for turn in self.turns)]

    def least(self, level: Level) -> list[Stretch]:
        """Those parts that are never dropped."""
        needed = [self._elided(self.turns[place], level.later) for place in sorted(self.needed)]
        return [self._elided(self.opening, level.opening), *needed]

    def is_error(self, message: Message) -> bool:
        return bool(message.get("is_error")) or message.get("tool_call_id") in self._failed_calls

    def _elided(self, messages: list[Message], most: int | None) -> Stretch:
        if most is None:
            return Stretch(messages)
        shown = [message if self._is_whole(message) else elided(message, most) for message in messages]
        return Stretch(shown, sum(one is not other for one, other in zip(shown, messages, strict=True)))

    def _is_whole(self, message: Message) -> bool:
        return message["role"] in ("system", "assistant") or self.is_error(message)

    def _needed(self, own_tools: set[str]) -> frozenset[int]:
        backwards = range(len(self.turns) - 1, -1, -1)
        said = (place for place in backwards if any(message["role"] == "user" for message in self.turns[place]))
        answered = (place for place in backwards if self._is_answered(place, own_tools))
        return frozenset({next(said, -1), next(answered, -1)} - {-1})

    def _is_answered(self, place: int, own_tools: set[str]) -> bool:
        """Whether the turn itself answers an error there: it comes right after it, or calls the same tool again."""
        errors = {message.get("tool_call_id") for message in self.turns[place] if self.is_error(message)}
        if not errors:
            return False
        return place == len(self.turns) - 1 or bool(_called(self.turns[place][0], errors) & own_tools)


def levels(max_tokens: int) -> tuple[Level, ...]:
    """From nothing elided to much. Few and fixed, so that what is elided can be rendered once for many turns."""
    eighth = max_tokens * CHARACTERS_PER_TOKEN // 8
    few = eighth // 4
    return WHOLE, Level(None, eighth), Level(eighth, few), Level(max(few, LEAST_OF_A_TASK), few)


def kept_turns(sizes: Sequence[int], room: int, needed: Collection[int]) -> list[int] | None:
    """The needed turns and as many of the last as fit; None where those needed alone do not."""
    used = sum(sizes[place] for place in needed)
    if used > room:
        return None
    kept = set(needed)
    for place in range(len(sizes) - 1, -1, -1):
        if place in kept:
            continue
        if used + sizes[place] > room:
            break
        used += sizes[place]
        kept.add(place)
    return sorted(kept)


def fit_messages(
    history: TurnHistory, max_tokens: int, reserved: int, size: Callable[[Message], int]
) -> Windowed | None:
    """The history in `max_tokens` less what is `reserved` for the tools and the turn; None where no cut is enough."""
    room = max_tokens - reserved
    whole = sum(size(message) for part in history.parts(WHOLE) for message in part.messages)
    for level in levels(max_tokens):
        opening, *turns = history.parts(level)
        sizes = [sum(map(size, part.messages)) for part in (opening, *turns)]
        kept = kept_turns(sizes[1:], room - sizes[0], history.needed)
        if kept is None or (level == WHOLE and len(kept) < len(turns)):
            continue
        stay = [opening, *(turns[place] for place in kept)]
        left = sizes[0] + sum(sizes[1 + place] for place in kept)
        cut = Cut(len(turns) - len(kept), sum(part.elided for part in stay), whole - left)
        return Windowed([message for part in stay for message in part.messages], cut)
    return None


def fit_rendered(
    history: TurnHistory,
    max_tokens: int,
    reserved: int,
    size: Callable[[Message], int],
    render: Callable[[Sequence[Message]], AnySized],
) -> tuple[AnySized, Windowed] | None:
    """The same where sizes are estimates: what `render` makes of a window fits too, with `reserved` behind it."""
    unseen, too_little, too_much = 0, 0, None
    for _ in range(ATTEMPTS):
        found = fit_messages(history, max_tokens, reserved + unseen, size)
        if found is None:
            too_much = unseen
        else:
            rendered = render(found.messages)
            over = len(rendered) + reserved - max_tokens
            if over <= 0:
                return rendered, found
            # What sizes do not show is about the same in a smaller window, or less.
            too_little, unseen = unseen, max(unseen + over, len(rendered) - sum(map(size, found.messages)))
        if too_much is not None:
            if too_much - too_little <= 1:
                return None
            unseen = (too_little + too_much) // 2
    return None


def elided(message: Message, most: int) -> Message:
    """With at most so many characters of its text, half from either end; the same message where it has no more."""
    text = message["content"]
    mark = f"\n[... {len(text) - most:,} characters cut ...]\n"
    if len(text) <= most + len(mark):
        return message
    head = most - most // 2
    return {**message, "content": text[:head] + mark + text[len(text) - most // 2 :]}


def _called(message: Message, calls: Collection[str | None] | None = None) -> set[str]:
    """Names of the tools that a message calls, or of those calls alone."""
    return {call["function"]["name"] for call in message.get("tool_calls", []) if calls is None or call["id"] in calls}
