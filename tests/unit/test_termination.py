"""SIGTERM leaves nothing behind: no sandbox, no temporary folder, no control group."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from composer_replication.environments.code.sandbox.limits import _sweep
from tests.tiny_repository import FILES, write_files

SLOW = {**FILES, "tests/test_slow.py": "import time\n\n\ndef test_slow():\n    time.sleep(60)\n"}


def test_a_terminated_command_removes_its_folders(tmp_path):
    write_files(tmp_path / "source", SLOW)
    # Where commands run as another user, that one must be able to pass through.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        temporary = Path(folder)
        temporary.chmod(0o755)
        asked = [sys.executable, "-m", "composer_replication", "env", "make", "source", "-o", "tasks"]
        env = {**os.environ, "TMPDIR": folder}
        process = subprocess.Popen(asked, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and not [*temporary.glob("recompose-sandboxes-*/*/area/work/tests")]:
            time.sleep(0.05)
        process.terminate()
        _, said = process.communicate(timeout=30)
        assert process.returncode == 143 and "terminated, finished stages are saved" in said, said
        left = [path for path in temporary.rglob("*") if not path.name.startswith("recompose-sandboxes-")]
        assert left == []


def test_control_groups_of_processes_that_are_gone_are_removed(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for name in (f"recompose-{ended.pid}-0", f"recompose-{os.getpid()}-3", "recompose-other-1", "else"):
        (tmp_path / name).mkdir()
    _sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {f"recompose-{os.getpid()}-3", "recompose-other-1", "else"}
