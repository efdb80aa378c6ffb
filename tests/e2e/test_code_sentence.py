"""README and docs/your-repository.md as they stand, `env make` → train → evaluate: a script and a random model."""

from __future__ import annotations

import ast
import json
import shutil
import tomllib
from importlib.resources import as_file, files

import pytest
import torch
from transformers import LlamaForCausalLM

from composer_replication.config import load_config, parse_config
from composer_replication.environments.code.environment import open_code
from composer_replication.environments.protocol import TRAIN
from composer_replication.evaluation.compare import TaskOutcome
from composer_replication.runs import Run
from composer_replication.training.rollouts.sampling import DynamicSampler, SampledTurn
from composer_replication.training.stored.records import TrainingStep
from tests.e2e.sentences import config_file, random_model, sentence
from tests.pages import ROOT, done, merged, settings, verbs, write_toml

ENVIRONMENT = """
name = "code"
tasks = ["{tasks}"]
answer = "definition"
tries = 1
heldout_share = 0.4
curriculum = true
"""


PAGE = "docs/your-repository.md"
LESS_MADE = ["--limit", "3"]
LESS = {
    "environment": {"tries": 1, "heldout_share": 0.4, "completion_tokens": 2048, "curriculum": True},
    "training": {"steps": 2, "prompts_per_step": 1, "group_size": 2, "max_turn_tokens": 16},
    "evaluation": {"tasks": 2, "samples": 2},
}
"""What a small machine is spared; all else is what the page says."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a person would type, after `env make`."""
    here = tmp_path_factory.mktemp("sentence")
    with as_file(files("composer_replication").joinpath("data/sample_repository")) as source:
        shutil.copytree(source, here / "path/to/repository")
    [words] = (words for words in verbs(PAGE) if words[:2] == ["env", "make"])
    done(words, here, *LESS_MADE)
    return here


@pytest.fixture(scope="module")
def tasks(folder):
    return folder / "tasks"


def test_the_readme_has_no_command_and_no_setting_that_its_page_lacks():
    of_code = [words for words in verbs("README.md") if words[0] == "env" or "runs/code" in words]
    assert len(of_code) == 4 and all(words in verbs(PAGE) for words in of_code)
    assert tomllib.loads(settings("README.md")["code.toml"]) == tomllib.loads(settings(PAGE)["code.toml"])


def test_the_pages_settings_are_those_that_init_writes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (words,) = [words for words in verbs(PAGE) if words[0] == "init"]
    assert f"`recompose {' '.join(words)}`" in (ROOT / "README.md").read_text()
    told = done(words, tmp_path, "--gpu-gib", "0").stdout
    written, shown = load_config(tmp_path / "code.toml"), parse_config(tomllib.loads(settings(PAGE)["code.toml"]), PAGE)
    for section in ("warmup", "channels", "monitor"):
        assert getattr(written, section) == getattr(shown, section)
    fits_smollm2 = {"completion_tokens": written.environment.completion_tokens}
    assert written.environment == shown.environment.model_copy(update=fits_smollm2)
    assert f"`completion_tokens = {fits_smollm2['completion_tokens']}`" in (ROOT / PAGE).read_text()
    assert written.training.max_turn_tokens == shown.training.max_turn_tokens
    assert written.model.name == "smollm2" and '`name = "smollm2"`' in (ROOT / PAGE).read_text()
    make, train = (
        " ".join(["recompose", *one]) for one in verbs(PAGE) if one[:2] == ["env", "make"] or one[0] == "train"
    )
    make = make.replace("path/to/repository", "REPOSITORY")
    assert told.endswith(f"next: recompose model fetch smollm2, then {make}, then {train}\n")


def test_a_small_model_goes_the_way_of_the_page(folder):
    values = tomllib.loads(settings(PAGE)["code.toml"])
    random_model(folder / values["model"]["name"])
    write_toml(folder / "code.toml", merged(values, LESS))
    typed = [words for words in verbs(PAGE) if words[0] != "init" and words[:2] != ["env", "make"]]
    ended = {words[-1]: done(words, folder) for words in typed}
    assert "tasks: 2 in train, 1 in heldout" in ended["code.toml"].stderr
    said = {words: each.stdout for words, each in ended.items()}
    assert "Measured in code:" in said["runs/code"]
    run = Run.open(folder / "runs/code")
    outcomes = run.stage("evaluation").read(TaskOutcome)
    assert len(outcomes) == 1 * 2 * 2 and all(outcome.reward == 0 for outcome in outcomes)
    assert {"repository", "difficulty"} <= outcomes[0].labels.keys()
    assert [step.reward for step in run.stage("training").read(TrainingStep)] == [0.0, 0.0]
    rewards = json.loads((folder / "runs/rolled/ingestion/rewards.json").read_text())
    assert "alarms         0" in said["runs/rolled"], rewards
    report = (run.path / "report.html").read_text()
    assert "Measured in the environment code" in report
    assert "Alarm in step 2 of training: no rollout of the first 2 steps got any reward" in report
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
