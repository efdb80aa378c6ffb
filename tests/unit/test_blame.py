"""A command that passed, an edit, and the same command failing: the edit is the turn that went wrong."""

from __future__ import annotations

import json

from composer_replication.hints import write_hints
from composer_replication.sites import find_sites
from tests.unit.test_hints import CAP
from tests.unit.test_sites import Did, trace_of

FAILS = "Exit code 1\napp/parse.py:7: error: undefined name rest"


def run(error: str | None = None, command: str = "make check") -> Did:
    return Did(error, name="Bash", arguments=json.dumps({"command": command}))


def edit(path: str, error: str | None = None, name: str = "Edit") -> Did:
    return Did(error, name=name, arguments=json.dumps({"file_path": path, "new_string": "x"}))


def found(*turns: list[Did]) -> list[tuple[int, str, str]]:
    return [(site.turn, site.error_kind, site.detector.split("/")[1]) for site in find_sites(trace_of(*turns))]


def test_the_only_edit_since_the_command_passed_is_to_blame():
    assert found([run()], [edit("/a/app/parse.py")], [run(FAILS)]) == [(1, "exit_code", "broken_by_edit")]


def test_of_several_edits_the_one_whose_file_the_output_names():
    turns = [run()], [edit("/a/app/parse.py")], [edit("/a/app/print.py")], [run(FAILS)]
    assert found(*turns) == [(1, "exit_code", "broken_by_edit")]


def test_nobody_is_blamed_where_it_is_not_known():
    at_the_run = "any_command"
    assert found([edit("/a/app/parse.py")], [run(FAILS)]) == [(1, "exit_code", at_the_run)]
    twice = [run()], [edit("/a/app/parse.py")], [edit("/a/app/parse.py")], [run(FAILS)]
    assert found(*twice) == [(3, "exit_code", at_the_run)]
    by_a_command = [run()], [edit("/a/other.py")], [run(command="sed -i s/a/b/ app/x.py")], [run(FAILS)]
    assert found(*by_a_command) == [(3, "exit_code", at_the_run)]
    failed_edit = [run()], [edit("/a/app/parse.py", "String to replace not found in file.")], [run(FAILS)]
    assert (2, "exit_code", at_the_run) in found(*failed_edit)
    another_command = [run(command="make")], [edit("/a/app/parse.py")], [run(FAILS)]
    assert found(*another_command) == [(2, "exit_code", at_the_run)]


def test_a_failure_that_was_wanted_is_no_pass():
    trace = trace_of([run("Exit code 1\nKeyError: 1")], [edit("/a/app/parse.py")], [run(FAILS)])
    wanted = {**trace.messages[1], "content": "Let me reproduce the bug."}
    trace = trace.model_copy(update={"messages": (trace.messages[0], wanted, *trace.messages[2:])})
    assert [(site.turn, site.detector) for site in find_sites(trace)] == [(2, "claude_code/any_command")]


def test_reading_in_between_clears_no_one_and_a_second_failure_stays_where_it_is():
    reading = run(command="cat app/parse.py | head -3")
    turns = [run()], [edit("/a/app/parse.py")], [reading], [run(FAILS)], [run(FAILS)]
    assert found(*turns) == [(1, "exit_code", "broken_by_edit"), (4, "repeated_failure", "same_call")]


def test_a_command_that_fails_again_after_a_change_is_no_repetition():
    again = [("exit_code", "any_command"), ("exit_code", "any_command")]
    for change in (edit("/a/app/parse.py"), run(command="sed -i s/a/b/ app/x.py"), run(command="pip install numpy")):
        for turns in (([run(FAILS)], [change], [run(FAILS)]), ([run(FAILS)], [change, run(FAILS)])):
            assert [site[1:] for site in found(*turns)] == again


def test_a_command_that_fails_again_without_a_change_is_a_repetition():
    reading, refused = run(command="cat app/parse.py"), edit("/a/app/parse.py", "String to replace not found in file.")
    for between in (reading, refused, run("Exit code 1", command="pip install numpy")):
        assert found([run(FAILS)], [between], [run(FAILS)])[-1] == (2, "repeated_failure", "same_call")


def test_the_hint_stands_before_the_edit_and_says_what_will_fail():
    trace = trace_of([run()], [edit("/a/app/parse.py")], [run(FAILS)])
    [hint] = write_hints({"t": trace}, find_sites(trace), CAP).hints
    assert "this edit" in hint.text
    assert "app/parse.py:7: error: undefined name rest" in hint.text
