"""`recompose env make` and `env verify` on a small repository: the funnel, resuming, adding, refusing, exit codes."""

import json
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from types import SimpleNamespace

import pytest

from composer_replication.cli import progress
from composer_replication.cli.env import make as make_command
from composer_replication.environments.code.certificates.certify import Verdict
from composer_replication.environments.code.making import make as making
from composer_replication.environments.code.making import workers
from composer_replication.environments.code.tasks.store import read_tasks
from composer_replication.errors import RecomposeError
from composer_replication.runs import locked
from tests.command_line import recompose
from tests.pages import ROOT
from tests.tiny_repository import FILES, stubbed_rectangle, write_files

GENERATOR = "tests.tiny_repository:propose"


def make(source, folder, *more):
    return recompose("env", "make", source, "-o", folder, "--generator", GENERATOR, "--json", "--jobs", "1", *more)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("make")
    source = write_files(folder / "source", FILES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "TOLD_EVERY_S", 0.2)
        patch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.1)
        ended = make(source, folder / "tasks")
    assert ended.returncode == 0, ended.stderr
    (folder / "said.txt").write_text(ended.stderr)
    return source, folder / "tasks", json.loads(ended.stdout)


def test_the_funnel(made):
    _, folder, result = made
    assert (result["tried"], result["valid"]) == (3, 1)
    assert result["rejected"] == {"import_broken": 1, "too_few_fail": 1}
    assert result["yield"] == pytest.approx(0.3333) and result["cpu_s_per_valid"] > 0
    assert json.loads((folder / "manifest.json").read_text())["valid"] == 1
    assert len(list((folder / "tasks").iterdir())) == 1


def test_what_a_candidate_is_at_is_told_while_it_takes_long(made):
    told = [line.partition("] ")[2].strip() for line in (made[0].parent / "said.txt").read_text().splitlines()]
    now = [line.removeprefix("now ").rpartition(", ") for line in told if line.startswith("now ")]
    assert all(seconds.endswith(" s") for *_, seconds in now)
    gates = {what.partition(": ")[2] for what, *_ in now}
    assert {"tests without the feature", "leaks, and grading the solution"} <= gates, told


def test_the_summary_says_how_many_tasks_are_held_out(made):
    source, folder, _ = made
    ended = recompose("env", "make", source, "-o", folder, "--generator", GENERATOR, "--jobs", "1")
    told = next(line for line in ended.stdout.splitlines() if line.startswith("  held out"))
    assert told.split()[2] in "01" and told.endswith("the default; fewer than 5 tell nothing: make more tasks")


def test_a_second_call_goes_on_where_the_first_stopped(made):
    source, folder, result = made
    verdicts = (folder / "verdicts.jsonl").read_text()
    lines = verdicts.splitlines(keepends=True)
    assert len(lines) == 3
    (folder / "verdicts.jsonl").write_text("".join(lines[:2]) + lines[2][:20])
    shutil.copytree(next((folder / "tasks").iterdir()), folder / "tasks" / ".staging-1")
    assert len(read_tasks(folder)) == 1, "what was being proved is no task"
    again = json.loads(make(source, folder).stdout)
    assert {key: again[key] for key in ("tried", "valid", "rejected")} == {
        key: result[key] for key in ("tried", "valid", "rejected")
    }
    keys = [json.loads(line)["key"] for line in (folder / "verdicts.jsonl").read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 3 and len(list((folder / "tasks").iterdir())) == 1


def test_a_folder_can_be_enlarged_and_nothing_is_made_twice(made, tmp_path):
    source, folder = made[0], shutil.copytree(made[1], tmp_path / "tasks")
    old = next((folder / "tasks").iterdir()) / "task.json"
    written = old.stat().st_mtime_ns
    more = make(source, folder, "--generator", f"{GENERATOR}_shout")
    assert more.returncode == 0, more.stderr
    result = json.loads(more.stdout)
    assert (result["tried"], result["valid"], result["new"], result["proposed"]) == (4, 2, 1, 4)
    assert result["decided_now"] == 1
    assert f"{folder} has 1 tasks already" in more.stderr and "certify: 4/4 2 valid" in more.stderr
    assert old.stat().st_mtime_ns == written and len(read_tasks(folder)) == 2
    verdicts = (folder / "verdicts.jsonl").read_text()
    again = json.loads(make(source, folder, "--seed", "1").stdout)
    assert (again["tried"], again["valid"], again["new"]) == (4, 2, 0)
    assert (folder / "verdicts.jsonl").read_text() == verdicts
    calls = [(call["generators"], call["proposals"]["seed"]) for call in again["calls"]]
    assert calls == [([GENERATOR], 0), ([GENERATOR, f"{GENERATOR}_shout"], 0), ([GENERATOR], 1)]
    assert json.loads((folder / "manifest.json").read_text())["complete"]
    shown = recompose("env", "make", source, "-o", folder, "--generator", GENERATOR, "--jobs", "1").stdout
    assert "3    is all that these options find, of at most 100; another --generator" in shown


def test_a_task_without_a_verdict_is_no_duplicate_but_the_next_like_it_is(made, tmp_path, monkeypatch):
    """Ctrl-C lets a worker finish its task, and nobody writes its verdict down."""
    (task,) = read_tasks(made[1])
    candidates = [stubbed_rectangle(), stubbed_rectangle(mode="remove"), stubbed_rectangle(name="namesake")]
    certified = Verdict(task, 0.0, 0.0, 0.0)
    monkeypatch.setattr(making, "certify_all", lambda job, tried, *_: ((each, certified) for each in tried))
    making.make_tasks(SimpleNamespace(level="L0"), candidates, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "verdicts.jsonl").read_text().splitlines()]
    assert [(line["mode"], line["reason"]) for line in lines] == [("stub", None), ("remove", "duplicate")]


def test_another_repository_and_another_state_of_it_are_refused(made, tmp_path):
    source, folder, _ = made
    before = (folder / "verdicts.jsonl").read_text(), (folder / "manifest.json").read_text()
    renamed = FILES["pyproject.toml"].replace("tiny-shapes", "other")
    for change, told in (
        ({"README.md": "changed"}, "another repository_hash"),
        ({"pyproject.toml": renamed}, "another repository "),
    ):
        refused = make(write_files(tmp_path / told, FILES | change), folder)
        assert refused.returncode == 2 and told in refused.stderr and "takes several" in refused.stderr
    assert "another distributions" in make(source, folder, "--with", "rich").stderr
    assert ((folder / "verdicts.jsonl").read_text(), (folder / "manifest.json").read_text()) == before


def test_what_of_a_checkout_is_left_out_is_told(made, tmp_path):
    source, folder = shutil.copytree(made[0], tmp_path / "source"), shutil.copytree(made[1], tmp_path / "tasks")
    for argv in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", str(source), *argv], check=True)
    assert "left out" not in make(source, folder).stderr
    write_files(source, {"shapes/new.py": "", "notes.txt": ""})
    (source / "shapes" / "other.py").symlink_to("area.py")
    subprocess.run(["git", "-C", str(source), "add", "shapes/other.py"], check=True)
    said = make(source, folder).stderr
    assert "left out, files that git does not know (`git add` takes them in): 2, first notes.txt" in said
    assert "left out, symbolic links: 1, first shapes/other.py" in said


def test_verify(made):
    _, folder, _ = made
    ended = recompose("env", "verify", folder, "--json")
    assert ended.returncode == 0, ended.stderr
    result = json.loads(ended.stdout)
    assert (result["tasks"], result["passed"], result["gold_ok"], result["nop_ok"], result["leaks_ok"]) == (1,) * 5
    shown = recompose("env", "verify", folder).stdout
    assert f"\nnext: recompose env rollout {folder} --scripted gold --run RUN, or recompose init" in shown


def test_verify_fails_on_a_task_that_was_tampered_with(made, tmp_path):
    _, folder, _ = made
    shutil.copytree(folder, tmp_path / "copy")
    gold = next((tmp_path / "copy" / "tasks").iterdir()) / "solution" / "gold" / "shapes" / "area.py"
    gold.write_text(FILES["shapes/area.py"].replace("* checked", "+ checked"))
    ended = recompose("env", "verify", tmp_path / "copy", "--json")
    assert ended.returncode == 4 and "1 of 1 tasks fail" in ended.stderr
    ((name, checks),) = json.loads(ended.stdout)["failed"].items()
    assert set(checks) == {"gold"}
    moved = shutil.move(tmp_path / "copy" / "tasks" / name, tmp_path)
    alone = recompose("env", "verify", moved)
    assert alone.stderr.rstrip().endswith(f"next: remove the folder {name} or make the tasks again"), alone.stderr


def test_mistakes_are_told_before_anything_runs(tmp_path):
    source = write_files(tmp_path / "source", FILES)
    for more, message in (
        (("--level", "L9"), "there is no level L9"),
        (("--generator", "absent"), "there is no generator absent"),
    ):
        ended = make(source, tmp_path / "tasks", *more)
        assert ended.returncode == 2 and message in ended.stderr, ended.stderr
    assert not (tmp_path / "tasks").exists()


def test_a_red_suite_leaves_no_folder(tmp_path):
    source = write_files(tmp_path / "source", {**FILES, "shapes/area.py": "1 / 0\n"})
    ended = make(source, tmp_path / "tasks")
    assert ended.returncode == 2 and "is red" in ended.stderr
    assert not (tmp_path / "tasks").exists()


def test_a_repository_without_a_candidate_points_to_no_empty_file(tmp_path, monkeypatch):
    empty = {"valid": 0, "new": 0, "tried": 0, "filtered": {}, "repository": "tiny", "rejected": {}, "yield": 0.0}
    empty |= {"proposed": 0, "decided_now": 0}
    rejected = {**empty, "tried": 2, "rejected": {"too_few_fail": 2}, "filtered": {"long_statement": 1}}
    for result, told in (
        (empty, "to make a task of; next: add another --generator"),
        (rejected, "by these options; earlier calls decided 3, and none is valid; next: add another --generator"),
        ({**rejected, "proposed": 2}, "is valid; next: read the reasons in"),
        ({**rejected, "decided_now": 1}, "is valid; next: read the reasons in"),
    ):
        monkeypatch.setattr(making, "make", lambda *given, result=result: result)
        with pytest.raises(RecomposeError) as raised:
            make_command(tmp_path, into=tmp_path / "tasks")
        assert told in str(raised.value)


def test_a_next_command_can_be_pasted_where_a_folder_has_a_space(tmp_path):
    with pytest.raises(RecomposeError) as raised:
        read_tasks(tmp_path / "my tasks")
    assert raised.value.next_command == f"recompose env make REPO -o '{tmp_path}/my tasks'"


def test_a_second_call_on_the_same_folder_is_refused_while_the_first_works(tmp_path):
    source, folder = write_files(tmp_path / "source", FILES), tmp_path / "tasks"
    words = ["env", "make", source, "-o", folder, "--generator", GENERATOR, "--jobs", "1"]
    first = subprocess.Popen(
        [sys.executable, "-m", "composer_replication", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        until = time.monotonic() + 60
        while not (folder / "manifest.json").exists() and first.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        first.send_signal(signal.SIGSTOP)
        before = (folder / "manifest.json").read_text()
        refused = make(source, folder, "--seed", "1")
        assert refused.returncode == 2
        assert f"{folder} is in use by another process ({first.pid} on " in refused.stderr.replace("\n", " ")
        assert refused.stderr.endswith("next: wait for it to end, or stop it, then run the same command\n")
        assert (folder / "manifest.json").read_text() == before
    finally:
        first.kill()
        first.communicate(timeout=60)
    with locked(folder):
        pass


def test_an_interrupt_says_at_once_what_is_kept_and_then_ends(tmp_path):
    source, folder = write_files(tmp_path / "source", FILES), tmp_path / "tasks"
    words = ["env", "make", source, "-o", folder, "--generator", GENERATOR, "--jobs", "1"]
    command = [sys.executable, "-m", "composer_replication", *words]
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background ignores interrupts
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    lines = iter(process.stderr.readline, "")
    assert any("certify: tasks from" in line for line in lines)
    until = time.monotonic() + 60
    while not list(folder.glob("tasks/.staging-*")) and time.monotonic() < until:
        time.sleep(0.01)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert any("stopping, and the sandboxes end: " in line for line in lines)
    said_s = time.monotonic() - began
    *_, last = lines
    assert process.wait(timeout=60) == 130 and said_s < 2
    assert last.startswith("error: interrupted, ") and last.count("of 3 candidates are decided and kept") == 1
    assert time.monotonic() - began < 5, "a worker whose verdict nobody reads is not waited for"
    assert not list(folder.glob("tasks/.staging-*"))


def test_a_folder_that_is_not_ours_is_left_as_it_is(tmp_path):
    source, folder = write_files(tmp_path / "source", FILES), write_files(tmp_path / "mine", {"notes.txt": "mine"})
    refused = make(source, folder)
    assert refused.returncode == 2 and "holds no tasks of ours" in refused.stderr
    assert [file.name for file in folder.iterdir()] == ["notes.txt"]
