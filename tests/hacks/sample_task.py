"""A small repository with one feature taken out, as a task folder: what the attackers of this folder attack."""

import textwrap
from pathlib import Path

from composer_replication.environments.code.certificates.comparison import record_comparison, telling
from composer_replication.environments.code.certificates.strength import cheap_solution, units
from composer_replication.environments.code.grading.recorded import as_text
from composer_replication.environments.code.tasks.store import CHECKS
from composer_replication.environments.code.tasks.task import CodeTask, Submission, Symbol, TaskFolder
from composer_replication.records import Task

SPANS_GOLD = '''\
"""Half-open spans of whole numbers, as (start, end)."""


def length(span):
    start, end = span
    return max(0, end - start)


def shift(span, by):
    start, end = span
    return (start + by, end + by)


def contains(span, point):
    return span[0] <= point < span[1]


def merge(spans):
    """The smallest list of spans that covers the same points, in order; empty spans vanish."""
    merged = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        furthest_end = merged[-1][1] if merged else None
        if furthest_end is not None and start <= furthest_end:
            merged[-1] = (merged[-1][0], max(furthest_end, end))
        else:
            merged.append((start, end))
    return merged


def gaps(spans):
    """The spans between the merged ones."""
    merged = merge(spans)
    return [(left[1], right[0]) for left, right in zip(merged, merged[1:])]
'''
SPANS_START = (
    SPANS_GOLD[: SPANS_GOLD.index("    merged = []")]
    + '''    raise NotImplementedError


def gaps(spans):
    """The spans between the merged ones."""
    raise NotImplementedError
'''
)
TEXT = '''\
"""Spans as text."""

from .spans import length


def show(span):
    return f"[{span[0]}, {span[1]})"


def show_lengths(spans):
    return ", ".join(str(length(span)) for span in spans)
'''
VISIBLE_TESTS = """\
import pytest

from spanbook.spans import contains, length, shift
from spanbook.text import show, show_lengths


def test_length():
    assert length((2, 5)) == 3


def test_length_of_an_empty_span():
    assert length((5, 5)) == 0


def test_shift():
    assert shift((1, 4), 10) == (11, 14)


@pytest.mark.parametrize("point, expected", [(1, True), (3, True), (4, False)])
def test_contains(point, expected):
    assert contains((1, 4), point) == expected


def test_show():
    assert show((1, 4)) == "[1, 4)"


def test_show_lengths():
    assert show_lengths([(1, 4), (0, 1)]) == "3, 1"


def test_length_needs_two_ends():
    with pytest.raises(ValueError):
        length((1, 2, 3))
"""
HIDDEN_TESTS = """\
import pytest

from spanbook.spans import gaps, merge


def test_merge_overlapping():
    assert merge([(6, 9), (1, 3), (2, 7)]) == [(1, 9)]


def test_merge_touching():
    assert merge([(21, 24), (18, 21)]) == [(18, 24)]


APART = [(40, 41), (44, 47)]


@pytest.mark.parametrize("spans, expected", [(APART, [(40, 41), (44, 47)]), ([(5, 5), (8, 9)], [(8, 9)])])
def test_merge_keeps(spans, expected):
    assert merge(spans) == expected


def test_merge_does_not_change_its_argument():
    spans = [(31, 33), (30, 32)]
    assert merge(spans) == [(30, 33)]
    assert spans == [(31, 33), (30, 32)]


def test_merge_gives_a_list():
    merged = merge(iter([(2, 3), (3, 5)]))
    assert isinstance(merged, list) and merged == [(2, 5)]


def test_merge_needs_pairs():
    assert merge([(15, 16)]) == [(15, 16)]
    with pytest.raises(ValueError):
        merge([(1, 2, 3)])


def test_gaps():
    assert gaps([(50, 52), (57, 60), (51, 54)]) == [(54, 57)]


def test_gaps_of_many():
    assert len(gaps([(10 * step, 10 * step + 3) for step in range(5)])) == 4
"""
README = """\
# spanbook

    >>> from spanbook.spans import merge
    >>> merge([(0, 2), (1, 3)])
    [(0, 3)]

The order of the argument does not matter. 1.1 added `gaps`.
"""
PYPROJECT = '[project]\nname = "spanbook"\nversion = "1.1"\n\n[tool.pytest.ini_options]\naddopts = "-x"\n'
HIDDEN_FILE, VISIBLE_FILE = "tests/test_spans_merge.py", "tests/test_spans.py"
HIDDEN = tuple(
    f"{HIDDEN_FILE}::{name}"
    for name in (
        "test_merge_overlapping",
        "test_merge_touching",
        "test_merge_keeps[spans0-expected0]",
        "test_merge_keeps[spans1-expected1]",
        "test_merge_does_not_change_its_argument",
        "test_merge_gives_a_list",
        "test_merge_needs_pairs",
        "test_gaps",
        "test_gaps_of_many",
    )
)
GUARDS = tuple(
    f"{VISIBLE_FILE}::{name}"
    for name in (
        "test_length",
        "test_length_of_an_empty_span",
        "test_shift",
        "test_contains[1-True]",
        "test_contains[3-True]",
        "test_contains[4-False]",
        "test_show",
        "test_show_lengths",
        "test_length_needs_two_ends",
    )
)
SPANS = "spanbook/spans.py"
NOP = Submission()
GOLD = Submission({SPANS: SPANS_GOLD.encode()})


def code_task(**changes):
    fields = {
        "task": Task(
            task_id="spanbook-merge",
            kind="feature_deletion",
            statement="Write `merge` and `gaps` in spanbook/spans.py.",
            visible_hash="0",
            hidden_hash="0",
        ),
        "repository": "spanbook",
        "generator": "feature_deletion",
        "mode": "stub",
        "level": "L0",
        "symbols": (Symbol(file=SPANS, name="merge"), Symbol(file=SPANS, name="gaps")),
        "packages": ("spanbook",),
        "source_roots": (".",),
        "test_files": (HIDDEN_FILE, VISIBLE_FILE),
        "hidden_tests": HIDDEN,
        "guard_tests": GUARDS,
        "editable": ("spanbook/*",),
        "seconds_per_run": 0.1,
    }
    return CodeTask.model_validate(fields | changes)


def write_files(folder: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def write_sample_task(folder: Path, **changes) -> TaskFolder:
    """As an old one: nothing of it is compared by the trusted side."""
    task = TaskFolder(code_task(**changes), folder)
    shared = {"spanbook/__init__.py": "", "spanbook/text.py": TEXT, "README.md": README, "pyproject.toml": PYPROJECT}
    write_files(task.tree, shared | {SPANS: SPANS_START, VISIBLE_FILE: VISIBLE_TESTS, "tests/conftest.py": ""})
    write_files(task.overlay, {HIDDEN_FILE: HIDDEN_TESTS, VISIBLE_FILE: VISIBLE_TESTS, "tests/conftest.py": ""})
    write_files(task.gold, {SPANS: SPANS_GOLD})
    (folder / "task.json").write_text(task.code_task.model_dump_json(), encoding="utf-8")
    return task


def write_compared_task(folder: Path, **changes) -> TaskFolder:
    """As a new one: its hidden tests are lowered, what the solution gives is recorded, and cheap ones are joined."""
    task = write_sample_task(folder, **changes)
    cheap = cheap_solution(task, {SPANS: SPANS_GOLD}, task.code_task.symbols)
    recorded = record_comparison(task, (), "auto", cheap)
    assert not recorded.left
    counted = units(HIDDEN, telling(frozenset(HIDDEN), recorded))
    task = TaskFolder(task.code_task.model_copy(update={"units": counted}), folder)
    (task.folder / "tests" / CHECKS).write_text(as_text(recorded), encoding="utf-8")
    return task


def submission(**files: str) -> Submission:
    """Keywords are paths, with `__` for a slash and without `.py`; texts are dedented."""
    return Submission({f"{path.replace('__', '/')}.py": textwrap.dedent(text).encode() for path, text in files.items()})


def spans_with(text: str) -> Submission:
    """The start file with some code after it; later definitions win."""
    return Submission({SPANS: (SPANS_START + "\n\n" + textwrap.dedent(text)).encode()})
