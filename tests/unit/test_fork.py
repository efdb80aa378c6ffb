"""A fork keeps what the change does not touch, pays for nothing twice, and needs its parent no more."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections import defaultdict

import pytest

from composer_replication import sections
from composer_replication.config import Config, parse_config
from composer_replication.llm.ledger import Ending, Ledger
from composer_replication.pipeline import NOT_TRAINED_ON, PLAYING, STAGES, TURN, run_pipeline, run_stage, touched
from composer_replication.progress import Silent
from composer_replication.records import TeacherReply, digest_of
from composer_replication.runs import Run
from composer_replication.settings import with_changes
from tests.command_line import recompose
from tests.small import SMALL_CONFIG

DONE = ["policy", "ingestion", "sites", "hints", "replay", "pairs", "training", "evaluation"]
KINDS = {name: field.annotation for name, field in Config.model_fields.items()}
SECTION_OF = {
    **{kind.__name__: name for name, kind in KINDS.items() if isinstance(kind, type)},
    **dict.fromkeys(("GrpoSettings", "SdpoSettings", "TrdpoSettings", "Schedule"), "channels"),
    "GateConfig": "replay.gate",
    "Config": "",
}


@pytest.fixture(scope="module")
def read_keys():
    """By stage the settings that it looked at."""
    return defaultdict(set)


@pytest.fixture(scope="module")
def parent(tmp_path_factory, read_keys):
    run = Run.start(tmp_path_factory.mktemp("parent") / "run", parse_config(tomllib.loads(SMALL_CONFIG), "small"))
    do_watched(run, [stage.noun for stage in STAGES if not stage.optional], read_keys)
    return run


def do_watched(run: Run, nouns, read_keys):
    plain, noun = sections.Section.__getattribute__, ""

    def watched(section, name):
        kind = type(section)
        if name in kind.model_fields and kind.__name__ in SECTION_OF:
            read_keys[noun].add(".".join(filter(None, (SECTION_OF[kind.__name__], name))))
        return plain(section, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sections.Section, "__getattribute__", watched)
        for noun in nouns:
            run_stage(run, noun, Silent())


def forked(parent: Run, path, *changes: str):
    words = [word for change in changes for word in ("--set", change)]
    ended = recompose("fork", parent.path, path, *words, "--json")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_a_stage_reads_no_setting_that_it_does_not_name(parent, read_keys):
    sections_of_config = set(Config.model_fields) - {"seed"}
    reads_of = {stage.noun: stage.reads for stage in STAGES}
    for stage in STAGES:
        named = (*stage.reads, *(PLAYING if stage.noun == "ingestion" else ()))
        made_from = (parent.stage(stage.noun).manifest or {"inputs": ()})["inputs"]
        named += tuple(key for noun in made_from for key in reads_of.get(noun, ()))
        # Whether there are rollouts decides how stages are compared, and no record; a card tells the others.
        named += ("ingestion.rollouts", "replay.simulated", "warmup.steps", "diloco", "channels.name")
        looked_at = read_keys[stage.noun] - sections_of_config - {"replay.gate"}
        assert not [key for key in looked_at if not any(key == one or key.startswith(f"{one}.") for one in named)]
    assert {key.split(".")[0] for key in read_keys["training"]} & {"hints", "hardware", "channels", "monitor"}
    assert set(NOT_TRAINED_ON) <= set(Config.model_fields)


@pytest.mark.parametrize(
    ("change", "first_dropped"),
    [
        ("seed=4", "policy"),
        ("warmup.steps=3", "policy"),
        ("ingestion.rollouts=4", "ingestion"),
        ("training.temperature=0.9", "ingestion"),
        ("sites.reader_timeout_s=9", "sites"),
        ("hints.max_tokens=50", "hints"),
        ("replay.max_states=3", "replay"),
        ("pairs.critical=false", "pairs"),
        ("training.steps=3", "training"),
        ("channels.sdpo.weight=0.2", "training"),
        ("evaluation.held_out_sessions=0.5", "training"),
        ("evaluation.tasks=3", "evaluation"),
    ],
)
def test_what_a_change_touches_is_dropped_and_told(parent, tmp_path, change, first_dropped):
    told = forked(parent, tmp_path / "new", change)
    assert next(iter(told["dropped"])) == first_dropped
    assert told["dropped"][first_dropped] == change.split("=")[0]
    assert set(told["kept"]) | set(told["dropped"]) == set(DONE) and not set(told["kept"]) & set(told["dropped"])
    if first_dropped == "hints":
        assert {"sites", "replay", "pairs"} <= set(told["kept"]), "teachers were not shown the hints"
    new = Run.open(tmp_path / "new")
    assert new.config == with_changes(parent.config, [change])
    assert [noun for noun in DONE if new.stage(noun).is_done] == told["kept"]


def test_a_fork_goes_on_to_the_end_and_the_parent_is_as_it_was(parent, tmp_path):
    before = {path: path.read_bytes() for path in sorted(parent.path.rglob("*")) if path.is_file()}
    told = forked(parent, tmp_path / "new", "pairs.critical=false")
    new = Run.open(tmp_path / "new")
    run_pipeline(new, Silent())
    assert all(new.stage(noun).is_done for noun in DONE)
    assert new.stage("replay").sha256 == parent.stage("replay").sha256
    assert told["next"] == f"recompose pair {tmp_path / 'new'}"
    after = {path: path.read_bytes() for path in sorted(parent.path.rglob("*")) if path.is_file()}
    assert {path.name for path in after if before.get(path) != after[path]} <= {".lock"}


def test_without_rollouts_the_length_of_turns_is_no_matter_of_training(parent, tmp_path):
    changes = ("training.rollouts=false", "training.prompts_per_step=16", "training.group_size=8")
    forked(parent, tmp_path / "stored", *changes)
    stored, read_keys = Run.open(tmp_path / "stored"), defaultdict(set)
    do_watched(stored, ["training", "evaluation"], read_keys)
    assert (TURN in read_keys["training"], TURN in read_keys["evaluation"]) == (False, True)
    dropped = touched(stored, [TURN])
    assert (dropped["training"], dropped["evaluation"]) == ("ingestion", TURN), "its traces are of the policy"


def test_weights_are_linked_and_outlive_a_parent_that_changes_or_goes(parent, tmp_path):
    old = Run(shutil.copytree(parent.path, tmp_path / "old"), parent.config)
    forked(old, tmp_path / "new", "training.steps=3")
    new = Run.open(tmp_path / "new")
    weights, records = "policy/model/model.safetensors", "ingestion/records.jsonl.zst"
    for name in (weights, records):
        assert (new.path / name).samefile(old.path / name)
    assert not (new.path / "policy/manifest.json").samefile(old.path / "policy/manifest.json")
    kept = {name: (new.path / name).read_bytes() for name in (weights, records)}
    for noun in ("policy", "ingestion"):
        (old.stage(noun).path / "manifest.json").unlink()
    other = Run(old.path, with_changes(old.config, ["seed=9"]))
    for noun in ("policy", "ingestion"):
        run_stage(other, noun, Silent())
    assert (old.path / weights).read_bytes() != kept[weights], "the parent has other weights now"
    shutil.rmtree(old.path)
    assert {name: (new.path / name).read_bytes() for name in kept} == kept
    run_stage(new, "training", Silent())
    assert new.stage("training").counts["steps"] == 3


def test_inherited_answers_cost_nothing_and_are_shown_as_such(parent, tmp_path):
    ledger = Ledger(parent.path / "ledger.sqlite")
    ledger.set_cap(1_000_000)
    for number, ending in enumerate(
        (Ending("settled", 70, body=b"{}"), Ending("failed", 5, reason="cut", unusable=True), Ending("in_doubt"))
    ):
        ledger.finish(ledger.reserve(f"paid {number}", "dear", 100).attempt, ending)
    spent = ledger.totals().charged_micros
    ledger.close()
    assert spent == 175
    told = forked(parent, tmp_path / "new", "replay.max_states=200")
    shown = recompose("fork", parent.path, tmp_path / "shown", "--set", "replay.max_states=200").stdout
    replies = parent.stage("replay").read(TeacherReply)
    assert told["inherited_answers"] == len(replies) + 1
    answers = f"{len(replies) + 1} answers of teachers, at no cost, and 1 useless, not bought again"
    assert f"  inherited  {answers}\n" in shown
    new = Run.open(tmp_path / "new")
    run_stage(new, "replay", Silent())
    asked = new.stage("replay").counts
    assert (asked["calls"] - asked["inherited"], asked["spent_micros"]) == (0, 0), "nobody was asked again"
    cost = json.loads(recompose("cost", new.path, "--json").stdout)
    dear = next(one for one in cost["teachers"] if one["teacher"] == "dear")
    assert (cost["spent_micros"], cost["cap_micros"], dear["spent_micros"]) == (0, None, 0)
    assert dear["attempts"] == dict.fromkeys(dear["attempts"], 0) | {"inherited": 2}, (
        "what was in doubt is the parent's"
    )
    page = recompose("cost", new.path).stdout
    assert page.splitlines()[0].split()[:3] == ["teacher", "settled", "inherited"]
    own = Ledger(new.path / "ledger.sqlite")
    assert own.settled("paid 0").cost_micros == 0 and own.reserve("paid 0", "dear").status == "settled"
    own.close()
    again = Ledger(parent.path / "ledger.sqlite", read_only=True)
    assert again.totals().charged_micros == spent
    again.close()


def test_what_cannot_be_forked(parent, tmp_path):
    (tmp_path / "there").mkdir()
    for words, told in (
        ((parent.path, tmp_path / "there", "--set", "seed=9"), "there exists; next: choose another folder"),
        ((parent.path, tmp_path / "new"), f"nothing is to be changed; next: recompose fork {parent.path}"),
        ((parent.path, tmp_path / "new", "--set", "seed=3"), "--set says what is there already"),
        ((parent.path, tmp_path / "new", "--set", "sed=3"), "--set: unknown key sed, did you mean seed?"),
        ((tmp_path / "nowhere", tmp_path / "new", "--set", "seed=3"), "nowhere does not exist"),
    ):
        ended = recompose("fork", *words)
        assert ended.returncode == 2 and told in ended.stderr
        assert not (tmp_path / "new").exists() and not list(tmp_path.glob(".*"))


def test_attempts_of_env_rollout_are_not_made_again_by_ingest(tmp_path):
    run = Run.start(tmp_path / "run", with_changes(Config(), ["environment.name=code"]))
    run.stage("ingestion").finish([], {}, [], 0.0, {"tasks": "t", "settings": "s"})
    ended = recompose("fork", run.path, tmp_path / "new", "--set", "model.name=x")
    assert ended.returncode == 2 and "`env rollout` made them; next: recompose env rollout TASKS --run" in ended.stderr
    assert forked(run, tmp_path / "new", "training.steps=3")["kept"] == ["ingestion"]


def test_a_config_that_was_edited_is_told(tmp_path):
    run = Run.start(tmp_path / "run", Config())
    settings = json.loads((run.path / "config.json").read_text())
    settings["training"]["steps"] = 99
    (run.path / "config.json").write_text(json.dumps(settings))
    for words in (("train", run.path, "--dry-run"), ("show", run.path), ("config", run.path)):
        ended = recompose(*words)
        assert ended.returncode == 2 and "config.json is not what" in ended.stderr
        assert f"recompose fork {run.path} NEW --set KEY=VALUE" in ended.stderr
    older = Run.start(tmp_path / "older", Config())
    settings = {key: value for key, value in Config().model_dump(mode="json").items() if key != "sampling"}
    (older.path / "config.json").write_text(json.dumps(settings))
    (older.path / "manifest.json").write_text(json.dumps({"config_hash": digest_of(settings)}))
    assert Run.open(older.path).config == Config(), "a version that knew fewer settings began it"


def test_a_run_is_read_again_with_the_settings_that_it_has(tmp_path):
    words = (
        "ingest",
        "--run",
        tmp_path / "run",
        "--set",
        "training.steps=3",
        "--set",
        "ingestion.embedded_session=true",
    )
    assert recompose(*words).returncode == 0
    again = recompose("ingest", "--run", tmp_path / "run")
    assert (again.returncode, Run.open(tmp_path / "run").config.training.steps) == (0, 3)
    other = recompose("ingest", "--run", tmp_path / "run", "--set", "training.steps=4")
    assert other.returncode == 2 and f"recompose fork {tmp_path / 'run'} NEW --set KEY=VALUE" in other.stderr
