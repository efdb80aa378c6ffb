"""`env make` → train → evaluate → monitor on code tasks, from one config file: a script and a small random model."""

from __future__ import annotations

import ast
import json
from importlib.resources import as_file, files

import pytest
import torch
from transformers import LlamaForCausalLM

from composer_replication.config import load_config
from composer_replication.environments.code.environment import open_code
from composer_replication.environments.code.generators.kinds import GeneratorSettings
from composer_replication.environments.code.making.make import MakeSettings, make
from composer_replication.environments.protocol import TRAIN
from composer_replication.evaluation.compare import TaskOutcome
from composer_replication.training.rollouts.sampling import DynamicSampler, SampledTurn
from composer_replication.training.stored.records import TrainingStep
from tests.e2e.sentences import config_file, sentence

ENVIRONMENT = """
name = "code"
tasks = ["{tasks}"]
answer = "definition"
tries = 1
heldout_share = 0.4
curriculum = true
"""


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sentence") / "tasks"
    settings = MakeSettings(proposals=GeneratorSettings(modes=("stub",), grains=("symbol",), limit=4))
    with as_file(files("composer_replication").joinpath("data/sample_repository")) as source:
        assert make(source, folder, settings, 2)["complete"]
    return folder


def test_a_small_model_goes_through_the_whole_sentence(tmp_path, tasks, capsys):
    run = sentence(config_file(tmp_path, ENVIRONMENT.format(tasks=tasks), 16, samples=2), tmp_path / "run")
    told = capsys.readouterr().out
    assert "Measured in code:" in told
    outcomes = run.stage("evaluation").read(TaskOutcome)
    assert len(outcomes) == 1 * 2 * 2 and all(outcome.reward == 0 for outcome in outcomes)
    assert {"repository", "difficulty"} <= outcomes[0].labels.keys()
    assert [step.reward for step in run.stage("training").read(TrainingStep)] == [0.0, 0.0]
    report = (run.path / "report.html").read_text()
    assert "Measured in the environment code" in report
    logged = [json.loads(line) for line in (run.path / "training" / "metrics.jsonl").read_text().splitlines()]
    assert 0 < logged[0]["rollout/environment_share"] <= 1
    assert "monitor/canary_hit_rate" in logged[0]


class Script:
    """The solution in every second turn, a wrong block in the others."""

    def __init__(self, path):
        environment = open_code(load_config(path))
        every = [task for split in (TRAIN, "heldout") for task in environment.tasks(split)]
        self.blocks = {task.messages[-1]["content"]: self.solution(task.folder) for task in every}
        self.turns = 0

    @staticmethod
    def solution(task):
        (symbol,) = task.code_task.symbols
        text = (task.gold / symbol.file).read_text()
        (found,) = (node for node in ast.parse(text).body if getattr(node, "name", None) == symbol.name)
        return ast.get_source_segment(text, found)

    def write(self, sampler, contexts):
        tokenizer = sampler._tokens.tokenizer
        for context in contexts:
            said = tokenizer.decode(context)
            code = next(block for asked, block in self.blocks.items() if asked in said)
            self.turns += 1
            wrong = code.split(":\n")[0] + ":\n    return None"
            text = f"```python\n{code if self.turns % 2 else wrong}\n```"
            ids = [*tokenizer.encode(text, add_special_tokens=False), tokenizer.eos_token_id]
            yield SampledTurn(ids, [-1.0] * len(ids))


def test_a_script_that_knows_half_of_the_answers_is_rewarded_for_them(tmp_path, tasks, monkeypatch, capsys):
    path = config_file(tmp_path, ENVIRONMENT.format(tasks=tasks), 1024, samples=2)
    script = Script(path)
    monkeypatch.setattr(
        DynamicSampler, "sample", lambda sampler, slots, contexts, **options: list(script.write(sampler, contexts))
    )
    run = sentence(path, tmp_path / "run")
    assert [step.reward for step in run.stage("training").read(TrainingStep)] == [0.5, 0.5]
    outcomes = run.stage("evaluation").read(TaskOutcome)
    assert sum(outcome.reward >= 1 for outcome in outcomes) == len(outcomes) / 2
    before, after = (
        torch.cat([p.flatten() for p in LlamaForCausalLM.from_pretrained(run.path / noun / "model").parameters()])
        for noun in ("policy", "training")
    )
    assert not torch.equal(before, after)
    assert "pass@2" in capsys.readouterr().out
    assert run.stage("monitor").counts["alarms"] == 0
