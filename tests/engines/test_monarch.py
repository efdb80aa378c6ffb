"""Rollouts in Monarch's actors: a worker that is killed is replaced, and nothing is lost or played otherwise."""

import pytest

from composer_replication.config import Config
from composer_replication.errors import RecomposeError
from composer_replication.pipeline import run_stage
from composer_replication.records import Trace
from composer_replication.runs import Run
from composer_replication.stages.ingestion import rollout_tokens
from tests.notes import Notes


def ingested(folder, name, most):
    """The traces and token rows of 40 rollouts in two workers, of which `most` die."""
    deaths = folder / f"{name}-deaths"
    deaths.write_text("")
    config = {
        "seed": 3,
        "warmup": {"steps": 2, "batch_size": 4},
        "ingestion": {"rollouts": 40},
        "training": {"max_turn_tokens": 16},
        "environment": {
            "name": "tests.engines.deadly_toolbox:open_deadly", "settings": {"deaths": str(deaths), "most": most},
        },
    }  # fmt: skip
    run, progress = Run.start(folder / name, Config.model_validate(config)), Notes()
    run_stage(run, "ingestion", progress, workers=2, launcher="monarch")
    return list(run.stage("ingestion").read(Trace)), rollout_tokens(run), progress.said, deaths.read_text()


def test_a_worker_that_is_killed_is_replaced_and_its_episodes_are_played_again(tmp_path):
    traces, rows, notes, deaths = ingested(tmp_path, "torn", most=1)
    assert deaths == "x"
    assert sum("a rollout worker died" in note for note in notes) == 1
    assert len(traces) == len(rows) == 40
    whole, whole_rows, notes, deaths = ingested(tmp_path, "whole", most=0)
    assert deaths == "" and not any("died" in note for note in notes)
    assert [trace.messages for trace in traces] == [trace.messages for trace in whole]
    assert [row.ids for row in rows] == [row.ids for row in whole_rows]


def test_a_part_that_kills_every_worker_ends_the_run_and_names_its_task(tmp_path):
    with pytest.raises(RecomposeError, match="3 workers died over the part of task"):
        ingested(tmp_path, "hopeless", most=99)
