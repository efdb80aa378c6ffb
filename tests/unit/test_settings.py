"""Where each setting comes from, changes on the command line, and a schema that says what the model says."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from composer_replication.config import Config, load_config, parse_config
from composer_replication.errors import UsageError
from composer_replication.objective import in_new_form
from composer_replication.runs import Run
from composer_replication.settings import changed, load_settings, schema
from composer_replication.training.diloco.meeting import LIGHTHOUSE
from tests.command_line import recompose
from tests.unit.test_config import leaves

ROOT = Path(__file__).parents[2]
FILES = sorted(ROOT.glob("recipes/*/config.toml"))


@pytest.fixture(scope="module")
def allows():
    checker = Draft202012Validator(schema())
    Draft202012Validator.check_schema(schema())
    return checker.is_valid


def shown(*words: object) -> dict[str, dict[str, object]]:
    return json.loads(recompose("config", *words, "--json").stdout)


def test_each_setting_has_its_origin(tmp_path, monkeypatch):
    file = tmp_path / "my.toml"
    file.write_text(
        'seed = 0\n[model]\nname = "smollm2"\n[training]\nalpha_sdpo = 0.3\n[[replay.gate]]\n'.split("[[")[0]
    )
    monkeypatch.setenv(LIGHTHOUSE, "http://127.0.0.1:1")
    found = shown(file, "--set", "evaluation.tasks=64", "--set", "channels.trdpo.beta=0.2")
    assert found["seed"] == {"value": 0, "origin": str(file)}, "said, although it is the default"
    assert found["warmup.steps"] == {"value": 0, "origin": "follows from model.name"}
    assert found["channels.sdpo.weight"] == {"value": 0.3, "origin": str(file)}
    assert found["channels.trdpo.beta"] == {"value": 0.2, "origin": "command line"}
    assert found["evaluation.tasks"] == {"value": 64, "origin": "command line"}
    assert found["diloco.lighthouse"] == {"value": "http://127.0.0.1:1", "origin": f"environment, {LIGHTHOUSE}"}
    assert found["training.steps"] == {"value": 28, "origin": "default"}
    assert {key.split(".")[0] for key in found} == set(Config.model_fields)
    assert len(shown(file, "--changed")) < 20 < len(shown(file))


def test_the_settings_of_a_run_and_what_a_change_would_make_of_them(tmp_path, monkeypatch):
    monkeypatch.delenv(LIGHTHOUSE, raising=False)
    Run.start(tmp_path / "run", load_settings(None, ["training.steps=3"]))
    assert shown(tmp_path / "run", "--changed", "--set", "seed=5") == {
        "seed": {"value": 5, "origin": "command line"},
        "training.steps": {"value": 3, "origin": str(tmp_path / "run" / "config.json")},
    }


def test_without_json_it_reads_like_a_file():
    lines = recompose("config", "--set", "seed=4").stdout.splitlines()
    assert lines[0].split() == ["seed", "=", "4", "#", "command", "line"]
    assert "[replay.gate]" in lines and "[channels.sdpo]" in lines


@pytest.mark.parametrize(
    ("change", "key", "value"),
    [
        ("training.steps=40", ("training", "steps"), 40),
        ("model.name=Qwen/Qwen3-8B", ("model", "name"), "Qwen/Qwen3-8B"),
        ('model.name="tiny"', ("model", "name"), "tiny"),
        ("toolbox.listed=[5, 6]", ("toolbox", "listed"), (5, 6)),
        ("replay.gate.samples = 6", ("replay", "gate", "samples"), 6),
        ("training.rollouts=false", ("training", "rollouts"), False),
    ],
)
def test_a_change_on_the_command_line(change, key, value):
    found = load_settings(None, [change])
    for name in key:
        found = getattr(found, name)
    assert found == value


def test_a_channel_is_changed_by_its_name_and_keeps_its_place():
    listed = {"channels": [{"name": "grpo"}, {"name": "trdpo", "beta": 0.3}]}
    for values in ({}, {"training": {"dpo_beta": 0.3}}, listed):
        found = changed(values, ["channels.grpo.clip_low=0.1", "channels.mine:Own.weight=2"])["channels"]
        assert found[0] == {"name": "grpo", "clip_low": 0.1}
        assert found[-1] == {"name": "mine:Own", "weight": 2}
        assert next(one.get("beta") for one in found if one["name"] == "trdpo") == (0.3 if values else None)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["training.stepps=4", "seed=-1"], r"--set: 2 mistakes: .*unknown key training.stepps, did you mean steps\?"),
        (["channels.sdpo.weigth=0.2"], r"--set: unknown key channels.sdpo.weigth, did you mean weight\?"),
        (["training.steps"], "--set training.steps is not KEY=VALUE"),
        (["=4"], "--set =4 is not KEY=VALUE"),
        (["training=4"], "--set: training: Input should be a valid dictionary"),
    ],
)
def test_a_change_that_cannot_be(changes, told):
    with pytest.raises(UsageError, match=told):
        load_settings(None, changes)


def test_a_run_that_is_there_is_not_changed_by_set(tmp_path):
    Run.start(tmp_path / "run", Config())
    ended = recompose("train", tmp_path / "run", "--set", "training.steps=4")
    assert (ended.returncode, ended.stderr) == (
        2,
        "error: the settings of a run stay as they are; "
        f"next: recompose fork {tmp_path / 'run'} NEW --set training.steps=4\n",
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_schema_takes_every_file_that_loads(path, allows):
    load_config(path)
    assert allows(in_new_form(tomllib.loads(path.read_text()))), "keys of before are read and not offered"


WRONG = [-1, 1e9, "x", True, None, [], {}, [1, 2, 3], 0.5]


@pytest.mark.parametrize("path", [path for path, _ in leaves(Config())], ids=lambda path: ".".join(map(str, path)))
def test_the_schema_refuses_only_what_the_model_refuses(path, allows):
    """And names every setting. What only code can check, such as a range in order, it may take."""
    for value in WRONG:
        values = json.loads(json.dumps({"diloco": {}, **Config().model_dump(mode="json")}))
        section = values
        for name in path[:-1]:
            section = section[name]
        section[path[-1]] = value
        assert allows(values) or not loads(values), f"the schema refuses {value!r}"
        if isinstance(value, dict | None) and not loads(values):
            assert not allows(values)


def loads(values) -> bool:
    try:
        parse_config(values, "x")
    except UsageError:
        return False
    return True


def test_the_schema_refuses_what_editors_should_underline(allows):
    for values in (
        {"sed": 1},
        {"training": {"stepps": 1}},
        {"training": {"steps": -1}},
        {"training": {"learning_rate": 0}},
        {"toolbox": {"rename_rate": 1.5}},
        {"warmup": {"optimizer": "sgd"}},
        {"channels": [{"name": "own:Channel"}]},
    ):
        assert not allows(values) and not loads(values)


def test_the_schema_has_the_words_of_the_source():
    found = schema()
    words = found["$defs"]["IngestionConfig"]["properties"]["format"]["description"]
    assert words.startswith("Format of all of them; found out")
    described = [
        field.get("description") for section in found["$defs"].values() for field in section["properties"].values()
    ]
    assert (
        "Format of all of them; found out" in found["$defs"]["IngestionConfig"]["properties"]["format"]["description"]
    )
    assert sum(map(bool, described)) > 100
    assert json.loads(recompose("config", "--schema").stdout) == found
    assert recompose("config", "x.toml", "--schema").returncode == 2
