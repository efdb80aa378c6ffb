"""The pages of evidence say what the raw files say, and their sentences are checked against them."""

import json
import re
import runpy
from pathlib import Path

import pytest

from composer_replication.errors import RecomposeError
from tests.command_line import recompose

ROOT = Path(__file__).parents[2]


@pytest.fixture
def evidence(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "experiments")
    return runpy.run_path(str(ROOT / "experiments" / "evidence.py"))


def test_the_pages_are_what_the_tables_make(evidence, tmp_path):
    evidence["main"].__globals__["DOCS"] = tmp_path
    evidence["main"]()
    for page in tmp_path.iterdir():
        assert page.read_text() == (ROOT / "docs" / page.name).read_text()
    assert len(list(tmp_path.iterdir())) == 2


EXPERIMENTS = ["009-rates", "011-content", "012-competitors", "013-triples", "018-feedback-gap"]


def as_said(evidence, experiment):
    """Made so that its sentences fit."""
    bounds = {"unclear": (-0.1, 0.1), "above": (0.1, 0.2), "below": (-0.2, -0.1)}

    def test(said):
        lo, hi = bounds[said.removesuffix(" by interval")]
        return {"difference": {"interval": {"lo": lo, "hi": hi}}, "p_holm": 0.2 if "interval" in said else 0.04}

    return {name: test(said) for name, said in evidence["SAID"][experiment].items()}


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_sentences_whose_interval_has_moved_are_refused(evidence, experiment):
    tests = as_said(evidence, experiment)
    evidence["check_prose"](experiment, tests)
    unclear = next(name for name, said in evidence["SAID"][experiment].items() if said == "unclear")
    tests[unclear]["difference"]["interval"]["lo"] = 0.05
    with pytest.raises(RecomposeError, match=f"{unclear} of {experiment} is 'above', not 'unclear'"):
        evidence["check_prose"](experiment, tests)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_sentences_whose_p_after_holm_has_moved_are_refused(evidence, experiment):
    tests = as_said(evidence, experiment)
    name, said = next(each for each in evidence["SAID"][experiment].items() if each[1] in ("above", "below"))
    tests[name]["p_holm"] = 0.06
    with pytest.raises(RecomposeError, match=f"{name} of {experiment} is '{said} by interval', not '{said}'"):
        evidence["check_prose"](experiment, tests)


def test_the_sentence_about_sham_feedback_is_refused_where_it_no_longer_fits(evidence):
    sham = {"sides": ["new", "sham", "plain"], "difference": {"interval": {"mean": -0.1, "lo": -0.2, "hi": 0.1}}}
    with pytest.raises(RecomposeError, match="no longer lies below none"):
        evidence["sham_of"]({"also": [sham]})


def test_the_row_of_real_code_is_what_the_framework_says_of_its_raw_file(evidence):
    """Its tasks are of few repositories, so that these are drawn."""
    facts, page = evidence["code_facts"](evidence["CODE"]), (ROOT / "docs" / "code-tasks-measured.md").read_text()
    command = "recompose evaluate --compare benchmarks/results/code_training_heldout.jsonl"
    assert command in page
    for metric, name in {"success": "pass", "pass@8": None, "reward": "reward"}.items():
        told = json.loads(recompose(*command.split()[1:], "--metric", metric, "--json", cwd=ROOT).stdout)
        difference = told["comparisons"][0]["difference"]
        assert difference["n"] == facts["repositories"] == 10 and told["arms"][0]["tasks"] == facts["tasks"] == 30
        numbers = [told["arms"][0]["estimate"]["mean"], told["arms"][1]["estimate"]["mean"]]
        if name:
            found = facts[name]
            assert [found["before"], found["after"]] == numbers
            assert {key: getattr(found["difference"], key) for key in difference} == difference
        shown = [f"{number:.3f}".removeprefix("0") for number in numbers]
        mean, lo, hi = (f"{difference[key]:+.3f}".replace("0.", ".", 1) for key in ("mean", "lo", "hi"))
        row = f"| {' | '.join(shown)} | {mean} [{lo}, {hi}] |".replace("-", "−")
        assert row in re.sub(r"\[\.000", "[+.000", page)
