"""`recompose experiment run FOLDER` and `recompose experiment rebuild FOLDER`"""

from __future__ import annotations

import json as json_module
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from composer_replication.errors import RecomposeError, UsageError

from .common import Json

Folder = Annotated[Path, Parameter(help="A folder of `experiments/`.")]
Words = Annotated[str, Parameter(help="For the script, after `--`.", allow_leading_hyphen=True)]

READS_WORDS = ("argv", "argparse", "cyclopts")
"""What a script that reads its words speaks of; any other one would ignore them."""

experiment = App(name="experiment", help="Run an experiment again, or rebuild its tables from its raw files.")


@experiment.command
def run(folder: Folder, /, *words: Words, json: Json = False) -> None:
    """Run the script of an experiment, which writes its `results/`, and name what it wrote."""
    _run_script(folder, "run.py", words, json)


@experiment.command
def rebuild(folder: Folder, /, *words: Words, json: Json = False) -> None:
    """Make every table and figure of an experiment again from its raw files. Nothing is trained."""
    _run_script(folder, "rebuild.py", words, json)


def _those_with(name: str, folder: Path) -> str:
    """What to do about a folder without this script: the folders beside it, or here, that have it."""
    verb = name.removesuffix(".py")
    for around in (folder.parent, folder, folder / "experiments", Path("experiments")):
        found = sorted(str(script.parent) for script in around.glob(f"*/{name}"))
        if found:
            return f"recompose experiment {verb} with one of {', '.join(found)}"
    return f"recompose experiment {verb} experiments/NAME"


def _with_shared(folder: Path) -> dict[str, str]:
    """The folder beside an experiment's own, `shared`, holds what several of them import."""
    path = [str(folder.resolve().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}


def _run_script(folder: Path, name: str, words: tuple[str, ...], as_json: bool) -> None:
    script = folder / name
    if not script.is_file():
        raise UsageError(f"no {name} in {folder}", _those_with(name, folder))
    if words and not any(reader in script.read_text(encoding="utf-8") for reader in READS_WORDS):
        raise UsageError(f"{script} takes no words, and was given {' '.join(words)}", "leave them out")
    # The script's own words go to stderr, so that --json stays one object.
    ended = subprocess.run(  # noqa: S603
        [sys.executable, str(script), *words],
        stdout=sys.stderr if as_json else None,
        check=False,
        env=_with_shared(folder),
    )
    if ended.returncode:
        raise RecomposeError(f"{script} ended with exit code {ended.returncode}", "read what it printed above")
    results = sorted(str(path) for path in (folder / "results").glob("*"))
    if as_json:
        print(json_module.dumps({"experiment": folder.resolve().name, "results": results}))
    else:
        print(f"results: {', '.join(results)}")
