"""Task folders on disk: their record, their hashes, and Harbor's own scripts."""

import os
import subprocess
import tomllib

import pytest

from composer_replication.environments.code.tasks.store import TaskFiles, read_task, read_tasks, unchanged, write_task
from composer_replication.environments.code.tasks.task import CodeTask
from composer_replication.errors import UsageError
from composer_replication.records import Task
from tests.tiny_repository import FILES, RECTANGLE, RECTANGLE_TESTS, stubbed_rectangle, tiny_repository

AREA = "shapes/area.py"
TESTS = ("tests/test_area.py", "tests/test_words.py")


@pytest.fixture
def task(tmp_path):
    return stored(tmp_path, tmp_path / "task")


def stored(tmp_path, folder, statement="Do it."):
    repository = tiny_repository(folder.with_name(f"{folder.name}-repository"))
    draft = CodeTask(
        task=Task(task_id="", kind="code", statement=statement, visible_hash="", hidden_hash=""),
        repository="tiny-shapes",
        generator="feature_deletion",
        mode="stub",
        level="L0",
        symbols=(RECTANGLE,),
        packages=("shapes",),
        source_roots=(".",),
        test_files=TESTS,
        hidden_tests=tuple(sorted(RECTANGLE_TESTS)),
        guard_tests=("tests/test_area.py::test_perimeter",),
        editable=("shapes/*",),
        seconds_per_run=0.1,
    )
    overlay = {path: FILES[path].encode() for path in TESTS}
    edits = {**stubbed_rectangle().edits, "tests/test_area.py": None}
    return write_task(folder, draft, TaskFiles(repository.tree, edits, overlay, {AREA: FILES[AREA].encode()}))


def test_a_task_is_read_as_it_was_written(task):
    assert read_task(task.folder) == task
    assert unchanged(task)
    assert not (task.tree / "tests" / "test_area.py").exists()


def test_the_id_is_the_same_everywhere_and_of_the_content(task, tmp_path):
    assert stored(tmp_path, tmp_path / "again").code_task.task.task_id == task.code_task.task.task_id
    assert stored(tmp_path, tmp_path / "other", "Else.").code_task.task.task_id != task.code_task.task.task_id


@pytest.mark.parametrize("path", ["environment/repo/README.md", "tests/overlay/tests/test_area.py", "instruction.md"])
def test_a_changed_file_is_noticed(task, path):
    (task.folder / path).write_text("changed")
    assert not unchanged(task)


def test_nothing_is_overwritten(task, tmp_path):
    with pytest.raises(UsageError, match="not empty"):
        write_task(task.folder, task.code_task, TaskFiles(task.tree, {}, {}, {}))


def test_reading_says_what_is_wrong(task, tmp_path):
    assert read_tasks(task.folder) == [task] == read_tasks(tmp_path)
    with pytest.raises(UsageError, match="holds no tasks"):
        read_tasks(tmp_path / "absent")
    (task.folder / "task.json").write_text("{}")
    with pytest.raises(UsageError, match="damaged"):
        read_task(task.folder)


def test_harbors_settings(task):
    settings = tomllib.loads((task.folder / "task.toml").read_text())
    assert settings["metadata"]["task_id"] == task.code_task.task.task_id
    assert settings["verifier"]["timeout_sec"] >= 120 and settings["environment"]["allow_internet"] is False
    dockerfile = (task.folder / "environment" / "Dockerfile").read_text()
    assert "pytest==" in dockerfile and "COPY repo /work" in dockerfile and "gold" not in dockerfile
    assert "ENV PYTHONPATH=/work " in dockerfile


def harbor_reward(task, tmp_path):
    logs = tmp_path / "logs"
    env = {**os.environ, "LOGS_DIR": str(logs), "REPO_DIR": str(task.tree)}
    subprocess.run(["sh", str(task.folder / "tests" / "test.sh")], env=env, check=True)
    return float((logs / "reward.txt").read_text())


def test_harbors_scripts_grade_nothing_the_solution_and_half_of_it(task, tmp_path):
    assert harbor_reward(task, tmp_path) == 0
    (task.tree / AREA).write_text(FILES[AREA].replace("height = width", "height = None or 1"))
    assert harbor_reward(task, tmp_path) == pytest.approx(0.8)
    (task.tree / AREA).write_text(FILES[AREA].replace("2 * sum", "3 * sum"))
    assert harbor_reward(task, tmp_path) == 0, "a guard is broken"
    env = {**os.environ, "REPO_DIR": str(task.tree)}
    subprocess.run(["sh", str(task.folder / "solution" / "solve.sh")], env=env, check=True)
    assert harbor_reward(task, tmp_path) == 1


def test_harbors_verifier_takes_new_modules_of_the_package_and_no_others(task, tmp_path):
    gold = FILES[AREA]
    (task.tree / AREA).write_text(gold + "\nfrom shapes.helper import READY\n")
    assert harbor_reward(task, tmp_path) == 0, "it is not there"
    (task.tree / "shapes" / "helper.py").write_text("READY = True\n")
    assert harbor_reward(task, tmp_path) == 1
    (task.tree / AREA).write_text(gold + "\nfrom helper import READY\n")
    (task.tree / "helper.py").write_text("READY = True\n")
    assert harbor_reward(task, tmp_path) == 0, "a new name on the import path is no part of a solution"


def test_harbors_verifier_is_not_steered_by_the_agents_configuration(task, tmp_path):
    cheat = (
        "import pytest\n\n"
        "@pytest.hookimpl(hookwrapper=True)\n"
        "def pytest_runtest_makereport(item):\n"
        "    outcome = yield\n"
        "    outcome.get_result().outcome = 'passed'\n"
    )
    for path in ("conftest.py", "tests/conftest.py", "shapes/conftest.py"):
        (task.tree / path).write_text(cheat)
    (task.tree / "pytest.ini").write_text("[pytest]\naddopts = -p conftest\n")
    assert harbor_reward(task, tmp_path) == 0
