"""What a teacher is shown of a state: the whole history, or a window of it where its context is too short.

The window follows the rule of `windows.py`, the same as in training. Tokens are estimated from bytes.
"""

from __future__ import annotations

import math

from composer_replication.llm.pricing import TOKENS_PER_BYTE
from composer_replication.records import JsonObject, Message, canonical_json
from composer_replication.windows import TurnHistory, fit_messages

from .gate import State
from .teachers import Teacher


class Prompts:
    """Each message of a trace is measured once."""

    def __init__(self) -> None:
        self._messages: dict[str, dict[int, int]] = {}
        self._tools: dict[str, int] = {}

    def fits(self, state: State, teacher: Teacher, max_tokens: int) -> bool:
        """Whether the whole history does, with `max_tokens` for the answer."""
        if not teacher.context_tokens:
            return True
        known = self._sizes(state)
        sizes = (known.get(id(message)) or _size(message) for message in state.trace.history(state.turn))
        prompt = round((self._tools[state.trace.trace_id] + sum(sizes)) * TOKENS_PER_BYTE)
        return prompt + max_tokens <= teacher.context_tokens

    def messages(self, state: State, teacher: Teacher, max_tokens: int) -> list[Message] | None:
        """None where no window is small enough."""
        trace, turn = state
        if self.fits(state, teacher, max_tokens) or not teacher.context_tokens:
            return trace.history(turn)
        known = self._sizes(state)
        reserved = max_tokens + math.ceil(self._tools[trace.trace_id] * TOKENS_PER_BYTE)

        def tokens(message: Message) -> int:
            return math.ceil((known.get(id(message)) or _size(message)) * TOKENS_PER_BYTE)

        found = fit_messages(TurnHistory.before(trace, turn), teacher.context_tokens, reserved, tokens)
        return found.messages if found else None

    def _sizes(self, state: State) -> dict[int, int]:
        trace = state.trace
        if trace.trace_id not in self._messages:
            self._tools[trace.trace_id] = len(canonical_json(trace.tools).encode())
            self._messages[trace.trace_id] = {id(message): _size(message) for message in trace.messages}
        return self._messages[trace.trace_id]


def wire_message(message: Message) -> JsonObject:
    """Only what the OpenAI wire knows."""
    return {key: value for key, value in message.items() if key != "is_error"}


def _size(message: Message) -> int:
    return len(canonical_json(wire_message(message)).encode())
