"""Asks every teacher what it would do at a frozen state.

Reads traces and sites, writes one `TeacherReply` per state and teacher. A settled call comes from the ledger.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from composer_replication.config import ReplayConfig
from composer_replication.llm.client import complete, open_client
from composer_replication.llm.ledger import Ledger, Settled
from composer_replication.records import (
    ErrorSite,
    JsonObject,
    Message,
    TeacherReply,
    Trace,
    canonical_json,
)

from .parse import Parsed, parse_reply
from .teachers import Teacher

REQUEST_SCHEMA = 1


class State(NamedTuple):
    """One frozen turn of a trace."""

    trace: Trace
    turn: int


def states_to_ask(traces: Sequence[Trace], sites: Sequence[ErrorSite], limit: int) -> list[State]:
    """States where the policy erred, earliest turn of each trace first, each once."""
    known = {trace.trace_id: trace for trace in traces}
    turns = dict.fromkeys((site.turn, site.trace_id) for site in sites if site.fault == "policy")
    return [State(known[trace_id], turn) for turn, trace_id in sorted(turns, key=lambda key: key[0])][:limit]


def replay_trace(trace: Trace, teachers: Sequence[Teacher], ledger: Ledger, config: ReplayConfig) -> list[TeacherReply]:
    """Ask the teachers at every turn of one trace."""
    return replay_states([State(trace, turn) for turn in range(len(trace.turns))], teachers, ledger, config)


def replay_states(
    states: Sequence[State],
    teachers: Sequence[Teacher],
    ledger: Ledger,
    config: ReplayConfig,
    on_reply: Callable[[int, int], None] | None = None,
) -> list[TeacherReply]:
    """Replies in the order of states, then teachers, however the calls finish."""
    return asyncio.run(_replay(states, teachers, ledger, config, on_reply or (lambda done, total: None)))


async def _replay(
    states: Sequence[State],
    teachers: Sequence[Teacher],
    ledger: Ledger,
    config: ReplayConfig,
    on_reply: Callable[[int, int], None],
) -> list[TeacherReply]:
    jobs = [(state, teacher) for state in states for teacher in teachers]
    slots = asyncio.Semaphore(config.concurrency)
    done = 0

    async def ask(state: State, teacher: Teacher) -> TeacherReply:
        nonlocal done
        async with slots:
            reply = await _ask(client, state, teacher, ledger, config)
        done += 1
        on_reply(done, len(jobs))
        return reply

    async with open_client(config.concurrency, config.timeout_s) as client:
        return list(await asyncio.gather(*(ask(state, teacher) for state, teacher in jobs)))


async def _ask(client: Any, state: State, teacher: Teacher, ledger: Ledger, config: ReplayConfig) -> TeacherReply:
    request = build_request(teacher.model, state.trace.history(state.turn), state.trace.tools, config.max_tokens)
    key = request_key(request)
    settled = ledger.settled(key)
    if settled is None:
        ledger.reserve(key, teacher.model)
        attempt = await complete(client, teacher.base_url, request)
        if attempt.body is None:
            ledger.fail(key, attempt.failure or "unknown")
            return _reply(state, teacher, key, "", attempt.latency_s, Parsed("failed"))
        settled = Settled(attempt.body, parse_reply(attempt.body, teacher.model).cost_micros, attempt.latency_s)
        ledger.settle(key, settled)
    parsed = parse_reply(settled.body, teacher.model)
    return _reply(state, teacher, key, settled.body, settled.latency_s, parsed)


def build_request(model: str, messages: Sequence[Message], tools: Sequence[JsonObject], max_tokens: int) -> JsonObject:
    request: JsonObject = {
        "model": model,
        "messages": [wire_message(message) for message in messages],
        "temperature": 0,
        "max_tokens": max_tokens,
    }
    return {**request, "tools": list(tools)} if tools else request


def request_key(request: JsonObject) -> str:
    return hashlib.sha256(canonical_json({"schema": REQUEST_SCHEMA, **request}).encode()).hexdigest()


def wire_message(message: Message) -> JsonObject:
    """Only what the OpenAI wire knows."""
    return {key: value for key, value in message.items() if key != "is_error"}


def _reply(state: State, teacher: Teacher, key: str, raw: str, latency_s: float, parsed: Parsed) -> TeacherReply:
    return TeacherReply(
        key=key,
        state_id=state.trace.state_id(state.turn),
        trace_id=state.trace.trace_id,
        turn=state.turn,
        teacher=teacher.model,
        served_model=parsed.served_model,
        family=teacher.family,
        action=parsed.action,
        raw=raw,
        finish_reason=parsed.finish_reason,
        usage=parsed.usage,
        cost_micros=parsed.cost_micros,
        latency_s=round(latency_s, 4),
        outcome=parsed.outcome,
        simulated=teacher.simulated,
    )
