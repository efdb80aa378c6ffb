"""What execution feedback tells a coding model: sites from stored attempts, likelihoods, and a whole part."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from shared.result_lines import read_result, write_result
from tests.own_modules import modules_of
from tests.unit.test_code_environment import RIGHT, WRONG
from tests.unit.test_feedback import NO_GAPS, environment, folders, policy, settings

__all__ = ["environment", "folders", "policy"]
EXPERIMENT = Path(__file__).parents[2] / "experiments" / "018-feedback-gap"


@pytest.fixture(scope="module")
def experiment():
    with modules_of(EXPERIMENT) as module:
        yield SimpleNamespace(**{name: module(name) for name in ("likelihood", "rebuild", "run", "sites")})


@pytest.fixture
def rebuilt(experiment):
    return experiment.rebuild


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


def measured(task, repository, context, said="old", **own):
    """One line of a part."""
    fallback = {"solution": -1.0, "attempt": -0.5, "reward": 0.0, "broken": None}
    named = {"task_id": task, "repository": repository, "context": context, "said_before": said, "said": f"{said}!"}
    return {"line": "attempt", **named, **fallback, **own}


@pytest.fixture
def raw(tmp_path):
    """Six repositories with one task of one site, and a seventh with two tasks, one of which has two sites."""
    places = [(f"t{number}", f"r{number}", "old") for number in range(6)]
    places += [("a", "many", "old"), ("a", "many", "older"), ("b", "many", "old")]
    lines = [
        measured(task, repository, context, said, solution=-1.0 + 0.2 * (context == "feedback"))
        for task, repository, said in places
        for context in ("plain", "feedback", "sham", "retry")
    ]
    lines[4 * 6 + 1] |= {"reward": 1.0, "attempt": -0.9}
    sites = [{"line": "site", "task_id": task, "name": task, "said": said} for task, _, said in places]
    write_result(tmp_path / "sites.jsonl.zst", [{"line": "run"}, *sites])
    write_result(tmp_path / "part-0.jsonl.zst", [{"line": "run"}, *lines[:12]])
    write_result(tmp_path / "part-1.jsonl.zst", [{"line": "run"}, *lines[12:]])
    return tmp_path


def test_the_unit_is_the_repository(rebuilt, raw):
    tables = rebuilt.tables_of(rebuilt.read_sites(raw))
    assert (tables["sites"], tables["tasks"], tables["repositories"]) == (9, 8, 7)
    first = tables["registered"]["H1"]
    assert first["interval"]["mean"] == pytest.approx(0.2) and first["p"] == pytest.approx(2 / 2**7)
    assert first["p_holm"] == pytest.approx(4 * 2 / 2**7)
    second = tables["registered"]["H2"]["by_repository"]
    assert second["many"] == pytest.approx((0.5 + 0.0) / 2) and second["r0"] == 0
    assert tables["kept_by_g3"]["feedback"]["mean"] == pytest.approx(0.25 / 7)
    assert tables["kept_by_g3"]["sham"]["mean"] == 0


def test_parts_that_are_missing_are_not_left_out_in_silence(rebuilt, raw):
    (raw / "part-1.jsonl.zst").unlink()
    with pytest.raises(SystemExit, match="incomplete: 6 of 9 sites"):
        rebuilt.read_sites(raw)
