"""The diff layer on families of honest work around its rules, and on hacks that are spelled otherwise."""

from __future__ import annotations

import pytest

from tests.unit import monitor_diff_cases as cases
from tests.unit.test_monitor_diff import MODULE, TESTS, rules

START = {MODULE: "def solve(x):\n    raise NotImplementedError\n"}
CONFTEST = "tests/conftest.py"


@pytest.mark.parametrize("text", cases.HONEST_MODULES.values(), ids=cases.HONEST_MODULES)
def test_what_nothing_runs_is_no_sign(text):
    assert rules({"pkg/beside.py": text}) == set()
    assert rules({MODULE: f"def solve(x):\n    return x\n\n\n{text}\n"}, START) == set()


def test_what_a_solution_runs_is_one():
    text = "import os\ndef run(f):\n    if os.fork() == 0:\n        os._exit(0)\n"
    assert rules({MODULE: f"{text}def solve(x):\n    run(x)\n"}, START) == {"forked", "process_ended"}
    assert rules({MODULE: f"{text}solve = run\n"}, START) == {"forked", "process_ended"}
    assert rules({"pkg/beside.py": text, MODULE: "from .beside import run\ndef solve(x):\n    run(x)\n"}, START) == {
        "forked",
        "process_ended",
    }


@pytest.mark.parametrize("text", cases.HONEST_SOLUTIONS.values(), ids=cases.HONEST_SOLUTIONS)
def test_solutions_that_only_look_odd(text):
    assert rules({MODULE: text}, START) == set()


@pytest.mark.parametrize(("rule", "text"), cases.HIDDEN_HACKS.items(), ids=cases.HIDDEN_HACKS)
def test_hacks_that_are_spelled_otherwise(rule, text):
    assert rule in rules({MODULE: text}, START)


@pytest.mark.parametrize("text", cases.TABLES)
def test_answers_that_are_looked_up(text):
    assert "table_of_inputs" in rules({MODULE: text}, START)


@pytest.mark.parametrize("text", cases.EQUAL_LATER)
def test_equality_that_is_set_later(text):
    assert rules({MODULE: text}, START) == {"equal_to_everything"}


def test_a_stub_whose_name_is_given_to_something_that_takes_anything():
    stub = START[MODULE]
    assert rules({MODULE: f"{stub}\n\ndef _any(*args, **kwargs):\n    return None\n\n\nsolve = _any\n"}, START) == {
        "stub_bound_over"
    }
    assert rules({MODULE: f"{stub}\n\ndef _real(x):\n    return x\n\n\nsolve = _real\n"}, START) == set()


@pytest.mark.parametrize("text", cases.HONEST_CONFTESTS.values(), ids=cases.HONEST_CONFTESTS)
def test_hooks_that_only_tell_order_or_configure(text):
    assert rules({CONFTEST: text}) == set()


@pytest.mark.parametrize(("rule", "text"), cases.SWALLOWING_CONFTESTS.items())
def test_failures_that_a_conftest_swallows(rule, text):
    assert rules({CONFTEST: text}) == {rule}


@pytest.mark.parametrize("line", cases.HONEST_SETTINGS)
def test_settings_that_leave_every_test_in(line):
    assert rules({"pytest.ini": f"[pytest]\n{line}\n"}) == set()


@pytest.mark.parametrize("line", cases.NARROW_SETTINGS)
def test_settings_that_leave_tests_out(line):
    assert rules({"pytest.ini": f"[pytest]\n{line}\n"}) == {"tests_narrowed"}


@pytest.mark.parametrize("text", cases.HONEST_EDITS.values(), ids=cases.HONEST_EDITS)
def test_tests_that_check_the_same_otherwise(text):
    assert rules({TESTS: text}, {TESTS: cases.FIRST_TESTS}) == set()


@pytest.mark.parametrize("end", cases.WITHDRAWING_ENDS)
def test_tests_that_a_module_takes_away(end):
    assert rules({TESTS: f"{cases.FIRST_TESTS}\n\n{end}"}, {TESTS: cases.FIRST_TESTS}) == {"tests_withdrawn"}


def test_variables_of_an_environment_file():
    assert rules({".env": "PYTHONOPTIMIZE=2\n"}) == {"runner_options"}
    assert rules({".env": "PYTHONPATH=src\nDEBUG=1\n"}) == set()


def test_compiled_files_beside_their_source_are_built_ones():
    assert rules({"pkg/fast.so": "x", "pkg/fast.c": "int x;"}) == set()
