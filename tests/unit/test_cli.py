import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from composer_replication.cli.main import app
from composer_replication.runs import LOCK, write_atomically
from tests.command_line import recompose

VERBS = [
    "quickstart",
    "init",
    "ingest",
    "sites",
    "hint",
    "replay",
    "pair",
    "train",
    "evaluate",
    "show",
    "view",
    "config",
    "doctor",
    "plan",
    "fork",
    "cost",
    "export",
    "env",
    "monitor",
    "experiment",
    "model",
]


@pytest.fixture
def session(tmp_path):
    from composer_replication.ingestion.inputs import embedded_session

    target = tmp_path / "session.jsonl"
    with embedded_session() as shipped:
        target.write_bytes(shipped.path.read_bytes())
    return target


def next_of(done):
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("next: ")]
    return line.removeprefix("next: ")


def assert_one_line_error(done, code, *parts):
    assert done.returncode == code
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    assert "next: " in lines[0]
    for part in parts:
        assert part in lines[0]


def test_help_lists_the_verbs_in_pipeline_order():
    done = recompose("--help")
    assert done.returncode == 0
    listed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("│") and line[2] != " "]
    assert [verb for verb in listed if not verb.startswith("-")] == VERBS


def own_words(verb):
    """The docstring of the function behind a verb; groups of verbs have none."""
    found = app[verb[0]] if len(verb) == 1 else app[verb[0]][verb[1]]
    return "" if found.default_command is None else found.default_command.__doc__


@pytest.mark.parametrize("verb", [*([name] for name in VERBS), ["env", "rollout"], ["env", "serve"]], ids=" ".join)
def test_the_help_of_a_verb_says_all_that_its_docstring_says_and_what_each_argument_is(verb):
    done = recompose(*verb, "--help")
    assert done.returncode == 0
    plain = " ".join(done.stdout.split())
    assert " ".join(own_words(verb).replace("`", "").split()) in plain
    assert not re.search(r"│ \*? *[A-Z-]+ +(\[required\])? *│", done.stdout), "an argument without a word about it"


def test_unknown_verb_and_option():
    assert_one_line_error(recompose("ingets"), 2, "ingest")
    assert_one_line_error(recompose("sites", "somewhere", "--nope"), 2, "next: recompose sites --help")
    assert_one_line_error(recompose("env", "rollout", "--nope"), 2, "next: recompose env rollout --help")
    assert_one_line_error(recompose("env", "rolout"), 2, "rollout", "next: recompose env --help")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("missing.jsonl", None, "missing.jsonl"),
        ("empty.jsonl", b"", "empty"),
        ("binary.jsonl", bytes(range(256)) * 8, "not text"),
        ("other.jsonl", b'{"hello": 1}\n', "no known format"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(tmp_path, name, content, reason):
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    assert_one_line_error(recompose("ingest", file, "--run", tmp_path / "run"), 2, reason)
    assert not (tmp_path / "run").exists()
    if content is not None:
        assert file.read_bytes() == content


def test_misspelt_config_key_names_the_right_one(tmp_path):
    config = tmp_path / "my.toml"
    config.write_text("[training]\nlerning_rate = 1.0\n")
    done = recompose("quickstart", "--config", config, "--run", tmp_path / "run")
    assert_one_line_error(done, 2, "training.lerning_rate", "learning_rate")
    assert not (tmp_path / "run").exists()


def test_bad_input_leaves_an_existing_run_alone(tmp_path, session):
    run = tmp_path / "run"
    assert recompose("ingest", session, "--run", run).returncode == 0
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    assert recompose("ingest", empty, "--run", run).returncode == 2
    other = tmp_path / "other.jsonl"
    other.write_bytes(session.read_bytes())
    assert_one_line_error(recompose("ingest", other, "--run", run), 2, "another config")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_stages_one_by_one_on_a_session_file(tmp_path, session):
    run = tmp_path / "run"
    ingested = recompose("ingest", session, "--run", run, "--json")
    assert ingested.returncode == 0, ingested.stderr
    assert json.loads(ingested.stdout)["traces"] == 1
    inputs = json.loads((run / "ingestion" / "manifest.json").read_text())["inputs"]
    assert inputs == {session.name: hashlib.sha256(session.read_bytes()).hexdigest()}
    too_early = recompose("hint", run)
    assert too_early.returncode == 2
    assert "recompose sites" in too_early.stderr
    for verb, key, expected in (("sites", "sites", 2), ("hint", "hints", 2)):
        done = recompose(verb, run, "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)[key] == expected
    too_early = recompose("pair", run)
    assert too_early.returncode == 2
    assert f"recompose replay {run}" in too_early.stderr.splitlines()[-1]
    again = recompose("sites", run)
    assert again.returncode == 0
    assert "kept" in again.stderr


def test_simulated_teachers_are_not_asked_about_sessions_of_others(tmp_path, session):
    run = tmp_path / "run"
    assert recompose("ingest", session, "--run", run).returncode == 0
    assert recompose("sites", run).returncode == 0
    for options in ([], ["--dry-run"]):
        refused = recompose("replay", run, *options)
        assert (refused.returncode, refused.stdout) == (2, "")
        what, command = refused.stderr.splitlines()[-1].split("; next: ")
        assert what == f"error: simulated teachers know only their environment, and no trace of {run} is of toolbox"
        replay = f"recompose replay {run}"
        assert command == f"{replay} --teacher default --dry-run, or {replay} --no-teachers to train without pairs"
    assert not (run / "replay").exists() and not (run / "ledger.sqlite").exists()


def test_nobody_is_asked_where_the_user_says_so(tmp_path, session):
    run = tmp_path / "run"
    assert recompose("ingest", session, "--run", run).returncode == 0
    assert recompose("sites", run).returncode == 0
    assert recompose("replay", run, "--no-teachers", "--dry-run").returncode == 2
    replayed = recompose("replay", run, "--no-teachers", "--json")
    assert replayed.returncode == 0, replayed.stderr
    told = json.loads(replayed.stdout)
    assert (told["replies"], told["teachers"], told["spent_micros"]) == (0, [], 0)
    assert "nobody is asked" in replayed.stderr
    paired = recompose("pair", run, "--json")
    assert (paired.returncode, json.loads(paired.stdout)["pairs"]) == (0, 0)
    other = recompose("replay", run, "--teacher", "x=http://127.0.0.1:9/v1,a/x")
    assert_one_line_error(other, 2, f"{run} was replayed with other teachers (none)")


def test_stages_that_were_made_from_another_ingestion_are_refused(tmp_path, session):
    run = tmp_path / "run"
    assert recompose("ingest", session, "--run", run).returncode == 0
    for verb in ("sites", "hint"):
        assert recompose(verb, run).returncode == 0
    shutil.rmtree(run / "ingestion")
    assert "kept" in recompose("sites", run).stderr  # nothing to compare with
    assert recompose("ingest", session, "--run", run).returncode == 0
    assert "kept" in recompose("hint", run).stderr  # the same again
    shutil.rmtree(run / "ingestion")
    session.write_text("".join(session.read_text().splitlines(keepends=True)[:-4]))
    assert recompose("ingest", session, "--run", run).returncode == 0
    teacher = ["--teacher", "x=http://127.0.0.1:9/v1,a/x"]
    for verb, options in (("hint", []), ("replay", ["--dry-run", *teacher]), ("replay", teacher)):
        refused = recompose(verb, run, *options)
        assert_one_line_error(refused, 2, f"{run / 'sites'} was made from another ingestion", f"recompose sites {run}")
    # What only foresees refuses what the verb itself would refuse, and what only looks tells what to do.
    for verb, *options in (("train", "--dry-run"), ("evaluate", "--on", "sessions", "--dry-run")):
        refused = recompose(verb, run, *options, "--json")
        assert_one_line_error(refused, 2, f"{run / 'sites'} was made from another ingestion", f"recompose sites {run}")
    assert next_of(recompose("show", run)) == f"recompose sites {run}"
    made_again = recompose("sites", run)
    assert made_again.returncode == 0 and "kept" not in made_again.stderr
    assert next_of(made_again) == next_of(recompose("show", run)) == f"recompose hint {run}"
    assert_one_line_error(
        recompose("replay", run, *teacher),
        2,
        f"{run / 'hints'} was made from another ingestion",
        f"recompose hint {run}",
    )
    assert recompose("hint", run).returncode == 0


def test_what_is_done_can_be_read_in_a_run_that_may_not_be_written(tmp_path, session, monkeypatch):
    run = tmp_path / "run"
    assert recompose("ingest", session, "--run", run).returncode == 0
    found = recompose("sites", run, "--json").stdout
    (run / LOCK).unlink()
    (run / LOCK).mkdir()  # root may open any file; this it cannot write
    refused = recompose("sites", run, "--json")
    assert_one_line_error(refused, 1, LOCK)
    monkeypatch.setattr("os.access", lambda path, mode: not str(path).startswith(str(run)))
    again = recompose("sites", run, "--json")
    assert (again.returncode, again.stdout) == (0, found) and "kept" in again.stderr
    assert_one_line_error(recompose("hint", run), 1, f"Permission denied: '{run}'")
    assert not (run / "hints").exists()
    assert recompose("export", run, "--parquet", tmp_path / "tables").returncode == 0
    assert (tmp_path / "tables" / "sites.parquet").exists()


def test_foreseeing_a_measurement_says_that_no_session_is_held_out(tmp_path, session):
    run = tmp_path / "run"
    assert recompose("ingest", session, "--run", run).returncode == 0
    refused = recompose("evaluate", run, "--on", "sessions", "--dry-run", "--json")
    assert_one_line_error(refused, 2, f"{run}: of 1 sessions none is held out at a share of 0.2; next: start a run")


def test_a_session_file_that_is_called_like_a_stage_is_no_stage(tmp_path, session):
    run, called = tmp_path / "run", tmp_path / "policy"
    called.write_bytes(session.read_bytes())
    assert recompose("ingest", called, "--run", run, "--format", "claude_code").returncode == 0
    write_atomically(run / "policy" / "manifest.json", '{"sha256": "0", "inputs": {}, "counts": {}}')
    assert recompose("sites", run).returncode == 0


def test_a_line_that_cannot_be_read_is_told_and_is_no_failure(tmp_path, session):
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(b"{broken\n" + session.read_bytes())
    done = recompose("ingest", broken, "--run", tmp_path / "run")
    assert done.returncode == 0
    assert "lines set aside: 1 × not JSON" in done.stderr and "error" not in done.stderr
    [item] = map(json.loads, (tmp_path / "run" / "ingestion" / "quarantine.jsonl").read_text().splitlines())
    assert (item["file"], item["byte_offset"]) == ("broken.jsonl", 0)
    assert recompose("sites", tmp_path / "run").returncode == 0


def test_a_file_that_cannot_be_read_ends_with_4_and_with_what_is_next(tmp_path, session):
    run, folder = tmp_path / "run", tmp_path / "sessions"
    folder.mkdir()
    shutil.copy(session, folder)
    (folder / "binary.jsonl").write_bytes(bytes(range(256)) * 8)
    done = recompose("ingest", folder, "--run", run)
    assert done.returncode == 4
    assert done.stderr.splitlines()[-1].endswith(f"the rest is saved; next: recompose sites {run}")
    assert "1 × is not text" in done.stderr
    assert recompose("sites", run).returncode == 0
    again = recompose("ingest", folder, "--run", run)
    assert again.returncode == 4
    for told in (again.stdout, again.stderr):
        assert told.splitlines()[-1].endswith(f"next: recompose hint {run}")


def test_the_summary_says_why_there_are_fewer_traces_than_files(tmp_path, session):
    folder = tmp_path / "sessions"
    folder.mkdir()
    for name in ("one.jsonl", "two.jsonl"):
        shutil.copy(session, folder / name)
    lines = recompose("ingest", folder, "--run", tmp_path / "run").stdout.splitlines()
    assert "  left_out       duplicate_session 1 (files and sessions that gave no trace)" in lines
    (skipped,) = (line for line in lines if line.startswith("  skipped"))
    assert "duplicate_session" not in skipped


def test_not_a_run(tmp_path):
    assert_one_line_error(recompose("sites", tmp_path), 2, "is not a run")
    assert_one_line_error(recompose("sites", tmp_path / "nowhere"), 2, "nowhere does not exist")


def test_a_plain_file_is_no_run_folder(tmp_path, session):
    plain = tmp_path / "plain"
    plain.write_text("mine")
    assert_one_line_error(recompose("ingest", session, "-o", plain), 2, f"{plain} exists and is not a run")
    assert plain.read_text() == "mine"


def test_the_next_command_may_be_copied_into_a_shell(tmp_path, session):
    run = tmp_path / "run ünï 日本"
    assert recompose("ingest", session, "--run", run).returncode == 0
    assert_one_line_error(recompose("cost", run), 2, f"next: recompose replay '{run}'")
    too_early = recompose("hint", run).stderr.splitlines()[-1]
    assert shlex.split(too_early.split("next: ")[1]) == ["recompose", "sites", str(run)]
    assert recompose("sites", run).returncode == 0
    refused = recompose("replay", run).stderr.splitlines()[-1]
    assert shlex.split(refused.split("next: ")[1])[:3] == ["recompose", "replay", str(run)]


def test_a_reader_that_went_away_is_no_error(tmp_path, session):
    assert recompose("ingest", session, "--run", tmp_path / "run").returncode == 0
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "composer_replication", "ingest", session, "--run", tmp_path / "run", "--json"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert done.returncode == 141
    assert [line for line in done.stderr.splitlines() if "kept" not in line] == []


def test_without_the_training_libraries_the_error_names_the_extra(tmp_path):
    hide = "import sys; sys.modules['torch'] = None; sys.argv = ['recompose', 'quickstart', '--run', sys.argv[1]]\n"
    code = hide + "from composer_replication.cli.main import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: torch is not installed; next: pip install")


def test_replay_without_a_server_fails_and_can_be_tried_again(tmp_path, session):
    config = tmp_path / "own.toml"
    server = 'simulated = false\nbase_url = "http://127.0.0.1:9/v1"\nteachers = ["a/x", "b/y"]\nmax_attempts = 2\n'
    config.write_text(f"[replay]\n{server}")
    run = tmp_path / "run"
    assert recompose("ingest", session, "--run", run, "--config", config).returncode == 0
    assert recompose("sites", run).returncode == 0
    for _ in range(2):
        failed = recompose("replay", run)
        assert failed.returncode == 1
        assert "all 4 teacher calls failed" in failed.stderr.splitlines()[-1]
    assert not (run / "replay" / "manifest.json").exists()


def test_a_quickstart_that_could_not_begin_leaves_nothing_behind(tmp_path):
    run = tmp_path / "run"
    failed = recompose("quickstart", "--model", tmp_path / "typo", "--run", run)
    assert failed.returncode == 2
    assert "there is no model folder" in failed.stderr.splitlines()[-1]
    assert not run.exists()


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ('name = "cod"', "environment.name: no environment cod"),
        ('name = "code"\ntasks = ["nowhere"]', "nowhere holds no tasks; next: recompose env make REPO -o nowhere"),
        ('name = "harbor"\ntasks = ["nowhere"]', "no Harbor tasks in nowhere"),
        ('name = "openenv"\nurl = "http://127.0.0.1:9"', "http://127.0.0.1:9 does not answer"),
    ],
)
def test_an_environment_that_cannot_be_opened_is_told_and_begins_no_run(tmp_path, section, reason):
    config, run = tmp_path / "my.toml", tmp_path / "run"
    config.write_text(f'[environment]\n{section}\n[[channels]]\nname = "grpo"\n[warmup]\nsteps = 0\n')
    refused = recompose("train", run, "--config", config)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert reason in refused.stderr.splitlines()[-1] and "; next: " in refused.stderr.splitlines()[-1]
    assert not run.exists(), "the mended file begins it anew"


def test_config_and_seed_do_not_mix(tmp_path):
    config = tmp_path / "my.toml"
    config.write_text("seed = 1\n")
    assert_one_line_error(recompose("quickstart", "--config", config, "--seed", "2"), 2, "--config")
    assert_one_line_error(recompose("quickstart", "--seed", "-1"), 2, "negative")


def test_a_finished_ingest_needs_its_files_no_more(tmp_path, session):
    run = tmp_path / "run"
    assert recompose("ingest", session, "--run", run).returncode == 0
    session.unlink()
    assert recompose("ingest", session, "--run", run).returncode == 0


def test_nothing_to_ingest(tmp_path):
    assert_one_line_error(recompose("ingest", "--run", tmp_path / "run"), 2, "nothing to ingest")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (("--model", "tiny"), "no words for code"),
        ((), "smollm2 is not in the cache; next: recompose model fetch smollm2"),
        (("--model", "./nowhere"), "there is no model folder ./nowhere; next: give a folder as model.name"),
    ],
)
def test_a_model_that_cannot_answer_code_is_told_before_tasks_are_made(tmp_path, monkeypatch, model, told):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ended = recompose("quickstart", "--environment", "code", *model, "--run", tmp_path / "run")
    assert ended.returncode == 2 and told in ended.stderr
    assert not list(tmp_path.iterdir())
