"""Pairs from one key of one family, and from one GPU that serves one model at a time; nothing is paid for none."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from composer_replication.config import Config, GateConfig, ReplayConfig
from composer_replication.records import ErrorSite, PreferencePair, Trace
from composer_replication.replay.gate import StateSamples, states_to_sample
from composer_replication.runs import RECORDS, Run, read_records
from composer_replication.sites import find_sites
from tests.command_line import recompose
from tests.scripted_teachers import ScriptedTeachers, calls
from tests.unit.test_replay import failed_trace

CONFIG = Config(replay=ReplayConfig(gate=GateConfig(audit_rate=0.0, entropy_share=0.0), max_useless=3))


@pytest.fixture
def run(tmp_path) -> Path:
    """Four traces of three turns, two of them errors."""
    path, traces = tmp_path / "run", [failed_trace(index) for index in range(4)]
    started = Run.start(path, CONFIG)
    started.stage("ingestion").finish(traces, {"traces": 4, "redactions": {}}, [], time.monotonic())
    sites = [site for trace in traces for site in find_sites(trace)]
    started.stage("sites").finish(sites, {"sites": len(sites)}, [started.stage("ingestion")], time.monotonic())
    return path


def first_tool(request: dict) -> tuple[int, dict]:
    """A call that the first tool takes."""
    function = request["tools"][0]["function"]
    properties = function["parameters"]["properties"]
    values = {"string": "k", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    arguments = {name: values[properties[name]["type"]] for name in function["parameters"].get("required", [])}
    return 200, calls(request["model"], function["name"], arguments)


def pairs_of(run: Path) -> list[PreferencePair]:
    done = recompose("pair", run)
    assert done.returncode == 0, done.stderr
    return list(read_records(run / "pairs" / RECORDS, PreferencePair))


def test_one_gpu_two_models_served_one_after_the_other(run):
    served = "qwen/one"

    def gpu(request: dict) -> tuple[int, dict]:
        if request["model"] == served:
            return first_tool(request)
        return 404, {"message": f"The model `{request['model']}` does not exist."}

    with ScriptedTeachers(gpu) as server:
        teachers = [
            part for name in ("qwen/one", "glm/two") for part in ("--teacher", f"{name}={server.base_url},{name}")
        ]
        first = recompose("replay", run, *teachers)
        assert first.returncode == 4, first.stderr
        assert "`glm/two` does not exist" in first.stderr.splitlines()[-1]
        assert not (run / "replay" / "manifest.json").exists()
        served = "glm/two"
        second = recompose("replay", run, *teachers, "--json")
        assert second.returncode == 0, second.stderr
        assert server.models().count("qwen/one") == 8
    found = pairs_of(run)
    assert len(found) == 8
    assert {(pair.agreement.tier, pair.agreement.families) for pair in found} == {("exact", ("glm", "qwen"))}


def store_samples(run: Run) -> None:
    """As `--policy` leaves them. The policy agrees with the teacher at one state, and at the others only sometimes."""
    traces, sites = run.stage("ingestion").read(Trace), run.stage("sites").read(ErrorSite)
    records = []
    for number, state in enumerate(states_to_sample(traces, sites, 8, 0)):
        _, right = first_tool({"model": "", "tools": state.trace.tools})
        same = {**right["choices"][0]["message"], "content": ""}
        wrong = {"role": "assistant", "content": "I do not know."}
        samples = (same, same) if number == 0 else (wrong, same) if number == 1 else (wrong, wrong)
        at = {"state_id": state.state_id, "trace_id": state.trace.trace_id, "turn": state.turn}
        records.append(StateSamples(**at, messages=samples))
    run.stage("samples").finish(records, {"policy": "tiny"}, [run.stage("ingestion")], time.monotonic())


def test_one_key_of_one_family_against_samples_of_the_policy(run):
    with ScriptedTeachers(first_tool) as server:
        teacher = ("--teacher", f"mine={server.base_url},claude-x,1,5", "--max-usd", "1")
        for more in ((), ("--dry-run",)):
            alone = recompose("replay", run, *teacher[: 2 if more else 4], *more)
            assert (alone.returncode, server.asked) == (2, [])
            assert "no pair can come of it" in alone.stderr and "--one-teacher" in alone.stderr.splitlines()[-1]
        unsampled = recompose("replay", run, *teacher, "--one-teacher")
        assert (unsampled.returncode, server.asked) == (2, [])
        assert "add --policy MODEL" in unsampled.stderr.splitlines()[-1]
        store_samples(Run.open(run))
        done = recompose("replay", run, *teacher, "--one-teacher", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["one_teacher"] is True
        plan = recompose("replay", run, *teacher[:2], "--one-teacher", "--dry-run", "--json")
        asked = len(server.asked)
    found = pairs_of(run)
    assert (len(found), asked) == (7, 8)
    assert sorted(pair.chosen_from for pair in found) == ["policy"] + ["teachers"] * 6
    for pair in found:
        assert (pair.agreement.tier, pair.agreement.votes, pair.agreement.n) == ("single", 1, 1)
        assert (pair.rejected_from, pair.off_policy, pair.agreement.families) == ("policy", False, ("claude",))
    prospect = json.loads(plan.stdout)["prospect"]
    assert (prospect["source"], prospect["found"]) == ("this run", len(found))
    assert prospect["micros_per_pair"]["mean"] == pytest.approx(100 * asked / len(found), abs=1)


def test_a_dry_run_expects_few_pairs_and_says_by_which_rate(run):
    with ScriptedTeachers(first_tool) as server:
        teachers = [part for name in "ab" for part in ("--teacher", f"{name}={server.base_url},{name}/m,1,5")]
        told = recompose("replay", run, *teachers, "--dry-run")
        assert (told.returncode, server.asked) == (0, [])
    assert "expected: 0.5 pairs (0.2 to 1.0) of 8 states, at $" in told.stdout
    assert "by the rate of another: 8 pairs of 123 states, seen elsewhere with simulated teachers" in told.stdout
