"""What is asked, and the name of each question: the sha256 of its canonical request. No name may ever change, because a
changed name is paid for again. Timeouts, keys, addresses and prices are no part of it. Neither is a server's dialect:
the name is made of the history as the trace has it, and what is sent is that history made legal.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from composer_replication.llm.client import PaidCall
from composer_replication.llm.outgoing import routed
from composer_replication.llm.parameters import USUAL, Parameters
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
    shares_prefix: bool = False
    """Whether the teacher is asked at other turns of this trace too, so that its provider's cache is worth filling."""

    def request(self) -> JsonObject:
        """The question, as its name was made from it."""
        teacher = self.teacher
        messages = shown_messages(Prompts(), self.state, teacher, self.max_tokens)
        tools = self.state.trace.tools
        return routed(
            build_request(teacher.model, messages, tools, self.max_tokens, teacher.wire.parameters), teacher.base_url
        )

    def sent(self) -> JsonObject:
        """The question, as its server takes it."""
        marked = self.shares_prefix and not self.teacher.batch
        return self.teacher.wire.request(self.request(), self.state.trace.tools_inferred, marked)

    def call(self) -> PaidCall:
        return PaidCall(self.key, self.prompt_bytes, self.max_tokens, self.sent)


def questions(asking: Iterable[tuple[State, Sequence[Teacher]]], max_tokens: int) -> list[TeacherQuestion]:
    """In the order of states, then of the teachers to ask at each."""
    encoders: dict[str, _TraceEncoder] = {}
    found: list[TeacherQuestion] = []
    prompts = Prompts()
    asking = list(asking)
    turns = Counter((state.trace.trace_id, teacher.name) for state, teachers in asking for teacher in teachers)
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
            shares = turns[state.trace.trace_id, teacher.name] > 1
            found.append(TeacherQuestion(state, teacher, digest.hexdigest(), length + len(suffix), max_tokens, shares))
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
        self._suffixes: dict[tuple[str, str, Parameters], bytes] = {}

    def prefix(self, messages: Sequence[Message], max_tokens: int) -> tuple[Callable[[], Any], int]:
        encoded = (self._messages.get(id(message)) or _encode(wire_message(message)) for message in messages)
        text = b",".join(encoded)
        digest = hashlib.sha256(b'{"max_tokens":%d,"messages":[' % max_tokens)
        digest.update(text)
        return digest.copy, len(text)

    def suffix(self, teacher: Teacher) -> bytes:
        known = (teacher.model, teacher.base_url, teacher.wire.parameters)
        if known not in self._suffixes:
            rest = routed(build_request(teacher.model, (), self.trace.tools, 0, known[2]), teacher.base_url)
            text = _encode({"schema": REQUEST_SCHEMA, **rest})
            self._suffixes[known] = text.removeprefix(b'{"max_tokens":0,"messages":[')
        return self._suffixes[known]


def build_request(
    model: str,
    messages: Sequence[Message],
    tools: Sequence[JsonObject],
    max_tokens: int,
    parameters: Parameters = USUAL,
) -> JsonObject:
    request: JsonObject = {
        "model": model,
        "messages": [wire_message(message) for message in messages],
        "temperature": 0,
        "max_tokens": max_tokens,
        **parameters.named(),
    }
    return {**request, "tools": list(tools)} if tools else request


def request_key(request: JsonObject) -> str:
    return hashlib.sha256(_encode({"schema": REQUEST_SCHEMA, **request})).hexdigest()


def _encode(value: object) -> bytes:
    return canonical_json(value).encode()
