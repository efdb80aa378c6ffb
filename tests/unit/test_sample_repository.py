"""The repository that ships with the project: its own tests pass, and its functions fall on both sides."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from composer_replication.environments.code.quickstart import SETTINGS, code_quickstart_config
from composer_replication.environments.code.splits import HELDOUT, by_symbol
from composer_replication.environments.code.tasks.loading import load_repository
from composer_replication.environments.code.tasks.symbols import source_index
from composer_replication.environments.protocol import TRAIN
from tests.hacks.sample_task import code_task

SOURCE = Path(str(files("composer_replication").joinpath("data/sample_repository")))


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return load_repository(SOURCE, tmp_path_factory.mktemp("sample") / "clean")


def test_it_is_a_small_repository_that_anyone_may_use(repository):
    assert (repository.name, repository.licence, repository.packages) == ("little-helpers", "MIT", ("little_helpers",))
    assert len(source_index(repository).functions) == 23


def test_its_tests_and_examples_pass(tmp_path):
    copy = shutil.copytree(SOURCE, tmp_path / "copy")
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--doctest-modules", "."]
    ended = subprocess.run(argv, cwd=copy, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout


def test_every_function_is_documented_by_an_example_and_long_enough_for_a_task(repository):
    for function in source_index(repository).functions:
        assert ">>> " in (function.node.body[0].value.value), function.symbol.name
        assert function.body_lines >= 4, function.symbol.name


def test_the_quickstart_has_tasks_on_both_sides(repository):
    config = code_quickstart_config("smollm2", 0, Path("tasks"))
    share = config.environment.heldout_share
    tasks = [
        code_task(repository=repository.name, symbols=[function.symbol])
        for function in source_index(repository).functions
    ]
    sides = [by_symbol(task, share) for task in tasks]
    assert sides.count(TRAIN) == 16 and sides.count(HELDOUT) == 7 >= config.evaluation.tasks
    assert (config.environment.answer, SETTINGS.proposals.modes) == ("definition", ("stub",))
