"""A repository's own pytest settings: what is taken over, what is left out, and what is refused before any cost."""

from importlib.metadata import version

import pytest

from composer_replication.environments.code.episodes.session import TaskSession
from composer_replication.environments.code.making.make import MakeSettings, make
from composer_replication.environments.code.running.warm import RunRequest, WarmRunner
from composer_replication.environments.code.tasks.pytest_settings import file_patterns, selection
from composer_replication.errors import UsageError
from tests.hacks.sample_task import write_sample_task
from tests.tiny_repository import FILES, tiny_repository, write_files

STRESS = """
[pytest]
python_files = check_*.py test_*.py
addopts = -q --cov=shapes -n 4 -m "not stress" --deselect=tests/test_area.py::test_square -kshout
    --ignore tests/big --strict-markers
"""
CHOSEN = ("-m", "not stress", "--deselect", "tests/test_area.py::test_square", "-k", "shout", "--ignore", "tests/big")


@pytest.mark.parametrize("name", ["pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml"])
def test_only_options_that_choose_tests_are_taken_over(tmp_path, name):
    text = STRESS.replace("[pytest]", "[tool:pytest]") if name == "setup.cfg" else STRESS
    if name == "pyproject.toml":
        options = " ".join(STRESS.partition("addopts = ")[2].split())
        text = f"[tool.pytest.ini_options]\npython_files = ['check_*.py', 'test_*.py']\naddopts = '''{options}'''\n"
    write_files(tmp_path, {name: text})
    assert selection(tmp_path) == CHOSEN
    assert file_patterns(tmp_path) == ["check_*.py", "test_*.py"]


def test_the_first_file_with_a_section_is_the_one(tmp_path):
    write_files(tmp_path, {"pytest.ini": "[pytest]\n", "setup.cfg": "[tool:pytest]\naddopts = -k one\n"})
    assert selection(tmp_path) == ()


def test_settings_that_cannot_be_read_choose_nothing(tmp_path):
    write_files(tmp_path, {"pytest.ini": "nonsense", "pyproject.toml": "= 3", "tox.ini": "[pytest]\naddopts = -k 'a\n"})
    assert selection(tmp_path) == ("-k", "'a")


def test_deselected_tests_are_not_run(tmp_path):
    settings = "[pytest]\naddopts = --deselect tests/test_area.py::test_square -k 'not shout' --no-such-option\n"
    with WarmRunner(tiny_repository(tmp_path, {"pytest.ini": settings})) as runner:
        run = runner.run(RunRequest(tests=("tests/test_area.py", "tests/test_words.py")))
        assert len(run.outcomes) == 13 - 4 and run.passed == set(run.outcomes)
        named = frozenset({"tests/test_area.py::test_square"})
        assert runner.run(RunRequest(tests=("tests/test_area.py",), only=named)).passed == named


def test_options_that_need_plug_ins_do_not_reach_the_agent(tmp_path):
    task = write_sample_task(tmp_path / "task", pytest_options=("-k", "not show"))
    settings = "[pytest]\naddopts = --cov=spanbook -n 4\nrequired_plugins = pytest-cov\n"
    write_files(task.tree, {"pytest.ini": settings})
    with TaskSession(task) as session:
        assert "7 passed, 2 deselected" in session.call("run_tests", {}).text
        assert "7 passed, 2 deselected" in session.call("bash", {"command": "python -m pytest"}).text


@pytest.mark.parametrize(
    "files, told",
    [
        ({"pytest.ini": "[pytest]\nrequired_plugins = pytest-absent>=2\n"}, "--with pytest-absent"),
        (
            {"pyproject.toml": FILES["pyproject.toml"] + '[dependency-groups]\ntests = ["packaging<1", "attrs"]\n'},
            f"packaging {version('packaging')}",
        ),
        (
            {"pyproject.toml": FILES["pyproject.toml"] + '[project.optional-dependencies]\ntest = ["pluggy==0.1"]\n'},
            "pluggy==0.1",
        ),
    ],
)
def test_what_a_task_cannot_have_is_refused_before_anything_runs(tmp_path, files, told):
    source = write_files(tmp_path / "source", {**FILES, **files})
    with pytest.raises(UsageError, match=told):
        make(source, tmp_path / "tasks", MakeSettings())
    assert not (tmp_path / "tasks").exists()
