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
