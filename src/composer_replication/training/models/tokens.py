"""Token ids of a conversation, made by splicing: a stored id is never rendered again.

Everything is taken from the tokenizer's own chat template by rendering small probes when the policy is loaded. What a
template cannot say is refused there, before any work.

A conversation only grows. Some templates change what was said before: Qwen3 leaves out thoughts, and the empty thought
of `enable_thinking = false`, once a turn is no longer the last one or a user speaks again. Here they stay, as in TRL's
own training templates: the positions that are trained are those that were sampled, each turn is read behind the
context that it was written in, and a hinted context differs from the plain one by the hint alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any, Literal, NamedTuple

from composer_replication.records import Message

from .chat_template import ChatTemplate, TemplateRefusal, shows
from .turn_reading import TurnReader

_SAID = {"role": "assistant", "content": "a"}
_ASKED = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
_WORDS = ("a", "b b")
_ANSWER, _HINT = "probe answer", "probe hint"
ObservationRole = Literal["tool", "user"]


class _Opening(NamedTuple):
    """How a context ends where a turn may begin."""

    tail: list[int]
    """The same whatever stood before it; begins with an added token."""
    header: list[int]
    opens_thought: bool


class ChatTokens:
    """Prompt, turn, observation and hint ids under one tokenizer, template and the template's settings."""

    def __init__(
        self, tokenizer: Any, chat_template: str | None = None, chat_template_kwargs: Mapping[str, Any] | None = None
    ) -> None:
        self.tokenizer = tokenizer
        self.template = ChatTemplate(tokenizer, chat_template, chat_template_kwargs)
        self.end_of_turn_id = self._find_end_of_turn()
        self._end_of_turn: str = tokenizer.decode([self.end_of_turn_id])
        self.call_form = self.template.call_form(self._end_of_turn)
        """None where the template has no form of its own for calls; they are then written as JSON text."""
        self._added_ids = set(tokenizer.added_tokens_decoder)
        self.observation_role: ObservationRole = self._find_observation_role()
        self._reader = TurnReader(tokenizer, self.template.source, self._end_of_turn)
        self._openings = self._find_openings()
        self._asked_text = self._text(_ASKED, opened=True)
        self.after_turn = lru_cache(maxsize=4096)(self._after_turn)
        self._hint_ids = lru_cache(maxsize=4096)(self._find_hint_ids)
        self.hint_place = self._find_hint_place()
        """Where a hint stands: in a message of the user, or at the end of the last message if that is refused."""

    def prompt(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Ids up to and including the header that opens the assistant's turn."""
        return self._ids(self._text(messages, opened=True))

    def conversation(self, messages: Sequence[Message], tools: Sequence[Any] = ()) -> list[int]:
        """The same for a whole conversation, with the template's own form of calls where it has one. What the last turn
        led to must be there; what a template makes of older answers is its own affair."""
        form = self.call_form
        shown = [form.native(message) for message in messages] if form else self._as_heard(messages)
        text = self.template.text(shown, tools if form else (), opened=True)
        latest = takewhile(lambda message: message["role"] != "assistant", reversed(messages))
        for message in latest:
            if message["role"] == "tool" and not shows(text, message["content"]):
                raise self.template.refusal("it leaves out what a tool answered")
        return self._ids(text)

    def turn(self, text: str) -> list[int]:
        """Ids of an assistant turn that the policy did not sample itself, end-of-turn included."""
        return self.turn_of({"role": "assistant", "content": text})

    def turn_of(self, message: Message) -> list[int]:
        """The same for a message with calls. A template that thinks first gets an empty thought, as it writes it."""
        shown = self.call_form.native(message) if self.call_form else message
        closed = self._text([*_ASKED, shown])
        written, ended, _ = self._reader.written(self._asked_text, closed).rpartition(self._end_of_turn)
        if not ended:
            raise self.template.refusal("a turn that has ended does not begin as it was opened")
        return [*self._ids(written), self.end_of_turn_id]

    def text(self, turn_ids: Sequence[int]) -> str:
        """Everything that was written, thoughts too."""
        ids = list(turn_ids)
        if ids and ids[-1] == self.end_of_turn_id:
            ids.pop()
        return self.tokenizer.decode(ids, skip_special_tokens=False)

    def said(self, context_ids: Sequence[int], turn_ids: Sequence[int], tools: Sequence[Any] = ()) -> str:
        """What an environment gets of a turn: no thoughts, and calls in the one form that environments read."""
        opens_thought = any(
            opening.opens_thought and _ends_with(context_ids, opening.header) for opening in self._openings
        )
        return self._reader.said(self.text(turn_ids), opens_thought, tools)

    def closing(self, turn_ids: Sequence[int]) -> list[int]:
        """What a turn that was cut off at its token limit lacks in the next context; nobody sampled it."""
        return [] if turn_ids and turn_ids[-1] == self.end_of_turn_id else [self.end_of_turn_id]

    def splice_hint(self, context_ids: Sequence[int], hint: str) -> list[int]:
        """`context_ids` (which end in the assistant header) with the hint before that header."""
        kept, behind = self.hint_at(context_ids, hint)
        return [*context_ids[:kept], *behind]

    def hint_at(self, context_ids: Sequence[int], hint: str) -> tuple[int, list[int]]:
        """How much of a context stands before a hint, and the hint with all that stands behind it."""
        for place, opening in enumerate(self._openings):
            if _ends_with(context_ids, opening.tail):
                removed, added = self._hint_ids(hint, place)
                return len(context_ids) - removed, added
        raise ValueError("the context does not end with the assistant header")

    def hint_tokens(self, hint: str) -> int:
        """By how much a hint makes a context longer."""
        removed, added = self._hint_ids(hint, 0)
        return len(added) - removed

    # Observations

    def _after_turn(self, observation: str) -> list[int]:
        """Ids that follow an assistant turn: what the environment answered, and the next assistant header."""
        return self._behind_turn([{"role": self.observation_role, "content": observation}])

    def after_messages(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """The same for any messages, as a program may put them behind a turn."""
        return self._behind_turn(self._as_heard(messages))

    def _behind_turn(self, heard: Sequence[Mapping[str, Any]], earlier: Sequence[Mapping[str, Any]] = ()) -> list[int]:
        before = [*_ASKED, *earlier]
        text = self.template.text([*before, _SAID, *heard], opened=True)
        asked = self.template.text(before)
        if not all(shows(text[shared_length(asked, text) :], message["content"]) for message in heard):
            raise self.template.refusal("it leaves out what the environment answered")
        ids, asked_ids = self._ids(text), self._ids(asked)
        start = shared_length(asked_ids, ids)
        if start < len(asked_ids) - len(self._after_word(before)):
            raise self.template.refusal("it rewrites earlier messages")
        try:
            return ids[ids.index(self.end_of_turn_id, start) + 1 :]
        except ValueError:
            raise self.template.refusal("a turn ends otherwise once something follows it") from None

    def _find_observation_role(self) -> ObservationRole:
        """`tool` where the template shows it behind a turn without native calls, every time alike; else `user`."""
        try:
            answer = [{"role": "tool", "content": _ANSWER}]
            first = self._behind_turn(answer)
            again = self._behind_turn(answer, [_SAID, {"role": "tool", "content": "c"}])
            if first == again:
                return "tool"
        except TemplateRefusal:
            pass
        self._behind_turn([{"role": "user", "content": _ANSWER}])
        return "user"

    def _as_heard(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Without a role for tools, what they answered in a row is one message of the user."""
        heard: list[dict[str, Any]] = []
        for message in messages:
            is_answer = message["role"] == "tool" and self.observation_role == "user"
            if is_answer and heard and heard[-1]["role"] == "user":
                heard[-1] = {**heard[-1], "content": f"{heard[-1]['content']}\n{message['content']}"}
            else:
                heard.append({**message, "role": "user"} if is_answer else dict(message))
        return heard

    # Hints

    def _find_openings(self) -> list[_Opening]:
        """After the prompt, and after an answer where a context ends otherwise there."""
        found: list[_Opening] = []
        for messages in self._before():
            tail = self._after_word(messages, opened=True)
            special = next((place for place, token in enumerate(tail) if token in self._added_ids), len(tail))
            opened, closed = (self._ids(self._text(messages, opened=opened)) for opened in (True, False))
            header = opened[shared_length(opened, closed) :]
            opens_thought = self._reader.opens_thought(self.tokenizer.decode(header))
            found.append(_Opening(tail[special:] or header, header, opens_thought))
        return found[:1] if _ends_with(found[1].tail, found[0].tail) else found

    def _find_hint_place(self) -> Literal["message", "last message"]:
        self._hints_are_messages = True
        try:
            for place in range(len(self._openings)):
                self._hint_ids(_HINT, place)
            return "message"
        except TemplateRefusal:
            self._hints_are_messages = False
            self._hint_ids.cache_clear()
        return "last message"

    def _find_hint_ids(self, hint: str, place: int) -> tuple[int, list[int]]:
        """How many ids at the end of a context go, and what comes instead."""
        tail, before = self._openings[place].tail, self._before()[place]
        if not self._hints_are_messages:
            return len(tail), [*self._ids(f"\n\n{hint}"), *tail]
        opened, closed = (self._ids(self._text(before, opened=opened)) for opened in (True, False))
        text = self._text([*before, {"role": "user", "content": hint}], opened=True)
        hinted = self._ids(text)
        kept = min(shared_length(opened, hinted), shared_length(opened, closed))
        if len(opened) - kept > len(tail) or not shows(text, hint):
            raise self.template.refusal("it rewrites earlier messages")
        return len(opened) - kept, hinted[kept:]

    def _before(self) -> tuple[Sequence[Mapping[str, Any]], ...]:
        """Where a turn may begin."""
        return _ASKED, [*_ASKED, _SAID, {"role": self.observation_role, "content": "b"}]

    # Probes

    def _find_end_of_turn(self) -> int:
        """The first token that the template puts after an assistant message, whatever the message says."""
        after = self._after_word([*_ASKED, _SAID])
        # A newline alone could also be part of what the policy writes.
        if not after or not self.tokenizer.decode(after[:1]).strip():
            raise self.template.refusal("it closes turns without a special token")
        return after[0]

    def _after_word(self, messages: Sequence[Mapping[str, Any]], opened: bool = False) -> list[int]:
        """Ids behind the last message's content, whatever it says."""
        *before, last = messages
        one, other = (
            self._ids(self.template.text([*before, {**last, "content": word}], opened=opened)) for word in _WORDS
        )
        shared = shared_length(one[::-1], other[::-1])
        return one[len(one) - shared :]

    def _text(self, messages: Sequence[Mapping[str, Any]], opened: bool = False) -> str:
        return self.template.text(self._as_heard(messages), opened=opened)

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]


def shared_length(one: Sequence[object], other: Sequence[object]) -> int:
    """How many first ids, or characters, are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _ends_with(ids: Sequence[int], end: Sequence[int]) -> bool:
    return len(ids) >= len(end) and list(ids[len(ids) - len(end) :]) == list(end)
