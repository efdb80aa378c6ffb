"""docs/environments.md begins with an environment of one's own: what stands there is run as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from composer_replication.evaluation.compare import TaskOutcome
from composer_replication.runs import Run

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"
MOST_LINES = 50
"""Of code, without blank lines."""


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_an_environment_of_ones_own_is_trained_on_and_measured(tmp_path):
    source, settings = blocks("python")[0], blocks("toml")[0]
    assert sum(bool(line.strip()) for line in source.splitlines()) <= MOST_LINES
    (tmp_path / "adder.py").write_text(source)
    (tmp_path / "adder.toml").write_text(settings)
    for line in blocks("bash")[0].splitlines():
        variable, _, *arguments = line.split()
        assert variable == "PYTHONPATH=."
        command = [sys.executable, "-m", "composer_replication", *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([".", os.environ.get("PYTHONPATH", "")])}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
    assert "Measured in adder:" in done.stdout
    outcomes = Run.open(tmp_path / "runs" / "adder").stage("evaluation").read(TaskOutcome)
    assert {outcome.labels["size"] for outcome in outcomes} == {"small", "large"}
    assert len(outcomes) == 2 * 25
