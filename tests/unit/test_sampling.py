"""Batched sampling against a plain loop without padding or cache, and rollouts that keep what was sampled."""

from __future__ import annotations

import pytest
import torch

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox import Call, ToolboxEpisode, make_task, next_call
from composer_replication.environments.toolbox.environment import ToolboxEnvironment
from composer_replication.training.rollouts.playing import roll_out
from composer_replication.training.rollouts.sampling import sample_turns

VOCABULARY = 40
PAD = 0
NEVER = VOCABULARY + 1
CONTEXTS = [[5], [7, 8, 9, 10, 11, 12, 13], [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], [0, 0, 21, 0]]


@pytest.fixture(scope="module")
def model(make_model):
    return make_model(VOCABULARY, seed=3)


@torch.no_grad()
def next_logits(model, ids):
    return model(torch.tensor([ids]), use_cache=False).logits[0, -1]


def plain_greedy(model, context, length, stop=NEVER):
    ids = list(context)
    while len(ids) < len(context) + length and (len(ids) == len(context) or ids[-1] != stop):
        ids.append(int(next_logits(model, ids).argmax()))
    return ids[len(context) :]


def sample(model, contexts, *, stop=NEVER, pad=PAD, length=10, temperature=0.0, seed=0, on_turn=None):
    return sample_turns(
        model,
        contexts,
        end_of_turn_id=stop,
        pad_id=pad,
        max_new_tokens=length,
        temperature=temperature,
        generator=torch.Generator().manual_seed(seed),
        on_turn=on_turn,
    )


def test_greedy_rows_of_any_length_equal_a_plain_loop(model):
    turns = sample(model, CONTEXTS)
    assert [turn.ids for turn in turns] == [plain_greedy(model, context, 10) for context in CONTEXTS]
    assert len({tuple(turn.ids) for turn in turns}) == len(CONTEXTS)


@pytest.mark.parametrize("temperature", [0.0, 1.0, 0.6])
def test_logprobs_are_the_model_s_own(model, temperature):
    for context, turn in zip(CONTEXTS, sample(model, CONTEXTS, temperature=temperature), strict=True):
        assert len(turn.ids) == len(turn.logprobs) == 10
        for position, (token, logprob) in enumerate(zip(turn.ids, turn.logprobs, strict=True)):
            logits = next_logits(model, [*context, *turn.ids[:position]])
            expected = (logits / (temperature or 1.0)).log_softmax(-1)[token].item()
            assert logprob == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("pad", ["another token", "the end of turn"])
def test_each_row_stops_at_its_own_end_of_turn(model, pad):
    endless = [plain_greedy(model, context, 10) for context in CONTEXTS]
    stop = endless[1][3]
    turns = sample(model, CONTEXTS, stop=stop, pad=PAD if pad == "another token" else stop)
    assert [turn.ids for turn in turns] == [plain_greedy(model, context, 10, stop) for context in CONTEXTS]
    assert turns[1].ids == endless[1][: endless[1].index(stop) + 1]
    assert len({len(turn.ids) for turn in turns}) > 1
    assert all(len(turn.ids) == len(turn.logprobs) for turn in turns)
    assert all(stop not in turn.ids[:-1] for turn in turns)


@pytest.mark.parametrize("length", [1, 4])
def test_no_turn_is_longer_than_allowed(model, length):
    assert [len(turn.ids) for turn in sample(model, CONTEXTS, length=length)] == [length] * len(CONTEXTS)


def test_a_generator_decides_and_global_randomness_is_untouched(model):
    before = torch.get_rng_state()
    first = sample(model, CONTEXTS, temperature=1.0, seed=1)
    assert sample(model, CONTEXTS, temperature=1.0, seed=1) == first
    assert sample(model, CONTEXTS, temperature=1.0, seed=2) != first
    assert torch.equal(torch.get_rng_state(), before)


def test_samples_follow_the_distribution_at_the_temperature(model):
    copies = 4000
    turns = sample(model, [CONTEXTS[1]] * copies, length=1, temperature=2.0)
    expected = (next_logits(model, CONTEXTS[1]) / 2.0).softmax(-1)
    counts = torch.bincount(torch.tensor([turn.ids[0] for turn in turns]), minlength=VOCABULARY)
    error = (expected * (1 - expected) / copies).sqrt()
    assert ((counts / copies - expected).abs() < 5 * error + 1e-3).all()


def test_without_a_context_there_is_no_turn(model):
    assert sample(model, []) == []


def test_a_negative_temperature_is_refused(model):
    """It would turn the distribution over."""
    with pytest.raises(ValueError, match="must not be negative, and is -1"):
        sample(model, [CONTEXTS[1]], length=1, temperature=-1)


def oracle_turns(task):
    episode, texts = ToolboxEpisode(task), []
    while not episode.finished:
        call = next_call(episode)
        texts.append(call.render() if call else "done")
        episode.step(texts[-1])
    return texts


@pytest.fixture(scope="module")
def memorised(make_model, tiny_tokens, scripted):
    """A model that knows three episodes by heart: one solved, one with an error on the way, one that does not parse."""
    tasks = [task for task in (make_task(ToolboxConfig(), "train", i) for i in range(60)) if len(task.plan) == 2][:3]
    solved, stumbled, broken = (oracle_turns(task) for task in tasks)
    stumbled = [Call("zero_gate", {"a": 1}).render(), *stumbled]
    broken = [broken[0], broken[1][:9]]
    rows = []
    for task, texts in zip(tasks, (solved, stumbled, broken), strict=True):
        rollout = scripted(tiny_tokens, task, texts)
        rows.append((torch.tensor([rollout.prompt_ids + rollout.completion_ids]), len(rollout.prompt_ids)))
    model = make_model(len(tiny_tokens.tokenizer), hidden=64).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(60):
        for ids, prompt in rows:
            labels = ids.clone()
            labels[:, :prompt] = -100
            model(ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval(), tasks, [solved, stumbled, broken]


@pytest.fixture(scope="module")
def rollouts(memorised, tiny_tokens):
    model, tasks, _ = memorised
    return roll_out(model, tiny_tokens, ToolboxEnvironment(ToolboxConfig()), tasks, max_turn_tokens=40, temperature=0.0)


def test_rollouts_play_what_the_policy_writes(memorised, rollouts):
    assert [[turn.text for turn in rollout.episode.turns] for rollout in rollouts] == memorised[2]
    assert [rollout.episode.reward for rollout in rollouts] == [1.0, 1.0, 0.0]
    assert rollouts[1].episode.turns[0].error.kind == "tool_not_found"


def test_sampled_mask_marks_exactly_the_sampled_ids(rollouts, tiny_tokens):
    for rollout in rollouts:
        mask, expected = rollout.sampled_mask, []
        for number, turn in enumerate(rollout.episode.turns):
            expected += [1] * len(tiny_tokens.turn(turn.text))
            if number + 1 < len(rollout.episode.turns):
                expected += [0] * len(tiny_tokens.after_turn(turn.observation))
        assert mask == expected
        assert len(mask) == len(rollout.completion_ids) == len(rollout.logprobs)
        assert all((logprob != 0) == bool(sampled) for logprob, sampled in zip(rollout.logprobs, mask, strict=True))


def test_completions_decode_to_what_the_episode_saw(rollouts, tiny_tokens):
    for rollout in rollouts:
        messages = list(rollout.episode.task.messages)
        for (start, end), turn in zip(rollout.turn_spans, rollout.episode.turns, strict=True):
            assert tiny_tokens.text(rollout.completion_ids[start:end]) == turn.text
            before = rollout.prompt_ids + rollout.completion_ids[:start]
            assert before == tiny_tokens.prompt(messages)
            messages.append({"role": "assistant", "content": turn.text})
            messages.append({"role": "tool", "content": turn.observation or ""})


def test_rollout_logprobs_are_those_of_one_forward_over_the_whole_row(memorised, rollouts):
    for rollout in rollouts:
        ids = torch.tensor([rollout.prompt_ids + rollout.completion_ids])
        with torch.no_grad():
            logprobs = memorised[0](ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[:, 0]
        for position, (logprob, sampled) in enumerate(zip(rollout.logprobs, rollout.sampled_mask, strict=True)):
            if sampled:
                assert logprob == pytest.approx(logprobs[len(rollout.prompt_ids) + position - 1].item(), abs=1e-4)


def test_stored_rollouts_keep_ids_spans_and_reward(rollouts, tiny_tokens):
    for rollout in rollouts:
        (row,) = rollout.stored("trace", "tokenizer")
        assert len(row.ids) == len(row.logprobs)
        assert row.reward == rollout.episode.reward
        texts = [tiny_tokens.text(row.ids[start:end]) for start, end in row.turn_spans]
        assert texts == [turn.text for turn in rollout.episode.turns]


def test_an_unparsable_turn_stays_with_reward_zero(make_model, tiny_tokens):
    tasks = [make_task(ToolboxConfig(), "heldout", index) for index in range(6)]
    model = make_model(len(tiny_tokens.tokenizer))
    generator = torch.Generator().manual_seed(0)
    rollouts = roll_out(
        model,
        tiny_tokens,
        ToolboxEnvironment(ToolboxConfig()),
        tasks,
        max_turn_tokens=5,
        temperature=1.0,
        generator=generator,
    )
    assert [rollout.episode.task for rollout in rollouts] == tasks
    for rollout in rollouts:
        assert rollout.episode.reward == 0
        assert rollout.episode.turns[-1].error.kind == "json_decode"
        assert len(rollout.completion_ids) == sum(rollout.sampled_mask) > 0


def test_rollouts_do_not_depend_on_the_batch_size(memorised, rollouts, tiny_tokens):
    model, tasks, _ = memorised
    alone = roll_out(
        model,
        tiny_tokens,
        ToolboxEnvironment(ToolboxConfig()),
        tasks,
        max_turn_tokens=40,
        temperature=0.0,
        batch_size=1,
    )
    assert [rollout.completion_ids for rollout in alone] == [rollout.completion_ids for rollout in rollouts]


def test_turns_are_told_in_the_order_in_which_they_end(model):
    stop = plain_greedy(model, CONTEXTS[1], 10)[3]
    told = []
    turns = sample(model, CONTEXTS, stop=stop, on_turn=lambda place, turn: told.append((place, turn)))
    ended = [(len(turn.ids), place) for place, turn in enumerate(turns) if turn.ids[-1] == stop]
    assert [(len(turn.ids), place) for place, turn in told] == sorted(ended)
    assert ended
    assert all(turn == turns[place] for place, turn in told)
