"""docs/environments.md begins with an environment of one's own: what stands there is run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from composer_replication.evaluation.compare import TaskOutcome
from composer_replication.runs import Run
from tests.pages import done

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"
MOST_LINES = 50
"""Of code, without blank lines."""


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_an_environment_of_ones_own_is_trained_on_and_measured(tmp_path, monkeypatch):
    source, settings = blocks("python")[0], blocks("toml")[0]
    assert sum(bool(line.strip()) for line in source.splitlines()) <= MOST_LINES
    (tmp_path / "adder.py").write_text(source)
    (tmp_path / "adder.toml").write_text(settings)
    for line in blocks("bash")[0].splitlines():
        variable, _, *arguments = line.split()
        assert variable == "PYTHONPATH=."
        monkeypatch.syspath_prepend(tmp_path)
        said = done(arguments, tmp_path).stdout
    assert "Measured in adder:" in said
    outcomes = Run.open(tmp_path / "runs" / "adder").stage("evaluation").read(TaskOutcome)
    assert {outcome.labels["size"] for outcome in outcomes} == {"small", "large"}
    assert len(outcomes) == 2 * 25
