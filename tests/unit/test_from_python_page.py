"""The code of docs/from-python.md that measures and compares, run as it stands there behind the example's cells."""

from __future__ import annotations

import inspect
import json
import re

import pytest

from composer_replication.training.lessons import online_sites
from tests.command_line import recompose
from tests.pages import ROOT, verbs
from tests.unit.test_examples import cells_of_script

PAGE = "docs/from-python.md"
TEXT = (ROOT / PAGE).read_text()


@pytest.fixture(scope="module")
def measured():
    """The names that the code leaves which measures before training."""
    [code] = re.findall(r"```python\n(from composer_replication.training import sample_turns\n.*?)```", TEXT, re.DOTALL)
    *cells, _, _ = [source for kind, source in cells_of_script() if kind == "code"]
    names = {}
    exec("\n".join([*cells, code]), names)
    return names


@pytest.fixture(scope="module")
def compared(measured, tmp_path_factory):
    """Two steps and two seeds of each arm: where they ran, and the names that the code left."""
    [code] = re.findall(r"```python\n(import copy.*?)```", TEXT, re.DOTALL)
    short, changed = re.subn(r"(?m)^STEPS, SEEDS = .* #", "STEPS, SEEDS = 2, range(2)  #", code)
    assert changed == 1
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        exec(short, measured)
    return folder, measured


def test_only_the_true_hint_helps_the_neutral_one_leaves_it_and_the_wrong_one_harms(measured):
    right = measured["right"]
    assert right["wrong"] < 0.03 < right["none"] < 0.4 < 0.9 < right["true"]
    assert right["none"] - 0.05 < right["neutral"] < 0.4
    shown = dict(re.findall(r"`(\w+)` (\.\d\d|1\.00)", TEXT))
    assert {name: float(shown[name]) for name in right} == pytest.approx(right, abs=0.1)


def test_each_arm_writes_outcomes_that_the_command_compares(compared):
    folder, _ = compared
    for arm in ("grpo", "sdpo", "neutral"):
        lines = (folder / "outcomes" / arm / "seed-1.jsonl").read_text().splitlines()
        assert len(lines) == 256 and {json.loads(line)["seed"] for line in lines} == {1}
    [words] = verbs(PAGE)
    told = recompose(*words, cwd=folder)
    assert told.returncode == 0 and "difference from neutral" in told.stdout and "2 seeds" in told.stdout


def test_the_shams_are_at_the_same_turns_and_the_neutral_one_names_no_answer(measured):
    task = measured["environment"].task("animals/Ann/dog")
    traces = []
    for turn in ("woof", "moo"):
        episode = measured["environment"].start(task)
        episode.step(turn)
        traces.append(episode.trace("policy", 0))
    hints = {name: measured["hinter_of"](text)(traces) for name, text in measured["TEXTS"].items()}
    assert {name: [row and (row[0].turn, row[0].hint) for row in rows] for name, rows in hints.items()} == {
        "true": [[], (0, "dog makes this sound woof")],
        "wrong": [[], (0, "cat makes this sound meow")],
        "neutral": [[], (0, "this animal makes a sound")],
        "none": [[], (0, "")],
    }


def test_the_tables_tell_every_metric_and_every_reason(compared):
    _, names = compared
    logged = {key for entry in names["trainer"].state.log_history for key in entry}
    own = {key for key in logged if key.startswith(("sdpo/", "channel/", "gradient/"))}
    assert {"sdpo/sites", "sdpo/sites/wrong", "channel/policy", "gradient/sdpo"} <= own, "of the last arm"
    known = re.sub(r"`(sdpo/\w+)`(.*)Also `_p50` and `_p95`", r"`\1` `\1_p50` `\1_p95`\2", TEXT)
    told = set(re.findall(r"`((?:sdpo|channel|gradient)/[\w/]+)`", known.replace("/KIND`", "/wrong`")))
    assert own <= told
    source = inspect.getsource(online_sites)
    reasons = set(re.findall(r"counts\[\"(\w+)\"\]", source))
    assert len(reasons) > 5 and reasons <= set(re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE))
