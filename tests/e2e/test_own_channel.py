"""A channel that the package does not know, from a TOML file to the report: one class and one line."""

from __future__ import annotations

import inspect
import json

import pytest

from composer_replication.cli.quickstart import quickstart
from composer_replication.cli.train import train
from composer_replication.errors import UsageError
from composer_replication.records import PreferencePair
from composer_replication.runs import Run, read_records
from composer_replication.training.stored.records import TokenWeights, TrainingStep
from composer_replication.viewer.api import Library
from tests.e2e.own_channel import StayClose
from tests.small import SMALL_CONFIG

ENTRIES = """
[[channels]]
name = "grpo"
[[channels]]
name = "trdpo"
[[channels]]
name = "tests.e2e.own_channel:StayClose"
weight = 0.5
strength = 2.0
schedule = { warmup_share = 0.5 }
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.toml").write_text(SMALL_CONFIG + ENTRIES)
    path = folder / "run"
    quickstart(config=folder / "own.toml", run=path)
    return path


def test_it_is_short():
    assert len(inspect.getsource(StayClose).splitlines()) <= 30


def test_its_loss_is_in_metrics_step_records_report_and_card(run):
    lines = [json.loads(line) for line in (run / "training" / "metrics.jsonl").read_text().splitlines()]
    logged = [line["channel/close"] for line in lines if "channel/close" in line]
    assert len(logged) == 2
    assert all(value > 0 for value in logged)
    assert all("channel/sdpo" not in line for line in lines), "a channel that is not listed is off"
    steps = Run.open(run).stage("training").read(TrainingStep)
    assert [step.channels["close"] for step in steps] == logged
    assert steps[0].channels.keys() == {"replay", "close"}
    told = json.loads((run / "report.json").read_text())["losses"]
    assert told.keys() == {"policy", "replay", "close"}
    assert told["close"] == logged[-1]
    assert "Channel 4 · close loss" in (run / "report.html").read_text()
    assert "GRPO + 0.05 · TR-DPO + 0.5 · StayClose" in (run / "training" / "model" / "README.md").read_text()


def test_what_each_channel_pulls_at_is_written_where_it_says_so(run):
    (file,) = (run / "training" / "token_weights").iterdir()
    found = list(read_records(file, TokenWeights))
    assert {record.channel for record in found} == {"policy", "replay"}, "the fourth one does not say"
    for record in found:
        assert len(record.ids) == len(record.weights) == len(record.mask) == len(record.entropy) == len(record.pieces)


def test_a_pair_leads_to_the_steps_that_read_its_trace(run):
    lines = [json.loads(line) for line in (run / "training" / "read.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2]
    pair = Run.open(run).stage("pairs").read(PreferencePair)[0]
    answer = Library([run]).answer(run.name, "show", {"id": pair.pair_id})
    read = [str(line["step"]) for line in lines if pair.trace_id in line["traces"]]
    assert [each["id"] for each in answer["to"]] == read
    assert all(lines[0]["traces"])


def test_its_strength_is_that_of_the_file(run):
    settings = Run.open(run).config.channels[2]
    assert settings.model_dump()["strength"] == 2.0


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (
            'name = "tests.e2e.own_channel:StayClose"\nweight = 1\nstrenght = 2',
            "unknown key strenght, did you mean str",
        ),
        ('name = "tests.e2e.own_channel:Missing"\nweight = 1', "has no attribute 'Missing'"),
        ('name = "no.such.package:Own"\nweight = 1', "No module named 'no'"),
    ],
)
def test_what_is_wrong_with_it_is_told_before_anything_is_made(tmp_path, entry, told):
    (tmp_path / "own.toml").write_text(f'{SMALL_CONFIG}\n[[channels]]\nname = "grpo"\n[[channels]]\n{entry}\n')
    with pytest.raises(UsageError, match=told):
        quickstart(config=tmp_path / "own.toml", run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_unknown_backend_is_refused_with_the_list(run):
    with pytest.raises(UsageError, match="no backend tlr; next: choose one of trl"):
        train(run, backend="tlr")
