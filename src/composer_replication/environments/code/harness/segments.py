"""The calls of a harness as a trace with segments, and the ids of each segment.

Calls that extend each other token by token are one segment. A call that extends none, as after a compaction, begins a
segment of its own; so does a second answer to the same prompt (a retry, a sibling) and a second way to go on from one
answer (calls side by side). Each turn is trained in one segment only; what others hold of it there is context.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from openenv.core.harness.capture.graph import TurnNode

from composer_replication.records import JsonObject, Message, Segment, Turn

from ...self_played import TokenSegment
from .calls import plain_messages, said

FAILED = re.compile(
    r"\[Tool Error\]"  # openenv's word for a result that the Anthropic dialect marks as an error
    r"|\s*\{\s*\"returncode\":\s*(?!0\b)-?\d"
    r"|\s*(?:<exception>.*?</exception>\s*)?<returncode>(?!0<)-?\d"
    r"|Exit code:? (?!0\b)-?\d"
    r"|\{\"output\":.*\"exit_code\":\s*(?!0\b)-?\d",
    re.DOTALL,
)
"""How harnesses say that a command failed, at the start of its result."""


@dataclass
class _Call:
    node: TurnNode
    asked: list[Message]
    reply: Message
    next: _Call | None = None
    """The call that goes on from this one in the same segment."""
    answers: list[Message] = field(default_factory=list[Message])
    """What came back, where the harness went on, or why it asked again."""
    segment: int = 0
    at: int = 0
    """Index of the reply."""
    turn: int = 0

    def __post_init__(self) -> None:
        self.said = [said(message) for message in (*self.asked, self.reply)]

    def goes_on_from(self, earlier: _Call, *, with_its_reply: bool = False) -> bool:
        length = len(earlier.asked) + with_its_reply
        return len(self.asked) >= length and self.said[:length] == earlier.said[:length]


class Arranged(NamedTuple):
    messages: tuple[Message, ...]
    turns: tuple[Turn, ...]
    segments: tuple[Segment, ...]
    tools: tuple[JsonObject, ...]
    tokens: list[TokenSegment]

    @property
    def heard(self) -> list[str]:
        """All that the model read, the task among it, but for system prompts and turns of an assistant."""
        return [message["content"] for message in self.messages if message["role"] in ("tool", "user")]


def arranged(nodes: Sequence[TurnNode]) -> Arranged:
    """`nodes` in the order in which they were answered."""
    calls: list[_Call] = []
    for node in nodes:
        *asked, reply = plain_messages([*node.request_messages, node.response_message])
        calls.append(_Call(node, asked, reply))
    by_id = {call.node.node_id: call for call in calls}
    firsts: list[_Call] = []
    for call in calls:
        parent = by_id.get(call.node.parent_id or "")
        if parent and parent.next is None and len(call.asked) > len(parent.asked):
            parent.next = call
            parent.answers = _answers(parent, call.asked[len(parent.asked) + 1 :], call)
        else:
            firsts.append(call)
    return _Layout(by_id).lay_out(firsts)


def _answers(call: _Call, following: Sequence[Message], after: _Call) -> list[Message]:
    """As a trace has them: what answers a turn without a call belongs to no call, and is an error where the harness
    offers tools."""
    told: list[Message] = []
    for message in following:
        failed = FAILED.match(message["content"]) is not None
        if message["role"] == "user" and not call.reply.get("tool_calls"):
            message = Message(role="tool", content=message["content"])
            failed = failed or bool(after.node.request_tools)
        told.append({**message, "is_error": True} if failed else message)
    return told


class _Layout:
    def __init__(self, by_id: dict[str, _Call]) -> None:
        self._by_id = by_id
        self._laid: list[_Call] = []
        self._messages: list[Message] = []
        self._segments: list[Segment] = []

    def lay_out(self, firsts: Sequence[_Call]) -> Arranged:
        for first in firsts:
            self._notice_forgotten(first)
        chains = [self._chain(first) for first in firsts]
        for chain in chains:
            self._add(chain)
        tools: list[JsonObject] = []
        for call in self._laid:
            tools += [tool for tool in call.node.request_tools or () if tool not in tools]
        turns = tuple(
            Turn(start=call.at, end=call.at + 1 + len(call.answers), segment=call.segment) for call in self._laid
        )
        rows = [_tokens(chain) for chain in chains]
        return Arranged(tuple(self._messages), turns, tuple(self._segments), tuple(tools), rows)

    def _notice_forgotten(self, first: _Call) -> None:
        """Some harnesses leave an answer that they could not read out of the history, and say why they ask again."""
        for earlier in self._by_id.values():
            rest = first.asked[len(earlier.asked) :]
            if earlier is first:
                return
            is_last = earlier.next is None and not earlier.answers
            if is_last and rest and rest[0]["role"] == "user" and first.goes_on_from(earlier):
                earlier.answers = [Message(role="tool", content=rest[0]["content"], is_error=True)]

    def _chain(self, first: _Call) -> list[_Call]:
        chain: list[_Call] = []
        call: _Call | None = first
        while call:
            chain.append(call)
            call = call.next
        return chain

    def _add(self, chain: Sequence[_Call]) -> None:
        segment, number = self._opened(chain[0]), len(self._segments)
        self._segments.append(segment)
        for call in chain:
            call.segment, call.at, call.turn = number, len(self._messages), len(self._laid)
            self._messages += [call.reply, *call.answers]
            self._laid.append(call)

    def _opened(self, first: _Call) -> Segment:
        """Goes on from the longest history that is there already; writes down what is new."""
        start, shared, continues, asks_again = len(self._messages), 0, None, False
        for earlier in self._laid:
            if len(earlier.asked) > shared and first.goes_on_from(earlier):
                shared, continues, asks_again = len(earlier.asked), (earlier.segment, earlier.at), True
            if len(earlier.asked) >= shared and first.goes_on_from(earlier, with_its_reply=True):
                shared, continues, asks_again = len(earlier.asked) + 1, (earlier.segment, earlier.at + 1), False
        self._messages += [_no_users_word(each) if asks_again else each for each in first.asked[shared:]]
        return Segment(start=start, continues=continues)


def _no_users_word(message: Message) -> Message:
    """A harness that asks again explains why. Nobody said that: it is an answer that belongs to no call."""
    return Message(role="tool", content=message["content"]) if message["role"] == "user" else message


def _tokens(chain: Sequence[_Call]) -> TokenSegment:
    last = chain[-1].node
    ids = [*last.prompt_ids, *last.sampled_ids]
    logprobs, spans = [0.0] * len(ids), list[tuple[int, int]]()
    for call in chain:
        start = len(call.node.prompt_ids)
        end = start + len(call.node.sampled_ids)
        logprobs[start:end] = call.node.sampled_logprobs or [0.0] * (end - start)
        spans.append((start, end))
    return TokenSegment(ids, spans, logprobs, [call.turn for call in chain])
