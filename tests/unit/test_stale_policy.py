"""A starting policy that is made again must be the one that the run's rollouts are of."""

import pytest

from composer_replication import pipeline
from composer_replication.config import Config, IngestionConfig
from composer_replication.errors import UsageError
from composer_replication.progress import Silent
from composer_replication.runs import Run
from composer_replication.stages.policy import policy_weights


def finish(run, noun, inputs=(), counts=None, **files):
    run.stage(noun).finish([], counts or {}, [run.stage(each) for each in inputs], 0.0, files)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Without a policy; the one that is made has weights of the hash `w`."""
    run = Run.start(tmp_path / "run", Config(ingestion=IngestionConfig(rollouts=4)))

    def prepare(run, progress):
        finish(run, "policy", counts={"weights_sha256": "w"})

    stages = [stage._replace(work=prepare) if stage.noun == "policy" else stage for stage in pipeline.STAGES]
    monkeypatch.setattr(pipeline, "STAGES", tuple(stages))
    return run


def test_the_same_policy_again_is_taken(run):
    prepare = pipeline.STAGES[0].work
    prepare(run, Silent())
    finish(run, "ingestion", ["policy"])
    (run.path / "policy" / "manifest.json").unlink()
    pipeline.ensure_policy(run, Silent())
    pipeline.refuse_stale(run, "training")
    assert policy_weights(run, "policy")[1] == "w"


def test_another_policy_is_refused_before_anything_is_done_with_it(run):
    finish(run, "ingestion", policy="another")
    pipeline.ensure_policy(run, Silent())
    with pytest.raises(UsageError, match="ingestion was made from another policy"):
        pipeline.refuse_stale(run, "sites")
    for noun in ("sites", "hints", "replay", "pairs"):
        finish(run, noun)
    (run.path / "policy" / "manifest.json").unlink()
    with pytest.raises(UsageError, match="ingestion was made from another policy"):
        pipeline.run_stage(run, "training", Silent())
