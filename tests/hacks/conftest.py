import pytest

from composer_replication.environments.code.grading import grade

from .sample_task import NOP, write_sample_task


@pytest.fixture(scope="session")
def task(tmp_path_factory):
    return write_sample_task(tmp_path_factory.mktemp("tasks") / "spanbook")


@pytest.fixture(scope="session")
def open_task(tmp_path_factory):
    """The same task with every path of the tree editable: the worst pattern that a generator could write."""
    return write_sample_task(tmp_path_factory.mktemp("tasks") / "open", editable=("*",))


@pytest.fixture(scope="session")
def nop_reward(open_task):
    return grade(open_task, NOP).reward
