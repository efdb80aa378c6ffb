"""The warm test process: what it tells of tests that misbehave, and that no run sees another."""

import struct
import subprocess
import sys
from types import SimpleNamespace

import pytest

from composer_replication.environments.code.running.coverage import survey
from composer_replication.environments.code.running.warm import RunnerEnded, RunRequest, TestSetup, WarmRunner
from composer_replication.environments.code.tasks.loading import load_repository
from composer_replication.environments.code.tasks.task import Symbol
from composer_replication.errors import UsageError
from tests.tiny_repository import FILES, RECTANGLE, RECTANGLE_TESTS, tiny_repository, write_files

AREA, WORDS = "tests/test_area.py", "tests/test_words.py"


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    with WarmRunner(tiny_repository(tmp_path_factory.mktemp("warm"))) as opened:
        yield opened


def run_file(runner, text, **request):
    return runner.run(RunRequest(edits={"tests/test_new.py": text}, tests=("tests/test_new.py",), **request))


def test_every_test_has_a_record(runner):
    run = runner.run(RunRequest(tests=(AREA, WORDS)))
    assert len(run.passed) == len(run.outcomes) == 13
    assert run.passed >= RECTANGLE_TESTS
    assert run.cpu_s > 0


OUTCOMES = """
import os, pytest, unittest
def test_passes(): pass
def test_fails(): assert 0
@pytest.mark.skip
def test_skipped(): pass
@pytest.mark.xfail
def test_expected_to_fail(): assert 0
@pytest.mark.xfail
def test_passes_unexpectedly(): pass
def test_skips_itself(): raise unittest.SkipTest
@pytest.fixture
def broken_end():
    yield
    assert 0
def test_breaks_at_its_end(broken_end): pass
@pytest.fixture
def broken_start(): assert 0
def test_breaks_at_its_start(broken_start): pass
"""


def test_only_passed_is_passed(runner):
    run = run_file(runner, OUTCOMES)
    assert len(run.outcomes) == 8
    assert run.passed == {"tests/test_new.py::test_passes"}


def test_a_test_that_ends_the_process_loses_the_rest(runner):
    run = run_file(runner, "import os\ndef test_a(): pass\ndef test_b(): os._exit(0)\ndef test_c(): pass\n")
    assert run.passed == {"tests/test_new.py::test_a"}


def test_a_file_that_cannot_be_collected_is_an_error_and_others_run(runner):
    edits = {"tests/test_new.py": "import absent\ndef test_a(): pass\n"}
    run = runner.run(RunRequest(edits=edits, tests=("tests/test_new.py", WORDS)))
    assert list(run.collect_errors) == ["tests/test_new.py"] and "absent" in run.collect_errors["tests/test_new.py"]
    assert len(run.passed) == 6


def test_a_run_that_hangs_is_ended(runner):
    run = run_file(runner, "def test_a(): pass\ndef test_b():\n    while True: pass\n", timeout_s=1.0)
    assert run.timed_out and run.passed == {"tests/test_new.py::test_a"}
    assert runner.run(RunRequest(tests=(WORDS,))).passed


def test_work_that_does_not_end_is_known_by_its_processor_time(runner):
    run = run_file(runner, "def test_a(): pass\ndef test_b():\n    while True: pass\n", timeout_s=60.0, cpu_s=1)
    assert run.timed_out and run.passed == {"tests/test_new.py::test_a"} and run.wall_s < 50


def test_a_process_left_behind_does_not_hold_the_answer(runner):
    run = run_file(runner, "import subprocess\ndef test_a(): subprocess.Popen(['sleep', '60'])\n", timeout_s=20.0)
    assert run.passed and not run.timed_out and run.wall_s < 10


def test_an_edit_of_the_same_size_is_seen_at_once(runner):
    for value in "12121":
        words = FILES["shapes/words.py"].replace("LOUD = '!'", f"LOUD = '{value}'")
        check, path = (
            f"from shapes.words import LOUD\ndef test_it(): assert LOUD == '{value}'\n",
            f"tests/test_{value}.py",
        )
        assert runner.run(RunRequest(edits={"shapes/words.py": words, path: check}, tests=(path,))).passed, value


def test_what_a_run_writes_is_gone_in_the_next(runner):
    spoil = (
        "import os, pathlib, tempfile\n"
        "def test_spoil():\n"
        "    pathlib.Path('shapes/area.py').write_text('spoiled')\n"
        "    pathlib.Path('left').write_text('x'); os.symlink('/etc', 'link'); os.mkdir('more')\n"
        "    os.remove('shapes/words.py'); pathlib.Path(tempfile.gettempdir(), 'left').write_text('x')\n"
    )
    assert run_file(runner, spoil).passed
    look = (
        "import os, tempfile\n"
        "def test_look():\n"
        "    assert sorted(os.listdir()) == ['LICENSE', 'README.md', 'pyproject.toml', 'shapes', 'tests']\n"
        "    assert os.listdir(tempfile.gettempdir()) == [] and 'spoiled' not in open('shapes/area.py').read()\n"
    )
    assert run_file(runner, look).passed
    assert len(runner.run(RunRequest(tests=(AREA, WORDS))).passed) == 13


def test_removed_files_are_removed(runner):
    run = runner.run(RunRequest(edits={"shapes/words.py": None}, imports=("shapes", "shapes.area"), tests=(AREA,)))
    assert "shapes.words" in run.import_errors["shapes"] and not run.outcomes


def test_only_and_reverse(runner):
    wanted = frozenset({f"{WORDS}::test_shout", f"{WORDS}::test_welcome"})
    assert set(runner.run(RunRequest(tests=(AREA, WORDS), only=wanted)).outcomes) == wanted
    assert list(runner.run(RunRequest(tests=(WORDS,), reverse=True)).outcomes)[-1] == f"{WORDS}::test_shout"


def test_stops_at_the_first_failure(runner):
    run = run_file(runner, "def test_a(): assert 0\ndef test_b(): pass\n", stop_at_failure=True)
    assert not run.passed


FORGER = """
import os
def test_forges():
    for number in range(3, 40):
        try:
            for line in {lines}: os.write(number, line)
        except OSError: pass
"""


def test_lines_of_the_repository_between_the_entries_tell_nothing(runner):
    lines = [b"[" * 60_000, b"]}\n", b"3}\n", b'{"test"}\n']
    edits = {AREA: FORGER.format(lines=lines)}
    run = runner.run(RunRequest(edits=edits, tests=(AREA, WORDS)))
    assert len(run.passed) == 7


@pytest.mark.parametrize("content", [b"[" * 5000, b'{"entries": [{"test": 3}]}'])
def test_an_answer_that_cannot_be_read_is_none(runner, monkeypatch, content):
    said = {4: struct.pack(">I", len(content)), len(content): content}
    monkeypatch.setattr(runner, "_send", lambda request: None)
    monkeypatch.setattr(runner, "_read", lambda count, deadline: said[count])
    with pytest.raises(RunnerEnded):
        runner._ask(RunRequest())


def test_a_runner_whose_process_dies_starts_again(runner):
    kill = "import os, signal\ndef test_a(): os.kill(os.getppid(), signal.SIGKILL)\n"
    with pytest.raises(RunnerEnded):
        run_file(runner, kill)
    assert len(runner.run(RunRequest(tests=(AREA,))).passed) == 7


def test_the_hash_seed_is_the_one_asked_for(tmp_path):
    asked = [sys.executable, "-c", "print(hash('a'))"]
    known = subprocess.run(asked, env={"PYTHONHASHSEED": "3"}, capture_output=True, check=True).stdout.decode().strip()
    with WarmRunner(tiny_repository(tmp_path), hash_seed=3) as other:
        assert run_file(other, f"def test_seed(): assert hash('a') == {known}\n").passed


UNSTEADY = {
    "tests/test_unsteady.py": (
        "import os\n"
        "SEEN = []\n"
        "def test_first(): SEEN.append(1)\n"
        "def test_needs_the_first(): assert SEEN\n"
        "def test_needs_a_seed(): assert os.environ['PYTHONHASHSEED'] != '2'\n"
        "def test_red(): assert 0\n"
    )
}


def test_survey(tmp_path):
    said = []
    progress = SimpleNamespace(step=lambda *words: said.append(words))
    coverage = survey(tiny_repository(tmp_path, UNSTEADY), progress=progress)
    assert said[-1] == (5, 5, "14 of 17 tests pass"), "words before the last step may be passed over"
    unsteady = {f"tests/test_unsteady.py::test_needs_{what}" for what in ("the_first", "a_seed")}
    assert coverage.unstable == unsteady
    assert len(coverage.passing) == 14 and "tests/test_unsteady.py::test_red" not in coverage.passing
    assert coverage.by_symbol[RECTANGLE] == RECTANGLE_TESTS
    assert coverage.by_symbol[Symbol(file="shapes/area.py", name="checked")] == RECTANGLE_TESTS
    assert coverage.import_time == {Symbol(file="shapes/words.py", name="greeting")}
    assert set(coverage.importable) == {"shapes", "shapes.area", "shapes.words"}
    assert "pytest" in coverage.preload and not any(name.startswith("shapes") for name in coverage.preload)
    assert coverage.cpu_s > 0


@pytest.mark.parametrize(("module", "wanted"), [("absent_library", "absent_library"), ("yaml.nodes", "pyyaml")])
def test_survey_names_what_is_missing(tmp_path, module, wanted):
    changes = {path: f"import {module}\n" + FILES[path] for path in (AREA, WORDS)}
    with pytest.raises(UsageError, match=f"need {module.partition('.')[0]}") as refused:
        survey(tiny_repository(tmp_path, changes))
    assert refused.value.next_command.endswith(f"with --with {wanted}")


def test_survey_names_what_the_configuration_of_the_tests_misses(tmp_path):
    with pytest.raises(UsageError, match="need absent_library"):
        survey(tiny_repository(tmp_path, {"tests/conftest.py": "import absent_library\n"}))


def test_survey_refuses_a_red_suite(tmp_path):
    changes = {"shapes/area.py": FILES["shapes/area.py"].replace("* checked", "+ checked") + "\n1 / 0\n"}
    with pytest.raises(UsageError, match="is red: 0 of 0 tests pass, 2 of 2 files"):
        survey(tiny_repository(tmp_path, changes))


def test_survey_names_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(UsageError, match=r"\(tests/test_area.py: .*SyntaxError"):
        survey(tiny_repository(tmp_path, {AREA: "def (:\n"}))


def test_survey_says_that_there_is_no_test(tmp_path):
    changes = {AREA: "rectangles = 1\n", WORDS: "words = 1\n"}
    with pytest.raises(UsageError, match="pytest finds no test in the 2 test files of tiny-shapes"):
        survey(tiny_repository(tmp_path, changes))


@pytest.mark.parametrize(
    ("conftest", "told"), [("raise ValueError('boom')", "ValueError: boom"), ("import os; os._exit(3)", "exit code 3")]
)
def test_survey_says_why_no_test_could_be_looked_for(tmp_path, conftest, told):
    with pytest.raises(UsageError, match=rf"is red: 0 of 0 tests pass, .*\({told}\)"):
        survey(tiny_repository(tmp_path, {"tests/conftest.py": conftest}))


def test_survey_does_not_call_a_small_green_suite_red(tmp_path):
    changes = {AREA: "def test_one(): pass\n\ndef test_two(): pass\n", WORDS: "def test_three(): pass\n"}
    with pytest.raises(UsageError, match="has 3 tests, all of which pass; tasks need 8 or more"):
        survey(tiny_repository(tmp_path, changes))


def test_a_target_that_the_test_process_already_has_is_refused(tmp_path):
    files = {"colorsys/__init__.py": "", "tests/test_a.py": "def test_a(): pass\n"}
    repository = load_repository(write_files(tmp_path / "source", files), tmp_path / "clean")
    with pytest.raises(UsageError, match="colorsys"):
        WarmRunner(repository, preload=("colorsys",))


def test_a_distribution_that_is_not_installed_is_named(tmp_path):
    with pytest.raises(UsageError, match="absent-distribution"):
        survey(tiny_repository(tmp_path), TestSetup(("pytest", "absent-distribution")))
