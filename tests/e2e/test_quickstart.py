"""Every stage through the command line, on a configuration that takes seconds."""

import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from tests.command_line import recompose
from tests.small import SMALL_CONFIG

KEYS = {
    "traces", "sites", "hints", "replies", "pairs", "steps", "success_before", "success_after", "difference", "losses",
    "spent_micros", "seconds", "report",
}  # fmt: skip
STAGES = ["policy", "ingestion", "sites", "hints", "replay", "pairs", "training", "evaluation"]


def words(folder):
    (folder / "small.toml").write_text(SMALL_CONFIG)
    return ["quickstart", "--config", "small.toml", "--run", "run"]


def start(folder):
    command = [sys.executable, "-m", "composer_replication", *words(folder)]
    with heeding_interrupts():
        return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@contextmanager
def heeding_interrupts():
    """A suite in the background of a shell was told to ignore them, and its children would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quickstart")
    done = recompose(*words(folder), "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "run", done.stdout, done.stderr


def test_json_is_one_object_with_everything(finished):
    _, out, _ = finished
    assert len(out.strip().splitlines()) == 1
    result = json.loads(out)
    assert result.keys() >= KEYS
    assert result["traces"] == 9
    assert result["steps"] == 2
    assert result["spent_micros"] == 0
    assert result["simulated_teachers"] is True
    for name in ("success_before", "success_after", "difference"):
        assert set(result[name]) == {"mean", "lo", "hi", "n"}
    assert set(result["losses"]) == {"policy", "sdpo", "replay"}


def test_progress_names_every_stage(finished):
    _, _, err = finished
    assert all(f"{stage}:" in err for stage in STAGES)


def test_the_run_directory_is_the_contract(finished):
    run, _, _ = finished
    for stage in STAGES:
        manifest = json.loads((run / stage / "manifest.json").read_text())
        assert manifest["stage"] == stage
        assert (run / stage / "records.jsonl.zst").exists()
    assert (run / "config.json").exists()
    assert (run / "ledger.sqlite").exists()
    page = (run / "report.html").read_text()
    assert "simulated" in page


def test_the_trained_model_loads_and_has_a_card(finished):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    run, _, _ = finished
    folder = run / "training" / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    messages = [{"role": "system", "content": "read_file(path:str)"}, {"role": "user", "content": "read app.py"}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    assert model.generate(**prompt, max_new_tokens=4).shape[1] > prompt["input_ids"].shape[1]
    card = (folder / "README.md").read_text()
    assert "simulated teachers" in card
    assert "SDPO" in card


def test_a_finished_run_is_kept_and_its_lost_report_written_again(finished):
    run, out, _ = finished
    page = (run / "report.html").read_bytes()
    (run / "report.html").unlink()
    again = recompose(*words(run.parent), "--json", cwd=run.parent)
    assert again.returncode == 0
    assert again.stderr.count("kept, finished earlier") == len(STAGES)
    assert json.loads(again.stdout) == json.loads(out)
    assert (run / "report.html").read_bytes() == page


def test_training_can_be_done_again_after_its_folder_is_deleted(finished, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(finished[0], run)
    for stage in ("training", "evaluation"):
        shutil.rmtree(run / stage)
    done = recompose("train", run, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["steps"] == 2
    before, after = ((folder / "training" / "manifest.json").read_text() for folder in (finished[0], run))
    assert json.loads(before)["sha256"] == json.loads(after)["sha256"]


def test_ingest_plays_the_toolbox_when_rollouts_are_asked_for(tmp_path):
    done = recompose("ingest", *words(tmp_path)[1:], "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rollouts"] == 8


def test_kill_and_resume(tmp_path):
    process = start(tmp_path)
    wait_for(tmp_path / "run" / "pairs" / "manifest.json", process)
    process.kill()
    process.communicate(timeout=60)
    done_before = {p.parent.name: p.stat().st_mtime_ns for p in (tmp_path / "run").glob("*/manifest.json")}
    assert "evaluation" not in done_before
    resumed = recompose(*words(tmp_path), "--json", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert "resuming" in resumed.stderr
    for stage, modified in done_before.items():
        assert f"{stage}: kept, finished earlier" in resumed.stderr
        assert (tmp_path / "run" / stage / "manifest.json").stat().st_mtime_ns == modified
    assert json.loads(resumed.stdout)["steps"] == 2


def test_interrupt_exits_130_and_says_so(tmp_path):
    process = start(tmp_path)
    wait_for(tmp_path / "run" / "config.json", process)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "saved" in err.splitlines()[-1]


def wait_for(path, process):
    deadline = time.monotonic() + 240
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)
