"""Which tests of a repository are green and steady, and which function each of them runs.

Runs the suite inside the sandbox: under three hash seeds, once in reverse order, and once traced. Calls that a cache
answers are charged to the first test that made them; what tests do in other processes is not seen.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from composer_replication.errors import UsageError
from composer_replication.progress import Progress, Silent
from composer_replication.runs import write_atomically

from ..sandbox.toolchain import toolchain
from ..tasks.repository import CoverageMap, Repository
from ..tasks.symbols import Module, source_index
from ..tasks.task import Symbol
from ..tasks.trees import files_of
from .warm import RunRequest, TestRun, TestSetup, WarmRunner, module_names

HASH_SEEDS = (0, 1, 2)
LONGEST_SUITE_S = 300.0
MIN_GREEN_TESTS = 8
MIN_GREEN_SHARE = 0.5
SLOW_S = 0.1
"""Of processor time for one test; the usual one takes a hundredth of that."""
MISSING_MODULE = re.compile(r"No module named '([\w.]+)'")
MAX_LOST_SHARE = 0.5
NO_TEST_COLLECTED = 5
"""An exit code of pytest."""
DISTRIBUTIONS = {
    "yaml": "pyyaml",
    "dateutil": "python-dateutil",
    "attr": "attrs",
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
}
"""Importable name -> distribution, where the two differ."""


def survey(repository: Repository, setup: TestSetup | None = None, progress: Progress | None = None) -> CoverageMap:
    """Raises where the suite is not green enough to build tasks on."""
    progress = progress or Silent()
    suite = RunRequest(tests=repository.test_files, timeout_s=LONGEST_SUITE_S)
    modules = module_names(repository)
    runs: list[TestRun] = []
    cpu_s = 0.0
    with WarmRunner(repository, setup, hash_seed=HASH_SEEDS[0]) as runner:
        first = runner.run(replace(suite, imports=tuple(modules), imports_must_work=False))
        progress.step(1, len(HASH_SEEDS) + 2, f"{len(first.passed)} of {len(first.outcomes)} tests pass")
        _refuse_red(repository, first)
        if first.collect_errors:
            progress.note(_set_aside(first))
        runs += [first, runner.run(replace(suite, reverse=True))]
        traced = runner.run(replace(suite, trace=True))
        progress.step(3, len(HASH_SEEDS) + 2, "traced")
        cpu_s += runner.cpu_s
    passing = frozenset.intersection(traced.passed, *(run.passed for run in runs))
    for seed in HASH_SEEDS[1:]:
        with WarmRunner(repository, setup, hash_seed=seed) as runner:
            runs.append(runner.run(suite))
            cpu_s += runner.cpu_s
        passing &= runs[-1].passed
        # The last word of a stage is the one that is always shown.
        progress.step(3 + seed, len(HASH_SEEDS) + 2, f"{len(passing)} of {len(first.outcomes)} tests pass")
    once = frozenset[str]().union(traced.passed, *(run.passed for run in runs))
    source = frozenset(repository.source_files)
    by_symbol: defaultdict[Symbol, set[str]] = defaultdict(set)
    for test, symbols in traced.ran.items():
        if test in passing:
            for symbol in symbols:
                if symbol.file in source:
                    by_symbol[symbol].add(test)
    return CoverageMap(
        passing=passing,
        unstable=once - passing,
        by_symbol={
            symbol: frozenset(by_symbol[symbol])
            for symbol in sorted(by_symbol, key=lambda each: (each.file, each.name))
        },
        import_time=frozenset(symbol for symbol in traced.at_import if symbol.file in source),
        suite_s=min(run.wall_s for run in runs),
        cpu_s=round(cpu_s, 2),
        importable=tuple(name for name in modules if name not in first.import_errors),
        preload=_worth_loading(repository, setup, suite, passing, traced.loaded),
        slow=_slow(runs, passing),
    )


def _slow(runs: Sequence[TestRun], tests: Iterable[str]) -> dict[str, float]:
    """By the quickest of their runs, so that other work on the machine makes none slow."""
    quickest = {test: min(run.cpu_by_test[test] for run in runs) for test in sorted(tests)}
    return {test: cpu_s for test, cpu_s in quickest.items() if cpu_s >= SLOW_S}


def missing_modules(run: TestRun) -> Counter[str]:
    """Names that could not be imported, with the number of places."""
    texts = [*run.collect_errors.values(), *run.import_errors.values(), "" if run.outcomes else run.output]
    return Counter(name for text in texts for name in set(MISSING_MODULE.findall(text)))


def _set_aside(run: TestRun) -> str:
    files = ", ".join(sorted(run.collect_errors))
    wanted = _options(missing_modules(run))
    return f"set aside, cannot be collected: {files}" + (f"; {wanted} may help" if wanted else "")


def _options(modules: Iterable[str]) -> str:
    """Of `env make`, that bring these modules along."""
    names = dict.fromkeys(name.partition(".")[0] for name in sorted(modules))
    return " ".join(f"--with {DISTRIBUTIONS.get(name, name)}" for name in names)


def _needs(repository: Repository, named: str, modules: Iterable[str]) -> UsageError:
    return UsageError(
        f"the tests of {repository.name} need {named}",
        f"pip install it next to recompose, then the same command with {_options(modules)}",
    )


def _refuse_red(repository: Repository, run: TestRun) -> None:
    enough = len(run.passed) >= MIN_GREEN_TESTS and len(run.passed) >= MIN_GREEN_SHARE * len(run.outcomes)
    missing = [name for name in missing_modules(run) if name.split(".")[0] not in repository.packages]
    lost_most = len(run.collect_errors) >= MIN_GREEN_SHARE * len(repository.test_files)
    if run.timed_out:
        raise UsageError(
            f"the tests of {repository.name} took more than {LONGEST_SUITE_S:.0f} s",
            "leave the slow ones out in its addopts, as -m 'not slow', or point at a part of it",
        )
    if enough and not lost_most:
        return
    if missing:
        raise _needs(repository, ", ".join(sorted(missing)), missing)
    if run.passed and len(run.passed) == len(run.outcomes) and not run.collect_errors:
        raise UsageError(
            f"{repository.name} has {len(run.passed)} tests, all of which pass; tasks need {MIN_GREEN_TESTS} or more",
            "choose a repository with more tests, or write some first",
        )
    if run.exit_code == NO_TEST_COLLECTED and not run.import_errors:
        raise UsageError(
            f"pytest finds no test in the {len(repository.test_files)} test files of {repository.name}",
            "choose a repository with tests that pytest runs",
        )
    path, errors = next(iter((run.collect_errors or run.import_errors).items()), ("", run.output))
    last = errors.strip().splitlines()[-1:]
    reason = ": ".join(filter(None, [path, *(line.removeprefix("E ").strip() for line in last)]))
    reason = reason or f"exit code {run.exit_code}"
    raise UsageError(
        f"the suite of {repository.name} is red: {len(run.passed)} of {len(run.outcomes)} tests pass, "
        f"{len(run.collect_errors)} of {len(repository.test_files)} files cannot be collected ({reason[:200]})",
        "make its tests pass first, or add what they need --with DISTRIBUTION",
    )


def _worth_loading(
    repository: Repository,
    setup: TestSetup | None,
    suite: RunRequest,
    passing: frozenset[str],
    loaded: tuple[str, ...],
) -> tuple[str, ...]:
    """What a warm process may load ahead: what the suite ends up with, if loading it early changes no result."""
    try:
        with WarmRunner(repository, setup, preload=loaded) as runner:
            return loaded if passing <= runner.run(suite).passed else ()
    except UsageError:
        return ()


def write_survey(path: Path, coverage: CoverageMap) -> None:
    tests = sorted(coverage.passing)
    number = {test: index for index, test in enumerate(tests)}
    value = {
        "passing": tests,
        "unstable": sorted(coverage.unstable),
        "by_symbol": [
            [symbol.file, symbol.name, sorted(number[test] for test in covering)]
            for symbol, covering in coverage.by_symbol.items()
        ],
        "import_time": sorted([symbol.file, symbol.name] for symbol in coverage.import_time),
        "suite_s": coverage.suite_s,
        "cpu_s": coverage.cpu_s,
        "importable": list(coverage.importable),
        "preload": list(coverage.preload),
        "slow": dict(coverage.slow),
        "red_for_agents": sorted(coverage.red_for_agents),
    }
    write_atomically(path, json.dumps(value) + "\n")


def read_survey(path: Path) -> CoverageMap:
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    tests: list[str] = value["passing"]
    return CoverageMap(
        passing=frozenset(tests),
        unstable=frozenset(value["unstable"]),
        by_symbol={
            Symbol(file=file, name=name): frozenset(tests[index] for index in covering)
            for file, name, covering in value["by_symbol"]
        },
        import_time=frozenset(Symbol(file=file, name=name) for file, name in value["import_time"]),
        suite_s=value["suite_s"],
        cpu_s=value["cpu_s"],
        importable=tuple(value["importable"]),
        preload=tuple(value["preload"]),
        slow=value.get("slow", {}),
        red_for_agents=frozenset(value.get("red_for_agents", ())),
    )


def missing_imports(repository: Repository, setup: TestSetup) -> dict[str, tuple[str, ...]]:
    """From the text of the tests alone, told before anything runs: importable name -> test files that cannot be
    collected without it; what is tried, or needed only in a function, is not asked for."""
    tools = toolchain(setup.distributions, exclude=repository.packages)
    known = {*sys.stdlib_module_names, *repository.packages, *_installed(tools.folder), *_own_names(repository)}
    found: dict[str, list[str]] = {}
    for path, module in source_index(repository).tests.items():
        for name in sorted(set(_needed(module)) - known):
            found.setdefault(name, []).append(path)
    return {name: tuple(paths) for name, paths in sorted(found.items())}


def tell_missing(repository: Repository, missing: dict[str, tuple[str, ...]]) -> str:
    """What to tell; raises where too few tests would be left."""
    if not missing:
        return ""
    lost = {path for paths in missing.values() for path in paths}
    named = ", ".join(f"{name} ({len(paths)} files)" for name, paths in missing.items())
    shared = any(PurePosixPath(path).name in ("conftest.py", "__init__.py") for path in lost)
    if shared or len(lost & set(repository.test_files)) >= MAX_LOST_SHARE * len(repository.test_files):
        raise _needs(repository, named, missing)
    return f"the tests need {named}, which the sandbox has not: set aside; {_options(missing)} would keep them"


def _needed(module: Module) -> Iterator[str]:
    for node in module.tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.split(".")[0]


def _own_names(repository: Repository) -> set[str]:
    """Any file or folder of the tree may be on the import path of a test."""
    paths = [PurePosixPath(path) for path in files_of(repository.tree) if path.endswith((".py", ".pyi"))]
    return {part.removesuffix(".py").removesuffix(".pyi") for path in paths for part in path.parts}


def _installed(folder: Path) -> set[str]:
    return {path.name.split(".")[0] for site in folder.glob("lib/python*/site-packages") for path in site.iterdir()}
