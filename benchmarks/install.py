"""What the core costs without torch: a wheel of this tree into an empty environment, from the package index.

Seconds and processor seconds of `pip install`, bytes on disk, `recompose --help`, the core verbs on the session that
the wheel brings, and processor milliseconds of imports (best of nine).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
SESSION = (
    "import composer_replication as c, pathlib as p; print(p.Path(c.__file__).parent/'data/claude_code_session.jsonl')"
)

IMPORT = "import time; t = time.process_time(); import {module}; print(1000 * (time.process_time() - t))"
MODULES = ("composer_replication", "composer_replication.records", "composer_replication.cli.main")


def timed(work: Callable[[], object]) -> dict[str, float]:
    before, started = os.times(), time.perf_counter()
    work()
    after = os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return {"wall_s": time.perf_counter() - started, "cpu_s": cpu_s}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python, recompose = folder / "venv/bin/python", folder / "venv/bin/recompose"

        def run(*command: str | Path) -> str:
            done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)  # noqa: S603 - our own commands
            return done.stdout.strip()

        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(build, cwd=ROOT, check=True)  # noqa: S603 - our own command
        run(sys.executable, "-m", "venv", folder / "venv")
        wheel = next(folder.glob("*.whl"))
        result = {"python": platform.python_version(), "cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
        pip = [python, "-m", "pip", "install", "--no-input", "--no-compile", "--quiet", wheel]
        result["install"] = timed(lambda: run(*pip)) | {"wheel_bytes": wheel.stat().st_size}
        result["installed_bytes"] = sum(file.stat().st_size for file in folder.glob("venv/lib/**/*") if file.is_file())
        result["torch"] = bool([*folder.glob("venv/lib/*/site-packages/torch")])
        session, runs = run(python, "-c", SESSION), folder / "run"
        run(recompose, "--help")  # compiles what it imports
        result["help"] = timed(lambda: run(recompose, "--help"))
        verbs = {"ingest": [session, "-o", runs], "sites": [runs], "hint": [runs], "replay": [runs, "--no-teachers"]}
        verbs |= {"pair": [runs], "show": [runs], "cost": [runs]}
        result["verbs"] = {verb: timed(lambda v=verb, a=words: run(recompose, v, *a)) for verb, words in verbs.items()}
        result["import_cpu_ms"] = {
            module: min(float(run(python, "-c", IMPORT.format(module=module))) for _ in range(9)) for module in MODULES
        }
    options.json.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
