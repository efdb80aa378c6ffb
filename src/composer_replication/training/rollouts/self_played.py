"""Turns for programs that ask for them: whenever one calls its model, from its own thread, many at once.

A turn is sampled behind the ids of the call that it goes on from; only what is new is rendered. Calls that wait are
sampled together, so what a seed gives depends on which calls happened to meet.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from composer_replication.environments.self_played import (
    CallRefused,
    ContextFull,
    ModelCall,
    TokenSegment,
    Writer,
    WrittenTurn,
)
from composer_replication.records import Segment, Trace

from ..models.chat_template import TemplateRefusal
from ..models.tokens import ChatTokens
from ..stored.records import TokenizedTrace
from .sampling import SampledTurn

Sample = Callable[[list[int]], SampledTurn]
"""One turn behind a context; blocks."""


def context_of(tokens: ChatTokens, call: ModelCall) -> list[int]:
    """Where a template cannot say what follows a turn alone, all of it is rendered anew: that begins a segment."""
    if call.behind and call.new:
        try:
            return [*call.behind, *tokens.closing(call.behind), *tokens.after_messages(call.new)]
        except TemplateRefusal:
            pass
    return tokens.prompt(call.messages)


def writer(tokens: ChatTokens, sample: Sample, turn_tokens: int, room: int, seen: Versions) -> Writer:
    """`room` is for a whole conversation, its last turn included."""

    def write(call: ModelCall) -> WrittenTurn:
        try:
            context = context_of(tokens, call)
        except TemplateRefusal as error:
            raise CallRefused(error.args[0]) from error
        if len(context) + turn_tokens > room:
            raise ContextFull
        turn = sample(context)
        most = min(call.max_tokens or turn_tokens, turn_tokens)
        ids, logprobs = turn.ids[:most], turn.logprobs[:most]
        seen[len(context), tuple(ids)] = turn.version
        ended = ids[-1:] == [tokens.end_of_turn_id]
        return WrittenTurn(context, ids, logprobs, tokens.said(context, ids, call.tools), ended)

    return write


Versions = dict[tuple[int, tuple[int, ...]], int]
"""Where a turn stands and what it is -> the weights that wrote it."""


@dataclass
class _Asked:
    context: list[int]
    turn: Future[SampledTurn] = field(default_factory=Future[SampledTurn])


class TurnDesk:
    """Programs ask here; whoever has the model comes for what waits."""

    def __init__(self, most: int, patience_s: float) -> None:
        self._most, self._patience_s, self._closed = most, patience_s, False
        self._waiting: SimpleQueue[_Asked] = SimpleQueue()

    def ask(self, context: list[int]) -> SampledTurn:
        asked = _Asked(context)
        self._waiting.put(asked)
        if self._closed:
            self.close()
        return asked.turn.result()

    def serve(self, sample: Callable[[list[list[int]]], list[SampledTurn]], is_over: Callable[[], bool]) -> None:
        """Until nobody asks any more."""
        while not is_over():
            batch = self._gathered()
            try:
                turns = sample([asked.context for asked in batch]) if batch else []
            except BaseException:
                for asked in batch:
                    self._waiting.put(asked)
                raise
            for asked, turn in zip(batch, turns, strict=True):
                asked.turn.set_result(turn)

    def close(self) -> None:
        """Whoever waits, or comes later, is sent away."""
        self._closed = True
        while not self._waiting.empty():
            with suppress(Empty, InvalidStateError):
                self._waiting.get_nowait().turn.set_exception(RuntimeError("nobody samples any more"))

    def _gathered(self) -> list[_Asked]:
        batch: list[_Asked] = []
        deadline = time.monotonic() + self._patience_s
        while len(batch) < self._most:
            try:
                batch.append(self._waiting.get(timeout=max(0.0, deadline - time.monotonic())))
            except Empty:
                break
        return batch


def longest(segments: Sequence[TokenSegment]) -> int:
    """The segment with most of the work."""
    return max(range(len(segments)), key=lambda number: sum(end - start for start, end in segments[number].turn_spans))


def rows_of(segments: Sequence[TokenSegment], trace_id: str, tokenizer: str, reward: float) -> list[TokenizedTrace]:
    return [
        TokenizedTrace(
            trace_id=trace_id,
            tokenizer=tokenizer,
            ids=tuple(segment.ids),
            turn_spans=tuple(segment.turn_spans),
            logprobs=tuple(segment.logprobs),
            reward=reward,
            segment=number,
            turns=tuple(segment.turns) if len(segments) > 1 else (),
        )
        for number, segment in enumerate(segments)
    ]


def one_segment(trace: Trace, turns: Sequence[int]) -> Trace:
    """A plain trace of these turns and what stood before the first: what a single row of ids can show."""
    kept = [trace.turns[turn] for turn in turns]
    messages = trace.history(turns[0])
    spans = list[tuple[int, int]]()
    for turn in kept:
        spans.append((len(messages), len(messages) + turn.end - turn.start))
        messages += trace.messages[turn.start : turn.end]
    placed = tuple(
        turn.model_copy(update={"start": start, "end": end, "segment": 0})
        for turn, (start, end) in zip(kept, spans, strict=True)
    )
    return trace.model_copy(update={"messages": tuple(messages), "turns": placed, "segments": (Segment(start=0),)})
