"""What is asked, and the name of each question: the sha256 of its canonical request. No name may ever change, because a
changed name is paid for again. Timeouts, keys, addresses and prices are no part of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from composer_replication.llm.client import PaidCall
from composer_replication.llm.outgoing import routed
from composer_replication.records import JsonObject, Message, Trace, canonical_json

from .gate import State
from .prompts import Prompts, wire_message
from .teachers import Teacher

REQUEST_SCHEMA = 1


class TeacherQuestion(NamedTuple):
    """One state for one teacher."""

    state: State
    teacher: Teacher
    key: str
    prompt_bytes: int
    max_tokens: int

    def request(self) -> JsonObject:
        messages = shown_messages(Prompts(), self.state, self.teacher, self.max_tokens)
        request = build_request(self.teacher.model, messages, self.state.trace.tools, self.max_tokens)
        return routed(request, self.teacher.base_url)

    def call(self) -> PaidCall:
        return PaidCall(self.key, self.prompt_bytes, self.max_tokens, self.request)


def questions(asking: Iterable[tuple[State, Sequence[Teacher]]], max_tokens: int) -> list[TeacherQuestion]:
    """In the order of states, then of the teachers to ask at each."""
    encoders: dict[str, _TraceEncoder] = {}
    found: list[TeacherQuestion] = []
    prompts = Prompts()
    for state, teachers in asking:
        encoder = encoders.get(state.trace.trace_id)
        if encoder is None or encoder.trace is not state.trace:
            encoder = encoders[state.trace.trace_id] = _TraceEncoder(state.trace)
        whole = encoder.prefix(state.trace.history(state.turn), max_tokens)
        for teacher in teachers:
            if prompts.fits(state, teacher, max_tokens):
                prefix, length = whole
            else:
                prefix, length = encoder.prefix(shown_messages(prompts, state, teacher, max_tokens), max_tokens)
            digest, suffix = prefix(), encoder.suffix(teacher)
            digest.update(suffix)
            found.append(TeacherQuestion(state, teacher, digest.hexdigest(), length + len(suffix), max_tokens))
    return found


def shown_messages(prompts: Prompts, state: State, teacher: Teacher, max_tokens: int) -> list[Message]:
    messages = prompts.messages(state, teacher, max_tokens)
    if messages is None:
        raise ValueError(f"state {state.state_id} is beyond the context of {teacher.name}")
    return messages


class _TraceEncoder:
    """Canonical JSON sorts keys, so messages come before all that depends on the teacher: one hash serves them all."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._messages = {id(message): _encode(wire_message(message)) for message in trace.messages}
        self._suffixes: dict[tuple[str, str], bytes] = {}

    def prefix(self, messages: Sequence[Message], max_tokens: int) -> tuple[Callable[[], Any], int]:
        encoded = (self._messages.get(id(message)) or _encode(wire_message(message)) for message in messages)
        text = b",".join(encoded)
        digest = hashlib.sha256(b'{"max_tokens":%d,"messages":[' % max_tokens)
        digest.update(text)
        return digest.copy, len(text)

    def suffix(self, teacher: Teacher) -> bytes:
        known = (teacher.model, teacher.base_url)
        if known not in self._suffixes:
            rest = routed(build_request(teacher.model, (), self.trace.tools, 0), teacher.base_url)
            text = _encode({"schema": REQUEST_SCHEMA, **rest})
            self._suffixes[known] = text.removeprefix(b'{"max_tokens":0,"messages":[')
        return self._suffixes[known]


def build_request(model: str, messages: Sequence[Message], tools: Sequence[JsonObject], max_tokens: int) -> JsonObject:
    request: JsonObject = {
        "model": model,
        "messages": [wire_message(message) for message in messages],
        "temperature": 0,
        "max_tokens": max_tokens,
    }
    return {**request, "tools": list(tools)} if tools else request


def request_key(request: JsonObject) -> str:
    return hashlib.sha256(_encode({"schema": REQUEST_SCHEMA, **request})).hexdigest()


def _encode(value: object) -> bytes:
    return canonical_json(value).encode()
