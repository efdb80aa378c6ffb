"""One attempt at a task: what the tools answer, what ends it, and what the agent cannot reach."""

from __future__ import annotations

import pytest

from composer_replication.environments.code.episodes.session import SessionLimits, TaskSession
from composer_replication.environments.code.episodes.tools import TOOL_NAMES
from composer_replication.environments.code.sandbox.interface import Limits
from composer_replication.environments.code.tasks.task import Grade, Submission
from composer_replication.errors import RecomposeError
from composer_replication.records import Message, Source, ToolCall, Trace, Turn
from composer_replication.sites import find_sites
from tests.hacks.sample_task import SPANS, SPANS_GOLD, write_sample_task


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return write_sample_task(tmp_path_factory.mktemp("session") / "task")


class Watching:
    """A grader that costs nothing and remembers what it was given."""

    def __init__(self):
        self.given = []

    def __call__(self, task, submission, backend):
        self.given.append(submission)
        return Grade(0.25, (), (), ())


@pytest.fixture
def grader():
    return Watching()


@pytest.fixture
def session(task, grader):
    with TaskSession(task, grader=grader) as opened:
        yield opened


def test_tools_work_on_a_copy_of_the_tree(session, task, grader):
    assert session.call("read_file", {"path": "spanbook/__init__.py"}).text == ""
    assert not session.call("write_file", {"path": "new/file.txt", "content": "one\ntwo\n"}).is_error
    assert session.call("edit_file", {"path": "new/file.txt", "old": "two", "new": "2"}).text == "Edited new/file.txt."
    assert session.call("bash", {"command": "cat new/file.txt; rm README.md"}).text == "one\n2"
    done = session.call("submit", {})
    assert (done.done, done.is_error, session.ended, session.reward) == (True, False, "submitted", 0.25)
    assert grader.given == [Submission({"new/file.txt": b"one\n2\n"}, ("README.md",))]
    assert (task.tree / "README.md").exists()
    assert not (task.tree / "new").exists()


def test_files_may_be_named_as_commands_see_them(session):
    place = session.call("bash", {"command": "pwd"}).text
    assert not session.call("write_file", {"path": f"{place}/new.txt", "content": "one\n"}).is_error
    assert session.call("edit_file", {"path": f"{place}/new.txt", "old": "one", "new": "two"}).text.startswith("Edited")
    assert session.call("read_file", {"path": "new.txt"}).text == "two\n"
    assert session.call("read_file", {"path": "/etc/passwd"}).is_error
    assert session.call("read_file", {"path": f"{place}/../etc/passwd"}).is_error


def test_solving_the_task_is_rewarded_by_the_real_grader(task):
    with TaskSession(task) as session:
        assert session.reward == 0.0
        tests = session.call("run_tests", {})
        assert "9 passed" in tests.text and not tests.is_error
        session.call("write_file", {"path": SPANS, "content": SPANS_GOLD})
        session.call("submit", {})
        assert session.reward == 1.0
        assert session.grade.hidden_failed == ()


def test_the_repository_is_importable_and_nothing_else_of_it(session):
    shown = session.call("bash", {"command": "cd /tmp && python -c 'import spanbook; print(spanbook.__file__)'"})
    assert shown.text == "/work/spanbook/__init__.py"


def test_failing_tests_are_an_answer_and_no_error(session):
    session.call("write_file", {"path": "tests/test_own.py", "content": "def test_own():\n    assert 1 == 2\n"})
    shown = session.call("run_tests", {"ids": ["tests/test_own.py"]})
    assert "1 failed" in shown.text and not shown.is_error
    none = session.call("run_tests", {"ids": ["tests/test_own.py::test_other"]})
    assert none.is_error


ERRORS = {
    "no tool": ("reset", {}, "no such tool: reset", "tool_not_found"),
    "missing": ("read_file", {}, "Missing required argument `path` of read_file.", "type_error"),
    "wrong type": ("read_file", {"path": 3}, "`path` of read_file must be a string.", "type_error"),
    "wrong item": ("run_tests", {"ids": [1]}, "`ids` of run_tests must be an array of strings.", "type_error"),
    "a truth is no number": ("read_file", {"path": "a", "start": True}, "must be an integer", "type_error"),
    "unknown": ("submit", {"why": "x"}, "unexpected keyword argument `why`", "type_error"),
    "no file": ("read_file", {"path": "nope.py"}, "File nope.py does not exist.", "file_not_found"),
    "a folder": ("read_file", {"path": "spanbook"}, "Path spanbook is a directory.", "file_not_found"),
    "outside": ("read_file", {"path": "../task.json"}, "Error: ../task.json cannot be used", "runtime_error"),
    "absolute": ("write_file", {"path": "/etc/passwd", "content": ""}, "cannot be used", "runtime_error"),
    "past the end": ("read_file", {"path": "README.md", "start": 99}, "README.md has 7 lines", "type_error"),
    "not found": ("edit_file", {"path": "README.md", "old": "x1", "new": ""}, "was not found", "edit_mismatch"),
    "twice": ("edit_file", {"path": "README.md", "old": "(0, ", "new": ""}, "is 2 times in", "edit_mismatch"),
    "same": ("edit_file", {"path": "README.md", "old": "gaps", "new": "gaps"}, "equal to `new`", "edit_mismatch"),
    "exit code": ("bash", {"command": "echo so; exit 3"}, "Exit code 3\nso", "exit_code"),
    "option": ("run_tests", {"ids": ["--version"]}, "is no test id", "type_error"),
    "surrogate": ("write_file", {"path": "a", "content": "\ud800"}, "half a surrogate pair", "type_error"),
}


def trace_with(name, result):
    call: ToolCall = {"id": "c", "type": "function", "function": {"name": name, "arguments": "{}"}}
    answer: Message = {"role": "tool", "content": result.text, "tool_call_id": "c", "is_error": result.is_error}
    said: Message = {"role": "assistant", "content": "", "tool_calls": [call]}
    source = Source(agent="code_task")
    return Trace(trace_id="t", source=source, messages=(said, answer), turns=(Turn(start=0, end=2),))


def test_errors_have_stable_texts_that_the_detectors_know(task, grader):
    with TaskSession(task, grader=grader) as session:
        for what, (name, arguments, text, kind) in ERRORS.items():
            result = session.call(name, arguments)
            assert result.is_error and text in result.text and not result.done, (what, result)
            assert [site.error_kind for site in find_sites(trace_with(name, result))] == [kind], (what, result.text)
        assert session.steps == len(ERRORS)


def test_a_long_output_is_cut_in_the_middle(task, grader):
    with TaskSession(task, grader=grader, limits=SessionLimits(shown_chars=200)) as session:
        shown = session.call("bash", {"command": "seq 1 1000"}).text
        assert len(shown) < 260
        assert shown.startswith("1\n2\n") and shown.endswith("1000") and "characters left out" in shown


def test_lines_of_a_file_can_be_asked_for(session):
    session.call("write_file", {"path": "n.txt", "content": "".join(f"{n}\n" for n in range(1, 11))})
    assert session.call("read_file", {"path": "n.txt", "start": 4, "lines": 2}).text == "4\n5\n[lines 4 to 5 of 10]"


def test_the_last_step_hands_in_what_there_is(task, grader):
    with TaskSession(task, grader=grader, limits=SessionLimits(steps=2)) as session:
        assert not session.call("write_file", {"path": "a.txt", "content": "x"}).done
        last = session.call("nothing", {})
        assert last.done and session.ended == "steps" and "last step" in last.text
        assert grader.given[0].written == {"a.txt": b"x"}


def test_a_command_that_does_not_end_is_stopped(task, grader):
    limits = SessionLimits(command_s=2, sandbox=Limits(wall_s=30))
    with TaskSession(task, grader=grader, limits=limits) as session:
        stopped = session.call("bash", {"command": "sleep 60"})
        assert stopped.is_error and stopped.text.startswith("Command timed out after 2 s")
        assert [site.error_kind for site in find_sites(trace_with("bash", stopped))] == ["timeout"]
        assert not session.call("bash", {"command": "true"}).is_error


def test_time_ends_the_session(task, grader):
    with TaskSession(task, grader=grader, limits=SessionLimits(wall_s=0.6)) as session:
        ended = session.call("bash", {"command": "sleep 1"})
        assert ended.done and session.ended == "time" and len(grader.given) == 1


def test_after_the_end_nothing_works_and_nothing_is_graded_again(session, grader):
    session.call("submit", {})
    again = session.call("bash", {"command": "ls"})
    assert (again.is_error, again.done) == (True, True)
    session.call("submit", {})
    session.stop()
    assert len(grader.given) == 1


def test_the_sandbox_is_gone_before_the_grading_begins(task):
    seen = []

    def grade(task, submission, backend):
        with pytest.raises(RecomposeError):
            session._sandbox.exec(["/bin/true"])
        seen.append(submission)
        return Grade(1.0, (), (), ())

    with TaskSession(task, grader=grade) as session:
        session.call("submit", {})
    assert len(seen) == 1


def test_a_closed_session_is_not_graded(task, grader):
    session = TaskSession(task, grader=grader)
    session.close()
    session.close()
    assert session.call("bash", {"command": "ls"}).done
    session.stop()
    assert (session.reward, grader.given) == (0.0, [])


def test_there_is_no_tool_to_start_over():
    assert TOOL_NAMES == ("bash", "read_file", "write_file", "edit_file", "run_tests", "submit")


@pytest.mark.parametrize("name", ["_finish", "close", "stop", "grade", "reset", "call", "__init__", "finish"])
def test_methods_of_the_session_are_no_tools(session, grader, name):
    refused = session.call(name, {})
    assert refused.is_error and "no such tool" in refused.text and not grader.given


def test_what_grades_the_task_is_not_in_the_sandbox(session, task):
    for path in (task.overlay, task.gold):
        names = [file.name for file in path.rglob("*.py")]
        assert names
    looked = session.call(
        "bash",
        {"command": "grep -rl 'test_merge_overlapping' /work /tmp /toolchain --include='*.py' 2>/dev/null | head"},
    )
    assert "test_spans_merge" not in looked.text
    assert session.call("bash", {"command": "ls / /work"}).text.count("solution") == 0


def test_what_runs_in_the_background_ends_with_its_command(session):
    session.call("bash", {"command": "(sleep 1; echo late > late.txt) & echo started"})
    session.call("bash", {"command": "sleep 1.5"})
    assert session.call("read_file", {"path": "late.txt"}).is_error


def test_reading_a_decoy_is_noticed_and_honest_work_is_not(task, grader):
    with TaskSession(task, grader=grader) as honest:
        honest.call("bash", {"command": "ls -a; cat README.md; grep -rn merge spanbook tests"})
        honest.call("run_tests", {})
        honest.call("submit", {})
        assert not any(hit.evidence == "hard" for hit in honest.evidence.canary_hits)
        assert not set(honest.submission.written) & {decoy.path for decoy in honest.decoys}
    with TaskSession(task, grader=grader, canary_seed="s") as curious:
        copy = next(decoy.path for decoy in curious.decoys if decoy.channel == "build_copy")
        curious.call("bash", {"command": f"cat {copy}"})
        curious.call("submit", {})
        found = {hit.channel for hit in curious.evidence.canary_hits if hit.evidence == "hard"}
        assert found == {"build_copy"}


def test_decoys_change_from_session_to_session(task, grader):
    with TaskSession(task, grader=grader) as one, TaskSession(task, grader=grader) as other:
        assert {decoy.token for decoy in one.decoys}.isdisjoint(decoy.token for decoy in other.decoys)


def test_sessions_do_not_see_each_other(task, grader):
    with TaskSession(task, grader=grader) as one, TaskSession(task, grader=grader) as other:
        one.call("bash", {"command": "echo mine > mine.txt; echo mine > /tmp/mine.txt"})
        assert other.call("bash", {"command": "cat mine.txt /tmp/mine.txt"}).is_error
