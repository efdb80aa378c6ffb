"""What execution feedback tells a coding model: sites from stored attempts, likelihoods, and a whole part."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from composer_replication.environments.code.environment import CodeEnvironment
from composer_replication.environments.code.grading.grader import GradingProcesses
from composer_replication.environments.code.tasks.task import Grade
from composer_replication.training.models.loading import Policy
from composer_replication.training.models.tokens import ChatTokens
from shared.result_lines import read_result, write_result
from tests.hacks.sample_task import SPANS, SPANS_GOLD
from tests.unit.test_code_environment import RIGHT, WRONG
from tests.unit.test_feedback import NO_GAPS, folders, settings

__all__ = ["folders"]
EXPERIMENT = Path(__file__).parents[2] / "experiments" / "018-feedback-gap"


@pytest.fixture(scope="module")
def experiment():
    sys.path.insert(0, str(EXPERIMENT))
    import likelihood
    import run
    import sites

    yield type("Modules", (), {"run": run, "sites": sites, "likelihood": likelihood})
    sys.path.remove(str(EXPERIMENT))
    for name in ("run", "sites", "likelihood"):
        del sys.modules[name]


@pytest.fixture
def environment(folders, monkeypatch):
    def grade(self, task, submission, backend):
        return Grade(float(submission.written.get(SPANS) == SPANS_GOLD.encode()), (), (), ())

    monkeypatch.setattr(GradingProcesses, "grade", grade)
    return CodeEnvironment(folders, settings().environment)


@pytest.fixture
def policy(chatml_tokenizer, make_model):
    tokens = ChatTokens(chatml_tokenizer("<|pad|>"))
    model = make_model(len(tokens.tokenizer))
    model.config.max_position_embeddings = 1 << 14
    return Policy("random", model, tokens)


def failed_at(experiment, environment):
    attempts = {"one": [RIGHT, WRONG, WRONG, NO_GAPS], "two": [RIGHT, NO_GAPS]}
    return [
        one
        for task_id, said in attempts.items()
        for one in experiment.sites.failed_attempts(environment, environment.task(task_id), said)
    ]


def sites_of(experiment, environment):
    return list(experiment.sites.told(failed_at(experiment, environment), 300))


def test_sites_are_different_failures_with_their_own_feedback_and_that_of_another_task(experiment, environment):
    failed = failed_at(experiment, environment)
    assert [(one.task.task_id, one.said) for one in failed] == [("one", WRONG), ("one", NO_GAPS), ("two", NO_GAPS)]
    first, other = experiment.sites.told(failed, 300)
    assert (first["said"], other["task_id"]) == (WRONG, "two"), "nothing else was said of another task than of `gaps`"
    assert "[(1, 9)]" in first["feedback"] and "did not define `gaps`" in first["sham"]
    assert "[(1, 9)]" in other["sham"] and "did not define `gaps`" in other["observation"]


def test_attempts_come_part_by_part(experiment, tmp_path):
    for part, said in enumerate((["a", "b"], ["c", "d"])):
        lines = [{"line": "run"}, {"line": "task", "task_id": "t", "said": said}]
        write_result(tmp_path / f"start-{part}.jsonl.zst", lines)
    assert experiment.sites.stored_attempts(tmp_path, 2) == {"t": ["a", "c", "b", "d"]}


def test_what_was_read_before_changes_no_likelihood(experiment, policy):
    reader = experiment.likelihood.Reader(policy.model)
    drawn = torch.Generator().manual_seed(1)
    ids = torch.randint(5, 200, (4, 12), generator=drawn).tolist()
    context, turn, other, longer = ids[0], ids[1], ids[0][:7] + ids[2], ids[0] + ids[3]
    for behind in (context, other, context, longer, context[:1], context):
        whole = policy.model(torch.tensor([behind + turn])).logits[0, len(behind) - 1 : -1].float().log_softmax(-1)
        expected = whole[torch.arange(len(turn)), torch.tensor(turn)].mean().item()
        assert reader.mean_logprob(behind, turn) == pytest.approx(expected, abs=1e-5)


def test_a_part_has_every_site_in_every_context(experiment, environment, policy, tmp_path):
    found = sites_of(experiment, environment)
    experiment.run.measure(policy, settings(), environment, found, 7, tmp_path / "part-0.jsonl.zst")
    about, *lines = read_result(tmp_path / "part-0.jsonl.zst")
    contexts = experiment.run.CONTEXTS
    assert [(one["task_id"], one["context"]) for one in lines] == [
        (site["task_id"], context) for site in found for context in contexts
    ]
    assert about["draw"] == 7 and all(one["solution"] < 0 and one["attempt"] < 0 for one in lines)
    assert {one["reward"] for one in lines} == {0.0} and {one["failed"] for one in lines} == {True}
    solved = experiment.run.attempt(environment, "one", RIGHT)
    assert solved == {"reward": 1.0, "failed": False, "broken": None}


def test_contexts_differ_by_what_is_told_alone(experiment, environment, policy):
    site = sites_of(experiment, environment)[0]
    own = experiment.run.contexts_of(policy, environment, site)
    text = {name: policy.tokens.text(ids) for name, ids in own.items()}
    assert site["feedback"] in text["feedback"] and site["sham"] in text["sham"]
    assert site["said"] in text["retry"] and site["observation"] in text["retry"]
    assert all(ids[: len(own["plain"]) - 8] == own["plain"][:-8] for ids in own.values())
