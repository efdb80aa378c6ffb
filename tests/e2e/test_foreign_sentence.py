"""train → evaluate → monitor in environments of others, from one config file: a server, a taskset, Harbor folders."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest

from composer_replication.evaluation.compare import TaskOutcome
from composer_replication.training.stored.records import TrainingStep
from tests.e2e.sentences import config_file, sentence
from tests.unit.test_harbor_environment import write_task
from tests.unit.test_openenv_environment import GuessingGame, serving
from tests.unit.test_verifiers_environment import PYTHON, SAMPLES

ENVIRONMENT = """
max_steps = 2
heldout_share = 0.5
"""


def openenv(folder, url):
    return f'name = "openenv"\nurl = "{url}"\nsettings = {{ tasks = 8 }}'


def verifiers(folder, url):
    return (
        f'name = "verifiers"\ntaskset = "backwards"\npython = "{PYTHON}"\nsettings = {{ python_path = ["{SAMPLES}"] }}'
    )


def harbor(folder, url):
    tasks = [write_task(folder / name, **{"instruction.md": f"Task {name}: write the sum.\n"}) for name in "abcdef"]
    return f'name = "harbor"\ntasks = {json.dumps([str(task) for task in tasks])}'


@pytest.mark.parametrize("section", [openenv, verifiers, harbor], ids=lambda section: section.__name__)
def test_an_environment_of_others_goes_through_the_whole_sentence(tmp_path, section, capsys):
    if section is verifiers and not PYTHON.exists():
        pytest.skip("no environment with verifiers: see docs/serving.md")
    server = serving(GuessingGame) if section is openenv else nullcontext("")
    with server as url:
        environment = ENVIRONMENT + section(tmp_path / "tasks", url)
        run = sentence(config_file(tmp_path, environment, turn_tokens=8, samples=1), tmp_path / "run")
    assert f"Measured in {section.__name__}:" in capsys.readouterr().out
    outcomes = run.stage("evaluation").read(TaskOutcome)
    assert len(outcomes) == 4 and all(0 <= outcome.reward < 1 for outcome in outcomes)
    assert len(run.stage("training").read(TrainingStep)) == 2
    assert run.stage("monitor").counts["alarms"] == 0
