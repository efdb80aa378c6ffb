"""Propose tasks in which a tested function has a small bug: one function, `propose`.

Reads the repository's source and its coverage map; runs nothing. The tests of the function should break; the gates see
which do, hide those, and reject a bug that no test notices. No level of the statement names a line or the change.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from composer_replication.records import content_id

from ...tasks.repository import CoverageMap, Repository
from ...tasks.task import Candidate, Level, Symbol
from ..kinds import GeneratorSettings
from .operators import OPERATORS, mutations
from .source import FunctionNode, SourceText, read_source

NAME = "bug_injection"
MIN_TESTS = 5
MAX_TEST_SHARE = 0.4
BUGS_PER_FUNCTION = 3
MODES = tuple(OPERATORS)
END = (
    "Find the cause and correct it in the source. The repository's own tests must stay green; further tests, which you "
    "do not see, check the behaviour.\n"
)


@dataclass(frozen=True)
class Bug:
    symbol: Symbol
    operator: str
    text: str
    function: FunctionNode
    """As it is without the bug."""


def propose(repository: Repository, coverage: CoverageMap, settings: GeneratorSettings) -> Iterator[Candidate]:
    """One bug per candidate, the operators in turn, at most three bugs per function."""
    rng = Random(f"{NAME}:{settings.seed}")
    operators = [name for name in OPERATORS if not settings.modes or name in settings.modes]
    symbols = tested_functions(coverage)
    waiting = {
        operator: bugs_by_operator(repository, rng.sample(symbols, len(symbols)), operator, rng)
        for operator in operators
    }
    taken: dict[Symbol, int] = {}
    proposed = 0
    while waiting and proposed < settings.limit:
        for operator in list(waiting):
            bug = next((bug for bug in waiting[operator] if taken.get(bug.symbol, 0) < BUGS_PER_FUNCTION), None)
            if bug is None:
                del waiting[operator]
            elif proposed < settings.limit:
                taken[bug.symbol] = taken.get(bug.symbol, 0) + 1
                proposed += 1
                yield candidate(repository, coverage, bug)


def tested_functions(coverage: CoverageMap) -> list[Symbol]:
    """Functions with enough tests of their own, and not so many that nothing would be left to guard."""
    most = MAX_TEST_SHARE * len(coverage.passing)
    return [
        symbol
        for symbol, tests in coverage.by_symbol.items()
        if MIN_TESTS <= len(tests) <= most and symbol not in coverage.import_time
    ]


def bugs_by_operator(repository: Repository, symbols: list[Symbol], operator: str, rng: Random) -> Iterator[Bug]:
    """At most one place per function and operator."""
    for symbol in symbols:
        source = source_of(repository, symbol)
        function = source.functions.get(symbol.name) if source else None
        if source is None or function is None:
            continue
        found = list(mutations(source, function, operator))
        if found:
            _, text = rng.choice(found)
            yield Bug(symbol, operator, text, function)


def source_of(repository: Repository, symbol: Symbol) -> SourceText | None:
    try:
        return read_source((repository.tree / symbol.file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def candidate(repository: Repository, coverage: CoverageMap, bug: Bug) -> Candidate:
    function = bug.function
    return Candidate(
        name=f"bug-{bug.symbol.name.replace('.', '-').lower()}-{bug.operator}-{content_id(bug.text)[:6]}",
        generator=NAME,
        mode=bug.operator,
        symbols=(bug.symbol,),
        edits={bug.symbol.file: bug.text},
        expected_failing=coverage.by_symbol[bug.symbol],
        statement=statements(repository, bug.symbol, function, OPERATORS[bug.operator].symptom),
        editable=source_patterns(repository),
        difficulty={
            "function_lines": float((function.end_lineno or function.lineno) - function.lineno + 1),
            "tests": float(len(coverage.by_symbol[bug.symbol])),
        },
    )


def statements(repository: Repository, symbol: Symbol, function: FunctionNode, symptom: str) -> dict[Level, str]:
    """What the agent is told about a bug, from the most to the least."""
    kind = "method" if "." in symbol.name else "function"
    documentation = textwrap.indent(ast.get_docstring(function) or "", "    ")
    quoted = f"\nIts documentation says what it should do:\n\n{documentation}\n" if documentation else ""
    return {
        "L0": f"The {kind} `{symbol.name}` in `{symbol.file}` misbehaves: {symptom}.\n{quoted}\n{END}",
        "L1": f"The {kind} `{symbol.name}` in `{symbol.file}` does not do what it should.\n{quoted}\n{END}",
        "L2": f"Something that `{symbol.file}` offers does not do what it should.\n\n{END}",
        "L3": f"Something that {repository.name} offers does not do what it should.\n\n{END}",
    }


def source_patterns(repository: Repository) -> tuple[str, ...]:
    """The whole package: the statement does not always name the file."""
    roots = [f"{root}/" if root not in ("", ".") else "" for root in repository.source_roots]
    places = [f"{root}{package}" for root in roots for package in repository.packages]
    folders = [
        f"{place}/*.py" for place in places if any(path.startswith(f"{place}/") for path in repository.source_files)
    ]
    return (*folders, *(f"{place}.py" for place in places if f"{place}.py" in repository.source_files))
