"""The code and the first commands of docs/comparing.md, run as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import torch

from composer_replication.config import Config
from composer_replication.environments.opening import open_environment
from composer_replication.training import load_policy
from tests.command_line import recompose
from tests.pages import ROOT

TEXT = (ROOT / "docs" / "comparing.md").read_text()


def test_two_checkpoints_are_compared_by_the_code_of_the_page(tmp_path, monkeypatch):
    [code] = re.findall(r"```python\n(import json\n.*?)```", TEXT, re.DOTALL)
    [words] = re.findall(r"^\$ recompose (evaluate --compare first.*)$", TEXT, re.MULTILINE)
    torch.set_num_threads(1)
    with open_environment(Config()) as environment:
        for seed, name in enumerate(("first", "second")):
            load_policy("tiny", environment, seed=seed).save(tmp_path / "checkpoints" / name)
    monkeypatch.chdir(tmp_path)
    exec(code.replace("64)", "2)"), {})
    assert len(Path("first.jsonl").read_text().splitlines()) == 2 * 4
    told = recompose(*words.split(), cwd=tmp_path)
    assert told.returncode == 0 and "difference from first" in told.stdout


def test_raw_files_of_an_experiment_become_folders_that_compare(tmp_path):
    [command] = re.findall(r"^\$ (PYTHONPATH=.*outcomes.py.*)$", TEXT, re.MULTILINE)
    [words] = re.findall(r"^\$ recompose (evaluate --compare outcomes.*)$", TEXT, re.MULTILINE)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    python = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True, env={**os.environ, "PATH": python})
    told = recompose(*words.split(), cwd=tmp_path)
    [row] = re.findall(r"^│ sdpo │ [+].*$", told.stdout, re.MULTILINE)
    assert row in TEXT
