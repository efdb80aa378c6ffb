"""A first settings file: it loads, it fits, it asks nobody off a terminal and overwrites nothing."""

from __future__ import annotations

import json
import tomllib

import pytest

import composer_replication.cli.init as verb
from composer_replication.config import EvaluationConfig, load_config
from composer_replication.environments.code.environment import ANSWER_TOKENS
from composer_replication.settings import with_changes
from composer_replication.training.models.shape import ModelShape
from composer_replication.training.planning.costs import costs_of
from composer_replication.training.planning.doubts import FEW_TRACES, doubts
from composer_replication.training.planning.first_settings import (
    MODELS,
    Device,
    first_settings,
    measuring_s,
    proposed_model,
    training_s,
)
from composer_replication.training.planning.fitting import PROMPT_TOKENS, known_shape
from composer_replication.training.planning.refusals import refuse_what_would_do_nothing
from tests.command_line import recompose

SMALL = ModelShape(
    parameters=1_777_000_000, linear_parameters=1_540_000_000, adapter_parameters_per_rank=1_154_000, layers=28,
    hidden=1536, intermediate=8960, attention=1536, key_value=256, vocabulary=151_936, max_positions=32_768,
    normalises_queries=False,
)  # fmt: skip


@pytest.mark.parametrize("goal", ["sessions", "tasks", "toolbox"])
@pytest.mark.parametrize("memory_gib", [8, 24, 80, 100_000])
def test_what_is_written_loads_and_takes_no_more_than_there_is(goal, memory_gib, tmp_path):
    found = first_settings(goal, "qwen2.5-coder-1.5b", Device(memory_gib, on_gpu=True), SMALL)
    (tmp_path / "my.toml").write_text(found.text)
    config = load_config(tmp_path / "my.toml")
    refuse_what_would_do_nothing(config)
    assert found.peak_gib is not None
    assert found.fits == (found.peak_gib <= 0.85 * memory_gib)
    if memory_gib >= 24:
        assert found.fits
    if memory_gib == 100_000:
        assert (config.hardware.lora_rank, config.hardware.gradient_checkpointing) == (None, False), "no need to save"
    assert (config.environment.name == "code") == (goal == "tasks")
    assert config.training.rollouts == (goal != "sessions")


def test_a_cpu_gets_settings_that_end(tmp_path):
    for goal in ("sessions", "tasks"):
        texts = [first_settings(goal, "x/y", Device(100_000, on_gpu), SMALL).text for on_gpu in (True, False)]
        gpu, cpu = (tomllib.loads(text)["training"] for text in texts)
        rows = "traces_per_step" if goal == "sessions" else "prompts_per_step"
        assert cpu["steps"] * cpu[rows] * 10 <= gpu["steps"] * gpu[rows]
        assert cpu["checkpoint_every"] < cpu["steps"]
        # One trace alone often has no site that teaches; and a step of minutes is not to be lost.
        assert goal == "tasks" or (cpu["traces_per_step"], cpu["checkpoint_every"]) == (FEW_TRACES, 1)


def test_what_is_written_for_a_cpu_is_not_doubted_by_its_own_dry_run(tmp_path):
    (tmp_path / "my.toml").write_text(first_settings("sessions", "x/y", Device(1000, on_gpu=False), SMALL).text)
    config = load_config(tmp_path / "my.toml")
    assert list(doubts(config, 0)) == []
    fewer = with_changes(config, [f"training.traces_per_step={FEW_TRACES - 1}"])
    assert ["a step of 7 traces may be left without any" in doubt for doubt in doubts(fewer, 0)] == [True]


def test_a_first_run_on_sessions_takes_about_ten_minutes_on_a_cpu_and_says_so(tmp_path):
    found = first_settings("sessions", "smollm2", Device(24, on_gpu=False), known_shape("smollm2"))
    assert found.time_s is not None and 300 <= found.time_s <= 780
    assert "train about 5 min and evaluate" in found.text.splitlines()[0]
    (tmp_path / "my.toml").write_text(found.text)
    config = load_config(tmp_path / "my.toml")
    costs = costs_of("cpu")
    shape = known_shape("smollm2")
    assert training_s(shape, config, costs) + measuring_s(shape, config, costs) == pytest.approx(found.time_s, rel=0.01)
    twice = config.model_copy(update={"evaluation": EvaluationConfig(tasks=2 * config.evaluation.tasks)})
    assert measuring_s(shape, twice, costs) == pytest.approx(2 * measuring_s(shape, config, costs))


@pytest.mark.parametrize("goal", ["sessions", "tasks"])
def test_no_step_of_a_short_first_run_goes_at_a_rate_of_zero(goal):
    cpu, gpu = (
        tomllib.loads(first_settings(goal, "x/y", Device(100, on_gpu), SMALL).text)["training"]
        for on_gpu in (False, True)
    )
    assert cpu["rate_warmup_steps"] == 0 and "rate_warmup_steps" not in gpu


def test_code_tasks_fit_the_length_of_the_model_that_a_cpu_gets(tmp_path):
    shape = known_shape("smollm2")
    (tmp_path / "my.toml").write_text(first_settings("tasks", "smollm2", Device(24, on_gpu=False), shape).text)
    config = load_config(tmp_path / "my.toml")
    needed = config.environment.tries * (config.training.max_turn_tokens + ANSWER_TOKENS["definition"])
    assert needed <= config.environment.completion_tokens <= shape.max_positions - PROMPT_TOKENS


def test_less_memory_never_asks_for_more(tmp_path):
    peaks = [first_settings("sessions", "x/y", Device(gib, True), SMALL).peak_gib for gib in (8, 16, 24, 48, 80, 160)]
    assert peaks == sorted(peaks)


def test_a_model_of_unknown_size_gets_the_most_frugal_settings_and_says_so():
    found = first_settings("sessions", "x/y", Device(24, True), None)
    assert found.peak_gib is None and "is not known here" in found.text
    assert tomllib.loads(found.text)["hardware"]["lora_rank"] == 16


def test_the_proposed_model_follows_the_machine():
    assert [proposed_model("sessions", Device(gib, True)) for gib in (80, 24, 8)] == [name for _, name in MODELS]
    assert proposed_model("sessions", Device(500, on_gpu=False)) == "smollm2"
    assert proposed_model("toolbox", Device(500, True)) == "tiny"


def test_off_a_terminal_nobody_is_asked_and_the_next_command_is_told(tmp_path):
    ended = recompose("init", "my.toml", cwd=tmp_path)
    assert ended.returncode == 0 and ended.stdout.endswith("next: recompose quickstart --config my.toml\n")
    assert load_config(tmp_path / "my.toml").model.name == "tiny"
    before = (tmp_path / "my.toml").read_text()
    again = recompose("init", "my.toml", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (2, "error: my.toml exists; next: recompose init OTHER.toml\n")
    assert (tmp_path / "my.toml").read_text() == before


def test_on_a_terminal_three_things_are_asked(tmp_path, monkeypatch):
    asked = []

    def answer(question, default, choices):
        asked.append((question, default))
        return {"What to train on": "toolbox", "Model": "tiny"}.get(question, 24.0)

    monkeypatch.setattr("rich.prompt.PromptBase.ask", answer)
    monkeypatch.setattr(verb, "_on_a_terminal", lambda: True)
    told = json.loads(recompose("init", tmp_path / "a.toml", "--json").stdout)
    assert [question for question, _ in asked] == ["What to train on", "GiB of the GPU, 0 for a CPU", "Model"]
    assert (told["on"], told["model"], told["gpu_gib"]) == ("toolbox", "tiny", 24.0)
    asked.clear()
    recompose("init", tmp_path / "b.toml", "--on", "toolbox", "--model", "tiny", "--gpu-gib", "0")
    assert asked == [], "what an option says is not asked"


def test_a_size_that_is_no_number_is_asked_for_again_and_no_answer_is_told(tmp_path, monkeypatch):
    answers = iter(["toolbox", "24 GB", "24", "tiny"])
    monkeypatch.setattr("rich.console.Console.input", lambda *_, **__: next(answers))
    monkeypatch.setattr(verb, "_on_a_terminal", lambda: True)
    assert recompose("init", tmp_path / "a.toml").returncode == 0 and not list(answers)

    def end_of_input(*_, **__):
        raise EOFError

    monkeypatch.setattr("rich.console.Console.input", end_of_input)
    ended = recompose("init", tmp_path / "b.toml")
    assert ended.returncode == 2 and "error: no answer; next: recompose init --on" in ended.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--on", "chess"), 'Invalid value "chess"'),
        (("--gpu-gib", "-1"), "no memory of a GPU"),
        (("--on", "tasks", "--model", "tiny"), "no words for tasks; next: recompose init --on tasks --model smollm2"),
    ],
)
def test_what_it_refuses(words, told, tmp_path):
    ended = recompose("init", tmp_path / "x.toml", *words)
    assert ended.returncode == 2 and told in ended.stderr
    assert not (tmp_path / "x.toml").exists()
