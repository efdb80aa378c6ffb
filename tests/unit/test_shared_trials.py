"""What the gates share: which tests a broken copy is compared on, and when lazy answers refuse a task."""

import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from composer_replication.environments.code.certificates import harbor_batch
from composer_replication.environments.code.certificates.certify import _noticing
from composer_replication.environments.code.certificates.comparison import ChangedSolution
from composer_replication.environments.code.certificates.gates import Bench, Split, quick_tests
from composer_replication.environments.code.certificates.two_verifiers import MAX_TESTS_OF_A_COPY, part_for
from composer_replication.environments.code.grading.inside import launcher
from composer_replication.environments.code.tasks.task import CodeTask, Rejected
from composer_replication.records import Task
from tests.tiny_repository import stubbed_rectangle

COPIES = [f"dropped_{number}" for number in range(10)]


def task_with(tests: int) -> CodeTask:
    hidden = tuple(f"tests/test_a.py::test_{number:03}" for number in range(tests))
    return CodeTask(
        task=Task(task_id="", kind="code", statement="", visible_hash="", hidden_hash=""),
        repository="a",
        generator="",
        mode="",
        level="L0",
        symbols=(),
        packages=("a",),
        source_roots=(".",),
        distributions=(),
        pytest_plugins=(),
        pytest_options=(),
        test_files=("tests/test_a.py",),
        hidden_tests=hidden,
        units=tuple(hidden[at : at + 2] for at in range(0, tests, 2)),
        guard_tests=("tests/test_a.py::test_guard",),
        editable=(),
        seconds_per_run=0.0,
    )


def test_few_hidden_tests_are_all_compared_on_each_copy():
    known = task_with(MAX_TESTS_OF_A_COPY)
    assert all(part_for(name, known).hidden_tests == known.hidden_tests for name in COPIES)
    assert part_for("dropped_0", known).guard_tests == () and part_for("gold", known) == known


def test_of_many_hidden_tests_each_copy_has_another_part_and_all_have_a_turn():
    known = task_with(4 * MAX_TESTS_OF_A_COPY)
    parts = [part_for(name, known) for name in COPIES]
    assert {len(part.hidden_tests) for part in parts} == {MAX_TESTS_OF_A_COPY}
    assert all(set(part.units) <= set(known.units) for part in parts), "whole units"
    turns = Counter(test for part in parts for test in part.hidden_tests)
    assert len(turns) > 0.9 * len(known.hidden_tests)
    assert part_for("gold", known) == known and part_for("new_module", known) == known


def test_a_unit_larger_than_a_part_is_compared_whole():
    known = task_with(4 * MAX_TESTS_OF_A_COPY)
    together = known.model_copy(update={"units": (known.hidden_tests,)})
    assert part_for("dropped_3", together).hidden_tests == known.hidden_tests


def test_the_harbor_folder_counts_the_same_part():
    known = task_with(4 * MAX_TESTS_OF_A_COPY)
    part = part_for("dropped_1", known)
    expected = {"hidden": known.hidden_tests, "units": known.units, "guards": known.guard_tests, "files": ["b"]}
    narrowed = harbor_batch.narrowed(expected, list(part.hidden_tests))
    assert {frozenset(unit) for unit in narrowed["units"]} == set(map(frozenset, part.units))
    assert tuple(narrowed["hidden"]) == part.hidden_tests and narrowed["guards"] == []
    assert narrowed["files"] == ["tests/test_a.py"]


def test_a_busy_machine_gives_code_that_does_not_end_no_more_processor_time():
    quick, busy = (Bench(None, SimpleNamespace(suite_s=wall_s, cpu_s=9.0), None) for wall_s in (1.5, 40.0))
    assert quick.trial_cpu_s == busy.trial_cpu_s == 5
    assert quick.trial_s < busy.trial_s


def test_the_slowest_tenth_of_the_hidden_tests_does_not_count():
    hidden = frozenset(f"a.py::test_{number}" for number in range(30))
    slow = {"a.py::test_0": 0.2, "a.py::test_1": 0.9, "a.py::test_2": 0.5, "a.py::test_3": 0.1, "b.py::test_0": 9.0}
    bench = Bench(None, SimpleNamespace(slow=slow), None)
    counted = quick_tests(Split(hidden, frozenset(), {}), stubbed_rectangle(), bench).hidden
    assert hidden - counted == {"a.py::test_1", "a.py::test_2", "a.py::test_0"}
    few = Split(frozenset(sorted(slow)[:3]), frozenset(), {})
    assert quick_tests(few, stubbed_rectangle(), bench) == few


HIDDEN = frozenset("abcdefgh")


def lazy(**passed: str) -> dict[str, ChangedSolution]:
    return {f"lazy_{name}": ChangedSolution({}, frozenset(tests)) for name, tests in passed.items()}


def test_tests_that_no_lazy_answer_passes_count():
    assert _noticing(HIDDEN, lazy(none="abc", constant="cde"), stubbed_rectangle()) == set("fgh")


def test_where_each_lazy_answer_fails_enough_tests_all_count_together():
    assert _noticing(HIDDEN, lazy(none="abcde", constant="defgh"), stubbed_rectangle()) == frozenset()


def test_one_lazy_answer_that_fails_too_few_tests_refuses():
    with pytest.raises(Rejected) as raised:
        _noticing(HIDDEN, lazy(none="abcdef", constant="a"), stubbed_rectangle())
    assert raised.value.detail == "none passes 6 of 8 tests, 2 notice all such answers"


def test_few_tests_do_not_count_together():
    with pytest.raises(Rejected, match="lazy_solution"):
        _noticing(frozenset("abcd"), lazy(none="a", constant="b", neighbour="c"), stubbed_rectangle(few_tests=False))


def test_an_edited_file_is_never_taken_for_what_was_compiled_before(tmp_path, monkeypatch):
    """Both texts have one length and are written within one second."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    launcher.keep_compiled()
    seen: list[int] = []
    for value in (1, 2, 1, 2):
        before = launcher.exchange({"edited_module.py": f"VALUE = {value}\n"})
        seen.append(__import__("edited_module").VALUE)
        del sys.modules["edited_module"]
        launcher.exchange(before)
    assert seen == [1, 2, 1, 2] and not (tmp_path / "edited_module.py").exists()
