"""What hidden tests ask beyond the statement: shown as an example, or no part of the reward.

Found in two ways. By text: names, messages and kinds of exceptions that a test needs and nothing tells (`demands`). By
behaviour: solutions that are not the true one (a special case, boundary, text or number changed, a statement dropped)
which hidden tests notice, while no documented example, shown test or visible test does. The tests that tell the most of
that are added to the statement, as long as half of the tests stay hidden. Tests that need what is still told nowhere
leave the reward; a task with too few others is rejected as `thin_statement`.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from ..episodes.visible_tests import shows_examples
from ..generators.feature_deletion.example_tests import standing_on
from ..generators.feature_deletion.statement import DOCUMENTS, EXAMPLES, RULES, documentation_of
from ..running.warm import RunRequest, TestRun
from ..tasks.repository import module_name
from ..tasks.symbols import source_index
from ..tasks.task import Candidate, Rejected, Symbol
from ..tasks.test_ids import file_of, test_function
from ..tasks.trees import files_of
from .demands import Told, Untold, fixed_parts, from_outside
from .gates import Bench, Split, enough_hidden
from .variants import Literal, Variant, described, feature_functions, is_told, variants

MAX_SHOWN_CHARACTERS = 6000
"""Of the examples that are added; beyond, a statement is a test file."""
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


@dataclass(frozen=True)
class Demand:
    """Something that is told nowhere, and the hidden tests that need it."""

    what: str
    tests: frozenset[str]
    is_choice: bool
    """Known only by behaviour, so that prose may tell it; else a name, a text, a number or a kind of exception."""
    texts: frozenset[str] = frozenset()
    """That an example has to hold to tell it."""

    @cached_property
    def functions(self) -> frozenset[str]:
        return frozenset(map(test_function, self.tests))

    def is_told_by(self, function: str, example: str) -> bool:
        """A test that asks for a text by a name for it does not tell the text."""
        return function in self.functions and all(is_told(text, example) for text in self.texts)


@dataclass(frozen=True)
class FairTests:
    """The statement is enough for these tests, with these examples."""

    hidden: frozenset[str]
    examples: tuple[str, ...]
    left_out: int
    """Tests that asked for something that is told nowhere."""


def enough_told(
    candidate: Candidate,
    split: Split,
    bench: Bench,
    seed: int,
    shown: ShownBehaviour | None = None,
    trials: Mapping[str, frozenset[str]] | None = None,
) -> FairTests:
    """`trials` are wrong solutions that were tried already, with the tests that passed."""
    if candidate.examples is None:
        return FairTests(split.hidden, (), 0)
    shown = shown or shown_behaviour(candidate, split, bench)
    tried = _named(variants(candidate, split, bench, seed))
    passed = {name: run_shown(split, {each.path: each.text}, bench, shown).passed for name, each in tried.items()}
    literals = {name: each.literal for name, each in tried.items() if each.literal is not None}
    undecided = _undecided(split, shown, {**(trials or {}), **passed}, literals)
    demands = [*_spelled_out(candidate, split, bench), *_undescribed(candidate, split, bench, shown), *undecided]
    examples, hidden = _shown(candidate, split, demands)
    texts = {name: candidate.examples[name] for name in examples}
    open_demands = [each for each in demands if not any(each.is_told_by(*shown) for shown in texts.items())]
    fair = hidden.difference(*(each.tests for each in open_demands))
    if len(fair) < enough_hidden(candidate):
        untold = ", ".join(sorted(each.what for each in open_demands)[:3])
        raise Rejected(
            "thin_statement", f"{untold} is told nowhere; {len(fair)} of {len(hidden)} tests do without"[:300]
        )
    return FairTests(fair, examples, len(hidden) - len(fair))


def with_examples(candidate: Candidate, names: Collection[str]) -> Candidate:
    """The candidate whose fullest statement shows these test functions too."""
    if not names or candidate.examples is None:
        return candidate
    text, rules, rest = candidate.statement["L0"].partition(RULES)
    parts = [text.rstrip(), *(() if EXAMPLES in text else (EXAMPLES,)), *(candidate.examples[name] for name in names)]
    longer = "\n\n".join([*parts, *filter(None, [rules + rest.rstrip()])]) + "\n"
    return replace(candidate, statement={**candidate.statement, "L0": longer})


def _shown(candidate: Candidate, split: Split, demands: list[Demand]) -> tuple[tuple[str, ...], frozenset[str]]:
    """Test functions to show, and the tests that stay hidden then. First those that make the most others fair, then
    those that tell the most; where there is no docstring, as many as fit."""
    texts, hidden, left = candidate.examples or {}, split.hidden, demands
    least = max(enough_hidden(candidate), (len(split.hidden | candidate.shown_tests) + 1) // 2)
    chosen: list[str] = []
    while True:
        spent = sum(len(texts[name]) for name in chosen)
        steps = [
            _Step(name, len(texts[name]), unseen, [each for each in left if not each.is_told_by(name, texts[name])])
            for name in set(map(test_function, hidden)) & texts.keys()
            if spent + len(texts[name]) <= MAX_SHOWN_CHARACTERS and len(unseen := _without(hidden, name)) >= least
        ]
        best = max(steps, key=_Step.worth, default=None)
        if best is None or (len(best.left) == len(left) and candidate.mode != "stub-nodoc"):
            return tuple(chosen), hidden
        chosen.append(best.name)
        hidden, left = best.hidden, best.left


class _Step(NamedTuple):
    """One more test function shown."""

    name: str
    length: int
    hidden: frozenset[str]
    left: list[Demand]

    def worth(self) -> tuple[int, int, int, str]:
        fair = self.hidden.difference(*(each.tests for each in self.left))
        return len(fair), -sum(1 if each.is_choice else 10 for each in self.left), -self.length, self.name


def _without(tests: frozenset[str], function: str) -> frozenset[str]:
    return frozenset(test for test in tests if test_function(test) != function)


def _spelled_out(candidate: Candidate, split: Split, bench: Bench) -> list[Demand]:
    """What the hidden tests need by their text."""
    index = source_index(bench.repository)
    whole = [path for path, text in candidate.edits.items() if text is None and path in index.sources]
    deleted: list[ast.AST] = [index.sources[path].tree for path in whole]
    deleted += [each.node for symbol in candidate.symbols for each in index.definitions[symbol]]
    near = "\n".join(split.edits[path] or "" for path in candidate.edits)
    untold = Untold(deleted, Told(candidate.statement["L0"], "\n".join(_readable(split, bench)), near))
    asking: dict[str, set[str]] = {}
    for function, tests in groupby(sorted(split.hidden, key=test_function), key=test_function):
        path, _, name = function.partition("::")
        module, same = index.tests.get(path), set(tests)
        if module is None:
            continue
        outside = from_outside(module.tree, bench.repository.packages)
        for fact in untold.asked_by(standing_on(module, name.replace("::", ".")), outside):
            asking.setdefault(fact, set()).update(same)
    pieces = {repr(text): frozenset((text,)) for text in untold.texts}
    none = frozenset[str]()
    return [
        Demand(fact, frozenset(tests), is_choice=False, texts=pieces.get(fact, none))
        for fact, tests in sorted(asking.items())
    ]


def _readable(split: Split, bench: Bench) -> Iterator[str]:
    """The agent's tree: source, tests and documents."""
    for path in files_of(bench.repository.tree):
        if path.endswith((".py", ".pyi", *DOCUMENTS)):
            text = (
                split.edits[path]
                if path in split.edits
                else (bench.repository.tree / path).read_bytes().decode(errors="replace")
            )
            yield text or ""


def _undescribed(candidate: Candidate, split: Split, bench: Bench, shown: ShownBehaviour) -> Iterator[Demand]:
    """Functions without a description, which hidden tests run and none does that the agent sees."""
    functions = feature_functions(candidate, bench)
    for path, name in sorted(functions.keys() - described(functions, candidate.statement["L0"])):
        running = bench.coverage.by_symbol.get(Symbol(file=path, name=name), frozenset[str]())
        if running & split.hidden and running.isdisjoint(shown.tests):
            yield Demand(f"what {name} does", running & split.hidden, is_choice=True)


def _undecided(
    split: Split, shown: ShownBehaviour, passed: Mapping[str, frozenset[str]], literals: Mapping[str, Literal]
) -> Iterator[Demand]:
    """Wrong solutions that hidden tests notice and nothing that the agent sees does."""
    for what, tests in passed.items():
        if split.hidden - tests and shown.tests <= tests:
            literal = literals.get(what)
            texts = fixed_parts(literal) if isinstance(literal, str) else ()
            yield Demand(what, split.hidden - tests, is_choice=literal is None, texts=frozenset(texts))


def _named(tried: list[Variant]) -> dict[str, Variant]:
    return {
        f"variant {number}" if each.literal is None else f"literal {each.literal!r}": each
        for number, each in enumerate(tried)
    }
