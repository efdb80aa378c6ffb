"""Runs inside the grading sandbox: starts pytest on trusted files and reports over what was standard output.

Reads one JSON order from standard input, writes one line per record. Started as
`python -P -s -B -X utf8 launcher.py`: no start-up file of a tree is read. The channel is a pipe that the grader
opened outside; standard output is closed over before any code of the submission is imported. Code of the submission
shares the process and can do all that the process can: the grader trusts no single record, see `challenge.py`.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    order: dict[str, Any] = json.load(sys.stdin)
    own_folder = Path(__file__).parent
    sys.path.append(str(own_folder))
    import pytest

    recorder_class: Any = importlib.import_module("recompose_grading.plugin").Recorder
    sys.path.remove(str(own_folder))
    recorder = recorder_class(os.dup(1), order["token"], frozenset(order["tests"]))
    recorder.ready()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    sys.stdin = io.StringIO()
    tree = os.getcwd()
    roots = [os.path.normpath(os.path.join(tree, root)) for root in order["source_roots"]]
    sys.path[:0] = roots
    os.environ["PYTHONPATH"] = os.pathsep.join(roots)
    sys.argv = ["python"]
    arguments = ["-c", str(own_folder / "grading.ini"), "--rootdir", tree, "--confcutdir", tree]
    arguments += ["-q", "--tb=no", "--no-header", "--no-summary", "--continue-on-collection-errors"]
    arguments += [f"-pno:{name}" for name in ("cacheprovider", "stepwise", "junitxml", "pastebin")]
    arguments += [part for name in order["plugins"] for part in ("-p", name)]
    code = pytest.main([*arguments, *order["files"]], plugins=[recorder])
    recorder.end(int(code))
    os._exit(0)


if __name__ == "__main__":
    main()
