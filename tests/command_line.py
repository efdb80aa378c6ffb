"""`recompose` in this process: the verbs as a person calls them, without a second start of Python for each.

`tests/unit/test_entry.py` starts the real program.
"""

from __future__ import annotations

import io
import sys
from contextlib import chdir, nullcontext, redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest import mock

from composer_replication.cli.main import main


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def recompose(*arguments: object, cwd=None) -> Ended:
    out, err, code = io.StringIO(), io.StringIO(), 0
    words = mock.patch.object(sys, "argv", ["recompose", *map(str, arguments)])
    with words, redirect_stdout(out), redirect_stderr(err), chdir(cwd) if cwd else nullcontext():
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Ended(code, out.getvalue(), err.getvalue())
