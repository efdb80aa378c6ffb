"""The run directory: who may write to it, when a stage is done, and what a crash leaves behind."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import zstandard

from composer_replication.config import Config, HintsConfig, TrainingConfig
from composer_replication.errors import RecomposeError, UsageError
from composer_replication.records import Hint
from composer_replication.runs import Run, read_records, write_records

TRAINING = TrainingConfig(steps=40)
HINTS = [
    Hint(hint_id=f"h{i}", site_id="s", text="é\nx", sham_text="y", layer="template", leak_level="L0", tokens=i)
    for i in range(3)
]


def files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


@pytest.fixture
def run(tmp_path) -> Run:
    return Run.start(tmp_path / "run", Config(seed=1, training=TRAINING))


def test_a_run_begins_with_its_config_and_origin(run):
    assert json.loads((run.path / "config.json").read_text()) == run.config.model_dump(mode="json")
    assert json.loads((run.path / "manifest.json").read_text())["config_hash"] == run.config.hash


def test_an_existing_empty_folder_may_become_a_run(tmp_path):
    assert Run.start(tmp_path, Config()).config == Config()


def test_the_same_config_resumes(run):
    run.stage("hints").finish(HINTS, {}, [], time.monotonic())
    before = files(run.path)
    again = Run.start(run.path, run.config.model_copy())
    assert again.stage("hints").read(Hint) == HINTS
    assert files(run.path) == before


def test_a_run_opens_with_its_own_config(run):
    assert Run.open(run.path).config == run.config


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (Config(seed=2, training=TRAINING), "seed: 1 there, 2 now"),
        (Config(seed=1, training=TrainingConfig(steps=41)), "training.steps: 40 there, 41 now"),
        (Config(seed=1, training=TRAINING, hints=HintsConfig(max_tokens=5)), "hints.max_tokens: 96 there, 5 now"),
    ],
)
def test_another_config_is_refused_and_changes_nothing(run, config, named):
    before = files(run.path)
    with pytest.raises(UsageError) as caught:
        Run.start(run.path, config)
    assert named in str(caught.value)
    assert caught.value.exit_code == 2
    assert files(run.path) == before


def test_a_folder_with_other_things_in_it_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="is not a run"):
        Run.start(tmp_path, Config())
    assert files(tmp_path) == {"thesis.tex": b"years of work"}


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "run").write_text("x")
    with pytest.raises(UsageError, match="is not a run"):
        Run.start(tmp_path / "run", Config())


@pytest.mark.parametrize("config", [None, "{", '{"sed": 1}'])
def test_opening_what_is_not_a_run(tmp_path, config):
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(UsageError):
        Run.open(tmp_path)


def test_a_stage_is_done_only_with_its_manifest(run):
    stage = run.stage("hints")
    assert not stage.is_done
    write_records(stage.path / "records.jsonl.zst", HINTS)
    assert not stage.is_done
    stage.finish(HINTS, {"hints": 3}, [], time.monotonic())
    assert stage.is_done
    (stage.path / "manifest.json").unlink()
    assert not stage.is_done


def test_a_stage_keeps_its_records_counts_and_inputs(run):
    sites, hints = run.stage("sites"), run.stage("hints")
    sites.finish([], {"sites": 0}, [], time.monotonic())
    hints.finish(iter(HINTS), {"hints": 3, "layers": {"template": 3}}, [sites], time.monotonic())
    assert hints.read(Hint) == HINTS
    assert hints.counts == {"hints": 3, "layers": {"template": 3}}
    manifest = hints.manifest
    assert manifest is not None
    assert (manifest["stage"], manifest["records"]) == ("hints", 3)
    assert manifest["inputs"] == {"sites": sites.sha256}
    assert manifest["seconds"] >= 0


def test_the_hash_is_over_the_uncompressed_lines(run):
    stage = run.stage("hints")
    stage.finish(HINTS, {}, [], time.monotonic())
    plain = zstandard.ZstdDecompressor().stream_reader((stage.path / "records.jsonl.zst").read_bytes()).read()
    assert stage.sha256 == hashlib.sha256(plain).hexdigest()
    assert [json.loads(line)["hint_id"] for line in plain.splitlines()] == ["h0", "h1", "h2"]


def test_a_stage_without_records(run):
    stage = run.stage("hints")
    stage.finish([], {}, [], time.monotonic())
    assert stage.read(Hint) == []
    assert stage.sha256 == hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize(
    ("noun", "command"),
    [
        ("ingestion", "recompose ingest PATH --run RUN"),
        ("sites", "recompose sites RUN"),
        ("hints", "recompose hint RUN"),
        ("replay", "recompose replay RUN"),
        ("pairs", "recompose pair RUN"),
        ("training", "recompose train RUN"),
        ("evaluation", "recompose evaluate RUN"),
    ],
)
def test_an_unfinished_stage_names_the_command_that_finishes_it(run, noun, command):
    stage = run.stage(noun)
    write_records(stage.path / "records.jsonl.zst", HINTS)
    for ask in (lambda: stage.read(Hint), lambda: stage.counts, lambda: stage.sha256):
        with pytest.raises(UsageError, match=f"no finished {noun} stage") as caught:
            ask()
        assert caught.value.next_command == command.replace("RUN", str(run.path))


def test_a_stage_is_not_done_while_its_input_is_not(run):
    with pytest.raises(UsageError, match="no finished sites stage"):
        run.stage("hints").finish(HINTS, {}, [run.stage("sites")], time.monotonic())
    assert not run.stage("hints").is_done


HOLD = """
import sys
from pathlib import Path
from composer_replication.runs import Run
with Run.open(Path(sys.argv[1])).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_the_lock_keeps_a_second_process_out(run):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match="in use by another process"), run.lock():
            pass
    finally:
        holder.stdin.close()
        assert holder.wait(timeout=20) == 0
        holder.stdout.close()
    with run.lock():
        pass


def test_the_lock_is_free_again_after_an_error(run):
    with pytest.raises(ValueError, match="boom"), run.lock():
        raise ValueError("boom")
    with run.lock():
        pass


def failing_after_two():
    yield from HINTS[:2]
    raise RuntimeError("boom")


def test_an_interrupted_write_leaves_no_target(tmp_path):
    path = tmp_path / "stage" / "records.jsonl.zst"
    with pytest.raises(RuntimeError, match="boom"):
        write_records(path, failing_after_two())
    assert not path.exists()


def test_an_interrupted_write_keeps_what_was_there(tmp_path):
    path = tmp_path / "records.jsonl.zst"
    write_records(path, HINTS)
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="boom"):
        write_records(path, failing_after_two())
    assert path.read_bytes() == before
    write_records(path, HINTS[:1])
    assert list(read_records(path, Hint)) == HINTS[:1]


def test_an_interrupted_write_cleans_up(tmp_path):
    with pytest.raises(RuntimeError, match="boom"):
        write_records(tmp_path / "records.jsonl.zst", failing_after_two())
    assert list(tmp_path.iterdir()) == []


def test_two_writers_of_one_file_do_not_disturb_each_other(tmp_path, monkeypatch):
    """Two containers that finish a stage at the same time may have the same process id."""
    monkeypatch.setattr("os.getpid", lambda: 1)
    path, dead = tmp_path / "records", tmp_path / ".records.left"
    dead.write_bytes(b"half")

    def while_another_writes():
        yield HINTS[0]
        assert write_records(path, HINTS).records == len(HINTS)
        yield from HINTS[1:]

    assert write_records(path, while_another_writes()).records == len(HINTS)
    assert list(read_records(path, Hint)) == HINTS
    assert [file.name for file in tmp_path.iterdir()] == ["records"]


def test_an_interrupted_stage_is_done_again(run):
    stage = run.stage("hints")
    with pytest.raises(RuntimeError, match="boom"):
        stage.finish(failing_after_two(), {}, [], time.monotonic())
    assert not stage.is_done
    stage.finish(HINTS, {}, [], time.monotonic())
    assert stage.read(Hint) == HINTS


def test_a_run_that_died_while_it_began_can_begin_again(run):
    (run.path / "manifest.json").unlink()
    Run.start(run.path, run.config.model_copy())


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-9], lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"x" * 50]
)
def test_records_that_are_not_what_the_manifest_says_are_refused(run, damage):
    stage = run.stage("hints")
    stage.finish(HINTS, {}, [], time.monotonic())
    file = stage.path / "records.jsonl.zst"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(RecomposeError, match="damaged"):
        stage.read(Hint)


def test_a_broken_manifest_is_named(run):
    stage = run.stage("hints")
    stage.finish(HINTS, {}, [], time.monotonic())
    (stage.path / "manifest.json").write_text("{")
    with pytest.raises(RecomposeError, match="damaged"):
        stage.read(Hint)


def test_records_of_another_schema_are_refused(run):
    with pytest.raises(ValueError, match="schema_version"):
        Hint.model_validate({**HINTS[0].model_dump(), "schema_version": 99})
