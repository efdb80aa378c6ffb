"""The pages of evidence say what the raw files say, and their sentences are checked against them."""

import runpy
from pathlib import Path

import pytest

from composer_replication.errors import RecomposeError

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


@pytest.mark.parametrize("experiment", ["009-rates", "011-content", "012-competitors", "013-triples"])
def test_sentences_that_no_longer_fit_their_figures_are_refused(evidence, experiment):
    bounds = {"unclear": (-0.1, 0.1), "above": (0.1, 0.2), "below": (-0.2, -0.1)}
    differences = {
        name: {"difference": {"interval": dict(zip(("lo", "hi"), bounds[said], strict=True))}}
        for name, said in evidence["SAID"][experiment].items()
    }
    evidence["check_prose"](experiment, differences)
    unclear = next(name for name, said in evidence["SAID"][experiment].items() if said == "unclear")
    differences[unclear]["difference"]["interval"]["lo"] = 0.05
    with pytest.raises(RecomposeError, match=f"{unclear} of {experiment} is above 0"):
        evidence["check_prose"](experiment, differences)
