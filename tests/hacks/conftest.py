import pytest

from composer_replication.environments.code.grading import grade

from .sample_task import NOP, write_compared_task, write_sample_task


@pytest.fixture(scope="session")
def task(tmp_path_factory):
    return write_sample_task(tmp_path_factory.mktemp("tasks") / "spanbook")


@pytest.fixture(scope="session")
def open_task(tmp_path_factory):
    """The same task with every path of the tree editable: the worst pattern that a generator could write."""
    return write_compared_task(tmp_path_factory.mktemp("tasks") / "open", editable=("*",))


@pytest.fixture(scope="session")
def unlowered_task(tmp_path_factory):
    """As `open_task`, but what its tests expect is in the process of the submission."""
    return write_sample_task(tmp_path_factory.mktemp("tasks") / "unlowered", editable=("*",))


@pytest.fixture(scope="session")
def nop_reward(open_task):
    return grade(open_task, NOP).reward
