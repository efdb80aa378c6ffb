"""The trainer: TRL's own GRPO when the channels are off, and exactly the added terms when they are on."""

from __future__ import annotations

import inspect
import itertools
import random
from dataclasses import dataclass, replace

import pytest
import torch
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from composer_replication.config import Config, TrainingConfig
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.objective import SdpoSettings, TrdpoSettings
from composer_replication.progress import Silent
from composer_replication.training import ComposerDataCollator, ComposerReplicationTrainer
from composer_replication.training.backends.trl.rollouts import EnvironmentRollouts, only_read
from composer_replication.training.channels import ReplayPreference, SelfDistillation
from composer_replication.training.stored.batches import StoredBatches
from composer_replication.training.stored.reference import with_reference_logprobs
from composer_replication.training.train import prompts_of, train, training_tasks

from .gradients import first_step, spread

STEPS = 3
CONFIG = Config(seed=5, training=TrainingConfig(steps=STEPS, prompts_per_step=2, group_size=2, max_turn_tokens=6))


@pytest.fixture
def collator(tiny_tokens):
    return ComposerDataCollator(tiny_tokens.tokenizer.pad_token_id)


def trainer_of(kind, policy, folder, accumulation=1, learning_rate=1e-2, steps=STEPS, **channels):
    tasks = training_tasks(open_toolbox(CONFIG), CONFIG)
    args = GRPOConfig(
        output_dir=str(folder),
        seed=CONFIG.seed,
        max_steps=steps,
        per_device_train_batch_size=4 // accumulation,
        gradient_accumulation_steps=accumulation,
        num_generations=2,
        learning_rate=learning_rate,
        lr_scheduler_type="constant",
        beta=0.0,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = kind(
        model=policy.model,
        processing_class=policy.tokenizer,
        args=args,
        reward_funcs=spread,
        train_dataset=prompts_of(tasks),
        rollout_func=EnvironmentRollouts(
            policy, open_toolbox(CONFIG), tasks, only_read(CONFIG.training), seed=CONFIG.seed
        ),
        **channels,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def fit(kind, policy, folder, **options):
    """Logged steps and parameters after training."""
    trainer = trainer_of(kind, policy, folder, **options)
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    return logs, [parameter.detach().clone() for parameter in policy.model.parameters()]


def batches(examples, collator, size=2):
    return StoredBatches(examples, collator, size, seed=1)


def equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("accumulation", [1, 2])
def test_without_weights_training_is_bit_identical_to_trl(new_policy, examples, collator, tmp_path, accumulation):
    start = [parameter.detach().clone() for parameter in new_policy().model.parameters()]
    plain_logs, plain = fit(GRPOTrainer, new_policy(), tmp_path / "plain", accumulation=accumulation)
    logs, parameters = fit(
        ComposerReplicationTrainer,
        new_policy(),
        tmp_path / "ours",
        accumulation=accumulation,
        alpha_sdpo=0.0,
        beta_replay=0.0,
        batches=batches(examples, collator),
    )
    assert len(logs) == len(plain_logs) == STEPS
    for key in ("loss", "grad_norm", "reward", "entropy"):
        assert [entry[key] for entry in logs] == [entry[key] for entry in plain_logs], key
    assert plain_logs[0]["grad_norm"] > 0
    assert equal(parameters, plain)
    assert not equal(plain, start)


def test_channels_are_logged_and_change_the_parameters(new_policy, examples, collator, tmp_path):
    _, plain = fit(GRPOTrainer, new_policy(), tmp_path / "plain")
    policy = new_policy()
    with_references = with_reference_logprobs(policy, examples, collator)
    logs, parameters = fit(
        ComposerReplicationTrainer,
        policy,
        tmp_path / "ours",
        batches=batches(with_references, collator),
        channels=[SelfDistillation(SdpoSettings(require_disfavour=False))],
        gradient_ratio_cap=None,
    )
    assert len(logs) == STEPS
    for entry in logs:
        assert {"channel/policy", "channel/sdpo", "channel/replay"} <= entry.keys()
        assert entry["channel/sdpo"] > 0
    assert not equal(parameters, plain)


@pytest.mark.parametrize("only", ["sdpo", "replay"])
def test_a_channel_without_weight_is_not_computed(new_policy, examples, collator, tmp_path, only):
    weights = {"alpha_sdpo": 0.1 * (only == "sdpo"), "beta_replay": 0.1 * (only == "replay")}
    logs, _ = fit(
        ComposerReplicationTrainer, new_policy(), tmp_path, steps=1, batches=batches(examples, collator), **weights
    )
    assert {key for key in logs[0] if key.startswith("channel/")} == {"channel/policy", f"channel/{only}"}


def gradient_of_one_step(trainer):
    """What the optimiser sees in the first step: the accumulated gradient, before clipping."""
    trainer.args.max_grad_norm = 0.0
    return first_step(trainer)


@pytest.mark.parametrize("accumulation", [1, 2])
def test_added_terms_are_averaged_over_micro_steps(new_policy, examples, collator, tmp_path, accumulation):
    alpha, beta = 0.5, 0.2
    every_site = SelfDistillation(SdpoSettings(weight=alpha, require_disfavour=False))
    preference = ReplayPreference(TrdpoSettings(weight=beta))
    policy = new_policy()
    referenced = with_reference_logprobs(policy, examples, collator)
    used = list(itertools.islice(batches(referenced, collator, 1), accumulation))
    terms = [
        alpha * every_site.loss(policy.model, batch) + beta * preference.loss(policy.model, batch) for batch in used
    ]
    grads = torch.autograd.grad(sum(terms) / accumulation, list(policy.model.parameters()))
    expected = torch.cat([grad.flatten() for grad in grads])
    assert accumulation == 1 or not torch.isclose(*terms)

    plain = gradient_of_one_step(trainer_of(GRPOTrainer, new_policy(), tmp_path / "plain", accumulation, steps=1))
    ours = gradient_of_one_step(
        trainer_of(
            ComposerReplicationTrainer,
            new_policy(),
            tmp_path / "ours",
            accumulation,
            steps=1,
            channels=[every_site, preference],
            gradient_ratio_cap=None,
            batches=iter(used),
        )
    )
    assert ((ours - plain - expected).norm() / expected.norm()).item() < 1e-4


@dataclass
class StayClose:
    """A fourth channel: pulls the embeddings towards zero."""

    weight: float
    name: str = "close"

    def loss(self, model, batch):
        return model.get_input_embeddings().weight.square().mean()


def test_a_fourth_channel_trains_and_is_logged(new_policy, examples, collator, tmp_path):
    options = {"alpha_sdpo": 0.0, "beta_replay": 0.0, "batches": batches(examples, collator)}
    logs, _ = fit(
        ComposerReplicationTrainer, new_policy(), tmp_path, channels=[StayClose(100.0)], learning_rate=0.03, **options
    )
    values = [entry["channel/close"] for entry in logs]
    assert values[0] > values[1] > values[2] > 0
    assert len(inspect.getsource(StayClose).splitlines()) <= 30


def test_a_channel_of_weight_zero_stays_silent(new_policy, examples, collator, tmp_path):
    trainer = trainer_of(
        ComposerReplicationTrainer,
        new_policy(),
        tmp_path,
        alpha_sdpo=0.0,
        beta_replay=0.0,
        batches=batches(examples, collator),
        channels=[StayClose(0.0)],
    )
    assert trainer.active_channels == []


def test_stored_batches_draw_from_a_generator_of_their_own(examples, collator):
    torch_state, random_state = torch.get_rng_state(), random.getstate()
    list(itertools.islice(batches(examples, collator), 7))
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert random.getstate() == random_state


@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_pass_visits_every_example_once(examples, collator, size):
    numbered = [replace(example, reward=float(number)) for number, example in enumerate(examples)]
    per_pass = -(-len(numbered) // size)

    def passes(seed):
        stream = StoredBatches(numbered, collator, size, seed)
        return [[batch["rewards"].tolist() for batch in itertools.islice(stream, per_pass)] for _ in range(8)]

    orders = [list(itertools.chain(*one_pass)) for one_pass in passes(0)]
    assert [sorted(order) for order in orders] == [[0.0, 1.0, 2.0]] * 8
    assert any(order != orders[0] for order in orders)
    assert passes(0) == passes(0)
    assert passes(0) != passes(1)


def test_reference_logprobs_are_those_of_the_policy(new_policy, examples, collator):
    policy = new_policy()
    two_pairs = replace(examples[1], pairs=examples[1].pairs + examples[2].pairs)
    mixed = [examples[0], two_pairs, replace(examples[2], pairs=[])]
    referenced = with_reference_logprobs(policy, mixed, collator)
    assert [len(example.pairs) for example in referenced] == [1, 2, 0]
    for before, after in zip(mixed, referenced, strict=True):
        assert replace(after, pairs=before.pairs) == before
        for pair in after.pairs:
            for answer, got in ((pair.chosen, pair.reference_chosen), (pair.rejected, pair.reference_rejected)):
                with torch.no_grad():
                    logprobs = policy.model(torch.tensor([pair.prompt + answer])).logits[0].log_softmax(-1)
                expected = sum(logprobs[len(pair.prompt) + i - 1, token].item() for i, token in enumerate(answer))
                assert got == pytest.approx(expected, rel=1e-5)


def test_train_returns_one_record_per_step(new_policy, examples, tmp_path):
    policy = new_policy()
    start = [parameter.detach().clone() for parameter in policy.model.parameters()]
    steps = train(policy, CONFIG, open_toolbox(CONFIG), examples, tmp_path, Silent())
    assert [step.step for step in steps] == [1, 2, 3]
    assert all(step.channels.keys() == {"sdpo", "replay"} for step in steps)
    assert not equal(start, policy.model.parameters())
    assert not policy.model.training


def test_train_without_examples_has_no_channels(new_policy, tmp_path):
    steps = train(new_policy(), CONFIG, open_toolbox(CONFIG), [], tmp_path, Silent())
    assert [step.channels for step in steps] == [{}] * STEPS


def test_trl_still_has_what_the_trainer_relies_on():
    assert list(inspect.signature(GRPOTrainer._compute_loss).parameters) == ["self", "model", "inputs"]
    parameters = inspect.signature(GRPOTrainer.__init__).parameters
    assert {"model", "reward_funcs", "args", "train_dataset", "processing_class", "callbacks", "rollout_func"} <= set(
        parameters
    )


@pytest.mark.parametrize("missing", ["prompt_ids", "completion_ids", "logprobs", None])
def test_trl_requires_these_keys_of_a_rollout_function(new_policy, tmp_path, missing):
    policy = new_policy()
    trainer = trainer_of(GRPOTrainer, policy, tmp_path, steps=1)
    complete = trainer.rollout_func
    prompts_seen = []

    def partial(prompts, trainer):
        prompts_seen.extend(prompts)
        return {key: value for key, value in complete(prompts, trainer).items() if key != missing}

    trainer.rollout_func = partial
    if missing is None:
        trainer.train()
        assert len(prompts_seen) == 4
        assert len({prompt[1]["content"] for prompt in prompts_seen}) == 2
    else:
        with pytest.raises(ValueError, match=missing):
            trainer.train()
