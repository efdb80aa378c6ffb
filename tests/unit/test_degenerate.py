"""Data that teaches a habit is named with its figure and stops training; healthy data is not held up."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from composer_replication.cli.pair import pair
from composer_replication.cli.train import train
from composer_replication.config import Config, ModelConfig, TrainingConfig, WarmupConfig
from composer_replication.errors import RecomposeError
from composer_replication.objective import GrpoSettings, SdpoSettings, TrdpoSettings
from composer_replication.pairs.degenerate import FEWEST, degenerate_pairs, most_common
from composer_replication.pipeline import run_stage
from composer_replication.progress import Silent
from composer_replication.records import (
    Agreement,
    ErrorSite,
    Hint,
    PreferencePair,
    TeacherReply,
    Usage,
    canonical_call,
    content_id,
)
from composer_replication.runs import Run, read_records, write_records
from composer_replication.sites import find_sites
from composer_replication.stages.degenerate import degenerate, refuse_degenerate
from composer_replication.stages.ingestion import ROLLOUT_TOKENS
from composer_replication.training.stored.records import TokenizedTrace
from tests.e2e.sentences import random_model

from .test_export import call
from .test_replay import failed_trace

BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}
TRACES = [failed_trace(index).model_copy(update={"tools": (BASH,)}) for index in range(FEWEST)]
CONFIG = Config(
    warmup=WarmupConfig(steps=1, batch_size=2),
    training=TrainingConfig(steps=1, prompts_per_step=1, group_size=2, max_turn_tokens=8, traces_per_step=2),
)


def reply(trace, teacher: str, command: str) -> TeacherReply:
    action = canonical_call("bash", {"command": command})
    return TeacherReply(
        key=f"{trace.trace_id}-{teacher}", state_id=trace.state_id(0), trace_id=trace.trace_id, turn=0,
        teacher=teacher, served_model=teacher, family=teacher[0], action=action, raw=action, finish_reason="stop",
        usage=Usage(), cost_micros=0, latency_s=0.1, outcome="answered", simulated=False,
    )  # fmt: skip


def run_of(path, command, config: Config = CONFIG) -> Run:
    """Three teachers answer `command(n)` at the first turn of session n."""
    run = Run.start(path, config)
    now = time.monotonic()
    run.stage("ingestion").finish(TRACES, {"traces": len(TRACES), "redactions": {}}, [], now)
    sites = [site for trace in TRACES for site in find_sites(trace)]
    run.stage("sites").finish(sites, {"sites": len(sites)}, [run.stage("ingestion")], now)
    run_stage(run, "hints", Silent())
    said = [reply(trace, name, command(n)) for n, trace in enumerate(TRACES) for name in ("a/x", "b/y", "c/z")]
    asked = {"replies": len(said), "states": len(TRACES), "teachers": ["a/x", "b/y", "c/z"], "simulated": False}
    made_from = [run.stage("ingestion"), run.stage("sites")]
    run.stage("replay").finish(said, asked, made_from, now)
    return run


def names(found) -> list[str]:
    return [one.name for one in found]


def test_teachers_that_always_say_the_same_are_named_by_pair_and_stop_training(tmp_path, capsys):
    run = run_of(tmp_path / "run", lambda n: "git status")
    pair(run.path, json=True)
    report = json.loads(capsys.readouterr().out)
    assert report["pairs"] == FEWEST
    told = [one["sentence"] for one in report["degenerate"]]
    for teacher in ("a/x", "b/y", "c/z"):
        assert any(line.startswith(f"{teacher} answers {FEWEST} of {FEWEST} states alike: ") for line in told)
    assert any(line.startswith(f"{FEWEST} of {FEWEST} pairs have one chosen side") for line in told)
    assert "bash is called by 100% of chosen and 0% of rejected sides" in told
    assert all(0.8 <= one["share"] <= 1 and one["n"] == FEWEST for one in report["degenerate"])
    pair(run.path)
    assert "DEGENERATE      a/x answers 20 of 20" in capsys.readouterr().out
    with pytest.raises(RecomposeError, match=r"one chosen side.*--anyway"):
        train(run.path)
    assert not run.stage("policy").is_done, "told before a model is made"


def test_the_dry_run_foretells_the_stop_and_anyway_goes_on_and_is_kept(tmp_path, capsys):
    reads_everything = ModelConfig(name=str(random_model(tmp_path / "model")))
    config = CONFIG.model_copy(update={"model": reads_everything, "warmup": WarmupConfig(steps=0)})
    run = run_of(tmp_path / "run", lambda n: "git status", config)
    pair(run.path, json=True)
    capsys.readouterr()
    train(run.path, dry_run=True)
    assert "stops without --anyway: a/x answers 20 of 20" in capsys.readouterr().out
    train(run.path, anyway=True, json=True)
    counts = json.loads(capsys.readouterr().out)
    assert "one_chosen" in [one["name"] for one in counts["degenerate"]]
    card = (run.path / "training" / "model" / "README.md").read_text()
    assert "20 of 20 pairs have one chosen side" in card


def test_teachers_that_look_at_the_state_are_no_habit(tmp_path):
    varied = run_of(tmp_path / "varied", lambda n: f"cat file{n}.py && ls" if n % 2 else f"ls {'src/' * n}{n}")
    run_stage(varied, "pairs", Silent())
    # All sessions make one error, so the corrections are of one tool; that alone is said.
    assert names(degenerate(varied)) == ["one_tool"]


def test_a_channel_that_is_off_is_not_looked_after(tmp_path):
    off = Config(channels=(GrpoSettings(), SdpoSettings(weight=0.0), TrdpoSettings(weight=0.0)))
    run = run_of(tmp_path / "run", lambda n: "git status", off)
    run_stage(run, "pairs", Silent())
    refuse_degenerate(run)


def pairs_of(sides) -> list[PreferencePair]:
    return [
        PreferencePair(
            pair_id=str(n), state_id=str(n), trace_id="t", turn=n, chosen=chosen, rejected=rejected,
            agreement=Agreement(tier="exact", votes=2, n=2, families=("a", "b")), off_policy=True, provenance=(),
            simulated=False,
        )
        for n, (chosen, rejected) in enumerate(sides)
    ]  # fmt: skip


def sized(n: int, size: int, tool: str = "bash"):
    return call(tool, json.dumps({"command": f"{n} {'x' * size}"}))


@pytest.mark.parametrize(
    ("sides", "found"),
    [
        ([(sized(n, 9), sized(n, 3)) for n in range(20)], ["one_sided_length"]),
        ([(sized(n, 3), sized(n, 9)) for n in range(20)], ["one_sided_length"]),
        ([(sized(n, 3 + 6 * (n % 2)), sized(n, 6)) for n in range(20)], []),
        ([(sized(n, 9), sized(n, 3)) for n in range(19)], []),
        ([(sized(n, n % 5), sized(0, 2)) for n in range(20)], ["one_rejected"]),
        ([(sized(n, n % 5), sized(n, 2, "edit" if n % 2 else "read")) for n in range(20)], ["one_tool"]),
        ([(sized(n, n % 5), {"role": "assistant", "content": f"{'word ' * (8 * (n % 3))} {n}"}) for n in range(20)],
         ["one_tool", "one_style", "one_style"]),
    ],
)  # fmt: skip
def test_each_habit_has_its_name(sides, found):
    assert names(degenerate_pairs(pairs_of(sides), [])) == found


def test_an_agent_with_one_tool_is_no_habit():
    assert degenerate_pairs(pairs_of([(sized(n, n % 5), sized(n, 2)) for n in range(20)]), []) == []


def test_what_is_shown_of_a_text_cannot_drive_a_terminal():
    [found] = most_common("one_hint", ["\x1b[2J" + "y" * 90] * FEWEST, "{count} of {n}")
    assert "\x1b" not in found.sentence and len(found.sentence) < 90


def test_the_hints_of_real_sessions_are_no_habit():
    kept = Path(__file__).parents[2] / "experiments" / "007-real-traces" / "results" / "hints.jsonl.zst"
    texts = [hint.text for hint in read_records(kept, Hint)]
    assert len(texts) > 100 and most_common("one_hint", texts, "") == []


@pytest.mark.parametrize(("kinds", "found"), [(2, ["one_hint"]), (1, [])])
def test_one_hint_for_several_kinds_of_error_is_a_habit_of_channel_two(tmp_path, kinds, found):
    offline = CONFIG.model_copy(update={"training": TrainingConfig(rollouts=False)})
    run = run_of(tmp_path / "run", lambda n: f"ls {n}", offline)
    sites = run.stage("sites").read(ErrorSite)
    chosen = sorted({site.error_kind for site in sites})[:kinds]
    hints = [
        Hint(hint_id=content_id(n), site_id=site.site_id, text="Think.", sham_text="Look.", layer="judge",
             leak_level="L0", tokens=2)
        for n, site in enumerate(sites)
        if site.error_kind in chosen
    ]  # fmt: skip
    assert len(hints) == kinds * FEWEST
    run.stage("hints").finish(hints, {"hints": len(hints)}, [run.stage("sites")], time.monotonic())
    assert names(degenerate(run)) == found


@pytest.mark.parametrize(("second", "found"), [(0.0, ["no_advantage"]), (1.0, [])])
def test_attempts_that_all_end_alike_have_no_advantage(tmp_path, second, found):
    alone = Config(training=TrainingConfig(rollouts=False), channels=(GrpoSettings(),))
    run = Run.start(tmp_path / "run", alone)
    attempts = [
        trace.model_copy(update={"trace_id": f"{trace.trace_id}{n}", "outcome": outcome})
        for trace in TRACES[:2]
        for n, outcome in enumerate((0.0, second))
    ]
    run.stage("ingestion").finish(attempts, {"traces": 4}, [], time.monotonic())
    rows = [
        TokenizedTrace(trace_id=one.trace_id, tokenizer="t", ids=(), turn_spans=(), logprobs=(), reward=0.0)
        for one in attempts
    ]
    write_records(run.path / ROLLOUT_TOKENS, rows)
    assert names(degenerate(run)) == found
