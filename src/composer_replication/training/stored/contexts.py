"""What the policy reads before a turn, and a turn as the policy would write it, as token ids.

Ids that were sampled in a rollout come from its stored row; everything else is rendered by the model's chat template,
with its own form of tool calls where the template has one, else with calls as JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from composer_replication.records import JsonObject, Message, ToolCall, content_id
from composer_replication.windows import Cut, TurnHistory, fit_rendered

from ..models.loading import Policy
from .lines import policy_text
from .records import TokenizedTrace

_PROBE: Message = {"role": "user", "content": "u"}
_NOT_WRITTEN: Message = {"role": "assistant", "content": ""}


class Contexts:
    """Under one policy, for contexts of at most `max_tokens`."""

    def __init__(self, policy: Policy, rows: Iterable[TokenizedTrace], max_tokens: int) -> None:
        self._tokens = policy.tokens
        fingerprint = policy.tokenizer_fingerprint
        self._stored = {
            content_id(row.trace_id, turn): (row, row.turn_spans[place][0])
            for row in rows
            if row.tokenizer == fingerprint
            for turn, place in row.places.items()
        }
        self._max_tokens = max_tokens
        self._sizes: dict[str, int] = {}

    def forget(self) -> None:
        """Another trace is next: the sizes of texts are those of one."""
        self._sizes.clear()

    def before(self, state_id: str, messages: Sequence[Message], tools: Sequence[JsonObject]) -> list[int] | None:
        """Ids up to the header that opens the turn, of a window where they are too many.

        None where no window is small enough, or the template refuses it.
        """
        row, start = self._stored.get(state_id, (None, 0))
        try:
            ids = list(row.ids[:start]) if row else self.opened(messages, tools)
            if len(ids) <= self._max_tokens:
                return ids
            found = self.windowed(TurnHistory(messages, _NOT_WRITTEN), tools)
        except ValueError:
            return None
        return found[0] if found else None

    def windowed(
        self, history: TurnHistory, tools: Sequence[JsonObject], extra: int = 0
    ) -> tuple[list[int], Cut] | None:
        """With room for `extra` tokens behind it."""
        found = fit_rendered(history, self._max_tokens, extra, self.size, lambda shown: self.opened(shown, tools))
        return (found[0], found[1].cut) if found else None

    def opened(self, messages: Sequence[Message], tools: Sequence[JsonObject]) -> list[int]:
        """The same, always rendered and of any length. Raises `ValueError` where the template refuses it."""
        if self._tokens.call_form:
            return self._tokens.conversation(messages, tools)
        return self._tokens.conversation([{"role": each["role"], "content": _as_text(each)} for each in messages])

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
        text = shown(message, self._tokens.call_form is not None)
        if text not in self._sizes:
            self._sizes[text] = len(self._tokens.tokenizer(text, add_special_tokens=False)["input_ids"])
        return self._sizes[text] + self._tokens.hint_tokens("")

    def turn(self, message: Message) -> list[int]:
        """Ids of an assistant turn, end of turn included."""
        if self._tokens.call_form:
            return self._tokens.turn_of(message)
        return self._tokens.turn(policy_text(message))


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
