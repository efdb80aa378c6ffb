"""Ingested traces as rows of ids: each segment is rendered once per tokenizer, template and level of elision.

A row is put together from the opening, each turn, and what follows it, as a rollout is. Where the template then writes
the whole otherwise (it strips thoughts, say, or moves the tools), its states are rendered one by one and counted.

Reads and writes `RUN/training/tokens`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from composer_replication.pairs.sides import same_turn
from composer_replication.records import Message, Trace, content_id
from composer_replication.store import ShardWriter, encoded, write_shard
from composer_replication.windows import WHOLE, Level, TurnHistory, levels

from ..models.loading import Policy
from .contexts import Contexts
from .lines import CannotRenderError, TurnLine
from .records import TokenizedTrace

REFUSALS = (ValueError, TypeError, KeyError)
_Key = tuple[str, int, Level]


class RenderedSessions:
    """Of one policy, for contexts of at most `max_tokens`."""

    def __init__(self, policy: Policy, max_tokens: int, folder: Path | None = None) -> None:
        self.policy, self.max_tokens = policy, max_tokens
        self.contexts = Contexts(policy, [], max_tokens)
        self.fingerprint = policy.tokenizer_fingerprint
        self.rendered = 0
        self.alone: set[str] = set()
        """States that were rendered one by one."""
        self._writer = ShardWriter(folder) if folder else None
        self._trace_id: str | None = None
        self._rows: dict[_Key, TokenizedTrace] = {}

    def open(self, trace: Trace, turns: Sequence[int], failed: set[str]) -> SessionTokens:
        """Only the rows of the trace that was opened last are in memory."""
        self._put_away()
        self.contexts.forget()
        shard = self._writer.find(self._name(trace.trace_id)) if self._writer else None
        stored = shard.read(TokenizedTrace) if shard else ()
        self._trace_id, self._rows = trace.trace_id, {(row.trace_id, row.segment, row.level): row for row in stored}
        return SessionTokens(self, trace, turns, failed)

    def row(self, key: _Key, spans: int) -> TokenizedTrace | None:
        row = self._rows.get(key)
        return row if row and len(row.turn_spans) >= spans else None

    def keep(self, key: _Key, row: TokenizedTrace) -> None:
        self._rows[key] = row
        self.rendered += 1

    def save(self) -> None:
        self._put_away()
        if self._writer:
            self._writer.close()

    def _put_away(self) -> None:
        if self._writer and self._trace_id and self._rows:
            name, path = self._name(self._trace_id), self._writer.scratch / "trace.shard"
            self._writer.add(write_shard(path, name, encoded(self._rows.values()), None))
        self._rows = {}

    def _name(self, trace_id: str) -> str:
        return content_id(trace_id, self.fingerprint)


class SessionTokens:
    """One trace. `turns` are those that will be asked for."""

    rollouts: Sequence[TokenizedTrace] = ()

    def __init__(self, sessions: RenderedSessions, trace: Trace, turns: Sequence[int], failed: set[str]) -> None:
        self._sessions, self._trace, self._failed = sessions, trace, failed
        self._last = {trace.turns[turn].segment: turn for turn in sorted(turns)}
        self._rows: dict[_Key, TokenizedTrace | None] = {}
        self.trace_id, self.reward = trace.trace_id, trace.outcome or 0.0
        self.unknown_id: int | None = sessions.policy.tokenizer.unk_token_id

    def own(self, turn: int) -> list[int]:
        return self.written(self._trace.messages[self._trace.turns[turn].start])

    def numbers(self, row: TokenizedTrace) -> Sequence[int]:
        if len(row.turn_spans) == 1:
            return ()
        return [number for number, turn in enumerate(self._trace.turns) if turn.segment == row.segment]

    def wrote(self, turn: int, message: Message) -> bool:
        return same_turn(self._trace.messages[self._trace.turns[turn].start], message)

    def written(self, message: Message) -> list[int]:
        try:
            return self._sessions.contexts.turn(message)
        except REFUSALS as error:
            raise CannotRenderError from error

    def lines(self, turn: int, extra: int) -> Iterator[TurnLine]:
        history, segment = TurnHistory.before(self._trace, turn, self._failed), self._trace.turns[turn].segment
        for level in levels(self._sessions.max_tokens):
            row = self._row(segment, level)
            if row is None:
                yield from self._alone(turn, history, extra)
                return
            elided = [part.elided for part in history.parts(level)]
            yield TurnLine(row, len(history.turns), history.needed, level != WHOLE, elided)

    def _row(self, segment: int, level: Level) -> TokenizedTrace | None:
        """None where the template does not let a whole segment be put together."""
        key = self.trace_id, segment, level
        if key not in self._rows:
            last = self._last[segment]
            history = TurnHistory.before(self._trace, last, self._failed)
            row = self._sessions.row(key, len(history.turns) + 1)
            if row is None and (row := self._rendered(key, history, last)):
                self._sessions.keep(key, row)
            self._rows[key] = row
        return self._rows[key]

    def _rendered(self, key: _Key, history: TurnHistory, last: int) -> TokenizedTrace | None:
        contexts, tools = self._sessions.contexts, self._trace.tools
        opening, *turns = (part.messages for part in history.parts(key[2]))
        try:
            ids = contexts.opened(opening, tools)
            spans: list[tuple[int, int]] = []
            for turn in turns:
                own, after = contexts.turn(turn[0]), contexts.after(turn[0], turn[1:])
                if after is None:
                    return None
                spans.append((len(ids), len(ids) + len(own)))
                ids += own + after
            if not contexts.says(ids, [*opening, *(message for turn in turns for message in turn)], tools):
                return None
            own = self.own(last)
        except (*REFUSALS, CannotRenderError):
            return None
        spans.append((len(ids), len(ids) + len(own)))
        return self._tokenized(ids + own, spans, key)

    def _alone(self, turn: int, history: TurnHistory, extra: int) -> Iterator[TurnLine]:
        """The state by itself, windowed before it is rendered."""
        own = self.own(turn)
        self._sessions.alone.add(self._trace.state_id(turn))
        try:
            found = self._sessions.contexts.windowed(history, self._trace.tools, extra)
        except REFUSALS as error:
            raise CannotRenderError from error
        if found:
            ids, cut = found
            span = len(ids), len(ids) + len(own)
            yield TurnLine(self._tokenized(ids + own, [span], (self.trace_id, 0, WHOLE)), 0, cut=cut)

    def _tokenized(self, ids: Sequence[int], spans: Sequence[tuple[int, int]], key: _Key) -> TokenizedTrace:
        return TokenizedTrace(
            trace_id=self.trace_id,
            tokenizer=self._sessions.fingerprint,
            ids=tuple(ids),
            turn_spans=tuple(spans),
            logprobs=(),
            reward=self.reward,
            segment=key[1],
            level=key[2],
        )
