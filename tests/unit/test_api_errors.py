"""What a caller of the Python API gets wrong is told in words, as early as it can be known."""

from __future__ import annotations

import pytest
from datasets import Dataset

from composer_replication.environments.protocol import PlainAnswer
from composer_replication.errors import UsageError
from composer_replication.training import ComposerReplicationTrainer
from composer_replication.training.lessons.online_sites import HintedTurn, TraceHinter

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
