"""A run with samples of its policy: which states the gate picks, what the pairs are made of, and what `pair` tells."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from composer_replication.cli.pair import pair
from composer_replication.cli.pair_report import pair_report, show_report
from composer_replication.config import Config, GateConfig, ReplayConfig
from composer_replication.environments.toolbox import (
    Call,
    ToolboxEpisode,
    make_task,
    next_call,
    replay_history,
    trace_of,
)
from composer_replication.errors import UsageError
from composer_replication.pipeline import run_stage
from composer_replication.progress import Silent
from composer_replication.records import PreferencePair, Trace, canonical_json
from composer_replication.replay.gate import StateSamples, states_to_sample
from composer_replication.runs import Run
from composer_replication.sites import find_sites
from composer_replication.stages.replay import asked_states

from .test_replay import TOOLBOX, failed_trace, task_by_id

GOLDEN = Path(__file__).parents[1] / "golden" / "pairs" / "report.txt"
CONFIG = Config(replay=ReplayConfig(simulated_error_rates=(0.0, 0.4, 0.6), gate=GateConfig(audit_rate=0.0)))


def solved_trace(index: int) -> Trace:
    episode = ToolboxEpisode(make_task(TOOLBOX, "train", index))
    while not episode.finished:
        right = next_call(episode)
        episode.step(right.render() if right else "done")
    return trace_of(episode, "tiny", index)


def message(call: Call) -> dict:
    function = {"name": call.name, "arguments": canonical_json(call.arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "s", "type": "function", "function": function}]}


def right_call(trace: Trace, turn: int) -> Call | None:
    try:
        return next_call(replay_history(task_by_id(TOOLBOX, trace.task_id), trace.history(turn)))
    except LookupError:
        return None


def start(path: Path, sampled: bool) -> Run:
    """Six traces with errors and four without; of the latter, the policy is unsure at the first turn of two."""
    traces = [*(failed_trace(index) for index in range(6)), *(solved_trace(index) for index in range(20, 24))]
    run = Run.start(path, CONFIG)
    run.stage("ingestion").finish(traces, {"traces": 10, "redactions": {}}, [], time.monotonic())
    sites = [site for trace in traces for site in find_sites(trace)]
    run.stage("sites").finish(sites, {"sites": len(sites)}, [run.stage("ingestion")], time.monotonic())
    if sampled:
        unsure = {trace.trace_id for trace in traces[6:8]}
        records = []
        for state in states_to_sample(traces, sites, 1000, 0):
            right = right_call(state.trace, state.turn)
            wrong = Call("nope", right.arguments if right else {})
            varied = site_at(sites, state) or (state.trace.trace_id in unsure and state.turn == 0)
            drawn = [wrong, right or wrong, wrong, wrong] if varied else [right or wrong] * 4
            records.append(
                StateSamples(
                    state_id=state.state_id,
                    trace_id=state.trace.trace_id,
                    turn=state.turn,
                    messages=tuple(map(message, drawn)),
                )
            )
        run.stage("samples").finish(records, {"policy": "tiny"}, [run.stage("ingestion")], time.monotonic())
    for noun in ("replay", "pairs"):
        run_stage(run, noun, Silent())
    return run


def site_at(sites, state) -> bool:
    return any((site.trace_id, site.turn) == (state.trace.trace_id, state.turn) for site in sites)


@pytest.fixture(scope="module")
def sampled(tmp_path_factory) -> Run:
    return start(tmp_path_factory.mktemp("sampled") / "run", sampled=True)


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Run:
    return start(tmp_path_factory.mktemp("plain") / "run", sampled=False)


def test_the_gate_asks_where_stored_samples_differ(sampled, plain):
    assert sampled.stage("replay").counts["buckets"] == {"error": 12, "entropy": 2}
    assert plain.stage("replay").counts["buckets"] == {"error": 12}
    buckets = [state.bucket for state in asked_states(sampled)]
    assert (buckets.count("error"), buckets.count("entropy")) == (12, 2)


def test_both_sides_are_the_policys_own_where_it_was_sampled(sampled, plain):
    pairs = sampled.stage("pairs").read(PreferencePair)
    assert len(pairs) >= 6
    assert {(pair.chosen_from, pair.rejected_from, pair.off_policy) for pair in pairs} == {("policy", "policy", False)}
    for one in pairs:
        assert one.chosen["tool_calls"][0]["id"] == one.rejected["tool_calls"][0]["id"]
        assert one.rejected["tool_calls"][0]["function"]["name"] == "nope"
    plain_pairs = plain.stage("pairs").read(PreferencePair)
    assert {(pair.chosen_from, pair.rejected_from) for pair in plain_pairs} == {("teachers", "actor")}


def test_the_manifests_name_the_samples(sampled, plain):
    for noun in ("replay", "pairs"):
        assert sampled.stage(noun).require()["inputs"]["samples"] == sampled.stage("samples").sha256
        assert "samples" not in plain.stage(noun).require()["inputs"]


def test_the_report_has_the_whole_funnel(sampled):
    report = json.loads(json.dumps(pair_report(sampled, None, Silent())))
    funnel = report["funnel"]
    assert list(funnel) == ["states", "replies", "parsed", "votes", "agreements", "pairs"]
    assert (funnel["states"], funnel["replies"]) == (14, 42)
    assert funnel["agreements"] >= funnel["pairs"] == report["pairs"]
    assert sum(report["dropped_states"].values()) == funnel["states"] - funnel["pairs"]
    assert sum(report["dropped_replies"].values()) == funnel["replies"] - funnel["parsed"]
    assert {bucket: row["states"] for bucket, row in report["gate"].items()} == {"error": 12, "entropy": 2}
    assert sum(row["pairs"] for row in report["gate"].values()) == report["pairs"]
    assert sum(row["correct"] for row in report["gate"].values()) > 0
    assert report["teachers"]["simulated-a/noisy-oracle-0"]["win_rate"] == 1.0
    assert -1 <= report["kappa"] <= 1 and report["length"]["chosen"] > 0
    assert report["simulated"] is True and report["signal"] is None
    assert report["sides"] == {
        "chosen": {"policy": report["pairs"]}, "rejected": {"policy": report["pairs"]}, "off_policy": 0,
    }  # fmt: skip


def test_the_report_as_a_person_reads_it(sampled, capsys):
    report = pair_report(sampled, None, Silent())
    show_report({**report, "run": "RUN"})
    assert capsys.readouterr().out == GOLDEN.read_text(encoding="utf-8")


def test_the_signal_as_a_person_reads_it(sampled, capsys):
    interval = {"mean": 1.5, "lo": -0.25, "hi": 3.0, "n": 9}
    signal = {
        "reference": "policy", "margin": interval, "distance": None, "meets_threshold": False, "left_out": 2,
        "threshold": {"pairs_per_trace": 5.0, "distance_lo": 0.0, "traces": 5},
    }  # fmt: skip
    show_report({**pair_report(sampled, None, Silent()), "signal": signal})
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "  margin          +1.50 [-0.25, +3.00], n 9: chosen over rejected, nats under policy",
        "  distance        –: from re-matched pairs, nats under policy",
        "  left out        2 pairs that are too long for it",
        "  threshold       not met: at least 5 pairs per trace and a distance above 0, over 5 traces",
    ]


def copy_of(run: Run, folder: Path) -> Path:
    return Path(shutil.copytree(run.path, folder / "run"))


def test_an_export_tells_what_was_kept_and_lost_and_why(sampled, tmp_path, capsys, chatml_tokenizer):
    run, model = copy_of(sampled, tmp_path), str(tmp_path / "model")
    chatml_tokenizer("<|pad|>").save_pretrained(model)
    pair(run, export="trl", tokenizer=model, json=True)
    whole = json.loads(capsys.readouterr().out)["export"]
    assert (whole["kept"], whole["lost"], whole["windowed"]) == (11, {}, 0)
    limit = whole["tokens"]["median"]
    pair(run, export="trl", tokenizer=model, max_tokens=limit, json=True)
    done = json.loads(capsys.readouterr().out)["export"]
    assert done["kept"] + sum(done["lost"].values()) == done["pairs"] == 11
    assert 0 < done["kept"] == done["rows"] < 11
    assert done["tokens"]["longest"] <= limit
    assert done["counted_by"] == f"the tokenizer of {model}"
    assert done["calls_are_unseen"]
    pair(run, export="trl", tokenizer=model, max_tokens=limit)
    lines = capsys.readouterr().out.splitlines()
    [kept] = [line for line in lines if " kept " in line]
    for reason, number in done["lost"].items():
        assert f"{reason} {number}" in kept
    assert sum(line.endswith("give --calls-as-text") for line in lines) == 1
    pair(run, export="sft", calls_as_text=True, json=True)
    text = json.loads(capsys.readouterr().out)["export"]
    assert (text["kept"], text["lost"], text["windowed"], text["calls_are_unseen"]) == (11, {}, 0, False)
    # The tiny model has no word for a tool that these samples invent.
    assert text["counted_by"] == "estimate: four characters to a token"


def test_an_export_of_a_run_that_may_not_be_written_goes_elsewhere(sampled, tmp_path, capsys):
    run = copy_of(sampled, tmp_path)
    (run / "pairs" / "export").write_text("")  # root may write to any folder; this is none
    with pytest.raises(OSError):
        pair(run, export="trl", json=True)
    pair(run, export="trl", into=tmp_path / "out", json=True)
    told = json.loads(capsys.readouterr().out)["export"]["folder"]
    assert told == str(tmp_path / "out" / "trl")
    assert {file.name for file in (tmp_path / "out" / "trl").iterdir()} == {"README.md", "train.parquet"}


@pytest.mark.parametrize(
    "choice", [{"into": Path("x")}, {"max_tokens": 9}, {"tokenizer": "x"}, {"calls_as_text": True}]
)
def test_what_is_for_exports_is_refused_without_one(sampled, choice):
    with pytest.raises(UsageError, match="are for an export"):
        pair(sampled.path, **choice)


def test_a_tokenizer_that_is_not_here_is_an_error(sampled, tmp_path):
    with pytest.raises(UsageError, match="is not on this machine"):
        pair(copy_of(sampled, tmp_path), export="trl", tokenizer=str(tmp_path / "nowhere"))


def test_a_run_from_before_states_were_kept_has_no_yields(plain, tmp_path):
    copy = copy_of(plain, tmp_path)
    (copy / "replay" / "states.jsonl.zst").unlink()
    assert pair_report(Run.open(copy), None, Silent())["gate"] == {}


@pytest.mark.parametrize("name", ["plain", "sampled"])
def test_the_documented_signal_is_the_one_that_is_kept(name):
    root = Path(__file__).parents[2]
    kept = json.loads((root / "benchmarks" / "results" / "pair_signal.json").read_text())["runs"][name]["result"]
    row = kept["signal"]
    intervals = [
        f"{row[key]['mean']:+.2f} [{row[key]['lo']:+.2f}, {row[key]['hi']:+.2f}]" for key in ("margin", "distance")
    ]
    funnel = " → ".join(str(kept["funnel"][key]) for key in ("states", "replies", "votes", "agreements", "pairs"))
    wanted = (
        f"| {funnel} | {kept['pairs_per_trace']:.2f} | {kept['kappa']:.3f} | {intervals[0]} | {intervals[1]} | no |"
    )
    assert wanted in (root / "docs" / "pairs.md").read_text()
    assert not row["meets_threshold"]
