"""Token ids of a conversation, made by splicing: a stored id is never rendered again.

Everything is taken from the tokenizer's own chat template by rendering small probes and cutting them at the end-of-turn
token, so any template works that appends messages without changing earlier ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from composer_replication.errors import UsageError

_PROBE = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]


class ChatTokens:
    """Prompt, turn, observation and hint ids under one tokenizer and template."""

    def __init__(self, tokenizer: Any, chat_template: str | None = None) -> None:
        self.tokenizer = tokenizer
        self._chat_template = chat_template or tokenizer.chat_template
        if not self._chat_template:
            raise UsageError("the model has no chat template", "use an instruction-tuned model")
        self.end_of_turn_id = self._find_end_of_turn()
        self.header_ids = self._header()
        self.after_turn = lru_cache(maxsize=4096)(self._after_turn)
        self.hint_message = lru_cache(maxsize=4096)(self._hint_message)

    def prompt(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Ids up to and including the header that opens the assistant's turn."""
        return self._render(messages, add_generation_prompt=True)

    def turn(self, text: str) -> list[int]:
        """Ids of an assistant turn that the policy did not sample itself, end-of-turn included."""
        return [*self.tokenizer(text, add_special_tokens=False)["input_ids"], self.end_of_turn_id]

    def text(self, turn_ids: Sequence[int]) -> str:
        ids = list(turn_ids)
        if ids and ids[-1] == self.end_of_turn_id:
            ids.pop()
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def splice_hint(self, context_ids: Sequence[int], hint: str) -> list[int]:
        """`context_ids` (which end in the assistant header) with a user message holding the hint before that header."""
        cut = len(context_ids) - len(self.header_ids)
        if list(context_ids[cut:]) != self.header_ids:
            raise ValueError("the context does not end with the assistant header")
        return [*context_ids[:cut], *self.hint_message(hint), *self.header_ids]

    def _after_turn(self, observation: str) -> list[int]:
        """Ids that follow an assistant turn: the tool message and the next assistant header."""
        full = self._render([*_PROBE, {"role": "tool", "content": observation}], add_generation_prompt=True)
        return full[self._turn_end(full) :]

    def _hint_message(self, hint: str) -> list[int]:
        # Some templates drop the thoughts of an assistant once a user speaks again: they are probed without one.
        for probe in (_PROBE, _PROBE[:2]):
            plain = self._render(probe)
            hinted = self._render([*probe, {"role": "user", "content": hint}])
            if hinted[: len(plain)] == plain:
                return hinted[len(plain) :]
        raise UsageError("the chat template rewrites earlier messages", "use a model with an append-only template")

    def _header(self) -> list[int]:
        plain, opened = self._render(_PROBE), self._render(_PROBE, add_generation_prompt=True)
        return opened[len(plain) :]

    def _find_end_of_turn(self) -> int:
        """The first token that the template puts after an assistant message, whatever the message says."""
        one, other = (self._render([*_PROBE[:2], {"role": "assistant", "content": text}]) for text in ("a", "b b"))
        shared = 0
        while one[-1 - shared] == other[-1 - shared]:
            shared += 1
        # A newline alone could also be part of what the policy writes.
        if not shared or not self.tokenizer.decode([one[-shared]]).strip():
            raise UsageError("the chat template closes turns without a special token", "use another model")
        return one[-shared]

    def _turn_end(self, ids: Sequence[int]) -> int:
        """Where the probe's assistant turn ends: just after its end-of-turn token."""
        opened = len(self._render(_PROBE[:2], add_generation_prompt=True))
        return list(ids).index(self.end_of_turn_id, opened) + 1

    def _render(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = False) -> list[int]:
        return self.tokenizer.apply_chat_template(
            list(messages),
            chat_template=self._chat_template,
            tokenize=True,
            return_dict=False,
            add_generation_prompt=add_generation_prompt,
        )
