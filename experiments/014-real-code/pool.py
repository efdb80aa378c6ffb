"""The pool of tasks, tasks.tar.xz: where each of its files comes from, and how such a pool is made.

    python experiments/014-real-code/pool.py DIR --check experiments/014-real-code/tasks.tar.xz
    python experiments/014-real-code/pool.py DIR [--only toolz …] [--at-once 2] [--jobs 2] [--archive tasks.tar.xz]

Both read repositories.toml, and download into DIR/sdists what is not there yet. The check compares every file of every
task's tree with the source distribution: nothing is added, and only the file that the task asks about and tests differ.
`env verify DIR/tasks/NAME` then grades the solutions. Made anew, DIR/tasks/<name>-<version>, the tasks are others in
details: which slow tests count hangs on the machine, so that the archive is kept and not made again. Making needs
`composer-replication[env]`, the packages that the table names under `with`, and setuptools, hatchling, hatch-vcs,
flit-core and poetry-core for pip to read the sources. The tasks are for the Python that makes them; the archive's for
3.12. A repository that gives no task is told and left out.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tomllib
from collections import Counter
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
    parser.add_argument("--check", type=Path, help="an archive, whose files are compared with the sources")
    given = parser.parse_args()
    table = tomllib.loads((HERE / "repositories.toml").read_text(encoding="utf-8"))["repositories"]
    wanted = [
        entry | ({"limit": given.limit} if given.limit else {})
        for entry in table
        if not given.only or entry["name"] in given.only
    ]
    if given.check:
        return check(
            given.check, {f"{entry['name']}-{entry['version']}": fetch(entry, given.folder) for entry in table}
        )
    with ThreadPoolExecutor(given.at_once) as pool:
        for told in pool.map(lambda entry: make(entry, given.folder, given.jobs), wanted):
            print(told, flush=True)
    if given.archive:
        pack(given.folder / "tasks", given.archive)


def named(entry: dict[str, Any]) -> str:
    return f"{entry['name']}-{entry['version']}"


def fetch(entry: dict[str, Any], folder: Path) -> Path:
    """The source distribution that the table names."""
    sdists = folder / "sdists"
    source = sdists / f"{named(entry)}.tar.gz"
    if not source.exists():
        words = "download -q --no-deps --no-build-isolation --no-binary :all:".split()
        wanted = f"{entry['name']}=={entry['version']}"
        subprocess.run([sys.executable, "-m", "pip", *words, "-d", str(sdists), wanted], check=False)
    if not source.exists() or hashlib.sha256(source.read_bytes()).hexdigest() != entry["sha256"]:
        sys.exit(f"{source} is not there, or not the file that the table names")
    return source


def check(archive: Path, sources: dict[str, Path]) -> None:
    found: Counter[str] = Counter()
    files = contents(archive)
    for name in sorted(name for name in files if name.endswith("/task.json")):
        folder, repository = name.removesuffix("task.json"), name.partition("/")[0]
        source = {path.partition("/")[2]: content for path, content in contents(sources[repository]).items()}
        asked_about = {symbol["file"] for symbol in json.loads(files[name])["symbols"]}
        tree = f"{folder}environment/repo/"
        for path in (path.removeprefix(tree) for path in files if path.startswith(tree)):
            kind = (
                "same" if source.get(path) == files[tree + path] else "asked about" if path in asked_about else "test"
            )
            if path not in source or (kind == "test" and "test" not in path):
                sys.exit(f"{tree}{path} is not of {sources[repository].name}")
            found[kind] += 1
        found["tasks"] += 1
    print(f"{archive.name}: {dict(found)} of {len(sources)} source distributions")


def contents(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as packed:
        files = [member for member in packed if member.isfile()]
        return {member.name.removeprefix("./"): read.read() for member in files if (read := packed.extractfile(member))}


def make(entry: dict[str, Any], folder: Path, jobs: int) -> str:
    name, source = named(entry), fetch(entry, folder)
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
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for manifest in sorted(tasks.glob("*/manifest.json")):
            records = sorted(manifest.parent.glob("tasks/*/task.json"))
            if not records:
                continue
            survey_s = json.loads(manifest.with_name("survey.json").read_text())["cpu_s"]
            packed.add(manifest, manifest.relative_to(tasks).as_posix(), filter=of_nobody)
            for record in records:
                task = json.loads(record.read_text())
                task["seconds_per_run"] = min(task["seconds_per_run"], round(survey_s / 3, 3))
                record.write_text(json.dumps(task, indent=1) + "\n")
                packed.add(record.parent, record.parent.relative_to(tasks).as_posix(), filter=of_nobody)
                number += 1
    print(f"{archive}: {number} tasks, {archive.stat().st_size / 2**20:.1f} MiB")


def of_nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same bytes whoever packs them, whenever."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    main()
