"""A session that has been read and can be written: structure in memory, texts in the spool."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import orjson

from composer_replication.records import (
    SCHEMA_VERSION,
    Fidelity,
    JsonObject,
    Segment,
    Source,
    Trace,
    content_id,
    family_of,
)

from .spool import Spool, Spooled, encode

NO_RESULT = encode("[no result recorded]")
_family_of = lru_cache(family_of)


@dataclass(slots=True)
class Said:
    """A message of the user."""

    role: str
    text: Spooled
    dropped: bool = False
    index: int = -1


@dataclass(slots=True)
class SessionCall:
    call_id: str
    name: str
    arguments: Spooled
    answer: Spooled | None = None
    failed: bool = False


@dataclass(slots=True)
class AssistantTurn:
    key: str | None
    model: str | None
    start: int
    """First byte of its first record."""
    end: int
    texts: tuple[Spooled, ...] = ()
    thinking: tuple[Spooled, ...] = ()
    calls: tuple[SessionCall, ...] = ()
    index: int = -1


@dataclass(slots=True)
class PlacedTurn:
    message: AssistantTurn
    segment: int
    abandoned: bool = False
    lacks_history: bool = False
    """Whether the actor saw messages before it that the file does not hold."""


@dataclass(frozen=True)
class Session:
    name: str
    source: Source
    fidelity: Fidelity
    spool: Spool
    system: Spooled
    messages: Sequence[Said | AssistantTurn]
    turns: Sequence[PlacedTurn]
    segments: tuple[Segment, ...]
    tools: tuple[JsonObject, ...]
    tools_inferred: bool
    system_is_ours: bool
    task_id: str | None
    outcome: float | None

    @property
    def trace_id(self) -> str:
        """Two files may hold different parts of one session, so the first turn is part of the name."""
        return content_id(self.source.agent, self.name, self.turns[0].message.key if self.turns else None)

    @property
    def keys(self) -> list[str]:
        return [turn.message.key for turn in self.turns if turn.message.key]

    @property
    def calls(self) -> int:
        return sum(len(turn.message.calls) for turn in self.turns)

    @property
    def results(self) -> int:
        return sum(call.answer is not None for turn in self.turns for call in turn.message.calls)

    def without(self, keys: Collection[str]) -> Session:
        """The same history with fewer turns: those that another file has given already."""
        return replace(self, turns=[turn for turn in self.turns if turn.message.key not in keys])

    def trace(self) -> Trace:
        return Trace.model_validate_json(b"".join(self.encoded()))

    def encoded(self) -> Iterator[bytes]:
        """The trace as one JSON line, in pieces: the bytes that pydantic would write."""
        yield b'{"schema_version":%d,"trace_id":"%s","source":' % (SCHEMA_VERSION, self.trace_id.encode())
        yield self.source.model_dump_json().encode()
        yield b',"messages":[{"role":"system","content":' + self.spool.get(self.system) + b"}"
        for message in self.messages:
            yield b"," + self._encoded_message(message)
        yield b'],"turns":['
        for number, turn in enumerate(self.turns):
            yield b"," if number else b""
            yield self._encoded_turn(turn)
        yield b'],"segments":[' + b",".join(segment.model_dump_json().encode() for segment in self.segments)
        rest = {
            "tools": self.tools,
            "tools_inferred": self.tools_inferred,
            "system_is_ours": self.system_is_ours,
            "task_id": self.task_id,
            "outcome": self.outcome,
        }
        yield b"]," + orjson.dumps(rest)[1:] + b"\n"

    def _encoded_message(self, message: Said | AssistantTurn) -> bytes:
        if isinstance(message, Said):
            return b'{"role":"%s","content":%s}' % (message.role.encode(), self.spool.get(message.text))
        said = b'{"role":"assistant","content":' + self.spool.paragraphs(message.texts)
        if not message.calls:
            return said + b"}"
        results: list[bytes] = []
        for call in message.calls:
            text = NO_RESULT if call.answer is None else self.spool.get(call.answer)
            failed = b',"is_error":true' if call.failed else b""
            results.append(b',{"role":"tool","content":%s,"tool_call_id":%s%s}' % (text, encode(call.call_id), failed))
        calls = b",".join(map(self._encoded_call, message.calls))
        return b'%s,"tool_calls":[%s]}%s' % (said, calls, b"".join(results))

    def _encoded_call(self, call: SessionCall) -> bytes:
        function = b'{"name":%s,"arguments":%s}' % (encode(call.name), self.spool.get(call.arguments))
        return b'{"id":%s,"type":"function","function":%s}' % (encode(call.call_id), function)

    def _encoded_turn(self, turn: PlacedTurn) -> bytes:
        message = turn.message
        fields = {
            "source_model": message.model,
            "family": _family_of(message.model),
            "fidelity": "partial" if turn.lacks_history else self.fidelity,
            "byte_range": (message.start, message.end),
            "abandoned": turn.abandoned,
        }
        end = message.index + 1 + len(message.calls)
        thinking = self.spool.paragraphs(message.thinking)
        place = b'{"start":%d,"end":%d,"segment":%d,"thinking":%s,' % (message.index, end, turn.segment, thinking)
        return place + orjson.dumps(fields)[1:]
