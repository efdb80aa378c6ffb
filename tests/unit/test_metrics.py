"""The metrics file, what is counted from rollouts, and the rollouts kept for people."""

from __future__ import annotations

import importlib.util
import json
import math
from itertools import pairwise
from types import SimpleNamespace

import pytest
from transformers import PrinterCallback
from trl import GRPOConfig

from composer_replication.config import Config, ToolboxConfig, TrainingConfig
from composer_replication.environments.toolbox import Call, ToolboxEpisode, make_task, next_call, trace_of
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.errors import UsageError
from composer_replication.progress import Silent
from composer_replication.records import Source, Trace, Turn
from composer_replication.runs import read_records
from composer_replication.training import ComposerReplicationTrainer
from composer_replication.training.backends.trl.rollouts import EnvironmentRollouts
from composer_replication.training.lessons.online_sites import Rolled
from composer_replication.training.metrics import MetricsFile, StepLines, count_rollouts, report_to, rollout_metrics
from composer_replication.training.models.loading import Policy
from composer_replication.training.rollouts.samples import RolloutSamples, step_of
from composer_replication.training.stored.records import RolloutSample
from composer_replication.training.train import prompts_of, training_tasks
from composer_replication.training.watchdogs import Watchdog


def state(step, tokens=0, world_zero=True):
    return SimpleNamespace(global_step=step, num_input_tokens_seen=tokens, is_world_process_zero=world_zero)


def strict(text):
    def refuse(name):
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


# The file


def test_each_entry_is_one_sorted_line(tmp_path):
    path = tmp_path / "training" / "metrics.jsonl"
    callback = MetricsFile(path)
    callback.on_train_begin(None, state(0), None)
    callback.on_log(None, state(1, tokens=70), None, logs={"reward": 0.5, "loss": math.nan, "kl": None})
    assert len(path.read_text().splitlines()) == 1, "a line is on disk as soon as it was logged"
    callback.on_log(None, state(2, tokens=150), None, logs={"loss": -math.inf, "grad_norm": math.inf})
    first, second = (strict(line) for line in path.read_text().splitlines())
    assert list(first) == sorted(first)
    assert {key: first[key] for key in ("step", "tokens", "reward", "loss", "kl")} == {
        "step": 1, "tokens": 70, "reward": 0.5, "loss": "NaN", "kl": None,
    }  # fmt: skip
    assert (second["loss"], second["grad_norm"]) == ("-Infinity", "Infinity")
    assert 0 <= first["wall_s"] <= second["wall_s"] < 60


def test_a_resumed_run_has_every_step_once_and_its_clock_goes_on(tmp_path):
    path = tmp_path / "metrics.jsonl"
    callback = MetricsFile(path)
    callback.on_train_begin(None, state(0), None)
    for step in range(1, 8):
        callback.on_log(None, state(step), None, logs={"attempt": 1})
    lines = StepLines(path)
    lines.append({"step": 5, "wall_s": 5000.0, "attempt": 1, "train_runtime": 1.0})
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:5]).replace('"wall_s":0.', '"wall_s":1000.'))
    with path.open("a") as out:
        out.write('{"step": 6, "wall_s"')
    again = MetricsFile(path)
    again.on_train_begin(None, state(4), None)
    for step in range(5, 9):
        again.on_log(None, state(step), None, logs={"attempt": 2})
    assert [(line["step"], line["attempt"]) for line in lines.read()] == [
        (1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (6, 2), (7, 2), (8, 2),
    ]  # fmt: skip
    assert all(line["wall_s"] >= 1000 for line in lines.read())


def test_the_summary_of_an_earlier_attempt_is_forgotten(tmp_path):
    lines = StepLines(tmp_path / "metrics.jsonl")
    lines.begin(0)
    lines.append({"step": 3, "loss": 1.0})
    lines.append({"step": 3, "train_runtime": 1.0})
    assert [list(line) for line in lines.begin(3)] == [["loss", "step"]]


def test_a_new_run_starts_with_an_empty_file(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step":0}\n{"step":1}\n')
    MetricsFile(path).on_train_begin(None, state(0), None)
    assert path.read_text() == ""


def test_only_one_process_writes(tmp_path):
    callback = MetricsFile(tmp_path / "metrics.jsonl")
    callback.on_train_begin(None, state(0, world_zero=False), None)
    callback.on_log(None, state(1, world_zero=False), None, logs={"loss": 1.0})
    assert not (tmp_path / "metrics.jsonl").exists()


def test_a_missing_tracker_is_a_usage_error(monkeypatch):
    monkeypatch.setenv("WANDB_PROJECT", "mine")
    assert report_to("none") == []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name in ("trackio", "wandb"):
        with pytest.raises(UsageError, match=rf"{name}.* missing; next: pip install 'composer-replication\[{name}\]'"):
            report_to(name)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert report_to("wandb") == ["wandb"]


# Behaviour


def rolled(tokens, scripted, texts, number=10, cut=False):
    task = make_task(ToolboxConfig(), "train", number)
    rollout = scripted(tokens, task, texts(task))
    ids, mask = rollout.completion_ids, rollout.sampled_mask
    if cut:
        ids, mask = ids[:-1], mask[:-1]
    return Rolled(trace_of(rollout.episode, "policy", 0), rollout.prompt_ids, ids, mask)


def right(task):
    return next_call(ToolboxEpisode(task)).render()


def stale(task):
    return Call("zero_gate", {"a": 1}).render()


def untyped(task):
    return Call(task.listings[0].name, {}).render()


@pytest.fixture
def metrics_of(tiny_tokens):
    return lambda *rollouts: rollout_metrics(count_rollouts(rollouts, {tiny_tokens.end_of_turn_id}))


def test_turns_calls_errors_and_recoveries_are_counted(tiny_tokens, scripted, metrics_of):
    metrics = metrics_of(
        rolled(tiny_tokens, scripted, lambda task: [stale(task), untyped(task), right(task), "done"]),
        rolled(tiny_tokens, scripted, lambda task: [right(task)[:9]]),
        rolled(tiny_tokens, scripted, lambda task: [right(task), "done"], number=11),
    )
    found = {name.removeprefix("rollout/"): value for name, value in metrics.items()}
    assert found["turns"] == pytest.approx(7 / 3)
    assert found["tool_calls_per_turn"] == pytest.approx(4 / 7)
    assert found["clean_calls"] == pytest.approx(2 / 3)
    assert found["error_turns_per_turn"] == pytest.approx(3 / 7)
    assert found["error_turns_per_turn/tool_not_found"] == pytest.approx(1 / 7)
    assert found["error_turns_per_turn/type_error"] == pytest.approx(1 / 7)
    assert found["error_turns_per_turn/runtime_error"] == 0, "a kind that may come is there from the start"
    assert found["unparsable_share"] == pytest.approx(1 / 7)
    assert found["recovery_rate"] == pytest.approx(1 / 3), "two were followed by an error or by nothing"
    assert found["tool_share/unlisted"] == pytest.approx(1 / 4)
    assert sum(value for name, value in found.items() if name.startswith("tool_share/")) == pytest.approx(1)
    assert found["truncation_rate"] == 0


def test_an_unparsable_turn_that_ran_before_keeps_its_kind(tiny_tokens, scripted, metrics_of):
    metrics = metrics_of(rolled(tiny_tokens, scripted, lambda task: [stale(task), stale(task), stale(task)]))
    assert metrics["rollout/error_turns_per_turn/repeated_failure"] == pytest.approx(2 / 3)
    assert metrics["rollout/unparsable_share"] == 0
    assert metrics["rollout/clean_calls"] == 0


def test_a_turn_without_an_action_is_unparsable(metrics_of):
    told = "Your response did not hold a code block: write the definition between ``` marks."
    messages = (
        {"role": "user", "content": "Write f."},
        {"role": "assistant", "content": "Hm."},
        {"role": "tool", "content": told, "is_error": True},
    )
    trace = Trace(trace_id="t", source=Source(agent="code"), messages=messages, turns=(Turn(start=1, end=3),))
    assert metrics_of(Rolled(trace, [1], [2], [1]))["rollout/unparsable_share"] == 1


def test_a_cut_turn_is_truncation(tiny_tokens, scripted, metrics_of):
    whole = rolled(tiny_tokens, scripted, lambda task: [right(task), "done"])
    cut = rolled(tiny_tokens, scripted, lambda task: [right(task), "done"], cut=True)
    assert metrics_of(whole, whole, whole, cut)["rollout/truncation_rate"] == 0.25
    assert metrics_of(whole, cut)["rollout/sampled_tokens"] == sum(whole.sampled_mask) - 0.5


def test_repetition_is_counted_within_a_turn_and_not_in_observations(tiny_tokens, scripted, metrics_of):
    plain = rolled(tiny_tokens, scripted, lambda task: [right(task)])
    ids = [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3]
    looped = plain._replace(completion_ids=ids, sampled_mask=[1] * len(ids))
    assert metrics_of(looped)["rollout/repetition_rate"] == pytest.approx(4 / 8)
    observed = plain._replace(completion_ids=[5, 6, 7, 8, *ids], sampled_mask=[1] * 4 + [0] * len(ids))
    assert metrics_of(observed)["rollout/repetition_rate"] == 0
    twice = plain._replace(completion_ids=[5, 6, 7, 8, 0, 5, 6, 7, 8], sampled_mask=[1, 1, 1, 1, 0, 1, 1, 1, 1])
    assert metrics_of(twice)["rollout/repetition_rate"] == 0, "calls of one tool look alike from turn to turn"


def test_distinct_actions_are_counted_per_prompt(tiny_tokens, scripted, metrics_of):
    one = rolled(tiny_tokens, scripted, lambda task: [right(task)])
    other = rolled(tiny_tokens, scripted, lambda task: [stale(task)])
    elsewhere = one._replace(prompt_ids=[*one.prompt_ids, 1])
    assert metrics_of(one, one, one, one)["rollout/distinct_action_share"] == 0.25
    assert metrics_of(one, one, one, other)["rollout/distinct_action_share"] == 0.5
    assert metrics_of(one, one, elsewhere, elsewhere)["rollout/distinct_action_share"] == 0.5


def test_counts_of_processes_add_up(tiny_tokens, scripted, metrics_of):
    rollouts = [
        rolled(tiny_tokens, scripted, lambda task: [stale(task), right(task)], number=number) for number in range(4)
    ]
    end = {tiny_tokens.end_of_turn_id}
    parts = count_rollouts(rollouts[:1], end) + count_rollouts(rollouts[1:], end)
    assert rollout_metrics(parts) == metrics_of(*rollouts)


def test_the_number_of_tools_in_the_log_is_bounded(tiny_tokens, scripted):
    plain = rolled(tiny_tokens, scripted, lambda task: [right(task)])
    counts = count_rollouts([plain], {0})
    counts.update({f"tool:tool_{number}": number + 1 for number in range(100)})
    counts["calls"] += sum(range(101))
    shares = {k: v for k, v in rollout_metrics(counts).items() if k.startswith("rollout/tool_share/")}
    assert len(shares) == 13
    assert sum(shares.values()) == pytest.approx(1)
    assert "rollout/tool_share/tool_99" in shares


def test_no_rollouts_give_no_metrics():
    assert rollout_metrics(count_rollouts([], {0})) == {}


# Samples


def test_samples_tell_the_whole_rollout(tmp_path, tiny_tokens, scripted):
    bad = rolled(tiny_tokens, scripted, lambda task: [stale(task), right(task), "done"])
    good = rolled(tiny_tokens, scripted, lambda task: [right(task), "done"], number=11)
    samples = RolloutSamples(tmp_path, every_steps=5, rollouts_per_step=2)
    samples.keep(5, [good, bad, good], [1.0, 0.0, 1.0], [{}, {0: "look at the listed tools"}, {}])
    (path,) = samples.files()
    worst, best = read_records(path, RolloutSample)
    assert (worst.reward, best.reward, worst.step) == (0.0, 1.0, 5)
    assert worst.prompt == tuple(
        {"role": message["role"], "content": message["content"]}
        for message in bad.trace.messages[: bad.trace.turns[0].start]
    )
    assert [turn.error_kinds for turn in worst.turns] == [("tool_not_found",), (), ()]
    assert [turn.hint for turn in worst.turns] == ["look at the listed tools", None, None]
    assert "zero_gate" in worst.turns[0].action
    assert worst.turns[0].observations == ("error: tool_not_found: no tool zero_gate",)
    assert worst.turns[2].action == "done"
    assert worst.sampled_tokens == sum(bad.sampled_mask)


def test_samples_are_bounded_and_span_the_run(tmp_path, tiny_tokens, scripted):
    one = rolled(tiny_tokens, scripted, lambda task: [right(task), "done"])
    samples = RolloutSamples(tmp_path, every_steps=10, rollouts_per_step=3, max_files=8)
    for step in range(1, 401):
        samples.keep(step, [one] * 16, [0.0] * 16, [{}] * 16)
        assert len(samples.files()) <= 8
    steps = [step_of(path) for path in samples.files()]
    gaps = [after - before for before, after in pairwise(steps)]
    assert (steps[0], steps[-1]) == (1, 400)
    assert max(gaps) <= 110, "no part of the run is forgotten"
    assert len(list(read_records(samples.files()[0], RolloutSample))) == 3


def test_samples_are_bounded_in_bytes(tmp_path, tiny_tokens, scripted):
    one = rolled(tiny_tokens, scripted, lambda task: [right(task), "done"])
    samples = RolloutSamples(tmp_path, every_steps=1, max_bytes=2000)
    for step in range(1, 30):
        samples.keep(step, [one], [0.0], [{}])
    assert 2 <= len(samples.files()) < 29
    assert sum(path.stat().st_size for path in samples.files()) <= 2000


def test_long_texts_are_cut(tmp_path, tiny_tokens, scripted):
    one = rolled(tiny_tokens, scripted, lambda task: ["x" * 5000])
    RolloutSamples(tmp_path, max_text_chars=100).keep(10, [one], [0.0], [{}])
    (sample,) = read_records(tmp_path / "step_0000010.jsonl.zst", RolloutSample)
    assert sample.turns[0].action == f"{'x' * 50} … 4900 characters left out … {'x' * 50}"


def test_a_resumed_run_forgets_later_samples(tmp_path, tiny_tokens, scripted):
    one = rolled(tiny_tokens, scripted, lambda task: [right(task)])
    samples = RolloutSamples(tmp_path, every_steps=5)
    for step in (1, 5, 10, 15):
        samples.keep(step, [one], [0.0], [{}])
    samples.on_train_begin(None, state(10), None)
    assert [step_of(path) for path in samples.files()] == [1, 5, 10]


# With the real trainer


def test_a_real_trainer_feeds_all_of_them(tmp_path, make_model, tiny_tokens):
    config = Config(seed=5, training=TrainingConfig(steps=4, prompts_per_step=2, group_size=2, max_turn_tokens=6))
    policy = Policy("small", make_model(len(tiny_tokens.tokenizer), seed=2), tiny_tokens)
    tasks = training_tasks(open_toolbox(config), config)
    run, asked = tmp_path, []
    watchdog = Watchdog(run, Silent(), empty_hint_divergence=lambda: asked.append(1) or 0.0)

    def reward(episode_reward, trace, completion_ids, log_metric, **columns):
        rollouts = [Rolled(t, [0], ids, [1] * len(ids)) for t, ids in zip(trace, completion_ids, strict=True)]
        metrics = rollout_metrics(count_rollouts(rollouts, {tiny_tokens.end_of_turn_id}))
        for name, value in metrics.items():
            log_metric(name, value)
        if columns["trainer_state"].global_step == 2:
            next(policy.model.parameters()).data.fill_(math.nan)
        return episode_reward

    trainer = ComposerReplicationTrainer(
        model=policy.model,
        processing_class=policy.tokenizer,
        args=GRPOConfig(
            output_dir=str(tmp_path / "scratch"), max_steps=4, per_device_train_batch_size=4, num_generations=2,
            use_cpu=True, bf16=False, gradient_checkpointing=False, logging_steps=1, save_strategy="steps",
            save_steps=1, report_to=report_to("none"), disable_tqdm=True,
        ),
        reward_funcs=reward,
        train_dataset=prompts_of(tasks),
        rollout_func=EnvironmentRollouts(policy, open_toolbox(config), tasks, config.training, seed=config.seed),
        callbacks=[MetricsFile(run / "training" / "metrics.jsonl"), watchdog],
    )  # fmt: skip
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    lines = StepLines(run / "training" / "metrics.jsonl").read()
    assert [line["step"] for line in lines if "train_runtime" not in line] == [1, 2, 3]
    assert {"entropy", "completions/mean_length", "rollout/turns", "rollout/truncation_rate"} <= set(lines[0])
    assert 0 < lines[0]["tokens"] < lines[1]["tokens"]
    assert asked
    assert watchdog.stopped and watchdog.stopped.step == 3
    assert watchdog.stopped.resume == f"`recompose train {run}` goes on from the checkpoint of step 2"
