"""The contract of every environment, kept by those of others. verifiers' own tests hold its part: a start is slow."""

from __future__ import annotations

import pytest

from tests.unit.test_environment_contract import *  # noqa: F403 - the tests themselves
from tests.unit.test_environment_contract import Case, call
from tests.unit.test_harbor_environment import opened as opened_harbor
from tests.unit.test_harbor_environment import write_task
from tests.unit.test_openenv_environment import GuessingGame, serving
from tests.unit.test_openenv_environment import opened as opened_server

SOLVING = [
    call("bash", command="python3 tools/total.py > out/total.txt; rm numbers.txt"),
    call("write_file", path="/app/again.sh", content="#!/bin/sh\necho 42\n") + call("submit"),
]


@pytest.fixture(scope="module", params=["harbor", "openenv"])
def case(request, tmp_path_factory):
    if request.param == "harbor":
        folder = tmp_path_factory.mktemp("harbor")
        for number in range(8):
            write_task(folder / f"task-{number}", **{"instruction.md": f"Write the sum, version {number}."})
        with opened_harbor(folder, check_solutions=False) as environment:
            yield Case(environment, call("bash", command="ls"), "hm", "no_action", lambda task: SOLVING)
        return
    with serving(GuessingGame) as url, opened_server(url, tasks=20) as environment:
        yield Case(
            environment, "0", "perhaps", "json_decode", lambda task: [str(int(task.task_id.split("-")[1]) % 10 + 1)]
        )
