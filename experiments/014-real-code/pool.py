"""Make the pool of tasks again: download, check, `env make` for each repository, and one archive that travels.

    python experiments/014-real-code/pool.py DIR [--only toolz …] [--at-once 2] [--jobs 2] [--archive tasks.tar.gz]

Reads repositories.toml; writes DIR/sdists and DIR/tasks/<name>-<version>, and goes on where it stopped. Sources that
lie in DIR/sdists already are not downloaded. Needs `composer-replication[env]`, the packages that the table names
under `with`, and setuptools, hatchling, hatch-vcs, flit-core and poetry-core for pip to read the sources. The tasks are
for the Python that makes them. A repository that gives no task is told and left out.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GENERATOR = "short_functions:propose"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], help="names of repositories")
    parser.add_argument("--at-once", type=int, default=1, help="repositories at a time")
    parser.add_argument("--jobs", type=int, default=2, help="processes of one repository")
    parser.add_argument("--limit", type=int, help="candidates of each repository, instead of the table's number")
    parser.add_argument("--archive", type=Path, help="where the tasks are packed")
    given = parser.parse_args()
    table = tomllib.loads((HERE / "repositories.toml").read_text(encoding="utf-8"))["repositories"]
    wanted = [
        entry | ({"limit": given.limit} if given.limit else {})
        for entry in table
        if not given.only or entry["name"] in given.only
    ]
    with ThreadPoolExecutor(given.at_once) as pool:
        for told in pool.map(lambda entry: make(entry, given.folder, given.jobs), wanted):
            print(told, flush=True)
    if given.archive:
        pack(given.folder / "tasks", given.archive)


def make(entry: dict[str, Any], folder: Path, jobs: int) -> str:
    name, sdists = f"{entry['name']}-{entry['version']}", folder / "sdists"
    source = sdists / f"{name}.tar.gz"
    if not source.exists():
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "--no-binary",
            ":all:",
        ]
        subprocess.run([*command, "-d", str(sdists), f"{entry['name']}=={entry['version']}"], check=False)
    if not source.exists() or hashlib.sha256(source.read_bytes()).hexdigest() != entry["sha256"]:
        return f"{name}: {source} is not there, or not the file that the table names"
    needs = [word for need in entry.get("with", ()) for word in ("--with", need)]
    into = folder / "tasks" / name
    command = [sys.executable, "-m", "composer_replication", "env", "make", str(source), "-o", str(into),
               "--generator", GENERATOR, "--limit", str(entry["limit"]), "--jobs", str(jobs), *needs]  # fmt: skip
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    made = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, capture_output=True, text=True, check=False
    )
    tasks = len(list((into / "tasks").glob("*/task.json")))
    return f"{name}: {tasks} tasks" if tasks else f"{name}: none; {made.stderr.strip().splitlines()[-1]}"


def pack(tasks: Path, archive: Path) -> None:
    """Manifests and tasks, in a fixed order. A machine that was full when it made them took longer for their tests
    than they need, and the limits of an answer follow from that. A third of the processor time of the survey, which is
    six runs of the whole suite, is kept at most."""
    number = 0
    with tarfile.open(archive, "w:gz") as packed:
        for manifest in sorted(tasks.glob("*/manifest.json")):
            records = sorted(manifest.parent.glob("tasks/*/task.json"))
            if not records:
                continue
            survey_s = json.loads(manifest.with_name("survey.json").read_text())["cpu_s"]
            packed.add(manifest, manifest.relative_to(tasks).as_posix())
            for record in records:
                task = json.loads(record.read_text())
                task["seconds_per_run"] = min(task["seconds_per_run"], round(survey_s / 3, 3))
                record.write_text(json.dumps(task, indent=1) + "\n")
                packed.add(record.parent, record.parent.relative_to(tasks).as_posix())
                number += 1
    print(f"{archive}: {number} tasks, {archive.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
