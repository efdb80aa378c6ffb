"""Propose commits to make again: the package's part of a commit is taken back from the tree, the tests stay.

Reads the history of the checkout, the repository and its coverage map; runs nothing but git. Only commits that changed
the package and its tests together, and of which nothing in the package was changed again before the given state, can be
taken back (see `history`). Those of several files come first. Reasons for which a commit is no candidate: `revert`,
`files_moved`, `too_large`, `changed_since`, `no_function`, `tests_gone`, `thin_message`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

from composer_replication.errors import UsageError

from ...tasks.loading import is_test_path
from ...tasks.repository import CoverageMap, Repository
from ...tasks.symbols import source_index
from ...tasks.task import Candidate, Grain, Rejected, Rejection
from ...tasks.test_ids import test_function
from ..bug_injection.generate import source_patterns
from ..difficulty import static_difficulty
from ..feature_deletion.example_tests import chosen_examples, possible_examples
from ..feature_deletion.statement import DOCUMENTS
from ..kinds import GeneratorSettings
from .change import splices, take_back
from .history import Commit, GitHistory, stretch_of
from .statement import CommitWords, cleaned, is_revert, says_something, statements

NAME = "commits"
MODE = "take-back"
MODES = (MODE,)
MIN_UNSHOWN = 2
"""Test functions of the commit that stay hidden where others are shown."""


def propose(
    repository: Repository, coverage: CoverageMap, settings: GeneratorSettings
) -> Iterator[Candidate | Rejection]:
    if repository.checkout is None:
        raise UsageError(f"{repository.name} has no git history", "point at a git checkout, or leave out commits")
    history = GitHistory(repository.checkout)
    proposed = 0
    for commit in _in_order(history, repository, settings.seed):
        if proposed == settings.limit:
            return
        name = _name(commit)
        try:
            candidate = _candidate(name, commit, history, repository, coverage)
        except Rejected as error:
            yield Rejection(name, error.reason, error.detail)
            continue
        if not settings.grains or candidate.grain in settings.grains:
            proposed += 1
            yield candidate


def _in_order(history: GitHistory, repository: Repository, seed: int) -> list[Commit]:
    found = [commit for commit in stretch_of(repository, history) if _touches_both(commit, repository)]
    Random(f"{NAME}:{seed}").shuffle(found)
    return sorted(found, key=lambda commit: len(_package_files(commit, repository)) == 1)


def _touches_both(commit: Commit, repository: Repository) -> bool:
    tests = any(path in repository.test_files for path in commit.changed)
    return tests and any(path.endswith(".py") for path in _package_files(commit, repository))


def _package_files(commit: Commit, repository: Repository) -> list[str]:
    """What a commit changed below the folders of the packages, data and type stubs too; gone files included."""
    roots = [f"{root}/" if root not in ("", ".") else "" for root in repository.source_roots]
    places = tuple(f"{root}{package}" for root in roots for package in repository.packages)
    return [
        path
        for path in commit.changed
        if not is_test_path(path) and path.startswith(tuple(f"{place}{end}" for place in places for end in ("/", ".")))
    ]


def _candidate(
    name: str, commit: Commit, history: GitHistory, repository: Repository, coverage: CoverageMap
) -> Candidate:
    if is_revert(commit.message):
        raise Rejected("revert", commit.id)
    change = take_back(repository, history, commit, _package_files(commit, repository))
    own_tests = frozenset(test for test in coverage.passing if test_function(test) in change.test_functions)
    if not own_tests:
        raise Rejected("tests_gone", commit.id)
    message = cleaned(commit.message, history.people)
    message = message or cleaned(history.merged_messages(commit), history.people)
    if not says_something(message):
        raise Rejected("thin_message", f"{commit.id} {message[:100]}")
    failing = own_tests.union(*(coverage.by_symbol.get(symbol, ()) for symbol in change.functions))
    examples = chosen_examples(repository, change.symbols, own_tests, MIN_UNSHOWN - 1)
    told = CommitWords(
        message,
        _documentation(commit, history),
        change.new,
        change.changed,
        change.redescribed,
        change.missing_names,
    )
    grain: Grain = "cross-module" if len(change.edits) > 1 else "symbol"
    return Candidate(
        name=name,
        generator=NAME,
        mode=MODE,
        symbols=change.symbols,
        edits=change.edits,
        expected_failing=failing,
        statement=statements(source_index(repository), told, sorted(examples)),
        editable=tuple(sorted({*source_patterns(repository), *change.edits})),
        grain=grain,
        difficulty=static_difficulty(
            repository, change.symbols, edited_files=len(change.edits), expected_failing=len(failing)
        ),
        shown_tests=frozenset(test for test in own_tests if test_function(test) in examples),
        examples=possible_examples(repository, change.symbols, failing),
        solution_lines=change.lines,
        few_tests=True,
    )


def _documentation(commit: Commit, history: GitHistory) -> str:
    """What the commit added to texts outside of the package."""
    added: list[str] = []
    for path in commit.changed:
        if not path.lower().endswith(DOCUMENTS) and "change" not in path.lower():
            continue
        before, after = history.text(commit.parents[0], path) or "", history.text(commit.id, path) or ""
        if path.endswith(".py") or is_test_path(path):
            continue
        added += [line for splice in splices(before, after) for line in splice.lines]
    return cleaned("".join(added), history.people)


def _name(commit: Commit) -> str:
    first_line = cleaned(commit.message).partition("\n")[0].lower()
    words = re.sub(r"[^a-z0-9]+", "-", first_line)[:40].strip("-")
    return f"commit-{commit.id[:10]}-{words}".rstrip("-")
