"""All channels over stored traces, without rollouts; ingested sessions rendered by the policy's template."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import trl

from composer_replication.config import Config, HardwareConfig, TrainingConfig
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.errors import UsageError
from composer_replication.hints import write_hints
from composer_replication.objective import GrpoSettings, SdpoSettings, TrdpoSettings
from composer_replication.progress import Silent
from composer_replication.records import Source, Trace, Turn
from composer_replication.sites import find_sites
from composer_replication.training import ComposerDataCollator
from composer_replication.training.models.loading import Policy
from composer_replication.training.models.states import turn_logprob
from composer_replication.training.models.tokens import ChatTokens
from composer_replication.training.planning.refusals import refuse_for_backend, refuse_what_would_do_nothing
from composer_replication.training.stored.examples import (
    REREAD_CONTEXT_TOKENS,
    PairTokens,
    RereadTurn,
    TraceExample,
    build_examples,
)
from composer_replication.training.stored.policy_gradient import StoredPolicy, advantages, why_no_advantage
from composer_replication.training.stored.reread import RereadTurns
from composer_replication.training.stored.sessions import RenderedSessions
from composer_replication.training.train import train
from tests.notes import Lines
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
    return {line["step"]: line["reread/shift"] for line in lines_of(folder / "metrics.jsonl") if "reread/shift" in line}


def with_turn(example, context, ids):
    return replace(example, reread=RereadTurn(list(context), list(ids)))


def test_turns_that_nothing_teaches_are_compared_with_the_start(new_policy, examples, tmp_path):
    examples = [with_turn(example, example.ids[:9], example.ids[9:15]) for example in examples]
    config = CONFIG.model_copy(update={"training": CONFIG.training.model_copy(update={"steps": 5})})
    policy = new_policy()
    turns = {example.trace_id: example.reread for example in examples}.values()

    def per_token(model):
        found = [turn_logprob(Policy("", model, policy.tokens), turn.context, turn.ids) for turn in turns]
        return sum(found) / sum(len(turn.ids) for turn in turns)

    start = per_token(policy.model)
    train(policy, config, open_toolbox(config), examples, tmp_path / "straight", Silent())
    found = shifts(tmp_path / "straight")
    assert found.keys() == {2, 4, 5} and len(turns) > 1
    assert found[5] == pytest.approx(per_token(policy.model) - start, rel=1e-4) and found[5] != found[4]
    with pytest.raises(Interrupted):
        train(new_policy(), config, open_toolbox(config), examples, tmp_path / "stopped", StopsAt(3))
    train(new_policy(), config, open_toolbox(config), examples, tmp_path / "stopped", Silent())
    assert shifts(tmp_path / "stopped") == found


def test_a_policy_that_unlearns_these_turns_raises_an_alarm(new_policy, tmp_path):
    """Preferences push down what another trace says in the same place."""
    ids = [3, *range(5, 25)]
    pair = PairTokens(ids[:11], chosen=[7, 3], rejected=ids[11:])
    example = TraceExample(ids, [0] * 11 + [1] * 10, 0.0, pairs=[pair], trace_id="t")
    training = CONFIG.training.model_copy(update={"learning_rate": 0.1, "rate_warmup_steps": 0})
    config = CONFIG.model_copy(update={"training": training})
    told = Lines()
    train(new_policy(), config, open_toolbox(config), [example] * 2, tmp_path / "alone", told)
    assert any("there is no turn that nothing teaches" in line for line in told.said)
    assert not shifts(tmp_path / "alone")
    other = with_turn(replace(example, pairs=[], trace_id="u"), ids[:11], ids[11:])
    train(new_policy(), config, open_toolbox(config), [example, other], tmp_path / "training", Silent())
    (alarm,) = [line for line in lines_of(tmp_path / "training" / "alarms.jsonl") if line["name"] == "unlearning"]
    assert alarm["value"] > alarm["threshold"] and f"lost {alarm['value']:.2f} nats per token" in alarm["sentence"]


class Counted(list):
    """Rows that may lie on a disk."""

    taken = 0

    def __getitem__(self, place):
        self.taken += 1
        return super().__getitem__(place)


def test_turns_to_read_again_are_few_and_from_all_over_the_data(new_policy):
    rows = [TraceExample([5] * 9, [0] * 9, 0.0, trace_id=f"t{number}") for number in range(10_000)]
    odd = [with_turn(row, [5], [number]) if number % 2 else row for number, row in enumerate(rows[:200])]
    model = new_policy().model
    assert [turn.ids[0] for turn in RereadTurns(model, odd, print).turns] == [1, 25, 51, 75, 101, 125, 151, 175]
    assert len(RereadTurns(model, [replace(row, trace_id="t") for row in odd], print).turns) == 1
    without = Counted(rows)
    assert RereadTurns(model, without, print).turns == [] and without.taken < 200


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


def test_the_turn_to_read_again_is_a_good_one_of_the_session_also_behind_a_window(chatml_tokenizer):
    tokenizer, short = chatml_tokenizer("<|pad|>"), failed_trace(0)
    tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates" / "qwen2_5.jinja").read_text()
    opening, bad, good = short.messages[:2], short.messages[2:4], short.messages[6:8]
    messages, turns = list(opening), []
    for number in range(8):
        first, second = bad if number in (0, 7) else good
        call = {**first["tool_calls"][0], "id": f"c{number}"}
        turns.append(short.turns[0].model_copy(update={"start": len(messages), "end": len(messages) + 2}))
        messages += [{**first, "tool_calls": [call]}, {**second, "tool_call_id": f"c{number}"}]
    trace = short.model_copy(update={"messages": tuple(messages), "turns": tuple(turns)})
    sites = {site.site_id: site for site in find_sites(trace)}
    (hint,) = (one for one in write_hints({trace.trace_id: trace}, sites.values(), 96).hints if sites[one.site_id].turn)
    policy = Policy("qwen", None, ChatTokens(tokenizer))
    (whole,), _ = render_examples(policy, [trace], sites, [hint], [], 4096)
    (window,), _ = render_examples(policy, [trace], sites, [hint], [], len(whole.ids) - 100)
    assert (whole.cut.turns, window.cut.turns > 0) == (0, True)
    for example in (whole, window):
        said, before = map(tokenizer.decode, (example.reread.ids, example.reread.context))
        assert said.startswith("<tool_call>") and "read_file" in said and "nope" not in said
        assert len(example.reread.context) == REREAD_CONTEXT_TOKENS and before.endswith("assistant\n")


def test_what_is_taught_in_any_way_is_not_read_again(stored, tiny_tokens):
    def reread(hints, pairs, advantage=0.0):
        made = dict.fromkeys((row.trace_id for row in stored.rows), advantage)
        found, _ = build_examples(tiny_tokens, stored.rows, stored.sites, hints, pairs, 2048, made)
        return {example.trace_id: example.reread for example in found}

    two_errors, unparsed, one_error = stored.rows
    kept = reread(stored.hints, stored.pairs, 0.5)
    assert kept[unparsed.trace_id] is None
    for row in (two_errors, one_error):
        start, end = row.turn_spans[-1]
        assert kept[row.trace_id].ids == list(row.ids[start:end]) and kept[row.trace_id].context[-9:] == list(
            row.ids[start - 9 : start]
        )
    assert reread([], [], 0.5) == kept, "an error without a hint went wrong all the same"
    last = [pair.model_copy(update={"turn": 1}) for pair in stored.pairs if pair.trace_id == one_error.trace_id]
    assert reread(stored.hints, last, 0.5)[one_error.trace_id] is None
    assert not any(reread(stored.hints, stored.pairs, -0.5).values())


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
