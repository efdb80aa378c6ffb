"""A loss of 4.2e-05 is not 0.000."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from composer_replication.cli.result import show_result
from composer_replication.config import TrainingConfig
from composer_replication.progress import Silent


def test_small_losses_are_printed_with_their_digits(capsys):
    said = []

    class Said(Silent):
        def step(self, done, total, detail=""):
            said.append(detail)

    running = pytest.importorskip("composer_replication.training.running")
    logs = {"loss": 0.0000421234, "grad_norm": 1.0}
    settings, control = TrainingConfig(steps=3), SimpleNamespace(should_save=False)
    running.ProgressCallback(settings, Said()).on_log(None, SimpleNamespace(global_step=1), control, logs)
    assert said == ["loss 4.21e-05"]
    result = dict.fromkeys(("traces", "sites", "hints", "replies", "pairs", "steps", "spent_micros", "seconds"), 0)
    estimate = {"mean": 0.0, "lo": 0.0, "hi": 0.0, "n": 1}
    result |= dict.fromkeys(("success_before", "success_after", "difference"), estimate)
    result |= {"simulated_teachers": False, "environment": "x", "split": "s", "split_names": {"s": "s"}}
    result |= {"other_splits": {}, "rows_left_out": 2, "repositories": 3, "report": "r", "run": "r"}
    show_result({**result, "losses": {"policy": None, "sdpo": 0.0000421234}}, as_json=False)
    told = capsys.readouterr().out
    assert "Late losses: sdpo 4.21e-05." in told
    assert "without a row of their own: 2 (fewer than 5 tasks, or the same tasks as another row)" in told
    assert told.startswith("\n0 steps on their own rollouts alone\n"), "no tale of traces that there are not"
