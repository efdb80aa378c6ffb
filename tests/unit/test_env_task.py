"""One task by hand: shown without its secrets, tried in the agent's sandbox, and graded from a patch."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from types import SimpleNamespace

import pytest

from composer_replication.cli.env_task import grade, shell, show
from composer_replication.environments.code.tasks.patches import as_patch, read_patch
from composer_replication.environments.code.tasks.task import Submission
from composer_replication.errors import UsageError
from tests.hacks.sample_task import GOLD, GUARDS, HIDDEN, SPANS, VISIBLE_FILE, write_sample_task


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return write_sample_task(tmp_path_factory.mktemp("by-hand") / "task")


def test_show_tells_everything_but_the_secrets(task, capsys):
    show(task.folder, json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["statement"].startswith("Write `merge`") and SPANS in told["files"]
    assert (told["hidden_tests"], told["guard_tests"]) == (len(HIDDEN), len(GUARDS))
    show(task.folder)
    shown = capsys.readouterr().out
    assert "hidden_tests   9" in shown and "test_merge" not in shown + json.dumps(told) and "furthest_end" not in shown
    show(task.folder, hidden=True)
    shown = capsys.readouterr().out
    assert "def test_merge_touching" in shown and "furthest_end" in shown


def test_a_patch_is_graded_test_by_test(task, tmp_path, capsys):
    patch = tmp_path / "gold.patch"
    patch.write_bytes(as_patch(task, GOLD))
    grade(task.folder, patch=patch, json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["reward"], told["hidden"], told["notes"]) == (1.0, dict.fromkeys(HIDDEN, "passed"), [])
    patch.write_text("")
    grade(task.folder, patch=patch)
    shown = capsys.readouterr().out
    assert shown.startswith("reward 0: 0 of 9 hidden tests pass") and f"failed   {HIDDEN[0]}" in shown


def test_patches_carry_new_removed_and_binary_files(task, tmp_path):
    submission = Submission({SPANS: b"x = 1\n", "spanbook/new file.py": b"", "a.bin": b"\0\xff\n"}, (VISIBLE_FILE,))
    patch = tmp_path / "patch"
    patch.write_bytes(as_patch(task, submission))
    assert read_patch(task, patch) == submission


@pytest.mark.parametrize(
    "content",
    [
        b"nonsense",
        b"--- a/absent.py\n+++ b/absent.py\n@@ -1 +1 @@\n-a\n+b\n",
        b"--- /dev/null\n+++ b/../out.py\n@@ -0,0 +1 @@\n+a\n",
    ],
)
def test_a_patch_that_does_not_apply_is_refused(task, tmp_path, content):
    patch = tmp_path / "patch"
    patch.write_bytes(content)
    with pytest.raises(UsageError, match="does not apply"):
        read_patch(task, patch)


def test_a_shell_without_a_terminal_runs_commands_and_keeps_the_change(task, tmp_path, monkeypatch, capsysbinary):
    commands = b"pwd; python -c 'import spanbook, pytest'; ls /grading; echo 'x = 1' > spanbook/more.py; rm README.md\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False, buffer=io.BytesIO(commands)))
    shell(task.folder, patch=tmp_path / "patch")
    shown = capsysbinary.readouterr().out
    assert shown.startswith(b"/work\n") and b"No such file" in shown and b"recompose env grade" in shown
    assert read_patch(task, tmp_path / "patch") == Submission({"spanbook/more.py": b"x = 1\n"}, ("README.md",))


def test_a_shell_at_a_terminal(task):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "composer_replication", "env", "shell", str(task.folder)]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(ours, b"test -t 0 && echo ends with $((6 * 7)); exit\n")
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:  # the other side is closed
        pass
    assert process.wait(30) == 0
    assert b"ends with 42" in shown, shown
