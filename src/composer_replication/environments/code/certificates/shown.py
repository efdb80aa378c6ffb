"""The tests by which an agent can see how a feature behaves, documented examples among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..episodes.visible_tests import shows_examples
from ..generators.feature_deletion.statement import documentation_of
from ..running.test_runs import RunRequest, TestRun
from ..tasks.repository import module_name
from ..tasks.symbols import source_index
from ..tasks.task import Candidate
from ..tasks.test_ids import file_of
from .gates import Bench, Split

DOCUMENTATION_FILE = "test_recompose_documentation.py"
DOCUMENTATION_TEST = """import doctest, importlib
import pytest

@pytest.mark.parametrize("module, name", {names!r})
def test_documentation(module, name):
    found = importlib.import_module(module)
    names = vars(found)
    for part in name.split("."):
        found = getattr(found, part)
    finder = doctest.DocTestFinder(recurse=False)
    examples = [each for each in finder.find(found, name, globs=dict(names)) if each.examples]
    runner = doctest.DocTestRunner(verbose=False)
    for each in examples:
        runner.run(each, out=lambda text: None)
    assert examples and not runner.failures
"""


@dataclass(frozen=True)
class ShownBehaviour:
    """Tests by which the agent can see how the feature behaves: shown, visible, and made of documented examples. Slow
    ones are not asked: what only they tell apart is taken for untold."""

    tests: frozenset[str] = frozenset()
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """That the documented examples are in; not of the repository."""


def shown_behaviour(candidate: Candidate, split: Split, bench: Bench) -> ShownBehaviour:
    if candidate.examples is None:
        return ShownBehaviour()
    files, documented = _documentation(candidate, bench)
    seen = candidate.shown_tests | (candidate.expected_failing & split.guards)
    return ShownBehaviour(seen.difference(bench.coverage.slow) | documented, files)


def run_shown(split: Split, texts: Mapping[str, str], bench: Bench, shown: ShownBehaviour) -> TestRun:
    """The hidden tests and what the agent sees of the behaviour, on another version of the sources."""
    files = sorted({file_of(test) for test in split.hidden | shown.tests} | {*shown.files})
    request = RunRequest(
        {**texts, **shown.files},
        tuple(files),
        split.hidden | shown.tests,
        timeout_s=bench.trial_s,
        cpu_s=bench.trial_cpu_s,
    )
    return bench.runner.run(request)


def _documentation(candidate: Candidate, bench: Bench) -> tuple[dict[str, str], frozenset[str]]:
    """A test file for the documented examples, and those of its tests that the true solution passes."""
    roots, index = bench.repository.source_roots, source_index(bench.repository)
    told = [
        symbol
        for symbol in candidate.symbols
        if shows_examples(documentation_of(index.definitions[symbol][0]), candidate.statement["L0"])
    ]
    if not told:
        return {}, frozenset()
    names = [(module_name(symbol.file, roots), symbol.name) for symbol in told]
    files = {DOCUMENTATION_FILE: DOCUMENTATION_TEST.format(names=names)}
    run = bench.runner.run(RunRequest(edits=files, tests=(DOCUMENTATION_FILE,), timeout_s=30.0))
    return files, run.passed
