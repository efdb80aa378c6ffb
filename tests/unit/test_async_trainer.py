"""TRL's asynchronous trainer with our channels, on recorded queues: no server, no vLLM, no CUDA kernel."""

from __future__ import annotations

import copy
import itertools
import queue
import time
from types import SimpleNamespace

import pytest
import torch
from transformers import PrinterCallback
from trl.experimental.async_grpo.async_grpo_config import AsyncGRPOConfig
from trl.experimental.async_grpo.async_grpo_trainer import AsyncGRPOTrainer

from composer_replication.config import Config, ToolboxConfig
from composer_replication.environments.opening import open_environment
from composer_replication.environments.protocol import EpisodeLimits
from composer_replication.environments.toolbox import Call, ToolboxEpisode, make_task, next_call
from composer_replication.errors import UsageError
from composer_replication.losses import generalized_jsd_loss
from composer_replication.objective import GrpoSettings, SdpoSettings, TrdpoSettings
from composer_replication.training import running, train_async
from composer_replication.training.backends import trl_async
from composer_replication.training.backends.trl.rollouts import prompts_of
from composer_replication.training.backends.trl_async.attention import register_attention, without_a_gpu
from composer_replication.training.backends.trl_async.samples import queued_samples
from composer_replication.training.backends.trl_async.trainer import AsyncComposerTrainer
from composer_replication.training.backends.trl_async.worker import EpisodeQueue
from composer_replication.training.channels import ReplayPreference
from composer_replication.training.lessons.online_sites import Rolled, TraceHinter, find_online_sites
from composer_replication.training.models.loading import Policy
from composer_replication.training.planning.refusals import refuse_for_backend
from composer_replication.training.stored.collator import ComposerDataCollator
from tests.golden.composites.reference import COMPOSITES, Case, Pair, Row, Site
from tests.notes import Lines, Notes

from .gradients import first_step

SDPO = {"source": "rollouts", "teacher": "live", "require_disfavour": False}


class Recorded:
    """A queue that somebody played before."""

    def __init__(self, samples):
        self.rollout_buffer, self.metrics_queue = queue.Queue(), queue.Queue()
        for sample in samples:
            self.rollout_buffer.put(copy.deepcopy(sample))

    def start(self):
        pass

    def stop(self):
        pass

    def update_model_version(self, model_version):
        pass

    def check_health(self, stale_after_s):
        raise RuntimeError("the recorded queue is empty")


class NoTransfer:
    def __getattr__(self, name):
        return lambda *_: None


@pytest.fixture(scope="module")
def start(make_model, tiny_tokens, tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    make_model(len(tiny_tokens.tokenizer), seed=2).save_pretrained(folder)
    tiny_tokens.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def samples(tiny_tokens, scripted):
    """Eight groups of two, one with an error turn before the right call; each with its sites."""
    found = []
    for number in range(8):
        task = make_task(ToolboxConfig(), "train", number)
        right = next_call(ToolboxEpisode(task)).render()
        stale = Call("zero_gate", {"a": number}).render()
        rollouts = [scripted(tiny_tokens, task, texts) for texts in ([stale, right], [right])]
        for rollout in rollouts:
            rollout.versions = [1] * len(rollout.turn_spans)
            rollout.logprobs = [-(3 + place % 5) * on for place, on in enumerate(rollout.sampled_mask)]
        rolled = [
            Rolled(
                one.trace("policy", row), one.prompt_ids, one.completion_ids, one.sampled_mask,
                logprobs=tuple(one.logprobs),
            )
            for row, one in enumerate(rollouts)
        ]  # fmt: skip
        sites, _ = find_online_sites(rolled, TraceHinter(), tiny_tokens, SdpoSettings(**SDPO))
        found += queued_samples(rollouts, [0.0, 1.0], sites, number, {})
    assert sum(len(sample.metrics.sites) for sample in found) == 8
    return found


def trainer_of(kind, start, samples, folder, tokens, steps=1, rows=4, accumulation=1, **options):
    args = AsyncGRPOConfig(
        output_dir=str(folder), max_steps=steps, per_device_train_batch_size=rows, learning_rate=1e-2,
        gradient_accumulation_steps=accumulation, gradient_checkpointing=False, bf16=False, use_cpu=True,
        token_budget=0, num_generations=2, max_grad_norm=0.0, save_strategy="no", report_to=[], disable_tqdm=True,
        max_staleness=20,
    )  # fmt: skip
    task = make_task(ToolboxConfig(), "train", 0)
    with without_a_gpu():
        trainer = kind(
            model=str(start), args=args, processing_class=tokens.tokenizer, train_dataset=prompts_of([task]),
            rollout_worker=Recorded(samples), weight_transfer=NoTransfer(), **options,
        )  # fmt: skip
    register_attention()
    trainer.remove_callback(PrinterCallback)
    return trainer


def relative(found, expected):
    assert expected.norm() > 1e-3
    return ((found - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("accumulation", [1, 2])
def test_without_weight_nothing_differs_from_trl_on_the_same_queue(start, samples, tiny_tokens, tmp_path, accumulation):
    ended = []
    for kind, options in (
        (AsyncGRPOTrainer, {}),
        (AsyncComposerTrainer, {"sdpo": SdpoSettings(weight=0.0, **SDPO), "channels": (), "grpo": GrpoSettings()}),
    ):
        trainer = trainer_of(
            kind, start, samples, tmp_path / kind.__name__, tiny_tokens, 3, 4 // accumulation, accumulation, **options
        )
        before = torch.cat([parameter.flatten().clone() for parameter in trainer.model.parameters()])
        trainer.train()
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        ended.append((torch.cat([parameter.flatten() for parameter in trainer.model.parameters()]), losses))
        assert not torch.equal(before, ended[-1][0])
    assert torch.equal(ended[0][0], ended[1][0])
    assert ended[0][1] == ended[1][1]


def plain_logits(model, ids):
    return model(torch.tensor([list(ids)])).logits[0]


def double_model(start):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(start, dtype=torch.float64, attn_implementation="sdpa").eval()


def policy_term(model, samples, clip=None):
    """TRL's loss of a micro-step, with the ratio bounded by `clip` where the advantage is negative."""
    terms = []
    for sample in samples:
        logits = plain_logits(model, sample.input_ids)[:-1]
        logprobs = logits.log_softmax(-1).gather(-1, torch.tensor(sample.input_ids)[1:, None])[:, 0]
        own = torch.tensor(sample.completion_mask)[1:].bool()
        ratio = (logprobs - torch.tensor(sample.old_log_probs).double()[1:])[own].exp()
        terms.append(-torch.min(ratio * sample.advantage, ratio.clamp(0.8, 1.2) * sample.advantage))
        if clip and sample.advantage < 0:
            over = (ratio.detach() > clip).double()
            bounded = -sample.advantage * (over * clip * ratio / ratio.detach() + (1 - over) * ratio)
            terms[-1] = torch.where(ratio < 0.8, terms[-1], bounded)
    return torch.cat(terms).mean()


def site_term(model, samples, clip):
    losses = []
    for sample in samples:
        before = int(sample.completion_mask.argmax())
        for site in sample.metrics.sites:
            ids = sample.input_ids.tolist()
            student = plain_logits(model, ids[: before + site.end])[-len(site.turn_ids) - 1 : -1]
            with torch.no_grad():
                teacher = plain_logits(model, site.teacher_ids)[-len(site.turn_ids) - 1 : -1]
                now = student.log_softmax(-1).gather(-1, torch.tensor(site.turn_ids)[:, None])[:, 0]
                weights = (now - torch.tensor(site.logprobs).double()).exp().clamp(max=clip)
            losses.append((generalized_jsd_loss(student, teacher, reduction="none") * weights).mean())
    return sum(losses) / len(losses)


def gradient_in(model, term):
    return torch.cat([grad.flatten() for grad in torch.autograd.grad(term, list(model.parameters()))])


@pytest.mark.parametrize("clip", [None, 0.9])
def test_the_gradient_is_that_of_a_plain_float64_computation(start, samples, tiny_tokens, tmp_path, clip):
    alpha, taken = 0.7, samples[:8]
    trainer = trainer_of(
        AsyncComposerTrainer, start, samples, tmp_path, tiny_tokens, rows=8,
        sdpo=SdpoSettings(weight=alpha, importance_clip=clip, **SDPO), gradient_ratio_cap=None,
    )  # fmt: skip
    found, model = first_step(trainer), double_model(start)
    expected = gradient_in(model, policy_term(model, taken) + alpha * site_term(model, taken, clip or 2.0))
    without = gradient_in(model, policy_term(model, taken))
    assert relative(expected, without) > 1e-3
    assert relative(found, expected) < 1e-4


def test_it_computes_the_composite_that_it_declares(start, samples, examples, tiny_tokens, tmp_path):
    """All three channels, on rollouts of the very weights that train, as the golden composites have them."""
    alpha, beta, model, taken = 0.7, 0.5, double_model(start), copy.deepcopy(samples[:8])
    for sample in taken:
        logits = plain_logits(model, sample.input_ids)[:-1].detach()
        own = logits.log_softmax(-1).gather(-1, torch.tensor(sample.input_ids)[1:, None])[:, 0].float().numpy()
        sample.old_log_probs[1:] = own * sample.completion_mask[1:]
        before = int(sample.completion_mask.argmax())
        sample.metrics.sites = [
            site._replace(logprobs=tuple(sample.old_log_probs[before + site.start : before + site.end].tolist()))
            for site in sample.metrics.sites
        ]
    batch = ComposerDataCollator(tiny_tokens.tokenizer.pad_token_id)(examples)
    trainer = trainer_of(
        AsyncComposerTrainer, start, taken + samples[8:], tmp_path, tiny_tokens, rows=8, gradient_ratio_cap=None,
        sdpo=SdpoSettings(weight=alpha, **SDPO), channels=[ReplayPreference(TrdpoSettings(weight=beta))],
        batches=itertools.repeat(batch),
    )  # fmt: skip
    rows, sites = [], []
    for sample in taken:
        before, ids = int(sample.completion_mask.argmax()), sample.input_ids.tolist()
        sites += [Site(len(rows), one.start, one.end, one.teacher_context) for one in sample.metrics.sites]
        rows.append(Row(ids[:before], ids[before:], sample.completion_mask[before:].tolist(), sample.advantage))
    pairs = [
        Pair(p.prompt, p.chosen, p.rejected, p.reference_chosen, p.reference_rejected, p.label_smoothing)
        for example in examples
        for p in example.pairs
    ]
    terms = COMPOSITES[trl_async.COMPOSITE](model, Case(rows, sites, [pairs]))
    expected = gradient_in(model, terms["policy"] + alpha * terms["sdpo"] + beta * terms["replay"])
    assert relative(first_step(trainer), expected) < 1e-5


def test_the_ratio_of_channel_1_is_bounded_where_trl_does_not(start, samples, tiny_tokens, tmp_path):
    clip, taken = 1.5, samples[:8]
    trainer = trainer_of(
        AsyncComposerTrainer, start, samples, tmp_path, tiny_tokens, rows=8, grpo=GrpoSettings(importance_clip=clip)
    )
    found, model = first_step(trainer), double_model(start)
    expected = gradient_in(model, policy_term(model, taken, clip))
    assert relative(gradient_in(model, policy_term(model, taken)), expected) > 1e-2
    assert relative(found, expected) < 1e-4
    (logged,) = [entry for entry in trainer.state.log_history if "sampling/truncated" in entry]
    assert 0 < logged["sampling/truncated"] < 1


def test_how_far_sampler_and_trainer_are_apart_is_logged(start, samples, tiny_tokens, tmp_path):
    trainer = trainer_of(AsyncComposerTrainer, start, samples, tmp_path, tiny_tokens, rows=4)
    trainer.train()
    (logged,) = [entry for entry in trainer.state.log_history if "sampling/mismatch_mean" in entry]
    model, apart = double_model(start), []
    for sample in samples[:4]:
        logits = plain_logits(model, sample.input_ids)[:-1]
        logprobs = logits.log_softmax(-1).gather(-1, torch.tensor(sample.input_ids)[1:, None])[:, 0]
        own = torch.tensor(sample.completion_mask)[1:].bool()
        apart += (logprobs - torch.tensor(sample.old_log_probs).double()[1:])[own].abs().tolist()
    assert logged["sampling/mismatch_mean"] == pytest.approx(sum(apart) / len(apart), rel=1e-4)
    assert logged["sampling/mismatch_max"] == pytest.approx(max(apart), rel=1e-4)


def test_rollouts_that_are_too_old_are_thrown_away(start, samples, tiny_tokens, tmp_path):
    old = copy.deepcopy(samples[:4])
    for sample in old:
        sample.model_version = -30
    trainer = trainer_of(AsyncComposerTrainer, start, old + samples, tmp_path, tiny_tokens, rows=4)
    trainer.train()
    (logged,) = [entry for entry in trainer.state.log_history if "sample/dropped_stale_total" in entry]
    assert logged["sample/dropped_stale_total"] == 4
    assert trainer.rollout_queue.qsize() <= len(samples) - 4


@pytest.mark.parametrize(
    ("backend", "sections", "sentence"),
    [
        ("trl_async", {"sampling": {"server": "http://a"}, "hardware": {"lora_rank": 4}}, "adapters were not tried"),
        ("trl", {"sampling": {"max_staleness": 1}}, "sampling.max_staleness does nothing with --backend trl"),
        ("trl", {"channels": [{"name": "grpo", "importance_clip": 3.0}]}, "importance_clip of the channel grpo"),
        ("trl_async", {}, "plays on a server"),
        ("trl_async", {"sampling": {"server": "http://a"}, "training": {"reference_kl": 0.1}}, "training.reference_kl"),
        ("trl_async", {"sampling": {"server": "http://a"}, "monitor": {"enabled": True}}, "monitor.enabled"),
    ],
)
def test_what_a_backend_does_not_do_is_refused(backend, sections, sentence):
    with pytest.raises(UsageError, match=sentence):
        refuse_for_backend(Config.model_validate(sections), backend, 1)


def test_a_server_is_given_up_by_whoever_asks_it_before_the_players_count_as_dead(tmp_path):
    sampling = {"server": "http://a", "timeout_s": 700.0, "max_attempts": 3}
    made = train_async.async_config(
        Config.model_validate({"sampling": sampling}), tmp_path, EpisodeLimits(concurrency=1, step_timeout_s=50.0)
    )
    assert made.heartbeat_stale_after_s > 3 * 700 + 2 * 50


def test_an_interrupt_says_that_the_steps_are_lost_and_a_long_step_what_waits(
    make_model, tiny_tokens, tmp_path, monkeypatch
):
    class Interrupted:
        """In place of the trainer: in its third step, until the long step was told of."""

        def __init__(self, **options):
            self.state = SimpleNamespace(global_step=2)

        def remove_callback(self, callback):
            pass

        def train(self):
            ends = time.monotonic() + 5
            while long not in notes.said and time.monotonic() < ends:
                time.sleep(0.01)
            raise KeyboardInterrupt

    notes, long = Lines(), "2/4 step 3, 1 finished rollouts wait in the queue"
    played = EpisodeQueue.__new__(EpisodeQueue)  # its sampler would ask a server
    played.rollout_buffer = queue.Queue()
    played.rollout_buffer.put("a rollout")
    monkeypatch.setattr(train_async, "episode_queue", lambda *_: played)
    monkeypatch.setattr(train_async, "AsyncComposerTrainer", Interrupted)
    monkeypatch.setattr(running, "SECONDS_OF_SILENCE", 0.01)
    model = make_model(len(tiny_tokens.tokenizer), seed=2)
    sections = {"sampling": {"server": "http://a", "weight_transfer": "disk"}, "training": {"steps": 4}}
    config = Config.model_validate(sections)
    with open_environment(config) as environment, pytest.raises(KeyboardInterrupt):
        train_async.train(Policy("tiny", model, tiny_tokens), config, environment, [], tmp_path / "training", notes)
    assert long in notes.said
    assert notes.said[-1] == "2 steps finished, 0 kept: this backend makes no checkpoints"


def test_weights_that_hardly_move_are_told_of_here_too(make_model, tiny_tokens, tmp_path, monkeypatch):
    class Made(Exception):
        pass

    def stop_here(**options):
        raise Made

    monkeypatch.setattr(train_async, "AsyncComposerTrainer", stop_here)
    monkeypatch.setattr(train_async, "episode_queue", lambda *_: None)
    model = make_model(len(tiny_tokens.tokenizer), seed=2).to(torch.bfloat16)
    config = Config.model_validate(
        {
            "sampling": {"server": "http://a", "weight_transfer": "disk"},
            "hardware": {"weights": "bfloat16"},
            "training": {"learning_rate": 1e-6, "steps": 1},
        }
    )
    notes = Notes()
    with open_environment(config) as environment, pytest.raises(Made):
        train_async.train(Policy("tiny", model, tiny_tokens), config, environment, [], tmp_path / "training", notes)
    assert any("of the entries can move" in note for note in notes.said)
