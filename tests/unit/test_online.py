"""Channel 2 on the error turns of fresh rollouts."""

from __future__ import annotations

import pytest
import torch
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from composer_replication.config import Config, TrainingConfig
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.errors import UsageError
from composer_replication.objective import GrpoSettings, SdpoSettings
from composer_replication.training import ComposerReplicationTrainer
from composer_replication.training.backends.trl.rollouts import EnvironmentRollouts, only_read
from composer_replication.training.channels import SelfDistillation
from composer_replication.training.lessons.online_sites import HintedTurn, TraceHinter, turn_spans
from composer_replication.training.train import prompts_of, training_tasks

from .gradients import first_step, site_losses, spread

CONFIG = Config(seed=5, training=TrainingConfig(steps=6, prompts_per_step=4, group_size=2, max_turn_tokens=6))


def every_site(weight, **settings):
    """Channel 2 and no cap, as options of the trainer."""
    sdpo = SdpoSettings(weight=weight, **{"teacher": "live", "require_disfavour": False, **settings})
    return {"channels": [SelfDistillation(sdpo)], "gradient_ratio_cap": None}


def trainer_of(kind, policy, folder, steps=1, learning_rate=1e-2, config=None, dataset=None, rewards=spread, **options):
    tasks = training_tasks(open_toolbox(CONFIG), CONFIG)
    args = {
        "per_device_train_batch_size": 8,
        "num_generations": 2,
        "max_steps": steps,
        "learning_rate": learning_rate,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 0.0,
        **(config or {}),
    }
    args = GRPOConfig(
        output_dir=str(folder), seed=CONFIG.seed, beta=0.0, use_cpu=True, bf16=False, gradient_checkpointing=False,
        logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True, **args,
    )  # fmt: skip
    played = only_read(CONFIG.training).model_copy(update={"temperature": args.temperature})
    trainer = kind(
        model=policy.model,
        processing_class=policy.tokenizer,
        args=args,
        reward_funcs=rewards,
        train_dataset=dataset or prompts_of(tasks),
        rollout_func=EnvironmentRollouts(policy, open_toolbox(CONFIG), tasks, played, seed=CONFIG.seed),
        **options,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def first_gradient(trainer):
    """What the optimiser sees in the first step, and the micro-batches that it was made from."""
    inputs, compute = [], trainer._compute_loss

    def compute_and_watch(model, batch):
        inputs.append(batch)
        return compute(model, batch)

    trainer._compute_loss = compute_and_watch
    return first_step(trainer), inputs


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2},
        {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4},
    ],
    ids=["one micro-step", "two", "four"],
)
@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_the_added_gradient_is_that_of_a_plain_computation_per_site(new_policy, tmp_path, config, beta):
    alpha = 0.7
    plain, _ = first_gradient(trainer_of(GRPOTrainer, new_policy(), tmp_path / "plain", config=config))
    ours, inputs = first_gradient(
        trainer_of(
            ComposerReplicationTrainer,
            new_policy(),
            tmp_path / "ours",
            config=config,
            **every_site(alpha, jsd_beta=beta),
            hinter=TraceHinter(),
        )
    )
    model = new_policy().model
    losses = site_losses(model, inputs, beta)
    term = alpha * (sum(losses) / len(losses))
    expected = torch.cat([grad.flatten() for grad in torch.autograd.grad(term, list(model.parameters()))])
    assert expected.norm() > 1e-3
    assert ((ours - plain - expected).norm() / expected.norm()).item() < 1e-4


def test_a_hinter_that_leaves_rollouts_out_is_told_how_many(new_policy, tmp_path):
    trainer = trainer_of(
        ComposerReplicationTrainer, new_policy(), tmp_path, **every_site(0.1), hinter=lambda traces: [[]] * 3
    )  # fmt: skip
    with pytest.raises(UsageError, match=r"3 lists for \d+ rollouts.*return one list for each"):
        trainer.train()


def test_tasks_that_the_rollouts_do_not_know_are_named(new_policy, tmp_path):
    trainer = trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path)
    rollouts = trainer.rollout_func
    rollouts._tasks = {f"other/{name}": task for name, task in rollouts._tasks.items()}
    with pytest.raises(UsageError, match="tasks that the rollouts were not given, as "):
        trainer.train()


def test_all_of_channel_2_is_queued_in_the_policys_forward_pass(new_policy, tmp_path, monkeypatch):
    """After it TRL reads numbers from the device, which then has nothing to do until more is queued."""
    trainer = trainer_of(
        ComposerReplicationTrainer, new_policy(), tmp_path, **every_site(0.1), hinter=TraceHinter()
    )  # fmt: skip
    distil, queued = trainer._online.distil, []
    monkeypatch.setattr(trainer._online, "distil", lambda lesson: queued.append(lesson.distilled) or distil(lesson))
    trainer.train()
    assert queued
    assert None not in queued


def test_the_teachers_pass_does_not_ask_the_device_whether_rows_are_packed(new_policy, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("transformers.masking_utils.find_packed_sequence_indices", asked.append)
    trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, **every_site(0.1), hinter=TraceHinter()).train()
    assert not asked
    new_policy().model(torch.ones(1, 2, dtype=torch.long), use_cache=False)
    assert asked


def test_without_weight_nothing_differs_from_trl(new_policy, tmp_path):
    for config in ({}, {"steps_per_generation": 4, "per_device_train_batch_size": 2, "num_iterations": 2}):
        models = []
        for kind, options in (
            (GRPOTrainer, {}),
            (ComposerReplicationTrainer, {"alpha_sdpo": 0.0, "hinter": TraceHinter()}),
        ):
            policy = new_policy()
            trainer_of(kind, policy, tmp_path / kind.__name__, steps=5, config=config, **options).train()
            models.append(policy.model)
        for first, second in zip(models[0].parameters(), models[1].parameters(), strict=True):
            assert torch.equal(first, second)


@pytest.mark.parametrize("teacher", ["live", "ema", "frozen"])
def test_an_empty_hint_has_no_divergence_at_the_start(new_policy, tmp_path, teacher, monkeypatch):
    monkeypatch.setattr(
        "composer_replication.training.models.tokens.ChatTokens.splice_hint", lambda self, context, hint: list(context)
    )
    trainer = trainer_of(
        ComposerReplicationTrainer,
        new_policy(),
        tmp_path,
        **every_site(1.0, teacher=teacher),
        hinter=TraceHinter(),
    )
    trainer.train()
    (entry,) = [entry for entry in trainer.state.log_history if "sdpo/sites" in entry]
    assert entry["sdpo/sites"] > 0
    assert abs(entry["channel/sdpo"]) < 1e-6


@pytest.mark.parametrize(("teacher", "moves"), [("live", True), ("ema", True), ("frozen", False)])
def test_teachers_follow_the_policy_as_their_names_say(new_policy, tmp_path, teacher, moves):
    policy = new_policy()
    start = [parameter.detach().clone() for parameter in policy.model.parameters()]
    trainer = trainer_of(
        ComposerReplicationTrainer, policy, tmp_path, steps=3,
        **every_site(0.1, teacher=teacher, ema_rate=0.5), hinter=TraceHinter(),
    )  # fmt: skip
    trainer.train()
    end = [parameter.detach().clone() for parameter in policy.model.parameters()]
    with trainer.teacher.installed(policy.model):
        inside = [parameter.detach().clone() for parameter in policy.model.parameters()]
    assert all(map(torch.equal, end, policy.model.parameters()))
    assert all(map(torch.equal, inside, start)) == (not moves)
    if teacher == "ema":
        assert not all(map(torch.equal, inside, end))


def test_gates_are_counted(new_policy, tmp_path):
    def every_turn(traces):
        return [
            [HintedTurn(turn, kind, "Reminder: done") for turn, kind in enumerate(["json_decode"] * len(trace.turns))]
            for trace in traces
        ]

    def logged(**options):
        trainer = trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, **options)
        trainer.train()
        return next(entry for entry in trainer.state.log_history if "sdpo/sites" in entry)

    every = logged(**every_site(0.1), hinter=every_turn)
    assert every["sdpo/sites"] == every["sdpo/sites/json_decode"] >= 8
    assert every["sdpo/kept"] == 1
    off = logged(**every_site(0.1, kinds_off=("json_decode",)), hinter=every_turn)
    assert off["sdpo/sites"] == 0
    assert off["sdpo/dropped/kind_off"] >= 8
    assert off.get("channel/sdpo", 0.0) == 0
    short = logged(**every_site(0.1), max_teacher_tokens=10, hinter=every_turn)
    assert short["sdpo/dropped/too_long"] >= 8
    refused = logged(**every_site(0.1), hinter=every_turn, accepts=lambda found: [False] * len(found))
    assert refused["sdpo/dropped/not_accepted"] >= 8


def test_the_cap_keeps_the_policy_gradient_in_charge(new_policy, tmp_path):
    trainer = trainer_of(
        ComposerReplicationTrainer, new_policy(), tmp_path, steps=2, learning_rate=0.0,
        **{**every_site(1e6), "gradient_ratio_cap": 0.5}, hinter=TraceHinter(),
    )  # fmt: skip
    trainer.train()
    for entry in trainer.state.log_history[:2]:
        assert entry["gradient/sdpo"] > 0.5 * entry["gradient/policy"] > 0
        capped = entry["gradient/sdpo"] * entry["gradient/sdpo_factor"]
        assert capped == pytest.approx(0.5 * entry["gradient/policy"], rel=1e-4)


def test_a_batch_without_sites_leaves_the_cap_as_it_was(new_policy, tmp_path):
    calls = []

    def only_at_first(traces):
        calls.append(len(traces))
        return TraceHinter()(traces) if len(calls) == 1 else [[] for _ in traces]

    trainer = trainer_of(
        ComposerReplicationTrainer, new_policy(), tmp_path, steps=2, learning_rate=0.0,
        **{**every_site(1e6), "gradient_ratio_cap": 0.5}, hinter=only_at_first,
    )  # fmt: skip
    trainer.train()
    first = trainer.state.log_history[0]["gradient/sdpo_factor"]
    assert 0 < first < 1
    assert trainer._balance.factors["sdpo"] == first


def test_turns_are_the_runs_of_sampled_tokens():
    assert turn_spans([]) == []
    assert turn_spans([1, 1, 0, 0, 1, 0, 1]) == [(0, 2), (4, 5), (6, 7)]
    assert turn_spans([0, 1]) == [(1, 2)]


def test_settings_in_the_place_of_a_channel_are_told(new_policy, tmp_path):
    with pytest.raises(TypeError, match=r"SelfDistillation\(SdpoSettings"):
        trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, channels=[SdpoSettings()], hinter=TraceHinter())


def test_two_weights_for_one_channel_are_refused(new_policy, tmp_path):
    """The channel's own, 0.1, would hold."""
    two = {"alpha_sdpo": 1.0, "channels": [SelfDistillation(SdpoSettings(jsd_beta=1.0))], "hinter": TraceHinter()}
    with pytest.raises(UsageError, match=r"alpha_sdpo is 1.0, and the channel sdpo has the weight 0.1"):
        trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, **two)
    trainer = trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, **{**two, "alpha_sdpo": 0.1})
    assert trainer.alpha_sdpo == 0.1


def test_a_hinter_that_names_a_turn_that_is_not_there_is_told(new_policy, tmp_path):
    def beyond(traces):
        return [[HintedTurn(len(trace.turns), "runtime_error", "call the tool")] for trace in traces]

    trainer = trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, alpha_sdpo=0.1, hinter=beyond)
    with pytest.raises(UsageError, match="the hinter names turn"):
        trainer.train()


def test_imitation_in_several_processes_divides_by_what_all_of_them_accepted(new_policy, tmp_path, monkeypatch):
    """Half of the rollouts here, and none in another process."""

    def half(prompts, **columns):
        return [1.0, 0.0] * (len(prompts) // 2)

    options = {"rewards": half, "grpo": GrpoSettings(advantage="accepted")}
    trainer = trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, **options)
    monkeypatch.setattr(trainer._engine, "gather", lambda value: torch.tensor([float(value), 0.0]))
    trainer.model.train()
    made = trainer._generate_and_score_completions([trainer.train_dataset[0]] * 8)
    assert made["advantages"].tolist() == [4.0, 0.0] * 4
