"""Entries of `[[channels]]`: what is read, what is refused, and that files and runs of before mean what they meant.

`tests/golden/configs` was written by the last version that had the channels' settings among those of training: a run's
config.json, and `[training]` of every recipe and of every arm of every experiment.
"""

from __future__ import annotations

import json
import runpy
import tomllib
from pathlib import Path

import pytest

from composer_replication.config import Config, load_config, parse_config
from composer_replication.errors import UsageError
from composer_replication.objective import OLD_KEYS, OLD_SCHEDULE, GrpoSettings, OwnSettings, SdpoSettings
from shared.runner.plan import read_plan

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "configs"
BEFORE = json.loads((GOLDEN / "training_before_channels.json").read_text())


def in_old_keys(config: Config) -> dict:
    """`[training]` as it would have been written before."""
    channels = {channel.name: channel.model_dump(mode="json") for channel in config.channels}
    added = [channels[name] for name in ("sdpo", "trdpo")]
    assert channels["grpo"] == GrpoSettings().model_dump(mode="json")
    assert added[0]["schedule"] == added[1]["schedule"]
    return {
        **config.training.model_dump(mode="json"),
        **{key: channels[name][own] for key, (name, own) in OLD_KEYS.items()},
        **{key: added[0]["schedule"][own] for key, own in OLD_SCHEDULE.items()},
    }


def config_named(name: str) -> Config:
    path, *arm = name.split(" ")
    if not arm:
        return load_config(ROOT / path)
    runner = tomllib.loads((ROOT / path).read_text()).get("runner")
    own = ROOT / Path(path).parent / f"{runner}.py"
    read = runpy.run_path(str(own))["read_plan"] if runner else read_plan
    return read(ROOT / path).config(*arm, 0)


@pytest.mark.parametrize("name", BEFORE["changed"])
def test_recipes_and_experiments_have_the_settings_that_they_had(name):
    expected = {**BEFORE["defaults"], **BEFORE["changed"][name]}
    found = in_old_keys(config_named(name))
    assert {key: found[key] for key in expected} == expected


def test_a_run_of_before_opens_with_the_settings_that_it_had():
    stored = json.loads((GOLDEN / "run_before_channels.json").read_text())
    config = parse_config(stored, "config.json")
    found = in_old_keys(config)
    assert {key: found[key] for key in stored["training"]} == stored["training"]
    assert stored["training"]["sdpo_kinds_off"] == ["json_decode"], "nothing but defaults would show little"
    assert parse_config(config.model_dump(mode="json"), "x") == config
    again = config.model_dump(mode="json")
    for section in stored.keys() - {"training", "seed"}:
        assert {key: again[section][key] for key in stored[section]} == stored[section]
    assert again["seed"] == stored["seed"]


def test_an_empty_training_section_is_not_of_before():
    assert parse_config({"training": {"steps": 3}, "channels": [{"name": "grpo"}]}, "x").channels == (GrpoSettings(),)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"training": {"alpha_sdpo": 0.1}, "channels": [{"name": "grpo"}]},
            "training.alpha_sdpo is the old form of what [[channels]] says; take it out",
        ),
        ({"channels": [{"name": "grpo"}, {"name": "grpo"}]}, "grpo stands there twice"),
        ({"channels": [{"name": "sdop", "weight": 1}]}, "no channel sdop, did you mean sdpo?"),
        ({"channels": [{"weight": 1}]}, "channels.0.name: Field required"),
        ({"channels": [{"name": "package.module:Own"}]}, "channels.package.module:Own.weight: Field required"),
        ({"channels": [{"name": "sdpo", "schedule": {"warmup_share": 0.7, "decay_share": 0.7}}]}, "fit into one run"),
        ({"training": {"sdpo_kinds_off": ["nosuchkind"]}}, "training.sdpo_kinds_off.0: "),
        ({"training": {"alpha_sdpo": -1}}, "training.alpha_sdpo: "),
        ({"training": {"channel_decay_share": 2}}, "training.channel_decay_share: "),
    ],
)
def test_a_mistake_is_told_by_the_key_that_the_file_has(values, told):
    with pytest.raises(UsageError) as caught:
        parse_config(values, "my.toml")
    assert told in str(caught.value)


def test_a_channel_that_is_not_listed_has_no_weight():
    config = parse_config({"channels": [{"name": "grpo"}]}, "x")
    assert config.channel(SdpoSettings).weight == 0
    again = config.with_channels(SdpoSettings(weight=0.3))
    assert [channel.name for channel in again.channels] == ["grpo", "sdpo"]
    assert again.with_channels(SdpoSettings(weight=0.4)).channel(SdpoSettings).weight == 0.4


def test_settings_of_an_own_channel_survive_the_file_of_the_run():
    own = {"name": "package.module:Own", "weight": 0.5, "strength": 3}
    config = parse_config({"channels": [{"name": "grpo"}, own]}, "x")
    again = parse_config(json.loads(json.dumps(config.model_dump(mode="json"))), "x")
    assert again == config
    assert isinstance(again.channels[1], OwnSettings)
    assert again.channels[1].model_dump()["strength"] == 3
    assert again.channels[1].label == "Own"
