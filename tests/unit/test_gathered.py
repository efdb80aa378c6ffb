"""What is kept of a task for the monitor."""

from composer_replication.environments.code.episodes.gathered import task_facts
from composer_replication.environments.code.tasks.task import TaskFolder
from tests.hacks.sample_task import HIDDEN_FILE, write_sample_task


def test_a_task_that_is_made_again_at_its_place_is_read_again(tmp_path):
    first = write_sample_task(tmp_path / "task")
    before = task_facts(first).test_literals
    (first.overlay / HIDDEN_FILE).write_text("def test_merge():\n    assert merge([]) == [(90, 91), (92, 93)]\n")
    renamed = first.code_task.task.model_copy(update={"task_id": "another"})
    again = TaskFolder(first.code_task.model_copy(update={"task": renamed}), first.folder)
    literal = "[(90, 91), (92, 93)]"
    assert literal not in before
    assert literal in task_facts(again).test_literals


def test_facts_of_a_task_have_the_examples_of_its_statement(tmp_path):
    task = write_sample_task(tmp_path / "task")
    told = task.code_task.task.model_copy(update={"statement": "    >>> merge([(1, 2), (2, 3)])\n    [(1, 3)]\n"})
    again = TaskFolder(task.code_task.model_copy(update={"task": told}), task.folder)
    assert task_facts(again).examples == (("[(1, 2), (2, 3)]", "[(1, 3)]"),)
