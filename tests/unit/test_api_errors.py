"""What a caller of the Python API gets wrong is told in words, as early as it can be known."""

from __future__ import annotations

import copy
import inspect
import re
import warnings

import numpy as np
import pytest
import torch
from datasets import Dataset
from trl import GRPOConfig

from composer_replication.config import Config, TrainingConfig
from composer_replication.environments.protocol import PlainAnswer
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.errors import UsageError
from composer_replication.objective import SdpoSettings
from composer_replication.training import (
    ComposerDataCollator,
    ComposerReplicationTrainer,
    SelfDistillation,
    StoredBatches,
    TraceExample,
)
from composer_replication.training.backends.trl.rollouts import READ, READ_ELSEWHERE, EnvironmentRollouts
from composer_replication.training.lessons.online_sites import MAX_TEACHER_TOKENS, HintedTurn, TraceHinter

from .test_online import every_site, trainer_of


def own_hinter(traces):
    return [[HintedTurn(0, "mine", "call the tool")] for _ in traces]


@pytest.mark.parametrize(
    ("settings", "hinter", "way_out"),
    [
        ({"sham": True}, own_hinter, "return a text without help"),
        ({"sham": True}, TraceHinter(), "return a text without help"),
        ({"hint": "feedback"}, own_hinter, "the hinter's work"),
        ({"sibling_hints": "call"}, own_hinter, "the hinter's work"),
        ({"require_acceptance": True}, own_hinter, "accepts=rollouts.accepts"),
    ],
)
def test_settings_that_the_hinter_does_not_follow_are_refused(new_policy, tmp_path, settings, hinter, way_out):
    with pytest.raises(UsageError, match=f"{next(iter(settings))}=.* does nothing .*next: .*{way_out}"):
        trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, **every_site(0.1, **settings), hinter=hinter)


def test_a_hinter_of_the_package_that_follows_the_settings_is_taken(new_policy, tmp_path):
    settings, hinter = every_site(0.1, sham=True, sibling_hints="call"), TraceHinter(sham=True, sibling="call")
    trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, **settings, hinter=hinter)


def without_sites(tiny_tokens):
    examples = [TraceExample([1, 2], [0, 1], None)]
    return StoredBatches(examples, ComposerDataCollator(tiny_tokens.tokenizer.pad_token_id), 1, seed=0)


@pytest.mark.parametrize(
    ("options", "way_out"),
    [
        ({"alpha_sdpo": 1.0}, "channel sdpo has weight 1.0.*next: pass hinter="),
        ({"channels": [SelfDistillation(SdpoSettings(weight=0.2))]}, "channel sdpo has weight 0.2.*next: pass hinter="),
        ({"alpha_sdpo": 1.0, "batches": without_sites}, "channel sdpo has weight 1.0.*next: pass hinter="),
        ({"beta_replay": 1.0, "hinter": TraceHinter()}, "channel replay has weight 1.0.*next: pass batches="),
    ],
    ids=["weight", "channel", "batches without sites", "replay"],
)
def test_a_channel_that_is_asked_for_and_cannot_learn_is_refused(new_policy, tiny_tokens, tmp_path, options, way_out):
    options = {name: one(tiny_tokens) if one is without_sites else one for name, one in options.items()}
    with pytest.raises(UsageError, match=way_out):
        trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, **options)


class Distilling:
    """Of somebody else, for stored traces."""

    name, weight = "sdpo", 0.5

    def loss(self, model, batch):
        return batch["rewards"].new_zeros(())


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"channels": [SelfDistillation]}, TypeError, r"not the class SelfDistillation: SelfDistillation\(…\)"),
        ({"channels": [Distilling()]}, ValueError, "channel sdpo needs batches to read"),
        ({"gradient_ratio_cap": 0}, UsageError, "gradient_ratio_cap is 0; next: give a number above 0, or None"),
        ({"dynamic_sampling_rounds": -1}, UsageError, "dynamic_sampling_rounds is -1; next: give 0 or more"),
    ],
    ids=["class", "own channel 2", "cap", "rounds"],
)
def test_what_would_be_left_out_without_a_word_is_refused(new_policy, tmp_path, options, error, told):
    with pytest.raises(error, match=told):
        trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, **options, hinter=TraceHinter())


@pytest.mark.parametrize(
    ("made", "word", "meant"),
    [
        (TrainingConfig, "max_turn_token", "max_turn_tokens"),
        (SdpoSettings, "sites_per_rollouts", "sites_per_rollout"),
        (ComposerReplicationTrainer, "alpha_spdo", "alpha_sdpo"),
        (ComposerReplicationTrainer, "reward_func", "reward_funcs"),
    ],
)
def test_a_misspelt_keyword_is_answered_with_the_nearest_right_one(made, word, meant):
    with pytest.raises(UsageError, match=rf"{made.__name__} has no {word}; next: did you mean {meant}\?"):
        made(**{word: 1})


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (lambda traces: None, "the hinter gave NoneType for 8 rollouts"),
        (lambda traces: [None] * len(traces), "the hinter gave NoneType for rollout 0"),
        (lambda traces: [[], *["a hint"] * (len(traces) - 1)], "the hinter gave str for rollout 1"),
        (lambda traces: [["a hint"]] * len(traces), "the hinter gave str in the list for rollout 0"),
        (lambda traces: [[(0, "mine", "a hint")]] * len(traces), "the hinter gave tuple in the list for rollout 0"),
        (lambda traces: [HintedTurn(0, "mine", "a hint")] * len(traces), "the hinter gave HintedTurn for rollout 0"),
        (lambda traces: [[HintedTurn(0, "mine", None)]] * len(traces), "a hint of rollout 0 is NoneType"),
    ],
)
def test_a_hinter_that_gives_something_else_is_told_what_and_where(new_policy, tmp_path, told, message):
    trainer = trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, **every_site(0.1), hinter=told)
    with pytest.raises(UsageError, match=f"{message}.*next: .*HintedTurn"):
        trainer.train()


def test_an_empty_hint_is_left_out_and_counted(new_policy, tmp_path):
    def empty(traces):
        return [[HintedTurn(0, "mine", " ")] for _ in traces]

    trainer = trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, **every_site(0.1), hinter=empty)
    trainer.train()
    logged = next(entry for entry in trainer.state.log_history if "sdpo/sites" in entry)
    assert (logged["sdpo/sites"], logged["sdpo/dropped/empty_hint"]) == (0, 8)


def dropped_told(trainer):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trainer.train()
    return [str(one.message) for one in told if "hinted turns were left out" in str(one.message)]


def test_a_step_that_lost_all_of_its_sites_is_told_once_with_the_reason(new_policy, tmp_path):
    trainer = trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, 3, **every_site(0.1), hinter=own_hinter)
    rows = trainer._rollouts

    def one_turn_too_many(generated, scored):
        return [
            rolled._replace(
                trace=rolled.trace.model_copy(update={"turns": (*rolled.trace.turns, rolled.trace.turns[-1])})
            )
            for rolled in rows(generated, scored)
        ]

    trainer._rollouts = one_turn_too_many
    (line,) = dropped_told(trainer)
    assert line.startswith("step 1: all 8 hinted turns were left out")
    assert "(8) the trace has another number of turns than were sampled (sdpo/dropped/turns_do_not_match)" in line


def test_a_hint_beyond_the_models_positions_is_left_out(new_policy, tmp_path):
    policy = new_policy()
    positions = policy.model.config.max_position_embeddings

    def long_for_one(traces):
        return [[HintedTurn(0, "mine", "call " * (1 if row else positions))] for row in range(len(traces))]

    assert positions < MAX_TEACHER_TOKENS / 2
    trainer = trainer_of(ComposerReplicationTrainer, policy, tmp_path, **every_site(0.1), hinter=long_for_one)
    assert dropped_told(trainer) == [], "some were kept"
    logged = next(entry for entry in trainer.state.log_history if "sdpo/sites" in entry)
    assert (logged["sdpo/sites"], logged["sdpo/dropped/too_long"]) == (7, 1)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (0.5, "float for 8 rollouts"),
        (None, "NoneType for 8 rollouts"),
        ("right", "str for 8 rollouts"),
        ({"reward": 1.0}, "dict for 8 rollouts"),
        (torch.tensor(0.5), "Tensor for 8 rollouts"),
        ([1.0], "1 rewards for 8 rollouts"),
        ([1.0, "right", *[0.0] * 6], "str for rollout 1"),
    ],
)
@pytest.mark.parametrize("waits", [False, True])
def test_a_reward_function_that_returns_something_else_is_named(new_policy, tmp_path, returned, message, waits):
    def partial_credit(**columns):
        return returned

    async def slow_credit(**columns):
        return returned

    credit = slow_credit if waits else partial_credit
    trainer = trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, rewards=[credit])
    with pytest.raises(UsageError, match=f"function {credit.__name__} returned {message}; next: return a list of 8"):
        trainer.train()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned NoneType for 8 rollouts"),
        ([1.0], "returned list for 8 rollouts"),
        ({"credit": [1.0]}, "gave column credit no value for each of 8 rollouts"),
    ],
)
def test_a_watcher_that_returns_something_else_is_named(new_policy, tmp_path, returned, message):
    trainer = trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path)
    trainer.rollout_func._watcher = lambda rollouts, traces, step: returned
    with pytest.raises(UsageError, match=f"watcher {message}; next: return a dict of lists of 8 values"):
        trainer.train()


@pytest.mark.parametrize("more", [0.0, 4.0])
def test_only_rollouts_that_were_cut_off_are_masked(new_policy, tmp_path, more):
    """Also where a text ends otherwise than a turn, as a base model's; and where none is left, that is told."""
    policy = new_policy()
    policy.tokens = copy.copy(policy.tokens)
    policy.tokens.tokenizer = copy.deepcopy(policy.tokenizer)
    policy.tokenizer.eos_token = "<|user|>"
    end = policy.tokens.end_of_turn_id
    bonus = more * torch.nn.functional.one_hot(torch.tensor(end), len(policy.tokenizer))
    policy.model.lm_head.register_forward_hook(lambda module, given, logits: logits + bonus)
    trainer = trainer_of(ComposerReplicationTrainer, policy, tmp_path, config={"mask_truncated_completions": True})
    made, generate = [], trainer._generate_and_score_completions
    trainer._generate_and_score_completions = lambda inputs: made.append(generate(inputs)) or made[-1]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trainer.train()
    ((ids_BT, mask_BT),) = [(one["completion_ids"], one["completion_mask"]) for one in made]
    kept_B = mask_BT.any(1)
    assert torch.equal(kept_B, (ids_BT == end).any(1)), "a turn of this environment is an episode"
    assert bool(kept_B.any()) == bool(more)
    assert any("left out every rollout" in str(one.message) for one in told) == (not more)


def test_rewards_of_every_kind_that_trl_takes_are_taken(new_policy, tmp_path):
    def judged(completions, **columns):
        return [None, True, 1, torch.tensor(1.0), *np.float32([0, 0, 1, 1])]

    def whole(completions, **columns):
        return torch.ones(len(completions))

    trainer = trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, rewards=[judged, whole])
    trainer.train()
    logged = trainer.state.log_history[0]
    assert logged["rewards/judged/mean"] == pytest.approx(5 / 7)
    assert logged["rewards/whole/mean"] == 1


def test_the_alarms_of_training_are_warnings_in_a_script(new_policy, tmp_path):
    def never(completions, **columns):
        return [0.0] * len(completions)

    trainer = trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, steps=6, rewards=[never])
    with pytest.warns(UserWarning, match="got any reward") as told:
        trainer.train()
    (line,) = {str(one.message) for one in told if "policy gradient" in str(one.message)}
    assert line.startswith(
        "step 5: no rollout of the first 5 steps got any reward, so the policy gradient learns nothing;"
    )
    assert "recompose" not in line


def test_settings_that_rollouts_do_not_read_are_told_with_their_place(new_policy):
    environment = open_toolbox(Config())

    def told(**settings):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            EnvironmentRollouts(new_policy(), environment, [], TrainingConfig(**settings), seed=0)
        return [str(one.message) for one in found]

    (line,) = told(steps=1, gradient_ratio_cap=0.01, leak_penalty="soft", temperature=0.5)
    assert line.startswith("EnvironmentRollouts does not read gradient_ratio_cap, leak_penalty, steps of its")
    for place in (
        "gradient_ratio_cap: ComposerReplicationTrainer(gradient_ratio_cap=…)",
        "steps: GRPOConfig(max_steps=…)",
    ):
        assert place in line
    assert told(max_turn_tokens=3, temperature=0.5, group_size=4, error_turn_penalty=0.1) == []


def test_every_place_that_a_setting_is_told_to_belong_to_is_there():
    owners = {
        "GRPOConfig": GRPOConfig,
        "ComposerReplicationTrainer": ComposerReplicationTrainer,
        "StoredBatches": StoredBatches,
    }
    assert set(re.findall(r"settings\.(\w+)", inspect.getsource(EnvironmentRollouts))) == READ
    assert READ | READ_ELSEWHERE.keys() <= TrainingConfig.model_fields.keys()
    for place in READ_ELSEWHERE.values():
        owner, argument = re.fullmatch(r"(\w+)\((\w+)=…\)", place).groups()
        assert argument in inspect.signature(owners[owner]).parameters


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "2 + 2?"}, "no column prompt, but question"),
        ({"prompt": "2 + 2?"}, "the first prompt is str"),
        ({"prompt": [{"role": "user", "content": "2 + 2?"}]}, "no task_id"),
    ],
)
def test_a_dataset_without_tasks_is_refused_before_training(new_policy, tmp_path, row, message):
    with pytest.raises(UsageError, match=rf"{message}.*next: .*prompts_of\(tasks\)"):
        trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, dataset=Dataset.from_list([row] * 8))


def trainer_whose_steps(step, policy, folder, **options):
    """`step(episode, turn)` takes the place of the environment's own."""
    trainer = trainer_of(ComposerReplicationTrainer, policy, folder, **options)
    environment = trainer.rollout_func._environment
    start = environment.start

    def start_broken(task):
        episode = start(task)
        own = episode.step
        episode.step = lambda turn: step(own, turn)
        return episode

    environment.start = start_broken
    return trainer


@pytest.mark.parametrize("answer", [None, "right", ("right", False), 1.0])
def test_a_step_that_returns_no_answer_stops_the_training(new_policy, tmp_path, answer):
    trainer = trainer_whose_steps(lambda own, turn: answer, new_policy(), tmp_path)
    with pytest.raises(UsageError, match=rf"all 8 rollouts.*step returned {type(answer).__name__}.*PlainAnswer\("):
        trainer.train()
    assert trainer.state.global_step == 0


def test_an_environment_that_breaks_in_some_rollouts_is_warned_of(new_policy, tmp_path):
    turns = []

    def sometimes(own, turn):
        turns.append(turn)
        return None if len(turns) == 1 else own(turn)

    trainer = trainer_whose_steps(sometimes, new_policy(), tmp_path)
    with pytest.warns(UserWarning, match=r"broke in 1 of 8 rollouts.*step returned NoneType.*PlainAnswer\("):
        trainer.train()


def test_a_turn_at_which_the_environment_broke_is_not_distilled(new_policy, tmp_path):
    broke = []

    def crash_once(own, turn):
        if not broke:
            broke.append(turn)
            raise ConnectionError("the database is gone")
        return own(turn)

    def last_turns(traces):
        return [[HintedTurn(len(trace.turns) - 1, "mine", "call the tool")] for trace in traces]

    trainer = trainer_whose_steps(crash_once, new_policy(), tmp_path, **every_site(0.1), hinter=last_turns)
    with pytest.warns(UserWarning, match="broke in 1 of 8 rollouts"):
        trainer.train()
    logged = next(entry for entry in trainer.state.log_history if "sdpo/sites" in entry)
    assert (logged["sdpo/sites"], logged["sdpo/dropped/environment_broke"]) == (7, 1)


def unknown_words_told(trainer):
    with pytest.warns(UserWarning) as told:
        trainer.train()
    return [str(one.message) for one in told if "vocabulary()" in str(one.message)]


def test_answers_with_words_that_the_tiny_model_lacks_are_told_once(new_policy, tmp_path):
    def unheard(own, turn):
        return PlainAnswer("quokka ñandú done")

    (line,) = unknown_words_told(trainer_whose_steps(unheard, new_policy(), tmp_path, steps=2))
    assert line.startswith("2 words in messages or answers of the environment") and ": quokka, ñandú;" in line


def test_hints_with_words_that_the_tiny_model_lacks_are_told_once(new_policy, tmp_path):
    def hinter(traces):
        return [[HintedTurn(0, "mine", "α β γ δ ε ζ done")] for _ in traces]

    options = {**every_site(0.1), "hinter": hinter}
    (line,) = unknown_words_told(trainer_of(ComposerReplicationTrainer, new_policy(), tmp_path, steps=2, **options))
    assert line.startswith("6 words in hints") and ": α, β, γ, δ, ε;" in line
