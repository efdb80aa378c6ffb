"""What the policy reads before a turn, and a turn as the policy would write it, as token ids.

Ids that were sampled in a rollout come from its stored row; everything else is rendered by the model's chat template,
with its own form of tool calls where the template has one, else with calls as JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from composer_replication.records import JsonObject, Message, content_id

from ..models.loading import Policy
from .examples import policy_text
from .records import TokenizedTrace


class Contexts:
    """Under one policy. A context of more than `max_tokens`, or one that the template refuses, is None."""

    def __init__(self, policy: Policy, rows: Iterable[TokenizedTrace], max_tokens: int) -> None:
        self._tokens = policy.tokens
        fingerprint = policy.tokenizer_fingerprint
        self._stored = {
            content_id(row.trace_id, turn): (row, start)
            for row in rows
            if row.tokenizer == fingerprint
            for turn, (start, _) in enumerate(row.turn_spans)
        }
        self._max_tokens = max_tokens

    def before(self, state_id: str, messages: Sequence[Message], tools: Sequence[JsonObject]) -> list[int] | None:
        """Ids up to the header that opens the turn."""
        row, start = self._stored.get(state_id, (None, 0))
        try:
            ids = list(row.ids[:start]) if row else self.opened(messages, tools)
        except ValueError:
            return None
        return ids if len(ids) <= self._max_tokens else None

    def opened(self, messages: Sequence[Message], tools: Sequence[JsonObject]) -> list[int]:
        """The same, always rendered and of any length. Raises `ValueError` where the template refuses it."""
        if self._tokens.call_form:
            return self._tokens.conversation(messages, tools)
        return self._tokens.conversation([{"role": each["role"], "content": _as_text(each)} for each in messages])

    def turn(self, message: Message) -> list[int]:
        """Ids of an assistant turn, end of turn included."""
        if self._tokens.call_form:
            return self._tokens.turn_of(message)
        return self._tokens.turn(policy_text(message))


def _as_text(message: Message) -> str:
    try:
        return policy_text(message)
    except ValueError:
        # The actor wrote arguments that are not JSON; they are shown as they were.
        function = message.get("tool_calls", [])[0]["function"]
        return f'{{"name":{json.dumps(function["name"])},"arguments":{function["arguments"]}}}'
