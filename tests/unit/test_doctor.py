"""What is here and what is not: told before work, without a key in sight."""

from __future__ import annotations

import json

import pytest

from composer_replication.config import Config
from composer_replication.environments.code.sandbox import unsafe
from composer_replication.environments.code.sandbox.open import why_unavailable
from composer_replication.errors import UsageError
from composer_replication.runs import Run
from composer_replication.settings import with_changes
from composer_replication.stages import readiness
from composer_replication.training.planning.missing import missing, refuse_missing
from tests.command_line import recompose
from tests.e2e.sentences import random_model

SECRET = "sk-or-v1-0123456789abcdef"


def looked_at(*words: object) -> tuple[int, dict[str, dict[str, str]], str]:
    ended = recompose("doctor", *words, "--json")
    told = json.loads(ended.stdout)
    assert told["ok"] == (ended.returncode == 0)
    return ended.returncode, {one["name"]: one for one in told["checks"]}, ended.stdout


def test_the_machine_of_the_tests_has_no_problem_and_no_key_is_printed(monkeypatch):
    monkeypatch.setenv("OPENROUTER_API_KEY", SECRET)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    code, found, printed = looked_at()
    page = recompose("doctor").stdout
    assert code == 0 and page.endswith("no problem\n")
    assert SECRET not in printed + page and SECRET[:9] not in printed + page
    assert (found["OPENROUTER_API_KEY"]["told"], found["HF_TOKEN"]["told"]) == ("present", "absent")
    assert {"python", "libraries", "train", "gpu", "sandbox"} <= found.keys()


def test_other_versions_than_those_tested_with_are_told(tmp_path, monkeypatch):
    (tmp_path / "constraints.txt").write_text("rich==0.1.0\ncyclopts==5.4.0\nnot-ours==1.0\n")
    monkeypatch.setattr(readiness, "TESTED_WITH", (tmp_path / "none.txt", tmp_path / "constraints.txt"))
    first, other = readiness.libraries()
    assert first.told == "1 of 2 are as tested"
    assert (other.name, other.status) == ("rich", "note") and other.told.endswith("tested with 0.1.0")


def test_an_extra_that_is_not_whole_says_what_to_install(monkeypatch):
    monkeypatch.setattr(readiness, "installed_version", lambda name: None if name == "peft" else "1")
    lora = next(one for one in readiness.extras() if one.name == "lora")
    assert (lora.status, lora.told, lora.next) == ("note", "lacks peft", "pip install 'composer-replication[lora]'")


def test_what_the_settings_need_is_a_problem_where_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    (tmp_path / "my.toml").write_text(
        '[model]\nname = "/no/such/model"\n[replay]\nsimulated = false\n[training]\nreport_to = "wandb"\n'
    )
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, found, _ = looked_at(tmp_path / "my.toml")
    assert code == 1
    assert found["OPENROUTER_API_KEY"]["status"] == "problem"
    assert "there is no model folder" in found["settings"]["told"]
    assert recompose("doctor", tmp_path / "none.toml").returncode == 2


@pytest.mark.parametrize(("name", "told"), [("some/hub-id", "cannot be reached"), ("a b", "does not give it (HFVal")])
def test_a_model_that_no_hub_gives_is_told_in_one_line(tmp_path, monkeypatch, name, told):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    (tmp_path / "my.toml").write_text(f'model.name = "{name}"\n')
    code, found, _ = looked_at(tmp_path / "my.toml")
    assert (code, found["settings"]["status"]) == (1, "problem")
    assert f"{name} is not on this machine, and the hub {told}" in found["settings"]["told"]
    assert "a folder" in found["settings"]["next"] and "recompose model fetch NAME" in found["settings"]["next"]
    assert "--gguf FILE" in found["settings"]["next"]


def test_the_template_of_a_model_in_a_folder_is_looked_at(tmp_path):
    (tmp_path / "my.toml").write_text(f'model.name = "{random_model(tmp_path / "model")}"\n')
    code, found, _ = looked_at(tmp_path / "my.toml")
    assert code == 0 and "a hint goes to the" in found["template"]["told"]


SERVER = 'replay = { simulated = false, teachers = ["a/x", "b/y"], '


@pytest.mark.parametrize(
    "setting",
    [
        f'{SERVER}base_url = "https://example.org/v1", key_variable = "{SECRET}" }}',
        f'{SERVER}base_url = "https://me:{SECRET}@example.org/v1" }}',
        f'{SERVER}base_url = "https://example.org/v1?key={SECRET}" }}',
        f'replay.models.x.key_variable = "hf_{SECRET.replace("-", "")}"',
        f'sampling.server = "http://me:{SECRET}@127.0.0.1:8000"',
    ],
)
@pytest.mark.parametrize("verb", ["config", "doctor"])
def test_a_key_that_was_written_into_the_settings_is_refused_unseen(verb, setting, tmp_path):
    (tmp_path / "my.toml").write_text(setting)
    ended = recompose(verb, tmp_path / "my.toml")
    assert ended.returncode == 2 and "key" in ended.stderr
    assert "0123456789abcdef" not in ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("backend", "status"), [(f"{unsafe.__name__}:UnsafeSandbox", "ok"), ("no.such:Sandbox", "problem")]
)
def test_a_sandbox_of_ones_own_is_opened(backend, status, tmp_path):
    (tmp_path / "my.toml").write_text(f'environment = {{ name = "code", sandbox = "{backend}" }}\n')
    assert looked_at(tmp_path / "my.toml")[1]["sandbox"]["status"] == status


def test_on_another_system_the_sandbox_leads_to_linux(monkeypatch):
    monkeypatch.setattr("composer_replication.environments.code.sandbox.open.sys.platform", "darwin")
    why_unavailable.cache_clear()
    try:
        _, found, _ = looked_at()
    finally:
        why_unavailable.cache_clear()
    assert found["sandbox"]["next"] == "run it on Linux, in a virtual machine or a container"


def with_settings(*changes: str) -> Config:
    return with_changes(Config(), changes)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("model.name=/no/such/model", "there is no model folder /no/such/model"),
        ("model.name=some/hub-id", "some/hub-id is no folder and not in the cache, and HF_HUB_OFFLINE forbids"),
        ("model.name=tests", "tests is a folder without a model"),
        ('training.report_to="trackio"', 'report_to = "trackio" needs the package trackio'),
        ("hardware.vllm=colocate", "hardware.vllm needs vllm here"),
    ],
)
def test_what_is_missing_is_found_before_any_work(change, told, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UsageError, match=told):
        refuse_missing(with_settings(change))
    ended = recompose("quickstart", "--run", tmp_path / "run", "--set", change)
    assert ended.returncode == 2 and told in ended.stderr
    assert not (tmp_path / "run").exists(), "nothing was begun"


def test_a_run_that_has_its_policy_needs_the_model_no_more(monkeypatch):
    config = with_settings("model.name=/no/such/model")
    assert len(list(missing(config))) == 1 and not list(missing(config, has_model=True))


def test_training_looks_for_the_logger_before_it_reads_a_trace(tmp_path):
    run = Run.start(tmp_path / "run", with_settings('training.report_to="trackio"', "training.rollouts=true"))
    ended = recompose("train", run.path)
    assert ended.returncode == 2 and "needs the package trackio" in ended.stderr
    assert not run.stage("policy").path.exists()
    plan = recompose("train", run.path, "--dry-run", "--json")
    assert "needs the package trackio" in json.loads(plan.stdout)["refused"]
