"""Propose tasks in which the tests of a feature are gone: one function, `propose`.

Reads the repository and its coverage map; runs nothing. The agent writes tests; the grader `mutants` pays the share of
broken copies of the feature that they notice, if they pass on the true code. The broken copies are bugs that
`bug_injection` knows; the gates keep those that the original tests notice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import PurePosixPath
from random import Random

from composer_replication.records import content_id

from ...tasks.repository import CoverageMap, Repository
from ...tasks.task import Candidate, Grain, Level, Symbol
from ...tasks.test_ids import file_of, is_test_file
from ..bug_injection.generate import source_of, tested_functions
from ..bug_injection.operators import OPERATORS, mutations
from ..feature_deletion.visible import gone_tests, visible_tests
from ..kinds import GeneratorSettings

NAME = "test_writing"
MODE = "write-tests"
MODES = (MODE,)
MIN_MUTANTS, MAX_MUTANTS = 4, 12
MAX_TEST_SHARE = 0.4
Feature = tuple[Grain, tuple[Symbol, ...]]
RULES = (
    "The code is correct as it stands: every test that you write must pass on it. Your tests are then run on copies of "
    "the code with one small bug each; the reward is the share of copies on which one of your tests fails. Tests that "
    "read the source instead of calling it are not counted. Do not change the source.\n"
)


def propose(repository: Repository, coverage: CoverageMap, settings: GeneratorSettings) -> Iterator[Candidate]:
    """First single functions, then all functions of a file that one test file tests."""
    rng = Random(f"{NAME}:{settings.seed}")
    singles: list[Feature] = [("symbol", (symbol,)) for symbol in tested_functions(coverage)]
    groups: list[Feature] = [("cluster", group) for group in functions_by_files(coverage)]
    rng.shuffle(singles)
    rng.shuffle(groups)
    wanted = [] if settings.modes and MODE not in settings.modes else [*singles, *groups]
    proposed = 0
    for grain, symbols in wanted:
        if proposed == settings.limit:
            return
        if settings.grains and grain not in settings.grains:
            continue
        if (found := candidate(repository, coverage, symbols, grain, rng)) is not None:
            proposed += 1
            yield found


def functions_by_files(coverage: CoverageMap) -> list[tuple[Symbol, ...]]:
    """Groups of two functions and more: of one source file, tested by one test file."""
    groups: dict[tuple[str, str], list[Symbol]] = {}
    for symbol in tested_functions(coverage):
        files = set(map(file_of, coverage.by_symbol[symbol]))
        if len(files) == 1:
            groups.setdefault((symbol.file, files.pop()), []).append(symbol)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def candidate(
    repository: Repository, coverage: CoverageMap, symbols: tuple[Symbol, ...], grain: Grain, rng: Random
) -> Candidate | None:
    """None where too few bugs fit into the feature, its tests are half the suite, or cannot be taken out."""
    tests = frozenset[str]().union(*(coverage.by_symbol[symbol] for symbol in symbols))
    files = sorted(set(map(file_of, tests)))
    mutants = broken_copies(repository, symbols, rng)
    if len(mutants) < MIN_MUTANTS or len(tests) > MAX_TEST_SHARE * len(coverage.passing):
        return None
    if not all(map(is_test_file, files)):
        return None
    edits = visible_tests(repository, {}, tests | coverage.red_for_agents)
    edits |= dict.fromkeys(path for path in repository.test_files if path in coverage.red_for_agents)
    gone = gone_tests(repository, edits, coverage.passing)
    if not tests <= gone:
        return None
    return Candidate(
        name=f"tests-{symbols[0].name.replace('.', '-').lower()}-{grain}-{content_id(sorted(tests))[:6]}",
        generator=NAME,
        mode=MODE,
        symbols=symbols,
        edits=edits,
        expected_failing=gone,
        statement=statements(repository, symbols, files, len(mutants)),
        editable=tuple(sorted({pattern for path in files for pattern in test_patterns(path)})),
        grain=grain,
        grader="mutants",
        difficulty={"symbols": float(len(symbols)), "tests": float(len(tests)), "mutants": float(len(mutants))},
        mutants=mutants,
    )


def broken_copies(repository: Repository, symbols: tuple[Symbol, ...], rng: Random) -> tuple[dict[str, str], ...]:
    """At most twelve different ones, the operators and the functions in turn."""
    columns: list[list[tuple[str, str]]] = []
    for symbol in symbols:
        source = source_of(repository, symbol)
        function = source.functions.get(symbol.name) if source else None
        if source is None or function is None:
            continue
        for operator in OPERATORS:
            texts = [text for _, text in mutations(source, function, operator)]
            rng.shuffle(texts)
            columns.append([(symbol.file, text) for text in texts])
    rng.shuffle(columns)
    rows = zip_longest(*columns)
    distinct = dict.fromkeys(one for row in rows for one in row if one is not None)
    return tuple({"path": path, "text": text} for path, text in list(distinct)[:MAX_MUTANTS])


def statements(
    repository: Repository, symbols: Sequence[Symbol], test_files: Sequence[str], mutants: int
) -> dict[Level, str]:
    """What the agent is told, from the most to the least."""
    names = ", ".join(f"`{symbol.name}` in `{symbol.file}`" for symbol in symbols)
    files = ", ".join(f"`{path}`" for path in test_files)
    modules = ", ".join(f"`{path}`" for path in dict.fromkeys(symbol.file for symbol in symbols))
    place = f"Write pytest tests in {files}, or in new files `test_*.py` next to it"
    return {
        "L0": f"{place}, for {names}. There are {mutants} bugs to notice: wrong conditions, edges of ranges, forgotten "
        f"cases, wrong constants and defaults, swapped arguments.\n\n{RULES}",
        "L1": f"{place}, for {names}.\n\n{RULES}",
        "L2": f"{place}, for what {modules} offers and no test of the repository covers.\n\n{RULES}",
        "L3": f"{place}, for what {repository.name} offers and no test of the repository covers.\n\n{RULES}",
    }


def test_patterns(path: str) -> tuple[str, str]:
    folder = PurePosixPath(path).parent.as_posix()
    return path, "test_*.py" if folder == "." else f"{folder}/test_*.py"
