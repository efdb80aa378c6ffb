"""What the policy reads before a turn, and a turn as the policy would write it, as token ids.

Ids that were sampled in a rollout come from its stored row; everything else is rendered by the model's chat template,
with its own form of tool calls where the template knows them, else with calls as JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from jinja2 import TemplateError

from composer_replication.records import JsonObject, Message, ToolCall, content_id

from ..models.loading import Policy
from .policy_text import policy_text
from .records import TokenizedTrace

_PROBE: Message = {"role": "user", "content": "u"}


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
        self._knows_calls = "tool_calls" in str(policy.tokenizer.chat_template)
        self._sizes: dict[str, int] = {}

    def before(self, state_id: str, messages: Sequence[Message], tools: Sequence[JsonObject]) -> list[int] | None:
        """Ids up to the header that opens the turn."""
        row, start = self._stored.get(state_id, (None, 0))
        try:
            ids = list(row.ids[:start]) if row else self.opened(messages, tools)
        except (TemplateError, ValueError, TypeError, KeyError):
            return None
        return ids if len(ids) <= self._max_tokens else None

    def opened(self, messages: Sequence[Message], tools: Sequence[JsonObject]) -> list[int]:
        """The same, always rendered and of any length."""
        return self._rendered(messages, tools, opened=True)

    def after(self, message: Message, following: Sequence[Message]) -> list[int] | None:
        """Ids from the end of a turn to the next header; None where the turn is written otherwise in a history."""
        start, own = self.opened([_PROBE], ()), self.turn(message)
        whole = self.opened([_PROBE, message, *following], ())
        return whole[len(start) + len(own) :] if whole[: len(start) + len(own)] == start + own else None

    def says(self, ids: Sequence[int], messages: Sequence[Message], tools: Sequence[JsonObject]) -> bool:
        """Whether ids that were put together are the template's own text. Tokens may be split elsewhere."""
        rendered, decode = self.opened(messages, tools), self._tokens.tokenizer.decode
        return list(ids) == rendered or decode(ids) == decode(rendered)

    def size(self, message: Message) -> int:
        """Tokens of a message, about."""
        text = shown(message, self._knows_calls)
        if text not in self._sizes:
            self._sizes[text] = len(self._tokens.tokenizer(text, add_special_tokens=False)["input_ids"])
        return self._sizes[text] + len(self._tokens.hint_message(""))

    def turn(self, message: Message) -> list[int]:
        """Ids of an assistant turn, end of turn included."""
        if not self._knows_calls or not message.get("tool_calls"):
            return self._tokens.turn(policy_text(message))
        opened, closed = self._rendered([_PROBE], (), opened=True), self._rendered([_PROBE, message], (), opened=False)
        end = closed.index(self._tokens.end_of_turn_id, len(opened))
        return closed[len(opened) : end + 1]

    def _rendered(self, messages: Sequence[Message], tools: Sequence[JsonObject], opened: bool) -> list[int]:
        if not self._knows_calls:
            return self._tokens.prompt([{"role": each["role"], "content": _as_text(each)} for each in messages])
        return self._tokens.tokenizer.apply_chat_template(
            [_native(message) for message in messages],
            tools=list(tools) or None,
            tokenize=True,
            return_dict=False,
            add_generation_prompt=opened,
        )


def shown(message: Message, knows_calls: bool) -> str:
    """About what a template writes of a message."""
    calls = message.get("tool_calls", [])
    if knows_calls or not calls:
        return message["content"] + "".join(map(_as_written, calls))
    return _as_text(message)


def _as_text(message: Message) -> str:
    try:
        return policy_text(message)
    except (ValueError, RecursionError):
        # The actor wrote arguments that are not JSON; they are shown as they were.
        return _as_written(message.get("tool_calls", [])[0])


def _as_written(call: ToolCall) -> str:
    function = call["function"]
    return f'{{"name":{json.dumps(function["name"])},"arguments":{function["arguments"]}}}'


def _native(message: Message) -> dict[str, Any]:
    """Most templates want arguments as objects, and know no marks of ours."""
    shown: dict[str, Any] = {key: value for key, value in message.items() if key != "is_error"}
    calls = message.get("tool_calls")
    if calls:
        functions = [{**call["function"], "arguments": json.loads(call["function"]["arguments"])} for call in calls]
        shown["tool_calls"] = [{**call, "function": own} for call, own in zip(calls, functions, strict=True)]
    return shown
