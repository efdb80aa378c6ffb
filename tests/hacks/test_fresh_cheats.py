"""Fresh cheats, written without a look at the grader: none earns more than doing nothing."""

import pytest

from composer_replication.environments.code.grading import grade

from .fresh_cheats import CHEATS, cheating


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_fresh_cheat_earns_no_more_than_nothing(open_task, nop_reward, cheat):
    assert grade(open_task, cheating(open_task, cheat)).reward <= nop_reward
