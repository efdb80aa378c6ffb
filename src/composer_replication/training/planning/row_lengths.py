"""Tokens of an exported row, as TRL's trainers count them: the model's own template, tools included."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from composer_replication.records import JsonObject, Message

from ..models.chat_template import ChatTemplate
from ..models.tokens import ChatTokens
from ..stored.contexts import shown
from .lengths import ByTokenizer


class TemplateLengths:
    def __init__(self, tokens: ChatTokens, model: str) -> None:
        # Trainers know nothing of the run's own template settings.
        self._tokenizer, self._template = tokens.tokenizer, ChatTemplate(tokens.tokenizer)
        self._counter = ByTokenizer(tokens)
        self._counted = lru_cache(maxsize=None)(lambda text: self._counter.count([text])[0])
        self.source = f"the tokenizer of {model}"
        self.knows_tools = self._counter.knows_tools
        self.writes_calls = tokens.call_form is not None

    def size(self, message: Message) -> int:
        return self._counted(shown(message, knows_calls=True)).tokens + self._counter.message_tokens

    def row(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> list[int]:
        text = self._template.text(messages, tools)
        return self._tokenizer(text, add_special_tokens=False)["input_ids"]

    def knows(self, message: Message) -> bool:
        """Whether its vocabulary can say it."""
        return self._counted(shown(message, knows_calls=True)).is_known
