"""What a sampled turn says to an environment: thoughts are left out, native tool calls become the one form that
environments read, `<tool_call>` marks around a JSON object.

Calls are parsed by transformers, under the response template that the model ships, else the one that TRL knows for its
chat template, else one of those below. A call that cannot be parsed stays as it was written, for the environment to
refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any, cast

from composer_replication.environments.calls import THOUGHT_MARKS, Call, marked, without_thought

_FUNCTION = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
_BY_MARK: Mapping[str, Mapping[str, Any]] = {
    "<|tool_call_argument_begin|>": {
        "open_pattern": r"(?:<\|tool_calls_section_begin\|>)?\s*<\|tool_call_begin\|>\s*(?:functions\.)?"
        r"(?P<name>[\w.-]+?)(?::\d+)?\s*<\|tool_call_argument_begin\|>",
        "close_pattern": r"<\|tool_call_end\|>\s*(?:<\|tool_calls_section_end\|>)?",
    },
    "<｜tool▁sep｜>": {
        "open_pattern": r"(?:<｜tool▁calls▁begin｜>)?\s*<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?"
        r"(?P<name>[\w.-]+)(?:\s*```json|<｜tool▁sep｜>)",
        "close_pattern": r"(?:```)?\s*<｜tool▁call▁end｜>\s*(?:<｜tool▁calls▁end｜>)?",
    },
    "[ARGS]": {
        "open_pattern": r"\[TOOL_CALLS\](?P<name>[\w.-]+)(?:\[CALL_ID\]\w+)?\[ARGS\]",
        "close_pattern": r"(?=\[TOOL_CALLS\]|</s>)",
    },
    "<function=": {
        "open_pattern": r"(?:<tool_call>)?\s*<function=(?P<name>[^\n>]+)>",
        "close_pattern": r"</function>\s*(?:</tool_call>)?\s*",
        "content": "xml-inline",
        "content_args": {"tag_pattern": r"<parameter=(?P<key>[^>\n]+)>\s*(?P<value>.*?)\s*</parameter>"},
    },
}
"""Kimi, DeepSeek, Mistral and Qwen3-Coder, by a mark that their chat templates hold."""


class TurnReader:
    def __init__(self, tokenizer: Any, template: str, end_of_turn: str) -> None:
        self._tokenizer, self._template, self._end_of_turn = tokenizer, template, end_of_turn

    def said(self, text: str, opens_thought: bool, tools: Sequence[Any] = ()) -> str:
        """`opens_thought`: the header before the turn has begun a thought, so the turn begins inside it."""
        spoken = without_thought(text, opens_thought)
        if self._response_template is None:
            return spoken
        try:
            parsed = self._tokenizer.parse_response(
                spoken + self._end_of_turn, schema=self._response_template, prefix="", tools=list(tools)
            )
            calls = [_call(each) for each in parsed.get("tool_calls") or ()]
        except (ValueError, TypeError, KeyError, AttributeError):
            return spoken
        content = (parsed.get("content") or "").removesuffix(self._end_of_turn).strip()
        return "\n".join(filter(None, [content, *map(marked, calls)])) if calls else spoken

    def opens_thought(self, header: str) -> bool:
        return any(header.rfind(opening) > header.rfind(closing) for opening, closing in THOUGHT_MARKS)

    def written(self, opened: str, closed: str) -> str:
        """What stands behind the header in a turn that was rendered as a whole; nothing where that cannot be told.

        A header may hold a thought, open or empty, which the template leaves out of turns that have ended. The turn
        then ends the thought itself.
        """
        if closed.startswith(opened):
            return closed[len(opened) :]
        for opening, closing in THOUGHT_MARKS:
            bare = opened[: opened.rfind(opening)]
            if opening in opened and closed.startswith(bare):
                ending = f"\n{closing}\n\n" if self.opens_thought(opened) else ""
                return ending + closed[len(bare) :]
        return ""

    @cached_property
    def _response_template(self) -> Mapping[str, Any] | None:
        own: Mapping[str, Any] | None = getattr(self._tokenizer, "response_template", None)
        if own or "tool_call" not in self._template:
            return own
        return _known_to_trl(self._template) or self._by_mark()

    def _by_mark(self) -> Mapping[str, Any] | None:
        for mark, pattern in _BY_MARK.items():
            if mark in self._template:
                calls = {"content": "json", **pattern, "repeats": True, "transform": _FUNCTION}
                said = {"close": self._end_of_turn, "content": "text"}
                return {"start_anchor": self._end_of_turn, "fields": {"tool_calls": calls, "content": said}}
        return None


def _known_to_trl(template: str) -> Mapping[str, Any] | None:
    from trl.chat_template_utils import add_response_schema

    stand_in: Any = SimpleNamespace(chat_template=template)
    try:
        return cast("Mapping[str, Any]", add_response_schema(stand_in).response_template)
    except ValueError:
        return None


def _call(parsed: Mapping[str, Any]) -> Call:
    function = parsed["function"]
    if not isinstance(function["name"], str) or not isinstance(function["arguments"], dict):
        raise ValueError("no call")
    return Call(function["name"], cast("dict[str, Any]", function["arguments"]))
