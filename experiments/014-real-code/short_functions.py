"""A generator for `env make` that proposes short functions with several tests: what a small model can write.

    recompose env make SDIST -o DIR --generator short_functions:propose

Two in three are functions to write again from their description, one is a function with a small bug to mend. Each can
be answered with one definition in one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest

from composer_replication.environments.code.generators.bug_injection.generate import propose as bugs
from composer_replication.environments.code.generators.difficulty import difficulty_score
from composer_replication.environments.code.generators.feature_deletion.generate import propose as deletions
from composer_replication.environments.code.generators.kinds import GeneratorSettings
from composer_replication.environments.code.tasks.repository import CoverageMap, Repository
from composer_replication.environments.code.tasks.task import Candidate

FEWEST_LINES, MOST_LINES = 3, 12
"""Of a function to write again. Of one or two lines it is too easily guessed: the gates reject most of them."""
MOST_BUGGY_LINES = 16
ENOUGH_TESTS = 6
"""Functions with fewer come last: of few tests the gates seldom leave enough."""
PROPOSED = 2000
"""More than any of the repositories has."""


def propose(repository: Repository, coverage: CoverageMap, settings: GeneratorSettings) -> Iterator[Candidate]:
    every = replace(settings, limit=PROPOSED, grains=("symbol",))
    emptied = [
        each
        for each in deletions(repository, coverage, replace(every, modes=("stub",)))
        if FEWEST_LINES <= each.difficulty["lines"] <= MOST_LINES
    ]
    broken = [
        each
        for each in bugs(repository, coverage, replace(every, modes=()))
        if each.difficulty["function_lines"] <= MOST_BUGGY_LINES
    ]
    emptied.sort(key=lambda each: (_has_few_tests(each), difficulty_score(each.difficulty), each.name))
    broken.sort(key=_has_few_tests)
    in_turn = [each for pair in zip_longest(emptied[::2], emptied[1::2], _one_per_function(broken)) for each in pair]
    yield from [each for each in in_turn if each][: settings.limit]


def _has_few_tests(candidate: Candidate) -> bool:
    return len(candidate.expected_failing) < ENOUGH_TESTS


def _one_per_function(found: list[Candidate]) -> list[Candidate]:
    return list({each.symbols: each for each in reversed(found)}.values())[::-1]
