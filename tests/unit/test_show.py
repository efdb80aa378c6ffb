"""`recompose show`: every kind of record, inert text, and what its verbs end with."""

from __future__ import annotations

import json

import pytest

from composer_replication.cli.common import tell
from composer_replication.config import Config
from composer_replication.ingestion.inputs import is_whole_file
from composer_replication.records import content_id
from composer_replication.runs import Run
from tests.command_line import recompose
from tests.pages import ROOT
from tests.viewed_run import HOSTILE, add_trace, long_trace, viewed_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return viewed_run(tmp_path_factory.mktemp("shown") / "run")


def shown(run, *words):
    ended = recompose("show", run.path, *words)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_without_an_id_the_funnel_and_where_to_go(run):
    text = shown(run)
    assert "traces          1" in text
    sites = run.stage("sites").counts
    assert f"sites    {sites['sites']:>8}   policy {sites['faults']['policy']}" in text
    assert "pairs           1   no_majority 1" in text
    command = next(line for line in text.splitlines() if line.startswith("a pair:")).split("recompose show ")[1]
    pair = shown(run, command.split()[-1])
    assert "Kept because 2 of 3 families gave the same call (match: exact): qwen and glm; the rejected side is" in pair
    assert "votes: qwen/big and glm/big: for the chosen call; kimi/big: for Task with other arguments" in pair
    assert "doubt, off-policy: " in pair
    assert json.loads(shown(run, "--json"))["funnel"][0]["count"] == 1


def test_sessions_that_are_left_out_and_lines_that_are_skipped_are_told_apart(tmp_path):
    sessions = ROOT / "tests/samples/claude_code_mini"
    recompose("ingest", sessions, "--run", tmp_path / "run")
    whole, part = recompose("show", tmp_path / "run").stdout.split("  sites")[0].splitlines()[1:]
    assert "sessions left out: " in whole and "subagent " in whole
    assert part.strip().startswith("lines left out: ") and "progress " in part


def test_a_hint_says_what_its_sham_is(run):
    for kind in ("hint", "site"):
        line = next(line for line in shown(run, ids_of(run)[kind]).splitlines() if line.strip().startswith("sham"))
        assert "of other errors" in line and "control" in line


def test_a_training_that_was_interrupted_tells_the_steps_that_are_kept(tmp_path):
    run = viewed_run(tmp_path / "run")
    (run.path / "training" / "manifest.json").unlink(missing_ok=True)
    assert "steps are kept" not in shown(run)
    for step in (9, 10):
        folder = run.path / "training" / "scratch" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        (folder / "composer-0.safetensors").write_bytes(b"")
    text = shown(run)
    assert f"training has not ended; 10 of {run.config.training.steps} steps are kept" in text
    assert f"next: recompose train {run.path}  # goes on after step 10" in text


def test_why_there_is_no_interval_is_told_as_evaluate_tells_it(tmp_path):
    run = viewed_run(tmp_path / "run")
    alike = {"mean": 0.0, "lo": None, "hi": None}
    result = {"success_before": {**alike, "n": 4}, "success_after": {**alike, "n": 5}, "difference": {**alike, "n": 5}}
    (run.path / "report.json").write_text(json.dumps(result))
    assert "0.000 [too few to tell] before, 0.000 [all alike] after" in shown(run)
    found = json.loads(shown(run, "--json"))["result"]
    assert [found[name]["why"] for name in result] == ["too few to tell", "all alike", "all alike"]


def ids_of(run):
    text = shown(run)
    return {
        line.split(":")[0].removeprefix("a "): line.split()[-1] for line in text.splitlines() if line.startswith("a ")
    }


KINDS = {
    "trace": "claude_code 1.0.108: 10 turns",
    "site": "type_error, fault of the policy, by claude_code/input_validation",
    "hint": "Reminder: Task needs the argument prompt",
    "pair": 'prompt: "look" over absent',
    "rollout": "step 1, reward 1, 2 sampled tokens, task/1",
    "finding": "rm tests/test_a.py",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_shown_with_its_text(run, kind):
    record_id = ids_of(run)[kind]
    text = shown(run, record_id)
    assert text.startswith(f"{kind} {record_id}\n")
    assert KINDS[kind] in text
    answer = json.loads(shown(run, record_id, "--json"))
    assert (answer["kind"], answer["id"]) == (kind, record_id)
    assert answer["record"]
    assert json.loads(shown(run, record_id, "--raw"))


def test_a_turn_its_reply_and_a_task_are_shown_too(run):
    trace_id = ids_of(run)["trace"]
    assert "The required parameter `prompt` is missing" in shown(run, f"{trace_id}:2")
    assert shown(run, f"{trace_id}:2", "--raw").startswith('{"parentUuid"'), "the bytes of the source"
    assert "qwen/big" in shown(run, content_id("reply", "qwen"))
    assert "1 rollouts" in shown(run, "task/1")


def test_a_site_leads_to_bytes_pair_and_step(run):
    text = shown(run, ids_of(run)["site"])
    assert "from  bytes 14278–17997 of claude_code_session.jsonl" in text
    assert f"made  pair     {ids_of(run)['pair']}" in text
    assert "made  step     2" in text


def test_what_is_not_there_is_told_with_the_next_command(run):
    ended = recompose("show", run.path, "ffffffff")
    assert ended.returncode == 2
    assert "has no ffffffff; next: recompose show" in ended.stderr


def test_terminal_escapes_are_inert(tmp_path):
    run = viewed_run(tmp_path / "run")
    add_trace(run, trace := long_trace(2, HOSTILE.replace("\ud83d", "")))
    for words in ((), ("--raw",), ("--json",)):
        for record_id in (trace.trace_id, f"{trace.trace_id}:1"):
            text = shown(run, record_id, *words)
            assert not any((ord(char) < 32 and char != "\n") or 127 <= ord(char) < 160 for char in text)
            assert not any(char in text for char in "\u202e\u200b\U000e0041")
    assert "␛[2J⟦202E⟧gnp.exe" in shown(run, f"{trace.trace_id}:1")


@pytest.mark.parametrize(("verb", "then"), [("sites", "train"), ("hint", "train"), ("pair", "train")])
def test_verbs_end_with_three_examples_and_the_next_command(run, verb, then):
    ended = recompose(verb, run.path)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[-1] == f"next: recompose {then} {run.path}"
    examples = [line.split() for line in lines if line.startswith("  e.g. ")]
    assert 1 <= len(examples) <= 3
    assert lines[-2] == f"look: recompose show {run.path} {examples[0][1]}"
    assert shown(run, examples[0][1])


def test_each_look_works_at_once_and_next_follows_the_channels(tmp_path):
    """Your own sessions, without teachers: nobody is asked what no channel learns from."""
    run, new, sessions = tmp_path / "run", tmp_path / "new", ROOT / "tests/samples/claude_code_mini"
    channels = tmp_path / "my.toml"
    channels.write_text('training.rollouts = false\nchannels = [{ name = "sdpo", weight = 1.0 }]\n')
    assert recompose("ingest", sessions, "--run", run, "--config", channels).returncode == 0
    for verb, then in (("sites", "hint"), ("hint", "train")):
        *_, look, following = recompose(verb, run).stdout.splitlines()
        assert following == f"next: recompose {then} {run}"
        ended = recompose(*look.removeprefix("look: recompose ").split())
        assert (ended.returncode, ended.stderr) == (0, "")
        assert following in recompose("show", run).stdout
    assert recompose("fork", run, new, "--set", "training.steps=3").stdout.endswith(f"next: recompose train {new}\n")
    taught = recompose("fork", run, tmp_path / "taught", "--set", "channels.trdpo.weight=0.1")
    assert taught.stdout.endswith(f"next: recompose replay {tmp_path / 'taught'}\n")


def test_hints_that_need_a_judge_are_told_in_words_and_what_is_not_known_is_left_out(tmp_path, capsys):
    run = Run.start(tmp_path / "run", Config())
    run.stage("hints").finish([], {"hints": 0, "environment": None, "dropped": {"no_layer": 37}}, [], 0.0)
    tell("hints", run, as_json=False)
    told = " ".join(capsys.readouterr().out.split())
    assert "no rule has words for 37; corrections by the user, say, need a judge" in told and "None" not in told


def test_of_many_kinds_of_skipped_lines_the_largest_are_told_and_json_lists_all(tmp_path):
    sessions = ROOT / "tests/samples"
    told = recompose("ingest", sessions, "--run", tmp_path / "run").stdout
    counts = json.loads(recompose("ingest", "--run", tmp_path / "run", "--json").stdout)["skipped"]
    numbers = sorted(count for reason, count in counts.items() if not is_whole_file(reason))
    assert sum(numbers) < sum(counts.values())
    (line,) = (line for line in told.splitlines() if line.startswith("  skipped"))
    assert line.startswith(f"  skipped        progress {counts['progress']}, ") and counts["progress"] == numbers[-1]
    shown = [int(part.split()[1]) for part in line.removeprefix("  skipped").split(" and ")[0].split(",")]
    assert shown == numbers[:-6:-1]
    rest = f"and {len(numbers) - 5} more kinds, {sum(numbers[:-5])} in all"
    assert line.endswith(f" {rest}: --json lists them")


def test_few_kinds_of_skipped_lines_are_all_told(tmp_path, capsys):
    run = Run.start(tmp_path / "run", Config())
    run.stage("ingestion").finish([], {"skipped": dict.fromkeys("abcde", 1)}, [], 0.0)
    tell("ingestion", run, as_json=False)
    assert "  skipped        a 1, b 1, c 1, d 1, e 1\n" in capsys.readouterr().out
