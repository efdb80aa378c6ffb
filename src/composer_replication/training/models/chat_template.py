"""A model's chat template with its settings: messages in, text out, and a clear word where it refuses.

Reads the tokenizer's template and `[model] chat_template_kwargs`. What a template can say is found out by rendering
small probes, never by its name, so that templates that nobody has listed work too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jinja2 import TemplateError

from composer_replication.errors import UsageError
from composer_replication.records import Message, ToolCall, content_id

_CALLED, _GIVEN, _ANSWERED = "probe_tool", "probe_value", "probe_answer"


class TemplateRefusal(UsageError, ValueError):
    """These messages cannot be said under this template. Whoever goes through many of them may leave these out."""


@dataclass(frozen=True)
class CallForm:
    """How a template wants tool calls to be handed to it."""

    arguments: Literal["object", "text"] = "object"
    ids: Literal["own", "nine characters"] = "own"
    """Mistral's templates take no other length."""

    def native(self, message: Message) -> dict[str, Any]:
        """Templates know no marks of ours. Raises `ValueError` where arguments are not JSON: none writes them."""
        shown: dict[str, Any] = {key: value for key, value in message.items() if key != "is_error"}
        if "tool_call_id" in message:
            shown["tool_call_id"] = self._id(message["tool_call_id"])
        if "tool_calls" in message:
            shown["tool_calls"] = [
                {**call, "id": self._id(call["id"]), "function": self._function(call)} for call in message["tool_calls"]
            ]
        return shown

    def _function(self, call: ToolCall) -> dict[str, Any]:
        arguments = json.loads(call["function"]["arguments"])
        if self.arguments == "text":
            arguments = json.dumps(arguments, ensure_ascii=False)
        return {**call["function"], "arguments": arguments}

    def _id(self, own: str) -> str:
        return own if self.ids == "own" else content_id(own)[:9]


CALL_FORMS = (CallForm(), CallForm(arguments="text"), CallForm(ids="nine characters"))
_CALL: ToolCall = {
    "id": "call_0",
    "type": "function",
    "function": {"name": _CALLED, "arguments": json.dumps({"key": _GIVEN})},
}
_CALLING: Sequence[Message] = (
    {"role": "user", "content": "u"},
    {"role": "assistant", "content": "", "tool_calls": [_CALL]},
    {"role": "tool", "content": _ANSWERED, "tool_call_id": "call_0"},
)


class ChatTemplate:
    def __init__(self, tokenizer: Any, template: str | None = None, settings: Mapping[str, Any] | None = None) -> None:
        self._tokenizer, self._template, self.settings = tokenizer, template, dict(settings or {})
        source = template or tokenizer.chat_template
        if not source:
            raise UsageError("the model has no chat template", "use an instruction-tuned model")
        self.name = str(getattr(tokenizer, "name_or_path", "")) or "this model"
        for setting in self.settings:
            if setting not in str(source):
                raise UsageError(
                    f"the chat template of {self.name} knows no {setting}", "take it out of model.chat_template_kwargs"
                )
        self.source = str(source)

    def text(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] = (), opened: bool = False) -> str:
        """With `opened`, up to and including the header of the assistant's turn."""
        try:
            return self._tokenizer.apply_chat_template(
                list(messages),
                tools=list(tools) or None,
                chat_template=self._template,
                tokenize=False,
                add_generation_prompt=opened,
                **self.settings,
            )
        except (TemplateError, ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
            reason = (str(error).splitlines() or ["no reason"])[0]
            raise self.refusal(f"{type(error).__name__}: {reason}") from error

    def refusal(self, reason: str) -> TemplateRefusal:
        return TemplateRefusal(
            f"the chat template of {self.name} cannot be used here: {reason}",
            "choose another model; docs/models.md lists templates that work",
        )

    def call_form(self, end_of_turn: str) -> CallForm | None:
        """How calls, their arguments and their answers all come to be read, and a call ends as any turn does; None
        where no form does it."""
        for form in CALL_FORMS:
            try:
                text = self.text([form.native(message) for message in _CALLING], opened=True)
            except TemplateRefusal:
                continue
            if all(word in text for word in (_CALLED, _GIVEN, _ANSWERED)):
                written = text[text.index(_GIVEN) : text.index(_ANSWERED)]
                return form if end_of_turn in written else None
        return None


def shows(text: str, said: str) -> bool:
    """Whether a rendered text holds what was said: as it is, without blanks around it, or as a JSON string."""
    words = said.strip()
    return words in text or json.dumps(words, ensure_ascii=False)[1:-1] in text
