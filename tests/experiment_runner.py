"""The shared runner of experiments with its worker in this process, without a second start of Python for each slice.

`tests/e2e/test_experiments_in_one_queue.py` starts the real one.
"""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO
from unittest import mock

from shared.runner import run, work


class WorkerHere:
    """What the runner needs of `subprocess.Popen`."""

    def __init__(self, command: list[str], stdout: TextIO, **options: object) -> None:
        self._words, self._log = command[2:], stdout

    def poll(self) -> int:
        with mock.patch.object(sys, "argv", self._words), redirect_stdout(self._log), redirect_stderr(self._log):
            try:
                work.main()
            except SystemExit as ended:
                return int(ended.code or 0)
            finally:
                self._log.flush()
        return 0


def work_off(folder: Path, *words: object) -> str:
    """As `recompose experiment run FOLDER -- WORDS`; what it says."""
    starts_here = SimpleNamespace(Popen=WorkerHere, STDOUT=subprocess.STDOUT)
    same_path = mock.patch.object(sys, "path", [*sys.path])  # the runner adds the experiment's folder
    with same_path, mock.patch.object(run, "subprocess", starts_here), redirect_stdout(said := io.StringIO()):
        try:
            run.alone(folder, [*map(str, words)])
        except SystemExit as ended:
            raise AssertionError(said.getvalue()) from ended
    return said.getvalue()
