"""`replay --batch`: half the price, through the ledger, and the same batch again after a kill."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from composer_replication.config import Config, ReplayConfig, TeacherSettings
from composer_replication.errors import BudgetError, PartialError, RecomposeError, UsageError
from composer_replication.llm import batches
from composer_replication.llm.ledger import Ledger
from composer_replication.llm.pricing import Prices
from composer_replication.llm.transport import Ambiguous, HttpTransport, Response
from composer_replication.llm.wire import ChatWire
from composer_replication.records import Source, Trace, Turn
from composer_replication.replay import State, Teacher, batching, replay_states
from composer_replication.replay.batching import pending_batches
from composer_replication.replay.model_settings import batched
from composer_replication.replay.requests import questions
from composer_replication.runs import Run
from composer_replication.sites import find_sites
from tests import dialect_servers
from tests.command_line import recompose
from tests.dialect_servers import ANSWER_TOKENS, CACHED_TOKENS, PROMPT_TOKENS, WRITTEN_TOKENS, DialectServer
from tests.unit.test_replay import failed_trace

CONFIG = ReplayConfig(max_attempts=1, max_tokens=50, batch_poll_s=0.01)
TOOLS = ({"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}},)
FULL = Prices(2_000_000, 20_000_000)
DIALECTS = ("openai", "anthropic")


def states(number: int) -> list[State]:
    messages = [{"role": "user", "content": "go"}]
    for place in range(number):
        messages += [{"role": "assistant", "content": f"step {place}"}, {"role": "user", "content": "on"}]
    turns = tuple(Turn(start=1 + 2 * place, end=2 + 2 * place) for place in range(number))
    trace = Trace(trace_id="t" * 16, source=Source(agent="test"), messages=tuple(messages), turns=turns, tools=TOOLS)
    return [State(trace, turn) for turn in range(number)]


def teacher(server: DialectServer, **changes) -> Teacher:
    plain = Teacher("m", server.base_url, prices=FULL, spoken=ChatWire(server.dialect))
    return batched(plain._replace(cached_micros=200_000, cache_write_micros=2_500_000, **changes))


@pytest.fixture
def ledger(ledger):
    ledger.set_cap(1_000_000_000)
    return ledger


def rows(ledger: Ledger) -> list[tuple]:
    return ledger.rows("SELECT state, exact, cost_micros FROM attempts ORDER BY id")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_batch_answers_every_question_at_half_the_price(dialect, ledger):
    with DialectServer(dialect, polls=2) as server:
        replies = replay_states(states(3), [teacher(server)], ledger, CONFIG)
        again = replay_states(states(3), [teacher(server)], ledger, CONFIG)
    written = WRITTEN_TOKENS if dialect == "anthropic" else 0
    fresh = PROMPT_TOKENS - CACHED_TOKENS - written
    cost = (fresh * 2 + CACHED_TOKENS * 0.2 + written * 2.5 + ANSWER_TOKENS * 20) / 2
    assert [(reply.outcome, reply.cost_micros) for reply in replies] == [("answered", cost)] * 3
    assert again == [reply.model_copy() for reply in replies]
    assert (server.accepted, len(server.batches)) == (3, 1)
    assert rows(ledger) == [("settled", 1, cost)] * 3
    assert pending_batches(ledger) == []
    assert "cache_control" not in json.dumps(server.requests)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_is_that_of_its_question_alone(dialect, ledger):
    with DialectServer(dialect) as server:
        asked = states(3)
        keys = [reply.key for reply in replay_states(asked[:1], [teacher(server)], ledger, CONFIG)]
        [broken] = [one.key for one in questions([(asked[1], [teacher(server)])], CONFIG.max_tokens)]
        server.broken_items = {broken}
        with pytest.raises(PartialError, match=r"1 questions got no answer in a batch \(x"):
            replay_states(asked, [teacher(server)], ledger, CONFIG)
        assert [state for state, _, _ in rows(ledger)].count("settled") == 2
        query = "SELECT state, cost_micros, reason, words FROM attempts WHERE key = ?"
        [(state, cost, reason, words)] = ledger.rows(query, broken)
        assert (state, cost, reason) == ("refused", 0, "in a batch")
        assert words.split()[0] == "x"
        server.broken_items = set()
        replies = replay_states(asked, [teacher(server)], ledger, CONFIG)
    assert [reply.outcome for reply in replies] == ["answered"] * 3
    assert keys == [replies[0].key]
    assert (server.accepted, ledger.totals().held_micros) == (4, 0)


KILLED = """
import sys
from pathlib import Path
from tests.unit.test_batching import CONFIG, Ledger, Teacher, ChatWire, FULL, batched, replay_states, states
url, dialect, path = sys.argv[1:]
ledger = Ledger(Path(path))
replay_states(states(3), [batched(Teacher("m", url, prices=FULL, spoken=ChatWire(dialect)))], ledger, CONFIG)
"""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_after_a_kill_the_same_batch_is_waited_for(dialect, ledger, tmp_path):
    with DialectServer(dialect, polls=10**9) as server:
        command = [sys.executable, "-c", KILLED, server.base_url, dialect, str(ledger.path)]
        child = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        give_up = time.monotonic() + 60
        while not list((tmp_path / "batches").glob("*.json")) and time.monotonic() < give_up:
            assert child.poll() is None
            time.sleep(0.02)
        child.send_signal(signal.SIGKILL)
        child.wait()
        server.polls = 0
        with pytest.raises(UsageError, match="3 questions wait in 1 batches"):
            replay_states(states(3), [teacher(server)._replace(batch=False)], ledger, CONFIG)
        replies = replay_states(states(3), [teacher(server)], ledger, CONFIG)
    assert [reply.outcome for reply in replies] == ["answered"] * 3
    assert (server.accepted, len(server.batches)) == (3, 1)
    assert [state for state, _, _ in rows(ledger)] == ["settled"] * 3
    assert ledger.totals().held_micros == 0
    assert ledger.spent_micros() == sum(cost for _, _, cost in rows(ledger))


def test_what_the_cap_has_no_room_for_waits_for_what_has(ledger):
    with DialectServer("openai") as server:
        replay_states(states(1), [teacher(server)], ledger, CONFIG)
        [(worst, cost)] = ledger.rows("SELECT worst_micros, cost_micros FROM attempts")
        ledger.set_cap(cost + 2 * worst)
        with pytest.raises(BudgetError, match="leaves no room"):
            replay_states(states(12), [teacher(server)], ledger, CONFIG)
    assert len(server.batches) > 2
    assert ledger.totals().charged_micros <= cost + 2 * worst
    assert {state for state, _, _ in rows(ledger)} == {"settled"}


def test_large_work_is_cut_into_several_batches(ledger, monkeypatch):
    monkeypatch.setattr(batching, "MAX_ITEMS", 2)
    with DialectServer("anthropic") as server:
        replies = replay_states(states(5), [teacher(server)], ledger, CONFIG)
    assert len(server.batches) == 3
    assert [reply.outcome for reply in replies] == ["answered"] * 5


def test_a_request_with_a_secret_is_left_out(ledger):
    key = "sk-" + "ant-api03-" + "a1B2c3D4e5" * 9 + "abcAA"
    asked = states(2)
    messages = (*asked[0].trace.messages[:2], {"role": "user", "content": f"use {key}"}, *asked[0].trace.messages[3:])
    trace = asked[0].trace.model_copy(update={"messages": messages})
    with DialectServer("openai") as server:
        replies = replay_states([State(trace, 0), State(trace, 1)], [teacher(server)], ledger, CONFIG)
    assert [reply.outcome for reply in replies] == ["answered", "failed"]
    assert key.encode() not in b"".join(server.files.values())


def test_the_words_of_a_provider_that_takes_no_batch_reach_the_user(ledger, monkeypatch):
    with DialectServer("openai") as server:
        wrong = teacher(server)._replace(base_url=f"{server.base_url}/elsewhere", spoken=ChatWire("anthropic"))
        with pytest.raises(RecomposeError, match="HTTP 400: endpoint, completion_window"):
            replay_states(states(1), [wrong], ledger, CONFIG)
    assert rows(ledger) == [("refused", 1, 0)]
    assert ledger.totals().held_micros == 0


def test_the_file_of_a_batch_that_a_killed_run_had_just_read_is_no_dead_end(ledger):
    with DialectServer("openai") as server:
        replay_states(states(2), [teacher(server)], ledger, CONFIG)
        attempts = dict(ledger.rows("SELECT key, id FROM attempts"))
        batching.PendingBatch(ledger.path.parent / "batches" / "1.json", "m", "batch_0", attempts).store()
        replies = replay_states(states(2), [teacher(server)], ledger, CONFIG)
    assert [reply.outcome for reply in replies] == ["answered"] * 2
    assert pending_batches(ledger) == []
    assert (server.accepted, [state for state, _, _ in rows(ledger)]) == (2, ["settled"] * 2)


@pytest.mark.parametrize(
    ("dialect", "result"),
    [
        ("openai", {"response": None, "error": {"code": "batch_expired", "message": "too late"}}),
        ("anthropic", {"result": {"type": "expired"}}),
    ],
)
def test_what_came_too_late_leaves_the_replay_open(dialect, result, ledger):
    """A finished replay would never ask it again."""
    read = {"openai": batches._openai_result, "anthropic": batches._anthropic_result}[dialect]
    assert read({"custom_id": "k", **result}).may_pass


@pytest.mark.parametrize(
    ("dialect", "result"),
    [
        ("openai", {"response": {"status_code": 400, "body": {"error": {"message": "bad"}}}}),
        ("anthropic", {"result": {"type": "errored", "error": {"error": {"type": "invalid_request_error"}}}}),
    ],
)
def test_a_request_that_is_wrong_itself_is_given_up(dialect, result):
    read = {"openai": batches._openai_result, "anthropic": batches._anthropic_result}[dialect]
    assert not read({"custom_id": "k", **result}).may_pass


def test_a_batch_that_was_not_begun_is_told_and_asked_again(ledger, monkeypatch):
    full = {
        "id": "b",
        "status": "failed",
        "errors": {"data": [{"code": "token_limit_exceeded", "message": "Enqueued"}]},
    }
    with DialectServer("openai") as server:
        with monkeypatch.context() as patch:
            patch.setattr(batches.BatchService, "get_object", lambda self, path: asyncio.sleep(0, full))
            with pytest.raises(PartialError, match=r"2 questions got no .* \(Enqueued token_limit_exceeded × 2\)"):
                replay_states(states(2), [teacher(server)], ledger, CONFIG)
        assert ledger.spent_micros() == 0
        replies = replay_states(states(2), [teacher(server)], ledger, CONFIG)
    assert [reply.outcome for reply in replies] == ["answered"] * 2


def failing(monkeypatch, path: str, answer: Response | Exception) -> None:
    real = HttpTransport.post

    async def post(self, url, *rest):
        if not url.endswith(path):
            return await real(self, url, *rest)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(HttpTransport, "post", post)


@pytest.mark.parametrize("answer", [Response(500, b"{}"), Response(200, b"{}"), Ambiguous("timeout")])
def test_a_file_that_was_not_taken_is_not_in_doubt(answer, ledger, monkeypatch):
    failing(monkeypatch, "/files", answer)
    with DialectServer("openai") as server, pytest.raises(RecomposeError, match="took no batch"):
        replay_states(states(2), [teacher(server)], ledger, CONFIG)
    assert rows(ledger) == [("refused", 1, 0)] * 2


def test_a_provider_that_is_overloaded_has_not_begun(ledger, monkeypatch):
    failing(monkeypatch, "/batches", Response(529, b'{"error": {"type": "overloaded_error", "message": "Overloaded"}}'))
    with DialectServer("anthropic") as server, pytest.raises(PartialError, match="HTTP 529: Overloaded"):
        replay_states(states(2), [teacher(server)], ledger, CONFIG)
    assert rows(ledger) == [("refused", 1, 0)] * 2


def test_no_credit_for_a_batch_is_a_budget_stop_and_the_key_is_not_shown(ledger, monkeypatch):
    key = "unusual-key-of-a-proxy"
    monkeypatch.setenv("BATCH_KEY", key)
    said = {"error": {"message": f"Your credit balance is too low for {key}"}}
    failing(monkeypatch, "/batches", Response(400, json.dumps(said).encode()))
    with DialectServer("anthropic") as server, pytest.raises(BudgetError, match="credit balance is too low") as caught:
        replay_states(states(1), [teacher(server, key_variable="BATCH_KEY")], ledger, CONFIG)
    assert key not in str(caught.value) + str(ledger.rows("SELECT reason, words FROM attempts"))


def test_a_usage_that_cannot_be_is_not_believed_in_a_batch_either(ledger, monkeypatch):
    monkeypatch.setattr(dialect_servers, "PROMPT_TOKENS", 1)
    monkeypatch.setattr(dialect_servers, "CACHED_TOKENS", 0)
    with DialectServer("openai") as server:
        replay_states(states(1), [teacher(server)], ledger, CONFIG)
    [(state, exact, cost)] = rows(ledger)
    assert (state, exact) == ("settled", 0)
    assert [(cost,)] == ledger.rows("SELECT worst_micros FROM attempts")


def test_a_teacher_without_a_batch_endpoint_is_refused():
    for one in (
        Teacher("qwen/a", "https://openrouter.ai/api/v1"),
        Teacher("m", "http://127.0.0.1:1/v1", simulated=True, spoken=ChatWire("openai")),
        Teacher("m", "https://x.openai.azure.com/openai/deployments/d?api-version=1"),
    ):
        with pytest.raises(UsageError, match="no batch endpoint"):
            batched(one)


def test_two_processes_do_not_wait_for_the_same_batches(ledger, tmp_path):
    waiting = batching._only_process(tmp_path / "batches")
    with DialectServer("openai") as server, waiting, pytest.raises(UsageError, match="another process waits"):
        replay_states(states(1), [teacher(server)], ledger, CONFIG)
    assert rows(ledger) == []


def test_a_provider_that_is_gone_for_a_while_is_asked_again(ledger, monkeypatch):
    """A look that fails is no reason to give a batch up; many are, and the batch stays on file."""
    monkeypatch.setattr(batching, "LOOKS_THAT_MAY_FAIL", 2)
    with DialectServer("openai", polls=10**9) as server:
        real = batching._Asking._results
        looks = []

        async def fails(self, service, pending):
            looks.append(pending.batch)
            if len(looks) > 1:
                raise batching.NotSent("gone")
            return await real(self, service, pending)

        monkeypatch.setattr(batching._Asking, "_results", fails)
        with pytest.raises(PartialError, match="cannot be read: gone"):
            replay_states(states(1), [teacher(server)], ledger, CONFIG)
        assert len(looks) == 4
        monkeypatch.setattr(batching._Asking, "_results", real)
        server.polls = 0
        [reply] = replay_states(states(1), [teacher(server)], ledger, CONFIG)
    assert (reply.outcome, len(server.batches)) == ("answered", 1)


def test_the_command_tells_half_the_price_and_pays_it(tmp_path):
    with DialectServer("openai") as gpt, DialectServer("anthropic") as claude:
        models = {
            "gpt-4.1": TeacherSettings(base_url=gpt.base_url, dialect="openai", prices=(2, 20)),
            "claude-x": TeacherSettings(base_url=claude.base_url, dialect="anthropic", prices=(2, 20)),
        }
        replay = ReplayConfig(simulated=False, models=models, batch_poll_s=0.05)
        run, made = Run.start(tmp_path / "run", Config(replay=replay)), [failed_trace(0)]
        run.stage("ingestion").finish(made, {"traces": 1}, [], time.monotonic())
        sites = find_sites(made[0])
        run.stage("sites").finish(sites, {"sites": len(sites)}, [run.stage("ingestion")], time.monotonic())
        named = [f"--teacher={name}" for name in models]
        plain, half = (
            json.loads(recompose("replay", run.path, "--dry-run", "--json", *more).stdout)
            for more in ((), (*named, "--batch"))
        )
        done = recompose("replay", run.path, *named, "--batch", "--max-usd", "5", "--json")
    assert 0 <= 2 * half["expected_micros"] - plain["expected_micros"] <= half["calls"]
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["calls"] == told["settled"] == told["replies"] == half["calls"] > 0
    assert (len(gpt.batches), len(claude.batches), gpt.refused, claude.refused) == (1, 1, [], [])
    assert told["spent_micros"] == told["calls"] * (PROMPT_TOKENS + 10 * ANSWER_TOKENS)
