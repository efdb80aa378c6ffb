"""`recompose experiment run FOLDER`"""

from __future__ import annotations

import json as json_module
import subprocess
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from composer_replication.errors import RecomposeError, UsageError

from .common import Json

experiment = App(name="experiment", help="Run an experiment again.")


@experiment.command
def run(folder: Annotated[Path, Parameter(help="A folder of `experiments/`.")], /, *, json: Json = False) -> None:
    """Run the script of an experiment, which writes its `results/`, and name what it wrote."""
    script = folder / "run.py"
    if not script.is_file():
        raise UsageError(f"no run.py in {folder}", "recompose experiment run experiments/NAME")
    # The script's own words go to stderr, so that --json stays one object.
    ended = subprocess.run([sys.executable, str(script)], stdout=sys.stderr if json else None, check=False)  # noqa: S603
    if ended.returncode:
        raise RecomposeError(f"{script} ended with exit code {ended.returncode}", "read what it printed above")
    results = sorted(str(path) for path in (folder / "results").glob("*") if path.is_file())
    if json:
        print(json_module.dumps({"experiment": folder.resolve().name, "results": results}))
    else:
        print(f"results: {', '.join(results)}")
