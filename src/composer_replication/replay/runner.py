"""Asks every teacher what it would do at a frozen state.

Reads traces and sites, writes one `TeacherReply` per state and teacher. A settled call comes from the ledger.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from httpx2 import AsyncClient

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
    jobs = [_Job.of(state, teacher, config) for state in states for teacher in teachers]
    slots = asyncio.Semaphore(config.concurrency)
    # Equal requests share one call, however many states ask.
    calls: dict[str, asyncio.Task[Settled | None]] = {}
    done = 0

    async def ask(job: _Job) -> TeacherReply:
        nonlocal done
        if job.key not in calls:
            calls[job.key] = asyncio.create_task(_call(client, slots, job, ledger))
        settled = await calls[job.key]
        done += 1
        on_reply(done, len(jobs))
        return job.reply(settled)

    async with open_client(config.concurrency, config.timeout_s) as client:
        return list(await asyncio.gather(*map(ask, jobs)))


class _Job(NamedTuple):
    state: State
    teacher: Teacher
    request: JsonObject
    key: str

    @classmethod
    def of(cls, state: State, teacher: Teacher, config: ReplayConfig) -> _Job:
        request = build_request(teacher.model, state.trace.history(state.turn), state.trace.tools, config.max_tokens)
        return cls(state, teacher, request, request_key(request))

    def reply(self, settled: Settled | None) -> TeacherReply:
        trace, turn = self.state
        parsed = parse_reply(settled.body, self.teacher.model) if settled else Parsed("failed")
        return TeacherReply(
            key=self.key,
            state_id=trace.state_id(turn),
            trace_id=trace.trace_id,
            turn=turn,
            teacher=self.teacher.model,
            served_model=parsed.served_model,
            family=self.teacher.family,
            action=parsed.action,
            raw=settled.body if settled else "",
            finish_reason=parsed.finish_reason,
            usage=parsed.usage,
            cost_micros=parsed.cost_micros,
            latency_s=round(settled.latency_s, 4) if settled else 0.0,
            outcome=parsed.outcome,
            simulated=self.teacher.simulated,
        )


async def _call(client: AsyncClient, slots: asyncio.Semaphore, job: _Job, ledger: Ledger) -> Settled | None:
    """The settled answer from the ledger or the wire; None when the call failed."""
    settled = ledger.settled(job.key)
    if settled is not None:
        return settled
    async with slots:
        ledger.reserve(job.key, job.teacher.model)
        attempt = await complete(client, job.teacher.base_url, job.request)
    if attempt.body is None:
        ledger.fail(job.key, attempt.failure or "unknown")
        return None
    settled = Settled(attempt.body, parse_reply(attempt.body, job.teacher.model).cost_micros, attempt.latency_s)
    ledger.settle(job.key, settled)
    return settled


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
