"""What a caller of the Python API gets wrong is told in words, as early as it can be known."""

from __future__ import annotations

import pytest

from composer_replication.errors import UsageError
from composer_replication.training import ComposerReplicationTrainer
from composer_replication.training.lessons.online_sites import HintedTurn, TraceHinter

from .test_online import every_site, trainer_of


def own_hinter(traces):
    return [[HintedTurn(0, "mine", "call the tool")] for _ in traces]


@pytest.mark.parametrize(
    ("settings", "hinter", "way_out"),
    [
        ({"sham": True}, own_hinter, "return another task's hint"),
        ({"sham": True}, TraceHinter(), "return another task's hint"),
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
