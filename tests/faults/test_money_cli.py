"""`recompose replay` and `recompose cost` against the fault server: caps, resume, kills, the same bytes."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from composer_replication.config import Config, ReplayConfig
from composer_replication.errors import UsageError
from composer_replication.records import PreferencePair, TeacherReply, Trace
from composer_replication.replay.choice import written_teachers
from composer_replication.replay.runner import price_of
from composer_replication.runs import RECORDS, Run, read_records
from composer_replication.sites import find_sites
from tests.command_line import recompose
from tests.faults.fault_server import serving
from tests.faults.test_money import FULL, attempts, check_books, query, replay_process, wait_for
from tests.unit.test_replay import failed_trace

MODELS = ("alpha/one", "beta/two", "gamma/three")


def make_run(path: Path, traces: int) -> Path:
    """A run whose first two stages are done: toolbox episodes with two errors each."""
    config = Config(replay=ReplayConfig(max_tokens=256))
    run, made = Run.start(path, config), [failed_trace(index) for index in range(traces)]
    run.stage("ingestion").finish(made, {"traces": traces}, [], time.monotonic())
    sites = [site for trace in made for site in find_sites(trace)]
    run.stage("sites").finish(sites, {"sites": len(sites)}, [run.stage("ingestion")], time.monotonic())
    return path


def teachers_of(provider, prices: str = ",1,2") -> list[str]:
    return [part for model in MODELS for part in ("--teacher", f"{model[:1]}={provider.base_url},{model}{prices}")]


def replies(run: Path) -> list[dict]:
    found = read_records(run / "replay" / RECORDS, TeacherReply)
    return [reply.model_dump(exclude={"latency_s"}) for reply in found]


def test_a_run_that_was_killed_five_times_gives_the_same_bytes(tmp_path):
    traces, kills = (100, 5) if FULL else (12, 2)
    with serving(latency_s=0.15, fixed=300) as provider:
        options = (*teachers_of(provider), "--max-usd", "2", "--json")
        straight = make_run(tmp_path / "straight", traces)
        done = recompose("replay", straight, *options)
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["calls"] == told["settled"] == told["replies"] >= traces * 6
        assert (told["in_doubt"], told["failed"]) == (0, 0)
        assert told["spent_micros"] == provider.books()["total"]
        killed = make_run(tmp_path / "killed", traces)
        for _ in range(kills):
            process, before = replay_process(killed, teachers_of(provider)), attempts(killed)
            wait_for(lambda before=before: attempts(killed) >= before + told["calls"] // (kills + 2))
            process.kill()
            process.communicate(timeout=30)
        ended = recompose("replay", killed, *options)
        assert ended.returncode == 0, ended.stderr
        again = json.loads(ended.stdout)
        assert again["settled"] == told["settled"]
        assert again["calls"] - again["settled"] == again["in_doubt"] <= kills * len(MODELS) * 8
        assert again["spent_micros"] >= provider.books()["total"] - told["spent_micros"]
    check_books(killed / "ledger.sqlite")
    assert replies(killed) == replies(straight)
    for run in (straight, killed):
        assert recompose("pair", run).returncode == 0
    pairs = [list(read_records(run / "pairs" / RECORDS, PreferencePair)) for run in (straight, killed)]
    assert [pair.model_dump_json() for pair in pairs[0]] == [pair.model_dump_json() for pair in pairs[1]]


def test_the_cap_stops_a_run_and_a_higher_one_goes_on_without_paying_again(tmp_path):
    run = make_run(tmp_path / "run", 10)
    with serving(latency_s=0.01) as provider:
        refused = recompose("replay", run, *teachers_of(provider), "--json")
        assert (refused.returncode, provider.books()["requests"]) == (2, 0)
        assert "--max-usd" in refused.stderr
        stopped = recompose("replay", run, *teachers_of(provider), "--max-usd", "0.005", "--json")
        assert stopped.returncode == 3, stopped.stderr
        assert "higher --max-usd" in stopped.stderr.splitlines()[-1]
        told = json.loads(stopped.stdout)
        assert 0 < told["spent_micros"] == provider.books()["total"] <= 5_000
        assert not (run / "replay" / "manifest.json").exists()
        plan = json.loads(recompose("replay", run, *teachers_of(provider), "--dry-run", "--json").stdout)
        assert plan["cached"] == told["settled"]
        done = recompose("replay", run, *teachers_of(provider), "--max-usd", "1", "--json")
        assert done.returncode == 0, done.stderr
        books = provider.books()
    assert {len(costs) for costs in books["bill"].values()} == {1}
    assert json.loads(done.stdout)["spent_micros"] == books["total"]
    cost = json.loads(recompose("cost", run, "--json").stdout)
    assert cost["spent_micros"] == books["total"] == sum(one["spent_micros"] for one in cost["teachers"])
    assert [one["teacher"] for one in cost["teachers"]] == ["a", "b", "g"]
    assert all(0 < one["latency_s"]["p50"] <= one["latency_s"]["p99"] for one in cost["teachers"])
    assert "per accepted pair" not in recompose("cost", run).stdout


def test_a_dry_run_asks_nobody_and_says_what_it_would_cost(tmp_path):
    run = make_run(tmp_path / "run", 4)
    with serving() as provider:
        plan = json.loads(recompose("replay", run, *teachers_of(provider), "--dry-run", "--json").stdout)
        shown = recompose("replay", run, *teachers_of(provider), "--dry-run")
        assert provider.books()["requests"] == 0
    assert plan["calls"] == sum(one["calls"] for one in plan["teachers"]) >= 24
    assert 0 < plan["expected_micros"] < plan["worst_micros"]
    assert [line.split()[0] for line in shown.stdout.splitlines()] == [
        "teacher",
        "a",
        "b",
        "g",
        "all",
        "expected:",
        "by",
    ]
    assert not (run / "ledger.sqlite").exists()


@pytest.mark.parametrize(
    ("teacher", "message"),
    [
        ("x=https://llm.example/v1,some/model", "price of x is not known"),
        ("x=http://llm.example/v1,some/model,1,2", "clear text"),
        ("x=https://10.0.0.1/v1,some/model,1,2", "private address"),
        ("x=https://me:pw@llm.example/v1,some/model,1,2", "not the address"),
        ("x=http://127.0.0.1:9/v1,m,1", "two prices or none"),
        ("x=http://127.0.0.1:9/v1", "not a teacher"),
        ("nobody/knows", "not in the roster"),
        ("anthropic/claude-opus-4.7", "must not be trained on"),
    ],
)
def test_teachers_that_are_refused_before_anything_is_sent(teacher, message):
    with pytest.raises(UsageError, match=message):
        for one in written_teachers([teacher], ReplayConfig()):
            price_of(one)


def test_credit_that_ran_out_stops_the_run(tmp_path):
    run = make_run(tmp_path / "run", 3)
    with serving(rate=1.0, only=("402",)) as provider:
        stopped = recompose("replay", run, *teachers_of(provider), "--max-usd", "1")
        assert provider.books()["requests"] <= 24
    assert stopped.returncode == 3
    assert "wants credit" in stopped.stderr.splitlines()[-1]


def test_cost_asks_the_provider_what_a_call_in_doubt_did_cost(tmp_path):
    run = make_run(tmp_path / "run", 4)
    with serving(rate=0.3, only=("reset",)) as provider:
        recompose("replay", run, *teachers_of(provider), "--max-usd", "1", "--json")
        first, asked, by_key = (
            json.loads(recompose("cost", run, *options, "--json").stdout)
            for options in ((), ("--reconcile",), ("--key-usage",))
        )
        total = provider.books()["total"]
    assert first["spent_micros"] == asked["spent_micros"] > by_key["spent_micros"] == total
    assert (asked["reconciled"], by_key["reconciled"] > 0) == (0, True), "a broken line leaves no id to look up"


def test_the_key_is_sent_and_never_shown(tmp_path, monkeypatch):
    run, secret = make_run(tmp_path / "run", 2), "sk-or-v1-" + "0123456789abcdef" * 4
    monkeypatch.setenv("FAULT_KEY", secret)
    with serving(rate=0.3, only=("500", "reset", "401")) as provider:
        done = recompose("replay", run, *teachers_of(provider, ",1,2,FAULT_KEY"), "--max-usd", "1", "--json")
        assert provider.books()["keys"].keys() == {f"Bearer {secret}"}
    assert "401" in done.stderr
    for text in (done.stdout, done.stderr):
        assert secret not in text
    assert not [file for file in run.rglob("*") if file.is_file() and secret.encode() in file.read_bytes()]
    monkeypatch.delenv("FAULT_KEY")
    missing = recompose("replay", run, *teachers_of(provider, ",1,2,FAULT_KEY"), "--max-usd", "1")
    assert missing.returncode == 2
    assert "FAULT_KEY holds no API key" in missing.stderr.splitlines()[-1]


def test_every_reply_can_be_traced_to_its_attempt(tmp_path):
    run = make_run(tmp_path / "run", 3)
    with serving(seed=5, rate=0.3, latency_s=0.01) as provider:
        done = recompose("replay", run, *teachers_of(provider), "--max-usd", "1", "--json")
    assert done.returncode == 0, done.stderr
    traces = {trace.trace_id for trace in Run.open(run).stage("ingestion").read(Trace)}
    paid = dict(query(run / "ledger.sqlite", "SELECT key, cost_micros FROM attempts WHERE state = 'settled'"))
    for reply in replies(run):
        assert reply["trace_id"] in traces
        assert paid.get(reply["key"], 0) == reply["cost_micros"]
        assert reply["outcome"] == "failed" or reply["key"] in paid


def test_a_finished_replay_is_kept_for_the_same_options_and_refuses_others(tmp_path):
    run = make_run(tmp_path / "run", 2)
    with serving() as provider:
        options = (*teachers_of(provider), "--max-usd", "1", "--json")
        first = recompose("replay", run, *options)
        assert first.returncode == 0, first.stderr
        asked, told = provider.books()["requests"], json.loads(first.stdout)
        for same in (options, ("--json",), ("--max-usd", "2", "--json")):
            again = recompose("replay", run, *same)
            assert again.returncode == 0, again.stderr
            assert json.loads(again.stdout)["settled"] == told["settled"]
        delta = f"d={provider.base_url},delta/four,1,2"
        for other, reason in (
            (("--teacher", delta), "with other teachers (alpha/one, beta/two, gamma/three)"),
            ((*teachers_of(provider), "--teacher", delta), "with other teachers"),
            (teachers_of(provider)[:4], "with other teachers"),
            ((*teachers_of(provider), "--own-family"), "without --own-family"),
            (("--own-family",), "without --own-family"),
            (("--policy", "tiny"), "without samples"),
        ):
            refused = recompose("replay", run, *other, "--max-usd", "2", "--json")
            assert (refused.returncode, refused.stdout) == (2, "")
            assert f"{run} was replayed {reason}" in refused.stderr.splitlines()[-1]
            assert f"delete {run / 'replay'} and what comes after" in refused.stderr.splitlines()[-1]
        assert provider.books()["requests"] == asked


def test_a_run_of_simulated_teachers_is_not_taken_for_one_of_real_ones(tmp_path):
    run = make_run(tmp_path / "run", 2)
    assert recompose("replay", run, "--own-family").returncode == 0
    with serving() as provider:
        refused = recompose("replay", run, *teachers_of(provider), "--own-family", "--max-usd", "1")
        assert provider.books()["requests"] == 0
    assert refused.returncode == 2
    assert "was replayed with other teachers" in refused.stderr.splitlines()[-1]
    assert recompose("replay", run, "--own-family").returncode == 0
    assert recompose("replay", run).returncode == 0


def test_pairs_of_a_run_that_counted_no_redactions_can_be_exported(tmp_path):
    """As `recompose env rollout` leaves it."""
    run = make_run(tmp_path / "run", 2)
    assert recompose("replay", run).returncode == 0
    done = recompose("pair", run, "--export", "trl", "--json")
    assert done.returncode == 0, done.stderr
    assert "Nothing was replaced." in (run / "pairs" / "export" / "trl" / "README.md").read_text()


def files_of(run: Path) -> dict[str, tuple[int, bytes]]:
    return {str(file.relative_to(run)): (file.stat().st_mtime_ns, file.read_bytes()) for file in run.rglob("*.*")}


def test_what_only_reads_changes_no_file(tmp_path):
    run = make_run(tmp_path / "run", 2)
    with serving() as provider:
        assert recompose("replay", run, *teachers_of(provider), "--max-usd", "1").returncode == 0
        before, folder = files_of(run), run.stat().st_mtime_ns
        told = json.loads(recompose("cost", run, "--json").stdout)
        plan = json.loads(recompose("replay", run, *teachers_of(provider), "--dry-run", "--json").stdout)
        assert told["spent_micros"] == provider.books()["total"] > 0
    assert (plan["calls"], plan["cached"]) == (0, told["teachers"][0]["attempts"]["settled"] * 3)
    assert files_of(run) == before
    assert run.stat().st_mtime_ns == folder, "nothing was made and removed again"


def test_the_cost_of_a_run_that_was_killed_is_told_without_writing(tmp_path):
    run = make_run(tmp_path / "run", 8)
    with serving(latency_s=2.0) as provider:
        process = replay_process(run, teachers_of(provider))
        wait_for(lambda: attempts(run) >= 3)
        process.kill()
        process.communicate(timeout=30)
    ledger = run / "ledger.sqlite"
    held = query(ledger, "SELECT SUM(worst_micros) FROM attempts WHERE state = 'reserved'")[0][0]
    before = ledger.read_bytes()
    told = json.loads(recompose("cost", run, "--json").stdout)
    assert told["spent_micros"] == held > 0
    assert told["held_micros"] == 0
    assert query(ledger, "SELECT COUNT(*) FROM attempts WHERE state = 'in_doubt'") == [(0,)]
    assert ledger.read_bytes() == before


def test_a_cap_is_not_set_for_teachers_without_a_key(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", 2)
    with serving() as provider:
        options = (*teachers_of(provider, ",1,2,FAULT_KEY"), "--max-usd", "5")
        refused = recompose("replay", run, *options)
        assert refused.returncode == 2
        assert "FAULT_KEY holds no API key" in refused.stderr.splitlines()[-1]
        assert not (run / "ledger.sqlite").exists()
        monkeypatch.setenv("FAULT_KEY", "k" * 20)
        assert recompose("replay", run, *options).returncode == 0
        monkeypatch.delenv("FAULT_KEY")
        shutil.rmtree(run / "replay")
        again = recompose("replay", run, *options)
        assert again.returncode == 0, "all is answered, so no key is needed"
