# ruff: noqa: S603, S607 (fixed commands on folders of our own)
"""The same repositories through SWE-smith's procedural Python modifiers and through ours, side by side, without Docker.

    python benchmarks/swesmith.py SDIST… [--limit 40] [--json benchmarks/results/swesmith.json]

SWE-smith 0.0.9 is installed with pip into an environment of its own (`--swesmith PYTHON` names one that is there). Its
modifiers, its log parser and its verdict run as they are; its containers are replaced by our sandbox, one fresh one per
bug, with its own pytest command. Its task branches are made by the git commands of its `gather` step, without the push.
What is not run: its language-model generators, its images, its `repair` step for flaky tests.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from composer_replication.environments.code.certificates.certify import certify
from composer_replication.environments.code.certificates.cpu_time import adopt_orphans, cpu_s
from composer_replication.environments.code.certificates.gates import Bench
from composer_replication.environments.code.certificates.leaks import leak_certificate
from composer_replication.environments.code.generators.kinds import GeneratorSettings, find_generator
from composer_replication.environments.code.running.coverage import survey
from composer_replication.environments.code.running.warm import TestSetup
from composer_replication.environments.code.sandbox.interface import Limits, SandboxSpec
from composer_replication.environments.code.sandbox.open import open_sandbox
from composer_replication.environments.code.sandbox.toolchain import toolchain
from composer_replication.environments.code.tasks.loading import load_repository
from composer_replication.environments.code.tasks.repository import CoverageMap, Repository
from composer_replication.environments.code.tasks.task import Candidate, Rejection, Symbol

PACKAGES = ("swesmith[generate]==0.0.9", "swebench<5")
"""SWE-smith 0.0.9 does not import with swebench 5."""
WORKER = Path(__file__).with_name("swesmith_worker.py")
THEIR_COMMAND = ("-m", "pytest", "--disable-warnings", "--color=no", "--tb=no", "--verbose")
START, END = "+ : '>>>>> Start Test Output'\n", "\n+ : '>>>>> End Test Output'\n"
OURS = ("bug_injection", "test_writing", "feature_deletion")
TIMEOUT_S = 90.0
Bug = dict[str, Any]


def swesmith_python() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "composer-replication" / "swesmith-0.0.9"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python


def ask_worker(python: Path, what: str, source: Path, out: Path) -> Any:
    # -P: this folder holds a file of the package's name.
    command = [str(python), "-P", str(WORKER), what, str(source), str(out)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"SWE-smith's part failed: {done.stderr[-2000:]}")
    return json.loads(out.read_text())


def their_validation(
    repository: Repository, bugs: list[Bug], setup: TestSetup, python: Path, scratch: Path
) -> tuple[dict[str, Any], float]:
    """Its report per bug, and the processor time that the runs took."""
    logs = scratch / "logs"
    logs.mkdir()
    before = cpu_s(reap=True)
    (logs / "reference.log").write_bytes(suite_log(repository, {}, setup))
    for number, bug in enumerate(bugs):
        (logs / f"{number}.log").write_bytes(suite_log(repository, {bug["path"]: bug["text"]}, setup))
    used_s = cpu_s(reap=True) - before
    return ask_worker(python, "validate", logs, scratch / "reports.json"), used_s


def suite_log(repository: Repository, edits: dict[str, str], setup: TestSetup) -> bytes:
    tools = toolchain(setup.distributions, exclude=repository.packages)
    roots = ":".join(f"/work/{root}" for root in repository.source_roots)
    spec = SandboxSpec(
        tree=repository.tree,
        read_only=tools.read_only,
        env={**tools.env, "PYTHONPATH": roots},
        limits=Limits(wall_s=TIMEOUT_S),
    )
    with open_sandbox(spec) as sandbox:
        for path, text in edits.items():
            sandbox.write(path, text.encode())
        result = sandbox.exec([tools.python, *THEIR_COMMAND], timeout_s=TIMEOUT_S)
    if result.ending != "exited":
        return b">>>>> Tests Timed Out"
    return START.encode() + result.stdout + END.encode()


def their_branch(repository: Repository, bug: Bug, f2p: list[str], folder: Path) -> None:
    """The commits of its task branch: the repository, the bug, and the failing tests' files gone."""

    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "commit.gpgsign=false", *words], cwd=folder, check=True, capture_output=True)

    shutil.copytree(repository.tree, folder)
    git("init", "-q")
    git("config", "user.email", "swesmith@swesmith.ai")
    git("config", "user.name", "swesmith")
    git("add", ".")
    git("commit", "-q", "-m", "Initial commit")
    git("checkout", "-q", "-b", "task")
    (folder / bug["path"]).write_text(bug["text"])
    git("add", ".")
    git("commit", "-q", "-m", "Bug Patch")
    for path in {test.partition("::")[0] for test in f2p}:
        (folder / path).unlink(missing_ok=True)
    git("add", ".")
    git("commit", "-q", "-m", "Remove F2P Tests")


def leaks_of(repository: Repository, bug: Bug, f2p: list[str], folder: Path) -> dict[str, Any]:
    their_branch(repository, bug, f2p, folder)
    original = (repository.tree / bug["path"]).read_text()
    files = sorted({test.partition("::")[0] for test in f2p})
    certificate = leak_certificate(
        folder,
        deleted={bug["path"]: original},
        packages=repository.packages,
        hidden_tests=f2p,
        hidden_texts={path: (repository.tree / path).read_text() for path in files},
    )
    shown = subprocess.run(
        ["git", "show", f"HEAD~2:{bug['path']}"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout
    tests = subprocess.run(["git", "show", f"HEAD~1:{files[0]}"], cwd=folder, check=True, capture_output=True).stdout
    shutil.rmtree(folder)
    return {
        "passed": certificate.passed,
        "checks": sorted({finding.check for finding in certificate.hard()}),
        "solution_in_history": shown == original,
        "hidden_tests_in_history": bool(tests),
    }


def as_candidate(bug: Bug, number: int, f2p: list[str], coverage: CoverageMap) -> Candidate:
    symbol = next(
        (s for s in coverage.by_symbol if s.file == bug["path"] and s.name.rpartition(".")[2] == bug["name"]),
        Symbol(file=bug["path"], name=bug["name"]),
    )
    expected = coverage.by_symbol.get(symbol, frozenset()) | (frozenset(f2p) & coverage.passing)
    return Candidate(
        name=f"smith-{number}-{bug['name']}",
        generator="swesmith",
        mode=bug["modifier"],
        symbols=(symbol,),
        edits={bug["path"]: bug["text"]},
        expected_failing=expected,
        statement={"L0": f"`{bug['name']}` misbehaves."},
        editable=("*.py",),
    )


def through_gates(candidates: list[Candidate], bench: Bench, into: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    into.mkdir(parents=True)
    reasons: Counter[str] = Counter()
    valid, used_s = 0, 0.0
    for number, candidate in enumerate(candidates):
        verdict = certify(candidate, bench, into, "L0")
        used_s += verdict.cpu_s
        if isinstance(verdict.result, Rejection):
            reasons[verdict.result.reason] += 1
        else:
            valid += 1
        tell(f"{number + 1} of {len(candidates)}, {valid} valid")
    return {
        "tried": len(candidates),
        "valid": valid,
        "rejected": dict(reasons.most_common()),
        "cpu_s": round(used_s, 2),
        "cpu_s_per_valid": round(used_s / valid, 2) if valid else None,
    }


def compare(source: Path, limit: int, python: Path, distributions: tuple[str, ...]) -> dict[str, Any]:
    def tell(line: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {source.name}: {line}", flush=True)

    setup = TestSetup(distributions)
    with tempfile.TemporaryDirectory(prefix="swesmith-") as name:
        scratch = Path(name)
        repository = load_repository(source, scratch / "repo")
        coverage = survey(repository, setup)
        tell(f"{len(coverage.passing)} tests pass")
        made = ask_worker(python, "generate", repository.tree, scratch / "bugs.json")
        own = [bug for bug in made["bugs"] if bug["path"] in repository.source_files]
        bugs = random.Random(0).sample(own, min(limit, len(own)))
        tell(f"SWE-smith made {len(own)} bugs of the package; {len(bugs)} are tried")
        reports, validation_s = their_validation(repository, bugs, setup, python, scratch)
        f2p = [reports[str(number)]["f2p"] for number in range(len(bugs))]
        accepted = [n for n in range(len(bugs)) if f2p[n] and reports[str(n)]["p2p"]]
        tell(f"{len(accepted)} are valid by its own verdict")
        leaks = [leaks_of(repository, bugs[n], f2p[n], scratch / "branch") for n in accepted]
        bench = Bench(repository, coverage, setup, owns_process=True)
        try:
            candidates = [as_candidate(bug, n, f2p[n], coverage) for n, bug in enumerate(bugs)]
            theirs = through_gates(candidates, bench, scratch / "theirs", tell)
            ours: dict[str, Any] = {}
            for generator in OURS:
                proposed = find_generator(generator)(repository, coverage, GeneratorSettings(limit=limit))
                tell(generator)
                ours[generator] = through_gates(list(proposed)[:limit], bench, scratch / generator, tell)
        finally:
            bench.close()
    per_valid = (
        round((validation_s + made["cpu_s"] * len(bugs) / len(made["bugs"])) / len(accepted), 2) if accepted else None
    )
    return {
        "repository": source.name,
        "tests": len(coverage.passing),
        "survey_cpu_s": round(coverage.cpu_s, 2),
        "swesmith": {
            "bugs_made": len(made["bugs"]),
            "bugs_in_package": len(own),
            "generation_cpu_s": round(made["cpu_s"], 2),
            "tried": len(bugs),
            "own_verdict": {
                "valid": len(accepted),
                "valid_with_3_failing": sum(len(f2p[n]) >= 3 for n in accepted),
                "no_failing_test": sum(not one for one in f2p),
                "cpu_s": round(validation_s, 2),
                "cpu_s_per_valid": per_valid,
            },
            "our_gates": theirs,
            "task_branches": {
                "checked": len(leaks),
                "certificate_fails": sum(not leak["passed"] for leak in leaks),
                "solution_in_history": sum(leak["solution_in_history"] for leak in leaks),
                "hidden_tests_in_history": sum(leak["hidden_tests_in_history"] for leak in leaks),
                "by_check": dict(Counter(check for leak in leaks for check in leak["checks"])),
            },
        },
        "ours": ours,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=Path)
    parser.add_argument("--limit", type=int, default=40, help="bugs and candidates per generator")
    parser.add_argument("--with", dest="distributions", action="append", default=[], help="what the tests need")
    parser.add_argument("--swesmith", type=Path, help="a Python that has SWE-smith")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    adopt_orphans()
    python = given.swesmith or swesmith_python()
    distributions = ("pytest", *given.distributions)
    text, results = "", list[dict[str, Any]]()
    for source in given.sources:
        results.append(compare(source, given.limit, python, distributions))
        text = json.dumps({"limit": given.limit, "packages": PACKAGES, "repositories": results}, indent=1)
        if given.json:
            given.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
