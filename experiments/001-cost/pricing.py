"""What a replay would cost: tokens from bytes, dollars from the dated prices of the roster."""

from collections.abc import Sequence
from typing import NamedTuple

from composer_replication.llm.pricing import TOKENS_PER_BYTE
from composer_replication.records import Message, Trace, canonical_json
from composer_replication.replay import State, Teacher
from composer_replication.replay.roster import without_family

ANSWER_TOKENS = 570
"""What the origin's $0.0161 per Opus call leaves for the answer, at $5 and $25 and 375 prompt tokens."""
LEAST_CACHED_TOKENS = 1024
"""Providers do not cache shorter prefixes."""


class Asked(NamedTuple):
    """One prompt, and how much of it is the prompt that the same trace asked before it."""

    state: State
    tokens: int
    repeated_tokens: int


def prompts(states: Sequence[State]) -> list[Asked]:
    """Trace by trace, early turns first: the order in which prefixes grow."""
    asked: list[Asked] = []
    sizes: dict[int, int] = {}
    before: list[Message] = []
    trace: Trace | None = None
    for state in sorted(states, key=lambda state: (state.trace.trace_id, state.turn)):
        if state.trace is not trace:
            trace, before, sizes = state.trace, [], {}
            tools = len(canonical_json(trace.tools).encode())
        history = trace.history(state.turn)
        for message in history:
            if id(message) not in sizes:
                sizes[id(message)] = len(canonical_json({**message, "is_error": None}).encode())
        shared = 0
        while shared < min(len(before), len(history)) and before[shared] is history[shared]:
            shared += 1
        repeated = _tokens(tools + sum(sizes[id(message)] for message in history[:shared])) if before else 0
        total = _tokens(tools + sum(sizes[id(message)] for message in history))
        asked.append(Asked(state, total, repeated if repeated >= LEAST_CACHED_TOKENS else 0))
        before = history
    return asked


def cost_micros(asked: Sequence[Asked], teachers: Sequence[Teacher], cached: bool, exclude: bool = True) -> int:
    """All prompts under all teachers that have a vote there. Caching is the best case: every repeated prefix hits."""
    total = 0
    for prompt in asked:
        family = prompt.state.trace.turns[prompt.state.turn].family if exclude else None
        for teacher in without_family(teachers, family):
            assert teacher.prices
            if not fits(prompt, teacher):
                continue
            repeated = prompt.repeated_tokens if cached and teacher.cached_micros is not None else 0
            fresh = (
                teacher.cache_write_micros if cached and teacher.cache_write_micros else teacher.prices.prompt_micros
            )
            total += (prompt.tokens - repeated) * fresh + repeated * (teacher.cached_micros or 0)
            total += ANSWER_TOKENS * teacher.prices.completion_micros
    return -(-total // 1_000_000)


def fits(prompt: Asked, teacher: Teacher) -> bool:
    """A prompt that is longer than a teacher's context is not asked there."""
    return teacher.context_tokens is None or prompt.tokens + ANSWER_TOKENS <= teacher.context_tokens


def _tokens(size: int) -> int:
    return round(size * TOKENS_PER_BYTE)
