"""What ends a replay, and what a finished one says to new options."""

from __future__ import annotations

import time

import pytest

from composer_replication.config import Config, ReplayConfig
from composer_replication.errors import UsageError
from composer_replication.llm.ledger import Ending, Ledger
from composer_replication.progress import Silent
from composer_replication.replay import Teacher
from composer_replication.runs import Run
from composer_replication.sites import find_sites
from composer_replication.stages.replay import refuse_other_options, replay
from tests.scripted_teachers import ScriptedTeachers, calls

from .test_replay import failed_trace


@pytest.fixture
def run(tmp_path) -> Run:
    made, traces = Run.start(tmp_path / "run", Config(replay=ReplayConfig(timeout_s=10))), [failed_trace(0)]
    made.stage("ingestion").finish(traces, {"traces": 1}, [], time.monotonic())
    sites = find_sites(traces[0])
    made.stage("sites").finish(sites, {"sites": len(sites)}, [made.stage("ingestion")], time.monotonic())
    return made


def served(request: dict) -> tuple[int, dict]:
    name = "prod-7" if request["model"] == "glm/b" else request["model"]
    return 200, calls(name, "get_key", {"key": "k"})


def test_a_finished_replay_does_not_pass_over_an_alias_that_would_change_it(run):
    with ScriptedTeachers(served) as server:
        teachers = [Teacher(model, server.base_url) for model in ("qwen/a", "glm/b")]
        replay(run, Silent(), teachers)
        paid = len(server.asked)
        refuse_other_options(run, teachers, False, None)
        refuse_other_options(run, [teachers[0], teachers[1]._replace(served_as=("other",))], False, None)
        named = [teachers[0], teachers[1]._replace(served_as=("prod-7",))]
        with pytest.raises(UsageError, match="was replayed without --alias glm/b=prod-7"):
            refuse_other_options(run, named, False, None)
        replay(run, Silent(), named)
        refuse_other_options(run, named, False, None)
        assert len(server.asked) == paid


def test_a_doubt_whose_key_is_gone_is_no_reason_to_lose_a_replay(run, monkeypatch):
    monkeypatch.delenv("GONE_KEY", raising=False)
    with ScriptedTeachers(served) as server:
        ledger = Ledger(run.path / "ledger.sqlite")
        ledger.remember_teacher("old", server.base_url, "GONE_KEY")
        ledger.set_cap(10**9)
        ledger.finish(ledger.reserve("k", "qwen/a", 7).attempt, Ending("in_doubt"))
        ledger.close()
        replay(run, Silent(), [Teacher(model, server.base_url) for model in ("qwen/a", "glm/b")])
    assert run.stage("replay").counts["in_doubt_micros"] == 7
