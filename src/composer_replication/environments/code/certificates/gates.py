"""The early gates: does the change break what it should, and is all the rest green once its tests are hidden?

Runs the repository's tests through a warm process. What comes out is the split of the tests into hidden and guard, and
the edits that make the agent's tree. Before that, what can be said without running anything is filtered and counted
apart: `does_not_parse`, `twin_elsewhere` (deleted lines that stand elsewhere too). Reasons of rejection, in order:
`import_broken`, `timeout`, `too_few_fail`, `hidden_still_visible`, `visible_collection_error`, `visible_tests_break`,
`too_few_guards`, `too_few_mutants`.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from composer_replication.syntax import parse

from ..generators.feature_deletion.visible import gone_tests, visible_tests
from ..running.warm import RunRequest, TestRun, TestSetup, WarmRunner, module_names
from ..tasks.repository import CoverageMap, Repository
from ..tasks.task import Candidate, Rejected, Rejection
from ..tasks.test_ids import file_of
from ..tasks.trees import read_text, write_tree
from .leaks import leak_certificate

MIN_HIDDEN = {"symbol": 3, "cluster": 5, "cross-module": 5}
MIN_GUARDS = 5
MAX_SLOW_SHARE = 0.1
MIN_MUTANTS = 3
MAX_META_TESTS = 4
QUICK_SUITE_S = 1.5
OTHER_HASH_SEED = 7
MUTANT_TIMEOUT_S = 20.0


class Bench:
    """A repository with its warm processes. The second one, under another hash seed, starts when it is needed."""

    def __init__(
        self, repository: Repository, coverage: CoverageMap, setup: TestSetup, owns_process: bool = False
    ) -> None:
        self.repository, self.coverage, self.setup = repository, coverage, setup
        self.owns_process = owns_process
        """Whether processes that have ended may be waited for: nothing else runs here."""
        self._others: list[WarmRunner] = []

    @cached_property
    def runner(self) -> WarmRunner:
        return self._open(0)

    @cached_property
    def other_runner(self) -> WarmRunner:
        return self._open(OTHER_HASH_SEED)

    @property
    def cpu_s(self) -> float:
        return sum(runner.cpu_s for runner in self._others)

    @property
    def timeout_s(self) -> float:
        return max(30.0, 10 * self.coverage.suite_s)

    @property
    def trial_cpu_s(self) -> int:
        """For the hidden tests on a changed solution: three times the suite, which the survey runs six times. Code that
        does not end is known by it."""
        return max(2, math.ceil(self.coverage.cpu_s / 2))

    @property
    def trial_s(self) -> float:
        """By the clock, for what waits without working; other work on the machine must not use it up."""
        return max(15.0, 10 * self.coverage.suite_s)

    def close(self) -> None:
        for runner in self._others:
            runner.close()

    def original(self, path: str) -> str:
        return read_text(self.repository.tree, path)

    def readable(self, path: str) -> str:
        """Only to look something up: of a file in another encoding, what can be read as UTF-8."""
        return (self.repository.tree / path).read_bytes().decode(errors="replace")

    def exists(self, path: str) -> bool:
        return (self.repository.tree / path).is_file()

    @cached_property
    def test_files(self) -> tuple[str, ...]:
        """Those with a steady green test; one that could not be collected from the start would be red for everybody."""
        green = {file_of(test) for test in self.coverage.passing}
        return tuple(path for path in self.repository.test_files if path in green)

    @cached_property
    def test_texts(self) -> dict[str, str]:
        return {path: self.readable(path) for path in self.test_files}

    def _open(self, hash_seed: int) -> WarmRunner:
        runner = WarmRunner(self.repository, self.setup, hash_seed=hash_seed, preload=self.coverage.preload)
        self._others.append(runner)
        return runner


@dataclass(frozen=True)
class Split:
    """The tests of a candidate, and the tree that goes with them."""

    hidden: frozenset[str]
    guards: frozenset[str]
    edits: Mapping[str, str | None]
    """From the repository to the agent's tree, tests included."""
    survived: int = 0
    """Tests that run the feature and pass without it; they stay visible."""
    meta: int = 0
    """Tests that were hidden because they failed in the agent's tree."""
    left_out: int = 0
    """Tests that are hidden and not part of the reward: they ask for what the statement does not tell."""
    units: tuple[tuple[str, ...], ...] = ()
    """Of the hidden tests, what the reward counts; found late."""
    suite_s: float = 0.0
    mutants: tuple[Mapping[str, str], ...] = ()
    """Those that the original tests notice."""


def enough_hidden(candidate: Candidate) -> int:
    return 1 if candidate.few_tests else MIN_HIDDEN[candidate.grain]


def split_tests(candidate: Candidate, bench: Bench) -> Split:
    """Raises `Rejected` at the first gate that the candidate does not pass."""
    if candidate.grader == "mutants":
        return _split_for_mutants(candidate, bench)
    failing, unreadable = _failing(candidate, bench)
    expected = failing & candidate.expected_failing
    if len(expected) < enough_hidden(candidate):
        raise Rejected("too_few_fail", f"{len(expected)} of {len(candidate.expected_failing)} tests notice it")
    hide = expected | frozenset(test for test in failing if file_of(test) not in unreadable)
    split, broken = _with_hidden(candidate, bench, hide)
    if 0 < len(broken) <= MAX_META_TESTS:
        split, broken = _with_hidden(candidate, bench, hide | broken, meta=len(broken))
    if broken:
        raise Rejected("visible_tests_break", f"{len(broken)} tests, first {min(broken)}")
    if len(split.guards) < MIN_GUARDS:
        raise Rejected("too_few_guards", f"{len(split.guards)} tests are left")
    return split


def quick_tests(split: Split, candidate: Candidate, bench: Bench) -> Split:
    """The slowest of the hidden tests do not count, up to a tenth of them: each would run about a hundred times before
    the task is certified, and with each submission."""
    slow = {test: cpu_s for test, cpu_s in bench.coverage.slow.items() if test in split.hidden}
    most = min(int(MAX_SLOW_SHARE * len(split.hidden)), len(split.hidden) - enough_hidden(candidate))
    left_out = sorted(slow, key=lambda test: (-slow[test], test))[: max(0, most)]
    return replace(split, hidden=split.hidden.difference(left_out), left_out=split.left_out + len(left_out))


def repeat(split: Split, candidate: Candidate, bench: Bench) -> None:
    """The same outcome under another hash seed and in reverse order, or `not_repeatable`."""
    visible = bench.other_runner.run(replace(_suite(bench, split.edits), reverse=True))
    lost = split.guards - visible.passed
    if lost:
        raise Rejected("not_repeatable", f"guard {min(lost)}")
    if candidate.grader == "mutants":
        return
    files = tuple(sorted({file_of(test) for test in split.hidden}))
    again = bench.other_runner.run(
        RunRequest(edits=candidate.edits, tests=files, only=split.hidden, reverse=True, timeout_s=bench.timeout_s)
    )
    passed = split.hidden & again.passed
    if passed:
        raise Rejected("not_repeatable", f"hidden {min(passed)} passes")


def _failing(candidate: Candidate, bench: Bench) -> tuple[frozenset[str], frozenset[str]]:
    """Tests that fail or error in the changed tree with its original tests, and files that cannot be collected."""
    coverage = bench.coverage
    files = _impacted_files(candidate, bench)
    modules = module_names(bench.repository)
    still_there = [name for name in coverage.importable if candidate.edits.get(modules[name], "") is not None]
    run = bench.runner.run(
        RunRequest(edits=candidate.edits, tests=files, imports=tuple(still_there), timeout_s=bench.timeout_s)
    )
    if run.import_errors:
        name, error = next(iter(run.import_errors.items()))
        raise Rejected("import_broken", f"{name}: {error}")
    if run.timed_out:
        raise Rejected("timeout", "the hidden tests")
    scope = frozenset(test for test in coverage.passing if file_of(test) in files)
    return scope - run.passed, frozenset(map(file_of, run.collect_errors))


def _impacted_files(candidate: Candidate, bench: Bench) -> tuple[str, ...]:
    """All test files of a quick suite; else those that run the feature or name it."""
    files = bench.test_files
    if bench.coverage.suite_s <= QUICK_SUITE_S:
        return files
    covering = {file_of(test) for test in candidate.expected_failing}
    names = {symbol.name.rpartition(".")[2] for symbol in candidate.symbols}
    mention = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(names)))})\b") if names else None
    return tuple(path for path in files if path in covering or (mention and mention.search(bench.test_texts[path])))


def _with_hidden(
    candidate: Candidate, bench: Bench, hide: frozenset[str], meta: int = 0
) -> tuple[Split, frozenset[str]]:
    """Hide these tests and run the rest: the split, and the guards that break."""
    coverage, repository = bench.coverage, bench.repository
    visible = visible_tests(repository, candidate.edits, hide | coverage.red_for_agents)
    visible |= dict.fromkeys(path for path in repository.test_files if path in coverage.red_for_agents)
    gone = gone_tests(repository, visible, coverage.passing)
    if hide - gone:
        raise Rejected("hidden_still_visible", f"{min(hide - gone)}")
    edits = {**candidate.edits, **visible}
    run = bench.runner.run(_suite(bench, edits))
    if run.timed_out:
        raise Rejected("timeout", "the visible tests")
    if run.collect_errors:
        path, text = next(iter(run.collect_errors.items()))
        raise Rejected("visible_collection_error", f"{path}: {text.strip().splitlines()[-1][:200]}")
    guards = coverage.passing - gone
    survived = len(candidate.expected_failing & guards)
    split = Split(hide, guards & run.passed, edits, survived, meta, suite_s=run.wall_s)
    return split, guards - run.passed


def _split_for_mutants(candidate: Candidate, bench: Bench) -> Split:
    """The tests of a feature are gone; the broken copies that they noticed are what the agent's tests will meet."""
    run = bench.runner.run(_suite(bench, candidate.edits))
    if run.collect_errors:
        raise Rejected("visible_collection_error", next(iter(run.collect_errors)))
    gone = candidate.expected_failing
    guards = bench.coverage.passing - gone
    broken = guards - run.passed
    if broken:
        raise Rejected("visible_tests_break", f"{len(broken)} tests, first {min(broken)}")
    if len(guards) < MIN_GUARDS:
        raise Rejected("too_few_guards", f"{len(guards)} tests are left")
    kept = killed_mutants(candidate, bench.runner.run)
    if len(kept) < MIN_MUTANTS:
        raise Rejected("too_few_mutants", f"{len(kept)} of {len(candidate.mutants)} are noticed")
    return Split(gone, guards, candidate.edits, suite_s=run.wall_s, mutants=kept)


def killed_mutants(candidate: Candidate, run: Callable[[RunRequest], TestRun]) -> tuple[dict[str, str], ...]:
    """The mutants of a candidate on which one of the removed tests does not pass. One that hangs is left out: it would
    cost every later grading its whole time limit."""
    files = tuple(sorted(set(map(file_of, candidate.expected_failing))))
    kept: list[dict[str, str]] = []
    for mutant in candidate.mutants:
        result = run(
            RunRequest(
                edits={mutant["path"]: mutant["text"]},
                tests=files,
                only=candidate.expected_failing,
                stop_at_failure=True,
                timeout_s=MUTANT_TIMEOUT_S,
            )
        )
        if not result.timed_out and not candidate.expected_failing <= result.passed:
            kept.append(mutant)
    return tuple(kept)


def _suite(bench: Bench, edits: Mapping[str, str | None]) -> RunRequest:
    files = tuple(path for path in bench.test_files if edits.get(path, "") is not None)
    return RunRequest(edits=edits, tests=files, timeout_s=bench.timeout_s)


def filtered(candidate: Candidate, repository: Repository) -> Rejection | None:
    for path, text in candidate.edits.items():
        if text is not None and path.endswith(".py"):
            try:
                parse(text)
            except (SyntaxError, ValueError) as error:
                return Rejection(candidate.name, "does_not_parse", f"{path}: {error}")
    return _twin(candidate, repository) if candidate.grader == "tests" else None


def _twin(candidate: Candidate, repository: Repository) -> Rejection | None:
    tree = repository.tree
    originals = {path: read_text(tree, path) for path in candidate.edits if (tree / path).is_file()}
    with tempfile.TemporaryDirectory(prefix="recompose-") as scratch:
        write_tree(tree, Path(scratch), candidate.edits)
        certificate = leak_certificate(
            Path(scratch), deleted=originals, symbols=candidate.symbols, packages=repository.packages
        )
    twins = [finding for finding in certificate.hard() if finding.check == "twins"]
    if not twins:
        return None
    return Rejection(candidate.name, "twin_elsewhere", f"{twins[0].path}:{twins[0].line} {twins[0].detail}")
