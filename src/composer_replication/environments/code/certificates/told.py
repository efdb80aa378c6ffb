"""What hidden tests ask beyond the statement: found by solutions that differ where the statement does not decide.

Such a solution is the true one with another special case, boundary, text or number. The statement tells it apart if a
documented example, a shown test or a test that stays visible fails on it. Where only hidden tests do, one of them is
added to the statement as an example. A text or number that is still told nowhere (a message, a separator) cannot be
guessed: tests that need it leave the reward, and a task with too few others is rejected as `thin_statement`.
"""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from random import Random

from ..generators.bug_injection.operators import mutations
from ..generators.bug_injection.source import SourceText, inside, read_source
from ..generators.feature_deletion.statement import documentation_of
from ..generators.feature_deletion.visible import test_function
from ..running.test_runs import RunRequest
from ..tasks.repository import module_name
from ..tasks.symbols import FunctionNode, source_index
from ..tasks.task import Candidate, Symbol
from ..tasks.test_ids import file_of
from .gates import Bench, Rejected, Split, enough_hidden

MAX_LITERALS = 6
MAX_CHOICES = 4
SHORTEST_MESSAGE = 4
MAX_MORE_EXAMPLES = 4
CHOICES = ("drop_branch", "off_by_one", "remove_early_return", "drop_exception_handling")
"""Operators that change what a short description often leaves open."""
OBVIOUS = (0, 1, -1, 2, "", " ", True, False, None)
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
class Variant:
    """A solution that is not the true one."""

    path: str
    text: str
    literal: str | int | float | None = None
    """What it writes differently, where nothing tells it."""


@dataclass(frozen=True)
class FairTests:
    """The statement is enough for these tests, with these examples."""

    hidden: frozenset[str]
    examples: tuple[str, ...]
    left_out: int
    """Tests that asked for something that is told nowhere."""


def enough_told(candidate: Candidate, split: Split, bench: Bench, seed: int) -> FairTests:
    if candidate.examples is None:
        return FairTests(split.hidden, (), 0)
    undecided = _undecided(candidate, split, bench, seed)
    shown, hidden = list[str](), split.hidden
    while undecided and len(shown) < MAX_MORE_EXAMPLES:
        best = _most_telling(candidate, undecided, hidden)
        if best is None:
            break
        shown.append(best)
        hidden = frozenset(test for test in hidden if test_function(test) != best)
        undecided = [each for each in undecided if best not in set(map(test_function, each[1]))]
    asking = frozenset[str]().union(*(tests for variant, tests in undecided if variant.literal is not None))
    left = hidden - asking
    if len(left) < enough_hidden(candidate):
        literal = next(variant.literal for variant, _ in undecided if variant.literal is not None)
        raise Rejected("thin_statement", f"{literal!r} is told nowhere; {len(left)} tests do without")
    return FairTests(left, tuple(shown), len(hidden) - len(left))


def with_examples(candidate: Candidate, names: Collection[str]) -> Candidate:
    """The candidate whose fullest statement shows these test functions too."""
    if not names or candidate.examples is None:
        return candidate
    texts = [candidate.examples[name] for name in names]
    longer = "\n\n".join([candidate.statement["L0"].rstrip(), "These tests pass when the work is done:", *texts])
    return replace(candidate, statement={**candidate.statement, "L0": longer + "\n"})


def _most_telling(
    candidate: Candidate, undecided: list[tuple[Variant, frozenset[str]]], hidden: frozenset[str]
) -> str | None:
    """The test function that decides the most, literals first; None where too few tests would stay hidden."""
    worth: dict[str, int] = {}
    for variant, tests in undecided:
        for function in set(map(test_function, tests)):
            worth[function] = worth.get(function, 0) + (10 if variant.literal is not None else 1)
    texts = candidate.examples or {}
    fitting = [
        function
        for function in worth
        if function in texts and sum(test_function(test) != function for test in hidden) >= enough_hidden(candidate)
    ]
    return min(fitting, key=lambda name: (-worth[name], len(texts[name]), name), default=None)


def _undecided(candidate: Candidate, split: Split, bench: Bench, seed: int) -> list[tuple[Variant, frozenset[str]]]:
    """Variants that hidden tests notice and nothing that the agent sees does, with those tests."""
    told = candidate.shown_tests | (candidate.expected_failing & split.guards)
    documentation, documented = _documentation(candidate, bench)
    files = tuple(sorted({file_of(test) for test in split.hidden | told}))
    found: list[tuple[Variant, frozenset[str]]] = []
    for variant in variants(candidate, split, bench, seed):
        request = RunRequest(
            edits={variant.path: variant.text, **documentation},
            tests=(*files, *documentation),
            only=split.hidden | told | documented,
            timeout_s=bench.trial_s,
            cpu_s=bench.trial_cpu_s,
        )
        passed = bench.runner.run(request).passed
        if split.hidden - passed and told | documented <= passed:
            found.append((variant, split.hidden - passed))
    return found


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


def shows_examples(docstring: str, statement: str) -> bool:
    """Whether there are examples, and each line of them is in the statement."""
    try:
        examples = doctest.DocTestParser().get_examples(docstring)
    except ValueError:
        return False
    lines = [line for each in examples for line in (each.source + each.want).splitlines()]
    return bool(examples) and all(line.strip() in statement for line in lines)


def variants(candidate: Candidate, split: Split, bench: Bench, seed: int) -> list[Variant]:
    """Those of untold texts and numbers, first what the hidden tests spell out; then a draw of other choices."""
    seen = "\n".join([candidate.statement["L0"], *_remaining_texts(split, bench)])
    literals: list[Variant] = []
    choices: list[Variant] = []
    for path in sorted({symbol.file for symbol in candidate.symbols}):
        source = read_source(bench.original(path))
        for function in _functions(source, candidate.symbols, path) if source else ():
            assert source is not None
            lines = candidate.solution_lines.get(path)
            literals += _literal_variants(path, source, function, seen, lines)
            choices += [
                Variant(path, text)
                for operator in CHOICES
                for splice, text in mutations(source, function, operator)
                if lines is None or source.content.count(b"\n", 0, splice.start) + 1 in lines
            ]
    draw = Random(f"{seed} {candidate.name}")
    draw.shuffle(literals)
    draw.shuffle(choices)
    asked = "\n".join(bench.original(path) or "" for path in sorted(set(map(file_of, split.hidden))))
    literals.sort(key=lambda variant: not _is_spelled_out(variant.literal, asked))
    return [*literals[:MAX_LITERALS], *choices[:MAX_CHOICES]]


def _is_spelled_out(literal: str | int | float | None, tests: str) -> bool:
    """Whether the tests hold a text, or what stands between its placeholders."""
    parts = re.split(r"%\w|\{[^}]*\}|\n", literal) if isinstance(literal, str) else []
    return any(len(part.strip()) >= SHORTEST_MESSAGE and part.strip() in tests for part in parts)


def _remaining_texts(split: Split, bench: Bench) -> Iterator[str]:
    """What the agent still has of the files that were edited, and of their neighbours."""
    folders = {path.rpartition("/")[0] for path in split.edits}
    for path in bench.repository.source_files:
        if path.rpartition("/")[0] in folders:
            yield (split.edits[path] if path in split.edits else bench.original(path)) or ""
    yield from (text for path, text in split.edits.items() if text and path in bench.repository.test_files)


def _functions(source: SourceText, symbols: Collection[Symbol], path: str) -> Iterator[FunctionNode]:
    names = {symbol.name for symbol in symbols if symbol.file == path}
    for name, function in source.functions.items():
        if name in names or any(name.startswith(f"{each}.") for each in names):
            yield function


def _literal_variants(
    path: str, source: SourceText, function: FunctionNode, seen: str, lines: Collection[int] | None
) -> Iterator[Variant]:
    for node in inside(function):
        if not isinstance(node, ast.Constant) or (lines is not None and node.lineno not in lines):
            continue
        value = node.value
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value in OBVIOUS:
            continue
        if is_told(value, seen):
            continue
        changed = f"{value}~" if isinstance(value, str) else value + 1
        text = source.apply(source.replace(node, repr(changed)))
        if text is not None:
            yield Variant(path, text, value)


def is_told(value: str | int | float, seen: str) -> bool:
    """Whether a text or number stands in what the agent can read; of a longer text, every line of it."""
    if isinstance(value, str):
        return all(line.strip() in seen for line in value.splitlines())
    return re.search(rf"(?<![\w.]){re.escape(repr(value))}(?![\w.]*\d)", seen) is not None
