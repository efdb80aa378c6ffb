"""Options of channel 2, each against a plain float64 computation per site: averaged and mixed teachers, importance."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from trl import GRPOTrainer

from composer_replication.config import Config, ToolboxConfig
from composer_replication.environments.toolbox import Call, ToolboxEpisode, make_task, next_call, trace_of
from composer_replication.errors import UsageError
from composer_replication.hints import SiblingHintGenerator
from composer_replication.losses import generalized_jsd_loss
from composer_replication.objective import SdpoSettings
from composer_replication.training import ComposerReplicationTrainer
from composer_replication.training.lessons.distillation import SiteStates, distil
from composer_replication.training.lessons.online_sites import TraceHinter
from composer_replication.training.lessons.self_teacher import mixed_head, mixed_states
from composer_replication.training.models.states import Head
from composer_replication.training.planning.refusals import refuse_what_would_do_nothing
from tests.unit.test_online import every_site, first_gradient, trainer_of

ALPHA = 0.7


def turn_logits(model, context, turn):
    return model(torch.tensor([[*context, *turn]])).logits[0, -len(turn) - 1 : -1]


def reference_gradient(model, batches, teacher_logits, weigh=lambda student, site: 1.0):
    """Of the mean over sites of the mean over tokens, in the model's own precision."""
    losses = []
    for batch in batches:
        for row, sites in enumerate(batch["sdpo_sites"]):
            prompt = batch["prompt_ids"][row][batch["prompt_mask"][row].bool()].tolist()
            completion = batch["completion_ids"][row].tolist()
            for site in sites:
                student = turn_logits(model, prompt + completion[: site.start], site.turn_ids)
                with torch.no_grad():
                    teacher, weights = teacher_logits(site), weigh(student, site)
                losses.append((generalized_jsd_loss(student, teacher, reduction="none") * weights).mean())
    term = ALPHA * sum(losses) / len(losses)
    return torch.cat([grad.flatten() for grad in torch.autograd.grad(term, list(model.parameters()))])


def added_gradient(new_policy, folder, prepare=lambda trainer: None, config=None, **settings):
    """What channel 2 adds in the first step, and the batches it was made from."""
    found = []
    for kind, options in (
        (GRPOTrainer, {}),
        (ComposerReplicationTrainer, {**every_site(ALPHA, **settings), "hinter": TraceHinter()}),
    ):
        trainer = trainer_of(kind, new_policy(), folder / kind.__name__, config=config, **options)
        prepare(trainer)
        gradient, batches = first_gradient(trainer)
        found.append(gradient)
    return found[1] - found[0], batches


def starts_elsewhere(other):
    def prepare(trainer):
        if hasattr(trainer, "teacher"):
            trainer.teacher.begin(other.model)

    return prepare


def relative(found, expected):
    assert expected.norm() > 1e-3
    return ((found - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("teacher", ["ema", "trust_region"])
def test_a_teacher_with_other_weights_is_that_of_a_plain_computation(new_policy, tmp_path, teacher):
    rate = 0.3
    prepare = starts_elsewhere(new_policy(seed=9))
    found, batches = added_gradient(new_policy, tmp_path, prepare, teacher=teacher, trust_region_rate=rate)
    model, other = new_policy().model.double(), new_policy(seed=9).model.double()

    def teacher_logits(site):
        start = turn_logits(other, site.teacher_context, site.turn_ids)
        if teacher == "ema":
            return start
        return torch.lerp(start, turn_logits(model, site.teacher_context, site.turn_ids), rate)

    assert relative(found, reference_gradient(model, batches, teacher_logits)) < 1e-4


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_tokens_weigh_as_much_as_the_policy_finds_them_likelier_up_to_the_clip(new_policy, tmp_path, temperature):
    clip = 1.2

    def prepare(trainer):
        play = trainer.rollout_func

        def sampled_by_another(prompts, trainer):
            made = play(prompts, trainer)
            moved = [[value + 0.4 * ((place % 3) - 1) for place, value in enumerate(row)] for row in made["logprobs"]]
            return {**made, "logprobs": moved}

        trainer.rollout_func = sampled_by_another

    config = {"temperature": temperature}
    found, batches = added_gradient(new_policy, tmp_path, prepare, config, teacher="live", importance_clip=clip)
    model, clipped = new_policy().model.double(), []

    def weigh(student, site):
        now = (student / temperature).log_softmax(-1).gather(-1, torch.tensor(site.turn_ids)[:, None])[:, 0]
        ratio = (now - torch.tensor(site.logprobs, dtype=torch.float64)).exp()
        clipped.extend((ratio > clip).tolist())
        return ratio.clamp(max=clip)

    def teacher_logits(site):
        return turn_logits(model, site.teacher_context, site.turn_ids)

    assert relative(found, reference_gradient(model, batches, teacher_logits, weigh)) < 1e-4
    assert any(clipped)
    assert not all(clipped)


def test_without_log_probabilities_there_is_nothing_to_weigh_by():
    from composer_replication.training.lessons.online_sites import OnlineSite
    from composer_replication.training.step.online import OnlineDistillation

    channel = OnlineDistillation(SdpoSettings(importance_clip=2.0), SimpleNamespace(device="cpu"), None)
    with pytest.raises(ValueError, match="needs rollouts with their log-probabilities"):
        channel._behaviour([OnlineSite(0, 1, "timeout", [1], [2])])


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("shares_head", [False, True])
def test_a_mixture_has_the_mixed_logits(has_bias, shares_head):
    torch.manual_seed(0)
    tokens, hidden, words, rate = 5, 4, 11, 0.3
    heads = [
        Head(torch.randn(words, hidden).double(), torch.randn(words).double() if has_bias else None, 0.5)
        for _ in range(2)
    ]
    heads[1] = heads[0] if shares_head else heads[1]
    states = [torch.randn(tokens, hidden).double() for _ in range(2)]

    def logits(state, head):
        product = state @ head.weight_VH.T
        return head.scale * (product if head.bias_V is None else product + head.bias_V)

    expected = torch.lerp(logits(states[0], heads[0]), logits(states[1], heads[1]), rate)
    made = mixed_states(*states, *heads, rate), mixed_head(*heads, rate)
    assert torch.allclose(logits(*made), expected, atol=1e-12)
    student, labels = torch.randn(tokens, hidden).double(), torch.arange(tokens)
    found = distil(
        SiteStates(student, made[0], labels, torch.tensor([2, 3])), heads[0], made[1],
        SdpoSettings(require_disfavour=False), 2,
    )  # fmt: skip
    each = generalized_jsd_loss(logits(student, heads[0]), expected, reduction="none")
    assert found.loss.item() == pytest.approx((each[:2].mean() + each[2:].mean()).item() / 2, rel=1e-7), (
        "weights are float32"
    )


# Siblings


def attempts():
    """One that succeeds and one that errs first, at the same task."""
    task = make_task(ToolboxConfig(call_mix=(1.0, 0.0, 0.0)), "train", 3)
    traces = []
    for sample, wrong in enumerate((False, True)):
        episode = ToolboxEpisode(task)
        if wrong:
            episode.step(Call("zero_gate", {"a": 1}).render())
        while not episode.finished and not wrong:
            call = next_call(episode)
            episode.step(call.render() if call else "done")
        traces.append(trace_of(episode, "policy", sample))
    return traces


@pytest.mark.parametrize(("sibling", "level"), [("outcome", "L1"), ("call", "L2")])
def test_another_attempt_of_the_same_step_can_be_the_hint(sibling, level):
    traces = attempts()
    assert traces[0].outcome == 1
    solved, erred = TraceHinter(max_leak_level=level, sibling=sibling)(traces)
    assert not solved
    (hinted,) = erred
    offline = SiblingHintGenerator(traces, show_call=sibling == "call")
    facts = {"trace_id": traces[1].trace_id, "turn": 0, "tool_name": "zero_gate"}
    assert hinted.hint == offline.generate(hinted.kind, facts)
    ((alone,),) = TraceHinter(max_leak_level=level, sibling=sibling)(traces[1:])
    ((plain,),) = TraceHinter()(traces[1:])
    assert alone == plain != hinted


# Settings


@pytest.mark.parametrize(
    ("sdpo", "sentence"),
    [
        ({"importance_clip": 2.0}, "importance_clip of the channel sdpo does nothing without source"),
        ({"sibling_hints": "outcome"}, "sibling_hints of the channel sdpo does nothing without source"),
        ({"source": "rollouts", "trust_region_rate": 0.2}, 'does nothing without teacher = "trust_region"'),
        ({"source": "rollouts", "teacher": "live", "ema_rate": 0.2}, 'does nothing without teacher = "ema"'),
        ({"source": "rollouts", "sibling_hints": "call"}, "shows the answer"),
    ],
)
def test_options_that_would_do_nothing_are_refused(sdpo, sentence):
    config = Config.model_validate({"channels": [{"name": "grpo"}, {"name": "sdpo", **sdpo}]})
    with pytest.raises(UsageError, match=sentence):
        refuse_what_would_do_nothing(config)
