"""All channels over stored traces, without rollouts; ingested sessions rendered by the policy's template."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from composer_replication.config import Config, HardwareConfig, TrainingConfig
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.errors import UsageError
from composer_replication.hints import write_hints
from composer_replication.objective import GrpoSettings, SdpoSettings, TrdpoSettings
from composer_replication.progress import Silent
from composer_replication.records import Source, Trace, Turn
from composer_replication.sites import find_sites
from composer_replication.training import ComposerDataCollator
from composer_replication.training.planning.refusals import refuse_for_backend, refuse_what_would_do_nothing
from composer_replication.training.stored import untaught
from composer_replication.training.stored.examples import PairTokens, SiteTokens, TraceExample, build_examples
from composer_replication.training.stored.policy_gradient import StoredPolicy, advantages, why_no_advantage
from composer_replication.training.stored.sessions import RenderedSessions
from composer_replication.training.train import train
from tests.unit.test_checkpoints import Interrupted, StopsAt
from tests.unit.test_replay import failed_trace

CONFIG = Config(
    seed=5,
    training=TrainingConfig(rollouts=False, steps=4, traces_per_step=2, learning_rate=1e-2, checkpoint_every=2),
    channels=(GrpoSettings(), SdpoSettings(weight=1.0, require_disfavour=False), TrdpoSettings(weight=1.0)),
)


def test_training_needs_no_rollouts_and_can_go_on(new_policy, examples, tmp_path):
    policy = new_policy()
    start = [parameter.detach().clone() for parameter in policy.model.parameters()]
    steps = train(policy, CONFIG, open_toolbox(CONFIG), examples, tmp_path / "straight", Silent())
    assert [step.step for step in steps] == [1, 2, 3, 4]
    assert all(step.reward is None and step.channels.keys() == {"sdpo", "replay"} for step in steps)
    assert not all(map(torch.equal, start, policy.model.parameters()))
    with pytest.raises(Interrupted):
        train(new_policy(), CONFIG, open_toolbox(CONFIG), examples, tmp_path / "stopped", StopsAt(3))
    resumed = new_policy()
    assert train(resumed, CONFIG, open_toolbox(CONFIG), examples, tmp_path / "stopped", Silent()) == steps
    assert all(map(torch.equal, policy.model.parameters(), resumed.model.parameters()))


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def shifts(folder):
    return {
        line["step"]: line["untaught/shift"] for line in lines_of(folder / "metrics.jsonl") if "untaught/shift" in line
    }


def test_turns_that_no_site_is_about_are_compared_with_the_start(new_policy, examples, tmp_path):
    examples = [replace(example, sites=example.sites[:1]) for example in examples]
    config = CONFIG.model_copy(update={"training": CONFIG.training.model_copy(update={"steps": 6})})
    train(new_policy(), config, open_toolbox(config), examples, tmp_path / "straight", Silent())
    with pytest.raises(Interrupted):
        train(new_policy(), config, open_toolbox(config), examples, tmp_path / "stopped", StopsAt(3))
    train(new_policy(), config, open_toolbox(config), examples, tmp_path / "stopped", Silent())
    found = shifts(tmp_path / "straight")
    assert found.keys() == {3, 5} and all(found.values())
    assert shifts(tmp_path / "stopped") == found


def test_a_policy_that_unlearns_these_turns_raises_an_alarm(new_policy, tmp_path):
    """Preferences push down what a trace has outside of its sites."""
    ids = [3, *range(5, 25)]
    pair = PairTokens(ids[:11], chosen=[7, 3], rejected=ids[11:])
    example = TraceExample(ids, [0] * 11 + [1] * 10, 0.0, pairs=[pair], trace_id="t")
    training = CONFIG.training.model_copy(update={"learning_rate": 0.1, "rate_warmup_steps": 0})
    config = CONFIG.model_copy(update={"training": training})
    train(new_policy(), config, open_toolbox(config), [example] * 2, tmp_path / "training", Silent())
    (alarm,) = [line for line in lines_of(tmp_path / "training" / "alarms.jsonl") if line["name"] == "untaught_turns"]
    assert alarm["value"] > alarm["threshold"] and f"lost {alarm['value']:.2f} nats per token" in alarm["sentence"]


def test_what_is_read_again_was_written_by_the_actor_outside_of_all_sites(new_policy):
    ids = list(range(5, 45))
    own = [0] * 8 + [1] * 6 + [0] * 4 + [1] * 10 + [0] * 2 + [1] * 3 + [0] * 7
    first = TraceExample(ids, own, 0.0, sites=[SiteTokens(8, 14, [])])
    site_alone = replace(first, response_mask=own[:14] + [0] * 26)
    short_alone = replace(first, response_mask=[0] * 30 + own[30:])
    asked = []

    def logprob(model, context, turn):
        asked.append((list(context), list(turn)))
        return -10.0 * len(asked)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(untaught, "turn_logprob", logprob)
        turns = untaught.UntaughtTurns(new_policy().model, [site_alone, first, short_alone])
        assert asked == [(ids[:18], ids[18:28])]
        shifts = [turns.shift(new_policy().model, step, steps=100) for step in (0, 4, 5, 5, 6, 10)]
        assert shifts == [None, None, -1.0, None, None, -2.0]
        assert untaught.UntaughtTurns(new_policy().model, [site_alone]).shift(None, step=5, steps=100) is None


def test_turns_to_read_again_are_few_and_from_all_over_the_data(new_policy):
    examples = [TraceExample([number] * 600, [0] * 300 + [1] * 300, 0.0) for number in range(40)]
    with pytest.MonkeyPatch.context() as patched:
        asked = []
        patched.setattr(untaught, "turn_logprob", lambda model, context, turn: asked.append((context, turn)) or 0.0)
        untaught.UntaughtTurns(new_policy().model, examples)
    assert [context[0] for context, _ in asked] == list(range(0, 40, 5))
    assert {(len(context), len(turn)) for context, turn in asked} == {(untaught.CONTEXT_TOKENS, untaught.MOST_TOKENS)}


TEACHERS = {
    "live": lambda start, now: now,
    "frozen": lambda start, now: start,
    "ema": lambda start, now: start.lerp(now, 0.5),
}
"""What each makes of the weights at the start and after the first step."""


def with_sdpo(**settings):
    training = CONFIG.training.model_copy(update={"steps": 2, "rate_warmup_steps": 0})
    return Config(seed=5, training=training, channels=(SdpoSettings(weight=1.0, require_disfavour=False, **settings),))


@pytest.mark.parametrize("kind", TEACHERS)
def test_the_teacher_of_stored_traces_is_the_one_that_was_asked_for(new_policy, examples, tmp_path, kind):
    config = with_sdpo(teacher=kind, **({"ema_rate": 0.5} if kind == "ema" else {}))
    after_one = config.model_copy(update={"training": config.training.model_copy(update={"steps": 1})})
    some, policy = examples[:1], new_policy()
    train(policy, after_one, open_toolbox(config), some, tmp_path / "one", Silent())
    steps = train(new_policy(), config, open_toolbox(config), some, tmp_path / "two", Silent())
    teacher = new_policy().model
    with torch.no_grad():
        for start, now in zip(teacher.parameters(), policy.model.parameters(), strict=True):
            start.copy_(TEACHERS[kind](start, now))
    assert steps[1].channels["sdpo"] == pytest.approx(divergence(policy.model, teacher, some[0]), rel=1e-4)


def divergence(student, teacher, example):
    """The mean over sites of the mean Jensen-Shannon divergence over their tokens, from whole distributions."""
    found = []
    for site in example.sites:
        turn = example.ids[site.start : site.end]
        p, q = (
            model(torch.tensor([[*context, *turn]])).logits[0, len(context) - 1 : -1].log_softmax(-1)
            for model, context in ((student, example.ids[: site.start]), (teacher, site.teacher_context))
        )
        middle = torch.stack([p, q]).logsumexp(0) - math.log(2)
        found.append(sum((one.exp() * (one - middle)).sum(-1) / 2 for one in (p, q)).mean().item())
    return sum(found) / len(found)


def test_a_mixture_of_logits_teaches_on_stored_traces(new_policy, examples, tmp_path):
    losses = {}
    for name, settings in {
        "start": {"teacher": "frozen"},
        "policy": {"teacher": "live"},
        "mixed to the start": {"teacher": "trust_region", "trust_region_rate": 0.0},
        "mixed to the policy": {"teacher": "trust_region", "trust_region_rate": 1.0},
    }.items():
        config = with_sdpo(**settings)
        steps = train(new_policy(), config, open_toolbox(config), examples, tmp_path / name, Silent())
        losses[name] = steps[1].channels["sdpo"]
    assert losses["mixed to the start"] == pytest.approx(losses["start"], rel=1e-5)
    assert losses["mixed to the policy"] == pytest.approx(losses["policy"], rel=1e-5)
    assert losses["start"] != pytest.approx(losses["policy"], rel=1e-2)


def test_a_teacher_goes_on_where_it_stood(new_policy, examples, tmp_path):
    settings = with_sdpo(teacher="ema", ema_rate=0.5)
    config = settings.model_copy(update={"training": settings.training.model_copy(update={"steps": 4})})
    straight = train(new_policy(), config, open_toolbox(config), examples, tmp_path / "straight", Silent())
    with pytest.raises(Interrupted):
        train(new_policy(), config, open_toolbox(config), examples, tmp_path / "stopped", StopsAt(3))
    assert train(new_policy(), config, open_toolbox(config), examples, tmp_path / "stopped", Silent()) == straight


@pytest.mark.parametrize(("rising", "moves"), [(3, False), (0, True)])
def test_without_a_warm_up_of_the_rate_the_first_step_moves_weights(new_policy, examples, tmp_path, rising, moves):
    training = CONFIG.training.model_copy(update={"steps": 1, "rate_warmup_steps": rising})
    config, policy = CONFIG.model_copy(update={"training": training}), new_policy()
    start = [parameter.detach().clone() for parameter in policy.model.parameters()]
    train(policy, config, open_toolbox(config), examples, tmp_path, Silent())
    assert moves != all(map(torch.equal, start, policy.model.parameters()))


@pytest.mark.parametrize(
    ("training", "sdpo", "message"),
    [
        ({}, {"sham": True}, "sham of the channel sdpo does nothing without source"),
        ({}, {"kinds_off": ["timeout"]}, "kinds_off of the channel sdpo"),
        ({"rollouts": False}, {"source": "rollouts"}, "source of the channel sdpo does nothing without training.rollo"),
        ({"rollouts": False, "reference_kl": 0.1}, {}, "reference_kl"),
        ({"rollouts": False, "prompts_per_step": 4}, {}, "prompts_per_step"),
        ({"rollouts": False, "gradient_ratio_cap": 0.9}, {}, "gradient_ratio_cap"),
        ({"rollouts": False}, {"teacher": "frozen", "ema_rate": 0.5}, 'ema_rate .* nothing without teacher = "ema"'),
        ({}, {"trust_region_rate": 0.5}, 'trust_region_rate .* nothing without teacher = "trust_region"'),
    ],
)
def test_a_setting_that_would_do_nothing_is_refused(new_policy, examples, tmp_path, training, sdpo, message):
    channels = [{"name": "grpo"}, {"name": "sdpo", **sdpo}]
    with pytest.raises(UsageError, match=message):
        config = Config.model_validate({"training": training, "channels": channels})
        train(new_policy(), config, open_toolbox(config), examples, tmp_path, Silent())


def test_rollouts_per_device_are_refused_without_rollouts(new_policy, examples, tmp_path):
    config = CONFIG.model_copy(update={"hardware": HardwareConfig(rollouts_per_device=2)})
    with pytest.raises(UsageError, match=r"hardware\.rollouts_per_device does nothing"):
        train(new_policy(), config, open_toolbox(config), examples, tmp_path, Silent())


def test_rollouts_without_a_policy_gradient_are_refused(new_policy, examples, tmp_path):
    config = Config(channels=(SdpoSettings(),))
    with pytest.raises(UsageError, match="needs the channel grpo"):
        train(new_policy(), config, open_toolbox(config), examples, tmp_path, Silent())


def test_distillation_on_rollouts_needs_no_policy_gradient():
    alone = Config(channels=(GrpoSettings(weight=0.0), SdpoSettings(source="rollouts", teacher="live")))
    refuse_what_would_do_nothing(alone)
    with pytest.raises(UsageError, match="the channel grpo without a weight"):
        refuse_for_backend(alone, "verl", 1)


@pytest.mark.parametrize("rollouts", [False, True])
def test_adapters_are_merged_into_the_policy(new_policy, examples, tmp_path, rollouts):
    pytest.importorskip("peft")
    played = {"prompts_per_step": 2, "group_size": 2} if rollouts else {}
    training = CONFIG.training.model_copy(update={"rollouts": rollouts, "steps": 2, "max_turn_tokens": 6, **played})
    config = CONFIG.model_copy(update={"training": training, "hardware": HardwareConfig(lora_rank=2)})
    policy = new_policy()
    start = {name: parameter.detach().clone() for name, parameter in policy.model.named_parameters()}
    train(policy, config, open_toolbox(config), examples, tmp_path, Silent())
    after = dict(policy.model.named_parameters())
    assert after.keys() == start.keys()
    changed = {name.split(".")[-2] for name in start if not torch.equal(start[name], after[name])}
    assert "q_proj" in changed
    assert not changed & {"embed_tokens", "norm", "input_layernorm"}


def test_nothing_to_train_on_is_refused(new_policy, tmp_path):
    with pytest.raises(UsageError, match="no stored trace"):
        train(new_policy(), CONFIG, open_toolbox(CONFIG), [], tmp_path, Silent())


def outcome(task_id, reward):
    return failed_trace(0).model_copy(update={"task_id": task_id, "outcome": reward})


def test_advantages_compare_traces_of_one_task():
    found = advantages([outcome("a", 1.0), outcome("a", 0.0), outcome("b", 1.0), outcome("c", 1.0), outcome("c", 1.0)])
    assert found[0] == pytest.approx(-found[1], rel=1e-3)
    assert found[0] > 0.5
    assert found[2:] == [0.0, 0.0, 0.0]


def test_the_policy_gradient_is_clipped_and_its_sign_is_the_advantages(new_policy, examples):
    model = new_policy().model
    example = replace(examples[0], sites=[], pairs=[], advantage=1.0, logprobs=[-20.0] * len(examples[0].ids))
    batch = ComposerDataCollator(0)([example])
    assert StoredPolicy().loss(model, batch).item() == pytest.approx(-1.28, abs=1e-5)
    worse = {**batch, "advantages": -batch["advantages"]}
    assert StoredPolicy().loss(model, worse).item() > 1.28
    idle = {**batch, "advantages": torch.zeros(1)}
    assert StoredPolicy().loss(model, idle).item() == 0
    ids = batch["input_ids"]
    with torch.no_grad():
        logprobs = model(ids).logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    near = {**batch, "behaviour_logps": torch.cat([torch.zeros(1, 1), logprobs], 1)}
    assert StoredPolicy().loss(model, near).item() == pytest.approx(-1.0, abs=1e-4)


def render_examples(policy, traces, sites, hints, pairs, max_tokens):
    sessions = RenderedSessions(policy, max_tokens)
    return build_examples(policy.tokens, [], sites, hints, pairs, max_tokens, traces=traces, sessions=sessions)


def test_sites_of_ingested_traces_are_rendered(new_policy):
    policy, trace = new_policy(), failed_trace(0)
    sites = {site.site_id: site for site in find_sites(trace)}
    hints = write_hints({trace.trace_id: trace}, sites.values(), 96).hints
    assert hints
    examples, skipped = render_examples(policy, [trace], sites, hints, [], 4096)
    assert sum(len(example.sites) for example in examples) + sum(skipped.values()) == len(hints)
    for example in examples:
        for site in example.sites:
            assert example.ids[site.start : site.end][-1] == policy.tokens.end_of_turn_id
            assert len(site.teacher_context) > site.start
            assert example.response_mask[site.start - 1 : site.end] == [0] + [1] * (site.end - site.start)
    short, skipped = render_examples(policy, [trace], sites, hints, [], 8)
    assert not short
    assert skipped == {"site_too_long": len(hints)}


def test_words_that_the_vocabulary_lacks_are_not_trained_on(new_policy):
    strange = Trace(
        trace_id="t", source=Source(agent="x"), turns=(Turn(start=1, end=3, source_model="m", family="m"),),
        messages=(
            {"role": "user", "content": "Zeichenkette öäü"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "run", "arguments": "{}"}}]},
            {"role": "tool", "content": "error: tool_not_found: no tool run", "tool_call_id": "c", "is_error": True},
        ),
    )  # fmt: skip
    sites = {site.site_id: site for site in find_sites(strange)}
    hints = write_hints({"t": strange}, sites.values(), 96).hints
    assert hints
    examples, skipped = render_examples(new_policy(), [strange], sites, hints, [], 4096)
    assert not examples
    assert skipped["site_unknown_tokens"] == len(hints)


def test_why_channel_1_has_nothing_to_learn():
    foreign, own = TraceExample([1], [1], 1.0), TraceExample([1], [1], 1.0, logprobs=[-1.0])
    assert "no token ids" in why_no_advantage([foreign]) and "--model" in why_no_advantage([])
    assert "tried twice" in why_no_advantage([foreign, own])
    assert why_no_advantage([own, TraceExample([1], [1], 1.0, advantage=1.0, logprobs=[-1.0])]) == ""
