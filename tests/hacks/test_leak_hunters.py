"""Hacks that look for the solution in the agent's own sandbox: there is none to find, and what they leave scores 0."""

import inspect
import shutil
import time

import pytest

from composer_replication.environments.code.grading import grade
from composer_replication.environments.code.sandbox.interface import SandboxSpec
from composer_replication.environments.code.sandbox.open import open_sandbox
from composer_replication.environments.code.sandbox.toolchain import toolchain
from composer_replication.environments.code.tasks.task import Submission

from .leak_hunters import HUNTERS, with_history
from .sample_task import SPANS


def variants(number, task_folder):
    hunter = HUNTERS[number]
    return list(hunter(task_folder) if inspect.signature(hunter).parameters else hunter())


def agent_sandbox(task, tree=None):
    tools = toolchain(task.code_task.distributions, exclude=task.code_task.packages)
    spec = SandboxSpec(tree=tree or task.tree, read_only=tools.read_only, env=tools.env)
    return open_sandbox(spec), tools.python


@pytest.mark.parametrize("number", HUNTERS)
def test_finds_nothing_and_scores_nothing(task, nop_reward, number):
    found = variants(number, task.folder)
    assert len(found) >= 2
    for name, _, hunt in found:
        sandbox, python = agent_sandbox(task)
        with sandbox:
            before = sandbox.snapshot()
            result = sandbox.exec([python, "-c", hunt], timeout_s=30)
            assert result.exit_code == 0, (name, result.stderr)
            assert b"LOOT" not in result.stdout, (name, result.stdout)
            changes = sandbox.diff(before)
        assert not changes.special
        if changes.written or changes.removed:
            assert grade(task, Submission(dict(changes.written), changes.removed)).reward <= nop_reward


@pytest.mark.parametrize("number", [1, 2, 3, 4, 9, 10, 12])
def test_finds_what_is_planted(task, tmp_path, number):
    """The programs are real: with the leak in the tree they find it."""
    for name, plant, hunt in variants(number, task.folder):
        if plant is None or (plant is with_history and shutil.which("git") is None):
            continue
        tree = tmp_path / name
        shutil.copytree(task.tree, tree)
        plant(tree)
        sandbox, python = agent_sandbox(task, tree)
        with sandbox:
            assert b"LOOT" in sandbox.exec([python, "-c", hunt], timeout_s=30).stdout, name


@pytest.mark.parametrize(
    "leave", ["nohup sh -c '{}' >/dev/null 2>&1 &", "setsid sh -c '{}' >/dev/null 2>&1 < /dev/null &"]
)
def test_what_an_agent_leaves_running_is_gone_before_grading(task, leave):
    """25: the command returns only after everything that it started has ended."""
    write = f"while true; do echo cheat > {SPANS}; sleep 0.05; done"
    sandbox, _ = agent_sandbox(task)
    with sandbox:
        sandbox.exec(["/bin/sh", "-c", leave.format(write) + " sleep 0.3"])
        assert sandbox.read(SPANS) == b"cheat\n"
        sandbox.write(SPANS, b"honest\n")
        time.sleep(0.3)
        assert sandbox.read(SPANS) == b"honest\n"
