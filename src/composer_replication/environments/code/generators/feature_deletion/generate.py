"""Candidates of feature deletion for one repository: features at the wanted grains, in the wanted modes.

Pure: reads the repository and its coverage map, runs nothing, and gives the same candidates in the same order for the
same seed. Each grain and mode has its turn, so that a small limit already shows the whole range.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence, Set
from fnmatch import fnmatchcase
from typing import get_args

from composer_replication.errors import UsageError

from ...tasks.repository import CoverageMap, Repository
from ...tasks.symbols import Definition, source_index
from ...tasks.task import Candidate, Grain, Symbol
from ...tasks.test_ids import test_function
from ..bug_injection.generate import source_patterns
from ..difficulty import static_difficulty
from ..kinds import GeneratorSettings
from .cascade import import_graph
from .edits import MODES, Deletion, Mode, NotDeletable, delete
from .example_tests import chosen_examples, possible_examples
from .import_time import Target, by_path
from .select import MIN_TESTS, Feature, Selector, leaves_guards
from .statement import statements

GRAINS: tuple[Grain, ...] = get_args(Grain)[::-1]
"""Features across files first: they are the rarest, and each grain has its turn."""
NO_DOCSTRING_SHARE = 0.3
MAX_NAME = 80
MAX_UNEXPECTED = 4
"""Tests beyond the expected ones that a deletion may touch; the gates hide as many."""


def propose(repository: Repository, coverage: CoverageMap, settings: GeneratorSettings) -> Iterator[Candidate]:
    modes = _known_modes(settings.modes)
    bench = _Bench(repository, coverage)
    queues: list[list[tuple[Feature, Mode]]] = []
    for grain in settings.grains or GRAINS:
        for removing, selector in bench.selectors.items():
            wanted: list[Mode] = [mode for mode in modes if mode.startswith("remove") is removing]
            if wanted:
                features = selector.features(grain, settings.seed)
                queues += _queues(features, wanted, random.Random(f"{settings.seed} {grain} {removing}"))
    proposed: set[str] = set()
    for feature, mode in _in_turns(queues):
        if len(proposed) >= settings.limit:
            return
        candidate = _candidate(bench, feature, mode, proposed)
        if candidate is None and mode == "stub-nodoc" and "stub" in modes:
            candidate = _candidate(bench, feature, "stub", proposed)
        if candidate is not None:
            proposed.add(candidate.name)
            yield candidate


class _Bench:
    """What all candidates of one call share."""

    def __init__(self, repository: Repository, coverage: CoverageMap) -> None:
        self.repository, self.coverage = repository, coverage
        self.index, self.graph = source_index(repository), import_graph(repository)
        self.selectors = {
            removing: Selector(self.index, self.graph, coverage, removing=removing) for removing in (False, True)
        }
        self._alone: dict[Symbol, bool] = {}

    def tests_of(self, symbols: Iterable[Symbol]) -> frozenset[str]:
        return frozenset[str]().union(*map(self.selectors[True].tests_of, symbols))

    def clean_deletion(self, symbols: tuple[Symbol, ...], mode: Mode) -> Deletion | None:
        """None where something holds the symbols, or where unrelated tests would meet a name that is gone."""
        try:
            deletion = delete(self.repository, symbols, mode)
        except NotDeletable:
            return None
        unexpected = self._exposed_tests(symbols, deletion) - self.expected_failing(symbols, deletion)
        return deletion if len(unexpected) <= MAX_UNEXPECTED else None

    def goes_alone(self, symbol: Symbol) -> bool:
        if symbol not in self._alone:
            self._alone[symbol] = self.clean_deletion((symbol,), "remove") is not None
        return self._alone[symbol]

    def expected_failing(self, symbols: tuple[Symbol, ...], deletion: Deletion) -> frozenset[str]:
        """Tests that run the symbols, and tests that cannot do without a removed name: that use it or have it as
        their parameter, as tests that go through a namespace do."""
        running = self.tests_of(symbols)
        if not deletion.removed:
            return running
        naming = deletion.lost_tests | self._naming_tests(deletion)
        names = {name for _, name in deletion.removed}
        return running | {
            test
            for test in self.coverage.passing
            if _is_among(test_function(test), naming)
            or names.intersection(test.partition("[")[2].removesuffix("]").split("-"))
        }

    def _naming_tests(self, deletion: Deletion) -> frozenset[str]:
        return frozenset(
            f"{path}::{definition.symbol.name.replace('.', '::')}"
            for path, gone in by_path(deletion.removed).items()
            if path in self.index.tests
            for definition in self.index.tests[path].definitions
            if definition.kind != "class" and gone & definition.mentions
        )

    def _exposed_tests(self, symbols: tuple[Symbol, ...], deletion: Deletion) -> frozenset[str]:
        """Tests of functions that stay and use a removed name otherwise than by a call that would run it."""
        if not deletion.removed:
            return frozenset()
        definitions = [self.index.definitions[symbol][0] for symbol in symbols]
        charged = {each.short_name for each in definitions if each.runs_when_called}
        methods = {each.short_name for each in definitions if each.kind == "method"}
        users = [
            each.symbol
            for each in self.index.functions
            if (each.symbol.file, each.symbol.name) not in deletion.removed
            and (methods & each.values_used or self._meets_removed(each, deletion.removed, charged))
        ]
        return self.tests_of(users)

    def _meets_removed(self, definition: Definition, removed: Set[Target], charged: Set[str]) -> bool:
        return any(
            reference.target in removed and not (reference.called and reference.target[1] in charged)
            for reference in self.graph.references(definition)
        )


def _known_modes(wanted: tuple[str, ...]) -> tuple[Mode, ...]:
    """Those of other generators, which may share the settings, are left to them."""
    own: tuple[Mode, ...] = tuple(mode for mode in MODES if not wanted or mode in wanted)
    if not own:
        raise UsageError(f"feature deletion has no mode {', '.join(sorted(wanted))}", f"one of {', '.join(MODES)}")
    return own


def _queues(features: list[Feature], modes: Sequence[Mode], draw: random.Random) -> list[list[tuple[Feature, Mode]]]:
    """One queue per mode. A feature is emptied in one way only: with and without docstring are nearly the same task."""
    queues: dict[Mode, list[tuple[Feature, Mode]]] = {mode: [] for mode in modes}
    for feature in draw.sample(features, len(features)):
        chosen: list[Mode] = [mode for mode in modes if (mode == "remove-file") is feature.whole_files]
        if len(chosen) == 2 and "stub-nodoc" in chosen:
            chosen = ["stub-nodoc" if draw.random() < NO_DOCSTRING_SHARE else "stub"]
        for mode in chosen:
            queues[mode].append((feature, mode))
    return list(queues.values())


def _in_turns(queues: list[list[tuple[Feature, Mode]]]) -> Iterator[tuple[Feature, Mode]]:
    for place in range(max(map(len, queues), default=0)):
        for queue in queues:
            if place < len(queue):
                yield queue[place]


def _candidate(bench: _Bench, feature: Feature, mode: Mode, taken: set[str]) -> Candidate | None:
    found = _deletable_part(bench, feature, mode)
    if found is None:
        return None
    repository, coverage = bench.repository, bench.coverage
    symbols, deletion = found
    failing = bench.expected_failing(symbols, deletion)
    if len(failing) < MIN_TESTS[feature.grain] or not leaves_guards(failing, feature.grain, coverage):
        return None
    examples = chosen_examples(repository, symbols, failing, MIN_TESTS[feature.grain])
    if mode == "stub-nodoc" and not _shows_each(examples, symbols, bench):
        return None  # nothing would say what the feature does
    return Candidate(
        name=_unused(f"{repository.name}-{mode}-{feature.name}", taken),
        generator="feature_deletion",
        mode=mode,
        symbols=symbols,
        edits=deletion.edits,
        expected_failing=failing,
        statement=statements(repository, symbols, mode, deletion.removed, sorted(examples), deletion.edits),
        editable=_editable(repository, deletion),
        grain=feature.grain,
        difficulty=static_difficulty(
            repository, symbols, edited_files=len(deletion.edits), expected_failing=len(failing)
        ),
        shown_tests=frozenset(test for test in failing if test_function(test) in examples),
        examples=possible_examples(repository, symbols, failing),
    )


def _deletable_part(bench: _Bench, feature: Feature, mode: Mode) -> tuple[tuple[Symbol, ...], Deletion] | None:
    """The feature, or, for a larger one that something holds, those of its symbols that nothing holds alone."""
    whole = bench.clean_deletion(feature.symbols, mode)
    if whole is not None:
        return feature.symbols, whole
    if feature.grain == "symbol" or mode != "remove":
        return None
    part = tuple(symbol for symbol in feature.symbols if bench.goes_alone(symbol))
    deletion = bench.clean_deletion(part, mode) if len(part) > 1 else None
    return (part, deletion) if deletion else None


def _shows_each(examples: Set[str], symbols: Iterable[Symbol], bench: _Bench) -> bool:
    """Whether every symbol is run by a test that is shown."""
    return all(examples & set(map(test_function, bench.tests_of([symbol]))) for symbol in symbols)


def _is_among(function: str, lost: frozenset[str]) -> bool:
    """A lost class takes its tests with it."""
    parts = function.split("::")
    return any("::".join(parts[:length]) in lost for length in range(2, len(parts) + 1))


def _editable(repository: Repository, deletion: Deletion) -> tuple[str, ...]:
    """The source of the package: where a solution stands is its author's choice."""
    patterns = source_patterns(repository)
    others = [path for path in sorted(deletion.edits) if not any(fnmatchcase(path, pattern) for pattern in patterns)]
    return (*patterns, *others)


def _unused(name: str, taken: set[str]) -> str:
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")[:MAX_NAME]
    numbers = (f"{plain}-{number}" for number in range(2, len(taken) + 3))
    return next(each for each in (plain, *numbers) if each not in taken)
