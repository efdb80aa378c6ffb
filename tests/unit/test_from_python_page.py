"""The comparison of docs/from-python.md, run as it stands there behind the cells of the example."""

from __future__ import annotations

import json
import re

import pytest

from tests.command_line import recompose
from tests.pages import ROOT, verbs
from tests.unit.test_examples import cells_of_script

PAGE = "docs/from-python.md"


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Two steps and two seeds of each arm: where they ran, and the names that the code left."""
    [code] = re.findall(r"```python\n(import copy.*?)```", (ROOT / PAGE).read_text(), re.DOTALL)
    short, changed = re.subn(r"(?m)^STEPS, SEEDS = .*$", "STEPS, SEEDS = 2, range(2)", code)
    assert changed == 1
    *cells, _, _ = [source for kind, source in cells_of_script() if kind == "code"]
    names, folder = {}, tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        exec("\n".join([*cells, short]), names)
    return folder, names


def test_each_arm_writes_outcomes_that_the_command_compares(compared):
    folder, _ = compared
    for arm in ("grpo", "sdpo", "sham"):
        lines = (folder / "outcomes" / arm / "seed-1.jsonl").read_text().splitlines()
        assert len(lines) == 256 and {json.loads(line)["seed"] for line in lines} == {1}
    [words] = verbs(PAGE)
    told = recompose(*words, cwd=folder)
    assert told.returncode == 0 and "difference from sham" in told.stdout and "2 seeds" in told.stdout


def test_the_sham_hints_the_same_turns_with_what_is_true_of_another_task(compared):
    _, names = compared
    log = names["trainer"].state.log_history
    assert any(entry.get("sdpo/sites", 0) > 0 for entry in log), "of the last arm, which is the sham"
    task = names["environment"].task("animals/Ann/dog")
    traces = []
    for turn in ("woof", "moo"):
        episode = names["environment"].start(task)
        episode.step(turn)
        traces.append(episode.trace("policy", 0))
    hinted = {about: names["hints_about"](names[about])(traces) for about in ("itself", "another")}
    assert [row and (row[0].turn, row[0].hint) for row in hinted["itself"]] == [[], (0, "dog makes this sound woof")]
    assert [row and (row[0].turn, row[0].hint) for row in hinted["another"]] == [[], (0, "cat makes this sound meow")]
