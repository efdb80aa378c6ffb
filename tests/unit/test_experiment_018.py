"""What execution feedback tells a coding model: sites from stored attempts, likelihoods, and a whole part."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from composer_replication.store import hash_of
from shared.code_runs.plan import Plan
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
        expected = whole[torch.arange(len(turn)), torch.tensor(turn)].tolist()
        assert reader.logprobs(behind, turn) == pytest.approx(expected, abs=1e-5)


def test_new_tokens_are_those_of_lines_that_the_task_does_not_show(experiment, policy):
    answer = "```python\nimport re\n\ndef f(x):\n    y = x + 1\n    return y\n```"
    shown = "Write `f`.\n\n    def f(x):\n\n`m.py` begins with:\n\nimport re"
    new = experiment.likelihood.is_new(policy.tokens, answer, shown)
    ids = policy.tokens.turn(answer)
    assert len(new) == len(ids) and not new[-1]
    counted = policy.tokens.text([token for token, counts in zip(ids, new, strict=True) if counts])
    assert counted == "    y = x + 1\n    return y\n"


def test_every_number_is_of_its_own_site_and_context(experiment, environment, policy, tmp_path, monkeypatch):
    class Echo:
        def __init__(self, model): ...

        def logprobs(self, context, turn):
            return [float(len(context))] * len(turn)

    found = sites_of(experiment, environment)
    for reader, name in ((experiment.run.Reader, "part-0"), (Echo, "part-1")):
        monkeypatch.setattr(experiment.run, "Reader", reader)
        about = {"sites_sha256": "0"}
        experiment.run.measure(policy, settings(), environment, found, about, tmp_path / f"{name}.jsonl.zst")
    head, *real = read_result(tmp_path / "part-0.jsonl.zst")
    _, *echoed = read_result(tmp_path / "part-1.jsonl.zst")
    assert head["sites_sha256"] == "0" and len(real) == 4 * len(found)
    assert all(one["solution"] < 0 and one["new"] < 0 < one["new_tokens"] for one in real)
    for number, line in enumerate(echoed):
        site = found[number // 4]
        contexts = experiment.run.contexts_of(policy.tokens, environment.task(site["task_id"]), site)
        assert (line["task_id"], line["said"]) == (site["task_id"], site["said"])
        assert line["new"] == line["solution"] == len(contexts[line["context"]])
    assert len({line["new"] for line in echoed}) >= 6


def test_contexts_differ_by_what_is_told_alone(experiment, environment, policy):
    """And the second try is not told that the first was the last step."""
    site = sites_of(experiment, environment)[0]
    assert site["observation"].endswith("as it is.") and "as it is." in site["feedback"]
    contexts = experiment.run.contexts_of(policy.tokens, environment.task(site["task_id"]), site)
    text = {name: policy.tokens.text(ids) for name, ids in contexts.items()}
    header = "<|im_start|>assistant\n"
    asked = text["plain"].removesuffix(header)
    for name in ("feedback", "sham"):
        assert text[name] == f"{asked}<|im_start|>user\n{site[name]}<|im_end|>\n{header}"
    answer = site["observation"].rpartition("\n")[0]
    assert text["retry"] == (
        f"{text['plain']}{site['said']}<|im_end|>\n"
        f"<|im_start|>{policy.tokens.observation_role}\n{answer}\nAnswer again with one code block.<|im_end|>\n{header}"
    )


def measured(task, repository, context, said="old", **own):
    """One line of a part."""
    named = {"task_id": task, "repository": repository, "context": context, "said": said}
    return {"line": "read", **named, "new": -1.0, "solution": -2.0, **own}


@pytest.fixture
def raw(tmp_path):
    """Six repositories with one task of one site, and a seventh with two tasks, one of which has two sites."""
    places = [(f"t{number}", f"r{number}", "old") for number in range(6)]
    places += [("a", "many", "old"), ("a", "many", "older"), ("b", "many", "old")]
    lines = [
        measured(task, repository, context, said, new=-1.0 + 0.2 * (context == "feedback"))
        for task, repository, said in places
        for context in ("plain", "feedback", "sham", "retry")
    ]
    lines[4 * 6 + 1]["solution"] = -1.0
    told = {"feedback": "The block was put in, and expected 3, got 4", "sham": "no code block"}
    sites = [
        {"line": "site", "task_id": task, "name": task, "repository": repository, "said": said, **told}
        for task, repository, said in places
    ]
    sites[0]["sham"] = "The block was put in, and expected 3, got 5"
    sites[1]["feedback"] = "it could not be parsed"
    write_result(tmp_path / "sites.jsonl.zst", [{"line": "run"}, *sites])
    about = {"line": "run", "sites_sha256": hash_of([tmp_path / "sites.jsonl.zst"])}
    write_result(tmp_path / "part-0.jsonl.zst", [about, *lines[:12]])
    write_result(tmp_path / "part-1.jsonl.zst", [about, *lines[12:]])
    return tmp_path


def test_the_unit_is_the_repository(rebuilt, raw):
    tables = rebuilt.tables_of(rebuilt.read_sites(raw), {})
    assert (tables["sites"], tables["tasks"], tables["repositories"]) == (9, 8, 7)
    first, *_ = tables["registered"]
    assert (first["name"], first["sides"]) == ("H1", ("new", "feedback", "sham"))
    found = first["difference"]
    assert found["interval"]["mean"] == pytest.approx(0.2) and found["p"] == pytest.approx(2 / 2**7)
    assert first["p_holm"] == pytest.approx(3 * 2 / 2**7) and found["smallest_p"] == pytest.approx(2 / 2**7)
    also = {one["sides"]: one["difference"] for one in tables["also"]}
    whole = also["solution", "feedback", "plain"]["by_repository"]
    assert whole["many"] == pytest.approx((0.5 + 0.0) / 2) and whole["r0"] == 0
    assert tables["levels"]["feedback"]["solution"]["mean"] == pytest.approx(-2 + 0.25 / 7)


@pytest.mark.parametrize(
    ("positive", "said"),
    [
        ({"H1", "H2"}, "*the feedback informs*"),
        ({"H1", "H3"}, "*the sham misleads*, and no more"),
        ({"H2"}, "neither *the feedback informs* nor *the sham misleads* was seen"),
    ],
)
def test_the_verdict_is_that_of_the_plan(rebuilt, positive, said):
    def seen(name, p_holm=0.01):
        mean = 0.1 if name in positive else -0.1
        return {"name": name, "p_holm": p_holm, "difference": {"interval": {"mean": mean}}}

    assert rebuilt.verdict([seen(name) for name in ("H1", "H2", "H3")]) == said
    assert rebuilt.verdict([seen(name, p_holm=0.06) for name in ("H1", "H2", "H3")]).startswith("neither")


def test_sites_of_cut_answers_of_tests_that_ran_and_of_shams_that_say_the_same_are_told_apart(rebuilt, raw):
    def plan_with(tokens):
        lines = [{"line": "task", "said": ["old", "older"], "tokens": tokens}]
        write_result(raw / "start-0.jsonl.zst", [{"line": "run"}, *lines])
        base = {"training": {"max_turn_tokens": 384}}
        return Plan({"base": base, "measuring": {"start_parts": 1}, "repositories": {"test": ["many"]}}, raw)

    found = rebuilt.subsets_of(rebuilt.read_sites(raw), plan_with([200, 384]))
    assert [len(own) for own in found.values()] == [8, 8, 6, 8, 1]


def test_parts_that_are_missing_are_not_left_out_in_silence(rebuilt, raw):
    (raw / "part-1.jsonl.zst").unlink()
    with pytest.raises(SystemExit, match="incomplete: 6 of 9 sites"):
        rebuilt.read_sites(raw)


def test_parts_of_other_sites_are_refused(rebuilt, raw):
    sites = list(read_result(raw / "sites.jsonl.zst"))
    write_result(raw / "sites.jsonl.zst", sites[:-1])
    with pytest.raises(SystemExit, match="was made of other sites"):
        rebuilt.read_sites(raw)
