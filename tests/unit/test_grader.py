"""Grading as a whole, on a small real task in real sandboxes."""

import textwrap

import pytest

from composer_replication.environments.code.grading import grade, grader, trusted_run
from composer_replication.environments.code.grading.trusted_run import GraderFailure
from composer_replication.environments.code.sandbox.open import why_unavailable
from composer_replication.environments.code.tasks import task as code_tasks
from composer_replication.errors import UsageError
from tests.hacks.sample_task import (
    GOLD,
    GUARDS,
    HIDDEN,
    HIDDEN_FILE,
    HIDDEN_TESTS,
    NOP,
    SPANS,
    SPANS_GOLD,
    VISIBLE_FILE,
    Submission,
    spans_with,
    write_sample_task,
)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return write_sample_task(tmp_path_factory.mktemp("tasks") / "spanbook")


@pytest.fixture
def runs(monkeypatch):
    """The orders of the runs that a grade took."""
    orders = []

    def counted(task, accepted, order, backend):
        orders.append(order)
        return trusted_run.run_trusted(task, accepted, order, backend)

    monkeypatch.setattr(grader, "run_trusted", counted)
    return orders


def changed(old, new):
    assert old in SPANS_GOLD
    return Submission({SPANS: SPANS_GOLD.replace(old, new).encode()})


def test_nothing_costs_one_run_and_the_solution_three(task, runs):
    assert grade(task, NOP).reward == 0.0
    assert len(runs) == 1
    assert grade(task, GOLD).reward == 1.0
    assert len(runs) == 4


def test_the_last_run_has_other_expectations_and_other_names(task, runs):
    grade(task, GOLD)
    first, guards, last = runs
    assert set(guards.tests) == set(GUARDS) and HIDDEN_FILE not in guards.texts
    assert set(first.texts) & set(last.texts) <= {HIDDEN_FILE, VISIBLE_FILE}
    assert first.texts[HIDDEN_FILE] == HIDDEN_TESTS != last.texts[HIDDEN_FILE]


def test_a_contradicted_test_that_fails_before_its_clean_up_breaks_no_neighbour(tmp_path):
    """The audit's false zeros: `test_uses` is contradicted in some draws, and then does not give back what it took."""
    names = ("test_takes", "test_uses", "test_gives")
    body = "    assert TAKEN == []\n    TAKEN.append(1)\n    assert merge([(1, 2)]) == [(1, 2)]\n    TAKEN.clear()\n"
    text = "from spanbook.spans import merge\n\nTAKEN = []\n\n\n"
    text += "\n\n".join(f"def {name}():\n{body}" for name in names)
    task = write_sample_task(tmp_path / "task", hidden_tests=tuple(f"{HIDDEN_FILE}::{name}" for name in names))
    (task.overlay / HIDDEN_FILE).write_text(text)
    assert grader.doubted_gold(task, GOLD, 4) == []


def test_a_task_without_hidden_tests_is_no_task(tmp_path):
    with pytest.raises(UsageError, match="no hidden tests"):
        grade(write_sample_task(tmp_path / "task", hidden_tests=()), NOP)


def test_half_a_solution_scores_its_share(task):
    without_gaps = changed("    return [(left[1], right[0])", "    return None and [(left[1], right[0])")
    result = grade(task, without_gaps)
    assert result.reward == pytest.approx(7 / 9)
    assert len(result.hidden_failed) == 2
    assert result.notes == ()


def test_a_solution_that_breaks_a_guard_scores_nothing(task):
    result = grade(task, changed("return max(0, end - start)", "return end"))
    assert result.reward == 0.0
    assert set(result.guards_broken) <= set(GUARDS) and result.guards_broken
    assert result.hidden_passed == HIDDEN


def test_a_broken_guard_cannot_be_overwritten(task):
    text = SPANS_GOLD.replace("return max(0, end - start)", "return end")
    text += f"\nimport re\ntests = open({VISIBLE_FILE!r}).read()\n"
    text += f"open({VISIBLE_FILE!r}, 'w').write(re.sub('assert .*', 'pass', tests))\n"
    result = grade(task, Submission({SPANS: text.encode()}))
    assert (result.reward, bool(result.guards_broken)) == (0.0, True)


def test_a_file_that_cannot_be_read_scores_nothing(task):
    result = grade(task, Submission({SPANS: b"def merge(:\n"}))
    assert (result.reward, result.hidden_passed, result.hidden_failed) == (0.0, (), HIDDEN)


def test_a_solution_that_is_right_every_other_time_scores_nothing(task):
    result = grade(
        task,
        spans_with(
            textwrap.dedent(f"""
        import random
        {textwrap.indent(SPANS_GOLD[SPANS_GOLD.index("def merge") :], " " * 8).strip()}
        right = merge
        def merge(spans): return right(spans) if random.SystemRandom().random() < 0.5 else None
    """)
        ),
    )
    assert result.reward < 1.0


def test_noise_and_own_processes_do_no_harm(task):
    loud = "import subprocess, sys\nprint('x' * 10**5)\n"
    loud += "subprocess.run([sys.executable, '-c', 'import spanbook'], check=True)\n"
    assert grade(task, Submission({SPANS: (loud + SPANS_GOLD).encode()})).reward == 1.0


def test_time_is_bounded(task, monkeypatch):
    monkeypatch.setattr(trusted_run, "SHORTEST_LIMIT_S", 2.0)
    result = grade(task, spans_with("import time\ntime.sleep(60)"))
    assert result.reward == 0.0
    assert "the tests did not end in time" in result.notes


def test_a_loop_without_an_end_is_stopped_by_its_processor_time(task, monkeypatch):
    monkeypatch.setattr(code_tasks, "START_CPU_S", 1)
    result = grade(task, spans_with("while True:\n    pass"))
    assert (result.reward, result.notes) == (0.0, ("the tests did not end in time", *result.notes[1:]))
    assert result.wall_s < trusted_run.SHORTEST_LIMIT_S / 2


def test_without_pytest_there_is_no_grade(tmp_path):
    task = write_sample_task(tmp_path / "task", distributions=("iniconfig",))
    with pytest.raises(GraderFailure, match="pytest"):
        grade(task, NOP)


@pytest.mark.skipif(bool(why_unavailable("landlock")), reason=f"landlock: {why_unavailable('landlock')}")
def test_the_other_backend_grades_the_same(task):
    assert grade(task, NOP, "landlock").reward == 0.0
    assert grade(task, GOLD, "landlock").reward == 1.0
    _, always_equal = next(iter_forger(19))
    assert grade(task, always_equal, "landlock").reward == 0.0


def iter_forger(number):
    from tests.hacks.forgers import FORGERS

    return FORGERS[number]()
