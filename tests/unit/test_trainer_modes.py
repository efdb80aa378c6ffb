"""The trainer under LoRA, gradient checkpointing, bfloat16 and TRL's own environments."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from trl import GRPOTrainer

from composer_replication.objective import SdpoSettings
from composer_replication.training import ComposerReplicationTrainer
from composer_replication.training.channels import SelfDistillation
from composer_replication.training.lessons.online_sites import TraceHinter
from tests.distributed.scenes import Scene, build, new_model, run
from tests.distributed.toy_environment import environment_trainer

from .gradients import site_losses

ALPHA = 0.7
ONLINE = Scene(alpha=ALPHA, online=True)
PLAIN = Scene(GRPOTrainer)
CHECKPOINTED = {"gradient_checkpointing": True}


def adapted():
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], lora_alpha=8, task_type="CAUSAL_LM")
    model = get_peft_model(new_model(), config)
    torch.manual_seed(8)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                # An adapter that starts at zero has no gradient in its other half.
                parameter.normal_(std=0.3)
    return model


def first_gradient(scene, folder, model=None):
    """The gradient that the optimiser sees, by parameter, the micro-batches behind it, and the log."""
    trainer = build(scene, str(folder), model=model)
    inputs, compute = [], trainer._compute_loss
    trainer._compute_loss = lambda model, batch: inputs.append(batch) or compute(model, batch)
    tensors, logs = run(trainer)
    grads = {key.removeprefix("grad/"): value for key, value in tensors.items() if key.startswith("grad/")}
    return grads, inputs, logs[0], trainer


def flat(grads):
    return torch.cat([grads[name].flatten().float() for name in sorted(grads)])


def distance(found, expected):
    return ((flat(found) - flat(expected)).norm() / flat(expected).norm()).item()


def added_gradient(new, micro_batches):
    model = new()
    trainable = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    losses = site_losses(model, micro_batches)
    assert len(losses) == 12
    grads = torch.autograd.grad(ALPHA * (sum(losses) / len(losses)), list(trainable.values()))
    return dict(zip(trainable, grads, strict=True))


@pytest.mark.parametrize("teacher", ["live", "ema"])
@pytest.mark.parametrize("arguments", [{}, CHECKPOINTED], ids=["", "checkpointed"])
@pytest.mark.parametrize("new", [new_model, adapted], ids=["full", "lora"])
def test_the_added_gradient_is_that_of_a_plain_computation_per_site(tmp_path, new, arguments, teacher):
    if new is adapted:
        pytest.importorskip("peft")
    ours, inputs, _, trainer = first_gradient(
        replace(ONLINE, arguments=arguments, settings={"teacher": teacher}), tmp_path / "ours", new()
    )
    plain, *_ = first_gradient(replace(PLAIN, arguments=arguments), tmp_path / "plain", new())
    expected = added_gradient(new, inputs)
    assert plain.keys() == ours.keys() == expected.keys()
    assert flat(expected).norm() > 1e-3
    assert distance({name: ours[name] - plain[name] for name in ours}, expected) < 1e-4
    if new is adapted:
        assert all("lora_" in name for name in ours)
        assert all("lora_" in name for name in trainer.teacher.state())
        assert bool(trainer.teacher.state()) == (teacher == "ema")


def test_checkpointing_leaves_the_measured_gradients_as_they_are(tmp_path):
    scene = replace(ONLINE, alpha=50.0, cap=0.5)
    grads, _, log, _ = first_gradient(scene, tmp_path / "plain")
    again, _, log_again, _ = first_gradient(replace(scene, arguments=CHECKPOINTED), tmp_path / "checkpointed")
    assert distance(again, grads) < 1e-5
    for name in ("gradient/policy", "gradient/sdpo", "gradient/sdpo_factor"):
        assert log_again[name] == pytest.approx(log[name], rel=1e-4)
    assert log["gradient/sdpo_factor"] < 1


def test_an_averaged_teacher_of_adapters_keeps_the_base_model_once(tmp_path):
    pytest.importorskip("peft")
    model = adapted()
    start = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    scene = replace(ONLINE, steps=3, settings={"teacher": "ema", "ema_rate": 0.5})
    trainer = build(scene, str(tmp_path), model=model)
    trainer.train()
    end = {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}
    with trainer.teacher.installed(trainer.model):
        inside = {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}
    for name in start:
        if "lora_" in name:
            assert not torch.equal(inside[name], start[name])
            assert not torch.equal(inside[name], end[name])
        else:
            assert torch.equal(inside[name], start[name])
            assert torch.equal(end[name], start[name])


@pytest.mark.parametrize("beta", [0.0, 0.5], ids=["rollouts", "rollouts and pairs"])
@pytest.mark.parametrize("how", ["autocast", "weights"])
def test_bfloat16_is_finite_and_close(tmp_path, how, beta):
    """The channels' own gradient, so that the policy's rounding does not hide theirs."""
    scenes = {}
    for precision in ("float32", "bfloat16"):
        arguments = {"bf16": how == "autocast" and precision == "bfloat16"}
        model = (lambda: new_model().to(torch.bfloat16)) if how == "weights" and precision == "bfloat16" else new_model
        ours, _, log, _ = first_gradient(
            replace(ONLINE, beta=beta, arguments=arguments, settings={"teacher": "ema"}), tmp_path / precision, model()
        )
        plain, *_ = first_gradient(replace(PLAIN, arguments=arguments), tmp_path / f"plain-{precision}", model())
        scenes[precision] = {name: ours[name].float() - plain[name].float() for name in ours}, log
        assert all(torch.isfinite(grad).all() for grad in ours.values())
    (found, log), (expected, exact) = scenes["bfloat16"], scenes["float32"]
    assert log["channel/sdpo"] == pytest.approx(exact["channel/sdpo"], rel=0.05)
    cosine = torch.nn.functional.cosine_similarity(flat(found), flat(expected), dim=0)
    assert cosine > 0.98
    assert distance(found, expected) < 0.2


def fit(kind, folder, arguments, **options):
    trainer = environment_trainer(kind, str(folder), arguments={"max_steps": 5, **arguments}, **options)
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    return logs, [parameter.detach().clone() for parameter in trainer.model.parameters()]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 2},
        {"steps_per_generation": 4, "num_iterations": 2, "per_device_train_batch_size": 2},
    ],
    ids=["aligned", "accumulated", "off-aligned"],
)
def test_with_environments_and_without_weights_nothing_differs_from_trl(tmp_path, arguments):
    plain_logs, plain = fit(GRPOTrainer, tmp_path / "plain", arguments)
    logs, parameters = fit(
        ComposerReplicationTrainer, tmp_path / "ours", arguments, alpha_sdpo=0.0, beta_replay=0.0, hinter=TraceHinter()
    )
    assert len(logs) == len(plain_logs) == 5
    for key in ("loss", "grad_norm", "reward", "entropy", "tools/call_frequency", "tools/failure_frequency"):
        assert [entry.get(key) for entry in logs] == [entry.get(key) for entry in plain_logs], key
    assert all(map(torch.equal, parameters, plain))
    assert sum(entry["grad_norm"] for entry in plain_logs) > 0
    assert any(entry.get("tools/failure_frequency", 0) > 0 for entry in plain_logs)


def test_with_environments_and_weight_the_error_turns_are_learnt_from(tmp_path):
    _, plain = fit(GRPOTrainer, tmp_path / "plain", {})
    every_site = SelfDistillation(SdpoSettings(weight=1.0, require_disfavour=False))
    logs, parameters = fit(
        ComposerReplicationTrainer, tmp_path / "ours", {}, channels=[every_site], hinter=TraceHinter()
    )
    assert any(entry["sdpo/sites"] > 0 and entry["channel/sdpo"] > 0 for entry in logs)
    assert not any("turns_do_not_match" in name for entry in logs for name in entry)
    assert not all(map(torch.equal, parameters, plain))
