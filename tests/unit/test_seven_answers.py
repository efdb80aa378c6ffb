"""CONTRIBUTING says where a new thing goes: one line there is enough for the thing to be chosen."""

from __future__ import annotations

import json
from types import SimpleNamespace

from composer_replication.config import Config
from composer_replication.environments.opening import ENVIRONMENTS, find_factory
from composer_replication.hints import dispatch
from composer_replication.hints.templates import HINT_TEMPLATES, LEAK_LEVELS
from composer_replication.ingestion import InputFile, ReadingReport, detect_format
from composer_replication.ingestion.formats import TRACE_READERS, Format
from composer_replication.monitor.rules import table
from composer_replication.objective import CHANNELS
from composer_replication.replay import choice
from composer_replication.training.backends import BACKENDS, open_backend
from tests.e2e.own_channel import StayClose


def made(*given):
    return SimpleNamespace(given=given)


def test_a_format_is_found_out_by_its_line(tmp_path, monkeypatch):
    monkeypatch.setitem(TRACE_READERS, "own", Format(lambda value: value == {"own": 1}, lambda file: iter(())))
    (tmp_path / "log.json").write_text(json.dumps({"own": 1}))
    assert detect_format(InputFile(tmp_path / "log.json", ReadingReport())) == "own"


def test_a_template_is_chosen_by_its_kind(monkeypatch):
    monkeypatch.setitem(HINT_TEMPLATES, "timeout", lambda context: "Reminder: wait.")
    assert dispatch("timeout") == "Reminder: wait."
    assert LEAK_LEVELS.keys() == HINT_TEMPLATES.keys()


def test_a_channel_is_opened_by_its_short_name(monkeypatch):
    from composer_replication.training.channels import open_channels

    monkeypatch.setitem(CHANNELS, "close", "tests.e2e.own_channel:StayClose")
    config = Config.model_validate({"channels": [{"name": "grpo"}, {"name": "close", "weight": 1, "strength": 3}]})
    (channel,) = open_channels(config)
    assert isinstance(channel, StayClose) and channel._strength == 3


def test_a_teacher_of_the_roster_is_known_by_its_model(monkeypatch):
    one = choice.DEFAULT_TEACHERS[0]._replace(model="own/model")
    monkeypatch.setattr(choice, "DEFAULT_TEACHERS", (*choice.DEFAULT_TEACHERS, one))
    assert choice.written_teachers(["own/model"], Config().replay) == [one]


def test_an_environment_and_a_backend_are_opened_by_their_names(monkeypatch):
    monkeypatch.setitem(ENVIRONMENTS, "own", f"{__name__}:made")
    assert find_factory("own")(Config()).given == (Config(),)
    monkeypatch.setitem(BACKENDS, "own", f"{__name__}:made")
    assert open_backend("own")(1, 2).given == (1, 2)


def test_every_rule_of_the_table_is_asked():
    from composer_replication.monitor.rules.table import RULES_OF

    assert {rule.name for rules in RULES_OF.values() for rule in rules} == {rule.name for rule in table.RULES}
    assert len({rule.name for rule in table.RULES}) == len(table.RULES)
