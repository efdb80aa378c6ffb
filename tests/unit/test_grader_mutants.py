"""Tests that an agent writes are paid by the broken copies that they notice, not by knowing which copy is broken."""

import inspect
import json
import random
import textwrap

import pytest

from composer_replication.environments.code.grading import grade
from composer_replication.environments.code.grading.mutants import equivalent
from composer_replication.errors import UsageError
from tests.hacks.sample_task import HIDDEN_TESTS, NOP, SPANS, SPANS_GOLD, Submission, write_files, write_sample_task

MUTANTS = {
    "touching": ("start <= furthest_end", "start < furthest_end"),
    "nested": ("max(furthest_end, end)", "end"),
    "gaps": ("(left[1], right[0])", "(left[0], right[0])"),
}
AGENT_FILE = "tests/test_agent.py"


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    task = write_sample_task(
        tmp_path_factory.mktemp("tasks") / "tests", grader="mutants", editable=("tests/test_*.py",), hidden_tests=()
    )
    write_files(task.tree, {SPANS: SPANS_GOLD})
    for path in task.overlay.rglob("*.py"):
        path.unlink()
    for name, (old, new) in MUTANTS.items():
        assert old in SPANS_GOLD
        mutant = {"path": SPANS, "text": SPANS_GOLD.replace(old, new)}
        write_files(task.folder / "tests" / "mutants", {f"{name}.json": json.dumps(mutant)})
    return task


def graded(task, text, path=AGENT_FILE):
    return grade(task, Submission({path: textwrap.dedent(text).encode()}))


def test_the_share_of_noticed_mutants_is_the_reward(task):
    assert grade(task, NOP).reward == 0.0
    assert (
        graded(task, HIDDEN_TESTS + "\n\ndef test_nested():\n    assert merge([(1, 9), (2, 3)]) == [(1, 9)]\n").reward
        == 1.0
    )
    some = graded(task, "from spanbook.spans import merge\ndef test_it(): assert merge([(1, 2), (2, 3)]) == [(1, 3)]\n")
    assert some.reward == pytest.approx(1 / 3)
    assert some.hidden_passed == ("mutants/touching.json",)
    assert some.hidden_failed == ("mutants/gaps.json", "mutants/nested.json")


@pytest.mark.parametrize(
    "text, note",
    [
        ("def test_it(): assert False", "no test passes on the true code"),
        ("import spanbook.nothing", "no test passes on the true code"),
        ("def test_it(): pass\ndef test_wrong(): assert False", "a test does not pass on the true code"),
        (
            "import hashlib, pathlib, spanbook.spans as s\n"
            "def test_text(): assert 'furthest_end, end' in pathlib.Path(s.__file__).read_text(errors='replace')",
            "no test passes on the true code",
        ),
        (
            "import inspect, spanbook.spans as s\n"
            "def test_it(): pass\n"
            "def test_source(): assert 'max(furthest_end, end)' in inspect.getsource(s.merge)",
            "a test does not pass on the true code",
        ),
    ],
)
def test_tests_that_are_no_tests_of_the_code_score_nothing(task, text, note):
    result = graded(task, text)
    assert result.reward == 0.0
    assert note in result.notes


def test_the_compiled_form_says_nothing(task):
    space = {}
    exec(compile(SPANS_GOLD, "spans", "exec"), space)
    result = graded(
        task,
        f"""
        import spanbook.spans as s
        def test_it(): pass
        def test_code(): assert s.merge.__code__.co_code == {space["merge"].__code__.co_code!r}
        """,
    )
    assert result.reward == 0.0


@pytest.mark.parametrize("path", ["tests/conftest.py", "conftest.py", SPANS, "tests/helper.py"])
def test_only_test_files_count(task, path):
    result = graded(task, "def test_it(): assert False", path)
    assert (result.reward, result.dropped) == (0.0, (path,))


def test_a_task_without_mutants_says_so(tmp_path):
    task = write_sample_task(tmp_path / "task", grader="mutants")
    with pytest.raises(UsageError, match="no mutants"):
        grade(task, NOP)


def test_other_words_do_the_same():
    text = equivalent(SPANS_GOLD, random.Random(0))
    first, second = {}, {}
    exec(compile(SPANS_GOLD, "a", "exec"), first)
    exec(compile(text, "b", "exec"), second)
    assert text != SPANS_GOLD
    for name in ("merge", "gaps", "length"):
        assert first[name].__code__.co_code != second[name].__code__.co_code
        assert first[name].__doc__ == second[name].__doc__
        assert inspect.signature(first[name]) == inspect.signature(second[name])
    spans = [(6, 9), (1, 3), (2, 7), (12, 14)]
    assert first["gaps"](spans) == second["gaps"](spans) == [(9, 12)]
    assert equivalent(SPANS_GOLD, random.Random(1)) != text
