"""The model card says what the run really was."""

import pytest

from composer_replication.config import Config
from composer_replication.objective import GrpoSettings, SdpoSettings
from composer_replication.training.card import model_card

NOTHING_STORED = {"backend": "trl", "hinted_sites": 0, "pairs": 0}


@pytest.mark.parametrize(("source", "told"), [("stored", "GRPO in the"), ("rollouts", "GRPO + 0.1 · SDPO in the")])
def test_distillation_is_idle_without_sites_only_where_it_learns_from_stored_ones(source, told):
    config = Config(channels=(GrpoSettings(), SdpoSettings(source=source)))
    assert f"\n{told} toolbox environment" in model_card(config, NOTHING_STORED)


def test_the_environment_is_the_one_of_the_settings():
    config = Config.model_validate({"environment": {"name": "code", "tasks": ["tasks"]}})
    card = model_card(config, NOTHING_STORED)
    assert "in the code environment" in card
    assert "toolbox" not in card and "tool-calling world" not in card


def test_without_rollouts_no_environment_is_named():
    card = model_card(Config.model_validate({"training": {"rollouts": False}}), NOTHING_STORED)
    assert "on stored traces alone" in card and "environment, seed" not in card


def test_a_replica_of_diloco_says_its_limits():
    assert "--diloco" not in model_card(Config(), NOTHING_STORED)
    card = model_card(Config(), {**NOTHING_STORED, "diloco": {"replica": 0, "lost": 1}})
    assert "What `--diloco` cannot do" in card and "never averaged" in card
