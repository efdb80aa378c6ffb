"""Runs with many states, for `llm_client.py`: synthetic sessions of ten turns, states of 250 to 500 tokens."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import zstandard
from llm_worker import BODY, WORDS

from composer_replication.config import Config, ReplayConfig
from composer_replication.llm.ledger import Ledger
from composer_replication.llm.pricing import Prices
from composer_replication.records import ErrorSite, Message, Source, Trace, Turn
from composer_replication.replay.gate import states_to_ask
from composer_replication.replay.requests import questions
from composer_replication.replay.teachers import Teacher
from composer_replication.runs import Run

TURNS = 10


def make_run(path: Path, states: int) -> None:
    """A run whose first two stages are done, with an error at every turn."""
    run = Run.start(path, Config(replay=ReplayConfig(max_states=states)))
    traces = [_trace(number) for number in range(-(-states // TURNS))]
    sites = [_site(trace, turn) for trace in traces for turn in range(TURNS)][:states]
    run.stage("ingestion").finish(traces, {"traces": len(traces)}, [], time.monotonic())
    run.stage("sites").finish(sites, {"sites": len(sites)}, [run.stage("ingestion")], time.monotonic())


def settle_all_but(path: Path, left: int, base_url: str, teachers: int) -> None:
    """The ledger as it would be after all calls but some, written in one go because making them takes minutes."""
    run = Run.open(path)
    traces, sites = run.stage("ingestion").read(Trace), run.stage("sites").read(ErrorSite)
    asked = [
        Teacher(f"{name}/model", base_url, prices=Prices(100_000, 400_000), label=name) for name in "abcd"[:teachers]
    ]
    states = states_to_ask(traces, sites, run.config.replay.max_states)
    found = questions([(state, asked) for state in states], run.config.replay.max_tokens)
    Ledger(path / "ledger.sqlite").close()
    body = zstandard.ZstdCompressor().compress(BODY)
    with sqlite3.connect(path / "ledger.sqlite") as db:
        db.executemany(
            "INSERT INTO attempts (id, key, teacher, state, owner, worst_micros, cost_micros, latency_s) "
            "VALUES (?, ?, ?, 'settled', '', 0, 100, 0.05)",
            [(number, one.key, one.teacher.name) for number, one in enumerate(found[left:], 1)],
        )
        db.executemany(
            "INSERT INTO bodies VALUES (?, ?)", [(number, body) for number in range(1, len(found) - left + 1)]
        )
        db.execute("UPDATE totals SET charged_micros = 100 * ?", (len(found) - left,))


def _trace(number: int) -> Trace:
    messages: list[Message] = [{"role": "user", "content": f"task {number}: {WORDS * 25}"}]
    turns: list[Turn] = []
    for turn in range(TURNS):
        turns.append(Turn(start=len(messages), end=len(messages) + 1))
        messages.append({"role": "assistant", "content": f"turn {turn} of {number}: {WORDS * 2}"})
        messages.append({"role": "user", "content": f"go on, {turn}"})
    return Trace(trace_id=f"t{number}", source=Source(agent="synthetic"), messages=tuple(messages), turns=tuple(turns))


def _site(trace: Trace, turn: int) -> ErrorSite:
    return ErrorSite(
        site_id=f"{trace.trace_id}-{turn}", trace_id=trace.trace_id, turn=turn, state_id=trace.state_id(turn),
        error_kind="exit_code", error_message="e", detector="synthetic",
    )  # fmt: skip
