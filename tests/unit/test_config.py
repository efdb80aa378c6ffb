"""Settings: what loads, what is refused and in which words, and what makes two configs the same run."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, ValidationError

from composer_replication.config import (
    Config,
    TrainingConfig,
    load_config,
    load_quickstart_config,
    parse_config,
    quickstart_config,
)
from composer_replication.environments.opening import ENVIRONMENTS
from composer_replication.errors import UsageError
from composer_replication.objective import TrdpoSettings
from composer_replication.runs import Run
from composer_replication.sections import ENVIRONMENT_NAMES


def refusal(tmp_path, text: str) -> UsageError:
    path = tmp_path / "run.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_config(path)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    assert "run.toml" in str(caught.value)
    assert caught.value.next_command
    return caught.value


def test_an_empty_file_gives_the_defaults(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("")
    assert load_config(path) == Config()


def test_defaults_survive_their_own_json():
    assert parse_config(Config().model_dump(mode="json"), "x") == Config()


def test_the_documented_channel_weights_are_the_defaults():
    assert [(channel.name, channel.weight) for channel in Config().channels] == [
        ("grpo", 1.0),
        ("sdpo", 0.1),
        ("trdpo", 0.05),
    ]
    assert Config().hints.max_tokens == 96


def test_values_of_a_file_override_defaults(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('seed = 3\n[toolbox]\nlisted = [5, 6]\n[replay]\nteachers = ["é/x"]\n', encoding="utf-8")
    config = load_config(path)
    assert (config.seed, config.toolbox.listed, config.replay.teachers) == (3, (5, 6), ("é/x",))
    assert config.training == Config().training


@pytest.mark.parametrize(
    ("text", "wrong", "right"),
    [
        ("sed = 1", "sed", "seed"),
        ("[trainning]\nsteps = 1", "trainning", "training"),
        ('[[channels]]\nname = "sdpo"\nwieght = 1', "channels.sdpo.wieght", "weight"),
        ('[[channels]]\nname = "grpo"\n[[channels]]\nname = "trdpo"\nbta = 1', "channels.trdpo.bta", "beta"),
        (
            '[[channels]]\nname = "sdpo"\nschedule = {warmup = 1}',
            "channels.sdpo.schedule.warmup",
            "warmup_share",
        ),
        ("[evaluation]\ntask = 5", "evaluation.task", "tasks"),
    ],
)
def test_a_misspelt_key_is_named_with_the_nearest_right_one(tmp_path, text, wrong, right):
    assert f"unknown key {wrong}, did you mean {right}?" in str(refusal(tmp_path, text))


GONE = [
    ("hardware", "vllm_tensor_parallel", 1, "give the server its own option, and [sampling] server its address"),
    ("hardware", "vllm_server_url", None, '[sampling] server = "http://…" now'),
    ("hardware", "vllm", "server", '[sampling] server = "http://…" now'),
    ("monitor", "penalty_weight", 0.2, "hard evidence takes the reward now, and other signs ask for a deeper grade"),
]


@pytest.mark.parametrize(("section", "key", "value", "now"), GONE)
def test_a_run_with_a_setting_that_is_gone_says_what_replaced_it_and_how_to_go_on(tmp_path, section, key, value, now):
    run = Run.start(tmp_path / "run", Config())
    stored = json.loads((run.path / "config.json").read_text())
    stored[section][key] = value
    (run.path / "config.json").write_text(json.dumps(stored))
    with pytest.raises(UsageError) as raised:
        Run.open(run.path)
    assert f"config.json: {section}.{key} = {json.dumps(value)} is gone: " in str(raised.value)
    assert now in str(raised.value)
    assert raised.value.next_command == "recompose ingest PATH --run DIR"


def test_a_run_whose_settings_are_no_table_is_refused_in_words(tmp_path):
    run = Run.start(tmp_path / "run", Config())
    (run.path / "config.json").write_text("[]")
    with pytest.raises(UsageError, match=r"config\.json: Input should be a valid dictionary"):
        Run.open(run.path)


def test_a_file_with_a_setting_that_is_gone_is_to_be_mended(tmp_path):
    told = refusal(tmp_path, "[monitor]\npenalty_weight = 0.1\n")
    assert "monitor.penalty_weight = 0.1 is gone: " in str(told)
    assert told.next_command == f"mend {tmp_path / 'run.toml'} and run again"


def test_a_key_unlike_any_other_is_still_refused(tmp_path):
    assert "unknown key qqqq, known here: seed, model," in str(refusal(tmp_path, "qqqq = 1"))
    assert "did you mean" not in str(refusal(tmp_path, "zzzz = 1"))


def test_a_training_without_a_step_is_refused(tmp_path):
    assert "training.steps: Input should be greater than 0" in str(refusal(tmp_path, "training.steps = 0"))


def test_a_number_without_end_is_refused(tmp_path):
    told = str(refusal(tmp_path, '[training]\nlearning_rate = inf\n[[channels]]\nname = "sdpo"\nweight = inf\n'))
    assert "training.learning_rate: Input should be a finite number" in told
    assert "channels.sdpo.weight: Input should be a finite number" in told


def test_all_mistakes_are_told_at_once_each_by_its_own_key(tmp_path):
    told = str(
        refusal(
            tmp_path,
            "sed = 1\n[training]\nstepps = 3\ngroup_size = 1\n[monitor]\npenalty_weight = 0.1\n"
            '[[channels]]\nname = "trdpo"\nlength_normalised = 1\n[[channels]]\nname = "sdpo"\nwieght = 1\n'
            '[environment]\nname = "tolbox"\n',
        )
    )
    for mistake in (
        "unknown key sed, did you mean seed?",
        "unknown key training.stepps, did you mean steps?",
        "training.group_size: Input should be greater than or equal to 2",
        "monitor.penalty_weight = 0.1 is gone: hard evidence",
        "channels.trdpo.length_normalised: Input should be a valid boolean or input should be 'auto'",
        "unknown key channels.sdpo.wieght, did you mean weight?",
        "environment.name: no environment tolbox, no package.module:factory, did you mean toolbox?",
    ):
        assert mistake in told
    assert "7 mistakes: (1) " in told and "(7) " in told and "(8) " not in told


def test_the_settings_know_every_environment_that_there_is():
    assert tuple(ENVIRONMENTS) == ENVIRONMENT_NAMES


def test_mistakes_in_keys_of_before_are_told_by_those_keys(tmp_path):
    told = str(refusal(tmp_path, "[training]\nalpha_sdpo = -1\ndpo_beta = 0\nchannel_warmup_share = 2\n"))
    assert all(f") training.{key}: " in told for key in ("alpha_sdpo", "dpo_beta", "channel_warmup_share"))
    assert "3 mistakes" in told, "one key of before may stand for two of now"
    told = str(refusal(tmp_path, '[training]\nalpha_sdpo = 1\nstepps = 1\n[[channels]]\nname = "grpo"\n'))
    assert "training.alpha_sdpo is the old form" in told and "unknown key training.stepps" in told


@pytest.mark.parametrize("text", ["seed = ", "[training", "seed = 1\nseed = 2"])
def test_broken_toml(tmp_path, text):
    assert "not valid TOML" in str(refusal(tmp_path, text))


def test_a_file_that_is_not_text(tmp_path):
    path = tmp_path / "run.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="not valid TOML"):
        load_config(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(UsageError, match=r"no config file .*nowhere\.toml") as caught:
        load_config(tmp_path / "nowhere.toml")
    assert caught.value.exit_code == 2
    assert caught.value.next_command.startswith("check the path")


def test_a_folder_instead_of_a_file(tmp_path):
    with pytest.raises(UsageError):
        load_config(tmp_path)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('seed = "many"', "seed"),
        ("seed = -1", "seed"),
        ("toolbox = 5", "toolbox"),
        ("[toolbox]\nrename_rate = 1.5", "toolbox.rename_rate"),
        ("[toolbox]\nlisted = [5]", "toolbox.listed.1"),
        ("[toolbox]\ncall_mix = [1, 0, 'x']", "toolbox.call_mix.2"),
        ("[training]\ngroup_size = 1", "training.group_size"),
        ('[warmup]\noptimizer = "sgd"', "warmup.optimizer"),
        ('[evaluation]\nsplits = ["train"]', "evaluation.splits"),
        ("[training]\nsteps = true", "training.steps"),
        ("[training]\nlearning_rate = true", "training.learning_rate"),
        ("[training]\nrollouts = 1", "training.rollouts"),
        ('[training]\nrollouts = "yes"', "training.rollouts"),
        ("[training]\ndpo_length_normalised = 1", "training.dpo_length_normalised"),
        ("[toolbox]\ncall_mix = [true, 0, 0]", "toolbox.call_mix.0"),
        ("[replay]\nprices = {x = [1, true]}", "replay.prices.x.1"),
        ('[training]\nsdpo_kinds_off = ["nosuchkind"]', "training.sdpo_kinds_off.0"),
    ],
)
def test_a_wrong_value_is_refused_with_its_key(tmp_path, text, key):
    assert f"{key}: " in str(refusal(tmp_path, text))


@pytest.mark.parametrize("listed", [[7, 5], [30, 40]])
def test_a_listing_range_that_no_task_can_have_is_refused(listed):
    with pytest.raises(UsageError):
        parse_config({"toolbox": {"listed": listed}}, "x")


def test_whole_numbers_and_truth_values_are_taken_as_they_are_written():
    channels = [{"name": "trdpo", "length_normalised": "auto"}]
    config = parse_config({"training": {"steps": 3.0, "rollouts": False}, "channels": channels}, "x")
    assert (config.training.steps, config.training.rollouts) == (3, False)
    assert config.channel(TrdpoSettings).length_normalised == "auto"


def test_configs_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        Config().training.steps = 1


def leaves(model: BaseModel, path: tuple[str, ...] = ()):
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from leaves(value, (*path, name))
        elif name == "channels":
            for place, channel in enumerate(value):
                yield from (leaf for leaf in leaves(channel, (*path, name, place)) if leaf[0][-1] != "name")
        else:
            yield (*path, name), value


OTHER_VALUES = {
    "token_weights": True,
    "chat_template_kwargs": {"enable_thinking": False},
    "rollouts_at_once": 64,
    "answer": "definition",
    "harness": "x",
    "harness_runtime": "x",
    "sandbox": "bubblewrap",
    "heldout_repositories": ["x"],
    "url": "http://127.0.0.1:1",
    "taskset": "x",
    "python": "x",
    "settings": {"x": 1},
    "hints_cure": "their_kind",
    "leak": "open",
    "leak_penalty": "hard",
    "leak_ways_known": ["file"],
    "base_url": "http://127.0.0.1:1/v1",
    "paths": ["x"],
    "teachers": ["x"],
    "splits": ["renames"],
    "name": "other",
    "format": "codex",
    "max_leak_level": "L2",
    "judge_base_url": "http://127.0.0.1:1/v1",
    "judge_model": "other",
    "sibling": "outcome",
    "drop": ["01234567"],
    "rule": "majority",
    "prices": {"x": [1, 2]},
    "key_variable": "X_KEY",
    "reader_base_url": "http://127.0.0.1:1/v1",
    "reader_model": "other",
    "source": "rollouts",
    "top_k": 8,
    "token_clip": 0.5,
    "teacher": "live",
    "kinds_off": ["timeout"],
    "warmup_share": 0.5,
    "decay_share": 0.5,
    "report_to": "wandb",
    "rollouts_per_device": 8,
    "mode": "drop",
    "weights": "bfloat16",
    "autocast": "off",
    "lora_rank": 8,
    "lora_targets": "q_proj",
    "vllm": "colocate",
    "server": "http://127.0.0.1:1",
    "weight_transfer": "disk",
    "folder": "weights",
    "model": "policy",
    "importance_clip": 2.0,
    "lighthouse": "http://127.0.0.1:1",
    "sibling_hints": "outcome",
    "advantage": "accepted",
    "hint": "feedback",
    "models": {"mine": {"reasoning_effort": "low"}},
}


def other(name: str, value):
    if name == "optimizer":
        return "adamw" if value == "muon" else "muon"
    if value == "toolbox":
        return "code"
    if name in OTHER_VALUES:
        return OTHER_VALUES[name]
    if isinstance(value, bool):
        return not value
    if value == ():
        return ["x"]
    if isinstance(value, tuple):
        return [value[0] / 2 if isinstance(value[0], float) else value[0] + 1, *value[1:]]
    return value / 2 if isinstance(value, float) and value else value + 1


@pytest.mark.parametrize("path", [path for path, _ in leaves(Config())], ids=lambda path: ".".join(map(str, path)))
def test_any_other_value_makes_another_hash(path):
    values = {"diloco": {}, **Config().model_dump(mode="json")}  # left out of a config that does not set it
    section = values
    for name in path[:-1]:
        section = section[name]
    section[path[-1]] = other(path[-1], dict(leaves(Config()))[path])
    changed = parse_config(values, "x")
    assert changed != Config()
    assert changed.hash != Config().hash


def test_equal_configs_have_equal_hashes_however_they_were_made():
    spelt_out = parse_config({"training": {"steps": 40, "learning_rate": 1}, "seed": Config().seed}, "x")
    built = Config(training=TrainingConfig(learning_rate=1.0, steps=40))
    assert spelt_out == built
    assert spelt_out.hash == built.hash


def test_quickstart_with_the_tiny_model_uses_the_defaults():
    config = quickstart_config("tiny", 7)
    assert (config.seed, config.model.name) == (7, "tiny")
    assert config.ingestion.embedded_session
    assert config.ingestion.rollouts > 0
    assert (config.warmup, config.training) == (Config().warmup, Config().training)


def test_quickstart_with_a_pretrained_model_is_gentler():
    tiny, config = quickstart_config("tiny", 7), quickstart_config("smollm2", 7)
    assert (config.seed, config.model.name) == (7, "smollm2")
    assert config.ingestion == tiny.ingestion
    assert config.warmup.steps < tiny.warmup.steps
    assert config.warmup.optimizer == "adamw"
    assert config.warmup.learning_rate < tiny.warmup.learning_rate
    assert config.training.learning_rate < tiny.training.learning_rate


def test_quickstart_makes_traces_of_its_own_where_a_file_does_not_say_what_to_read(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text("seed = 3\n[training]\nsteps = 5\n")
    config = load_quickstart_config(path)
    assert config.ingestion == quickstart_config("tiny", 3).ingestion
    assert (config.seed, config.training.steps) == (3, 5)
    path.write_text('[ingestion]\npaths = ["sessions"]\n')
    assert load_quickstart_config(path) == load_config(path), "what a file says is kept"
    path.write_text("[ingestion]\nredact = true\n")
    with pytest.raises(UsageError, match=r"my\.toml: \[ingestion\] reads nothing"):
        load_quickstart_config(path)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("evaluation", "splits", ["train"]),
        ("training", "temperature", 0.0),
        ("training", "learning_rate", -1.0),
        ("training", "alpha_sdpo", -0.1),
        ("replay", "simulated_error_rates", []),
        ("replay", "timeout_s", 0),
    ],
)
def test_values_that_must_break_later_are_refused_at_once(section, key, value):
    with pytest.raises(UsageError, match=f"{section}.{key}"):
        parse_config({section: {key: value}}, "my.toml")


def test_settings_know_the_environments_that_can_be_opened():
    from composer_replication.environments.opening import ENVIRONMENTS
    from composer_replication.sections import ENVIRONMENT_NAMES

    assert tuple(ENVIRONMENTS) == ENVIRONMENT_NAMES
