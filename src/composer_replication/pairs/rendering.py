"""A pair with its history as a chat template takes it, within a number of tokens.

Reads a pair and its trace. Arguments of calls become objects, or all calls become text. In the history a call whose
arguments are no JSON object becomes text, and what it led to a message of the user: some templates leave out answers to
no call. Nothing there is trained on. A side of a pair with such a call cannot be shown, because no template writes one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence, Set, Sized
from typing import NamedTuple, Protocol, cast

from composer_replication.records import (
    JsonObject,
    Message,
    PreferencePair,
    ToolCall,
    Trace,
    canonical_json,
    json_object,
)
from composer_replication.windows import CHARACTERS_PER_TOKEN, TurnHistory, fit_rendered


class NotExportableError(Exception):
    """The reason."""


class RowLengths(Protocol):
    """Tokens under one model."""

    source: str
    knows_tools: bool

    def size(self, message: Message) -> int:
        """About."""
        ...

    def row(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> Sized:
        """As a trainer reads it. Raises `ValueError` where the chat template refuses it."""
        ...


class ByCharacters:
    source = "estimate: four characters to a token"
    knows_tools = True

    def size(self, message: Message) -> int:
        return len(self.row([cast("JsonObject", message)], ()))

    def row(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> Sized:
        characters = len(canonical_json(messages)) + (len(canonical_json(tools)) if tools else 0)
        return range(-(-characters // CHARACTERS_PER_TOKEN))


class RenderedPair(NamedTuple):
    pair: PreferencePair
    prompt: list[JsonObject]
    chosen: list[JsonObject]
    rejected: list[JsonObject]
    tools: Sequence[JsonObject]
    tokens: int
    """With the longer side; counted where there is a limit, about where there is none."""
    is_windowed: bool
    has_malformed_history: bool


class PairRenderer:
    """`calls_as_text` is for models whose chat template knows no tools: it would leave calls out without a word."""

    def __init__(self, calls_as_text: bool, max_tokens: int | None, lengths: RowLengths) -> None:
        self._calls_as_text, self._max_tokens, self._lengths = calls_as_text, max_tokens, lengths

    def render(self, pair: PreferencePair, trace: Trace, failed_calls: Set[str]) -> RenderedPair:
        """A window where it would be too long; it keeps the errors of `failed_calls`."""
        tools = () if self._calls_as_text else pair.tools
        chosen, rejected = ([self._side(side)] for side in (pair.chosen, pair.rejected))
        whole, behind = trace.history(pair.turn), self._behind(pair, tools)
        if self._max_tokens is None:
            shown, tokens = whole, behind + sum(map(self._lengths.size, whole))
        else:
            found = self._window(TurnHistory.before(trace, pair.turn, failed_calls), (chosen, rejected), tools)
            if found is None:
                alone = behind > self._max_tokens
                raise NotExportableError("its turn and tools alone are too long" if alone else "no window fits")
            shown, tokens = found
        is_malformed = bool(_malformed_calls(shown))
        return RenderedPair(pair, self._history(shown), chosen, rejected, tools, tokens, shown != whole, is_malformed)

    def _behind(self, pair: PreferencePair, tools: Sequence[JsonObject]) -> int:
        """About the tokens of all but the history."""
        size = self._lengths.size
        listed = size({"role": "system", "content": canonical_json(tools)}) if tools else 0
        return max(map(size, (pair.chosen, pair.rejected))) + (listed if self._lengths.knows_tools else 0)

    def _window(
        self, history: TurnHistory, sides: Sequence[list[JsonObject]], tools: Sequence[JsonObject]
    ) -> tuple[list[Message], int] | None:
        def row(messages: Sequence[Message]) -> Sized:
            prompt = self._history(messages)
            return max((self._lengths.row(prompt + side, tools) for side in sides), key=len)

        try:
            found = fit_rendered(history, self._max_tokens or 0, 0, self._lengths.size, row)
        except ValueError as error:
            raise NotExportableError("the chat template refuses it") from error
        return (found[1].messages, len(found[0])) if found else None

    def _history(self, messages: Sequence[Message]) -> list[JsonObject]:
        malformed = _malformed_calls(messages)
        return [
            {"role": "user", "content": message["content"]}
            if message.get("tool_call_id") in malformed and not self._calls_as_text
            else self._message(message)
            for message in messages
        ]

    def _side(self, message: Message) -> JsonObject:
        if not self._calls_as_text and _malformed_calls([message]):
            raise NotExportableError("a side's arguments are no JSON object")
        return self._message(message)

    def _message(self, message: Message) -> JsonObject:
        said, calls = [message["content"]], list[JsonObject]()
        for call in message.get("tool_calls", []):
            name, arguments = call["function"]["name"], _arguments(call)
            if isinstance(arguments, str):
                said.append(f'{{"name":{json.dumps(name, ensure_ascii=False)},"arguments":{arguments}}}')
            elif self._calls_as_text:
                said.append(
                    json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False, separators=(",", ":"))
                )
            else:
                calls.append({**call, "function": {"name": name, "arguments": arguments}})
        shown: JsonObject = {"role": message["role"], "content": "\n".join(filter(None, said))}
        if "tool_call_id" in message and not self._calls_as_text:
            shown["tool_call_id"] = message["tool_call_id"]
        return shown | ({"tool_calls": calls} if calls else {})


def _malformed_calls(messages: Iterable[Message]) -> set[str]:
    """Ids of calls whose arguments are no JSON object."""
    calls = (call for message in messages for call in message.get("tool_calls", []))
    return {call["id"] for call in calls if isinstance(_arguments(call), str)}


def _arguments(call: ToolCall) -> JsonObject | str:
    """As an object, or as they were written where they are none."""
    text = call["function"]["arguments"]
    found = json_object(text)
    return text if found is None else found
