"""What a replay shows while it runs, on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from composer_replication.cli import progress as display
from composer_replication.config import ReplayConfig, ToolboxConfig, parse_config
from composer_replication.environments.toolbox.environment import ToolboxEnvironment
from composer_replication.evaluation.compare import evaluate_policy
from composer_replication.llm.calls import Live
from composer_replication.llm.ledger import Ledger
from composer_replication.progress import LongerWork, Silent
from composer_replication.replay import Teacher, replay_states
from composer_replication.replay.panel import Panel
from composer_replication.training.models.loading import load_policy

from .test_replay import STATES, Recorder, answer


class Noted(Silent):
    def __init__(self):
        self.steps, self.lines = [], []

    def step(self, done, total, detail=""):
        self.steps.append((done, total, detail))

    def figures(self, lines):
        self.lines.append(list(lines))


@pytest.fixture
def live(monkeypatch):
    """Two teachers, ten seconds into a run."""
    monkeypatch.setattr("time.monotonic", lambda: 110.0)
    live = Live(total=20, done=8, failed=1, attempts=14, charged_micros=9_000, started=100.0)
    live.errors.update({"HTTP 429": 4, "timeout": 1})
    live.teachers = {
        "a": Live(total=10, done=8, attempts=9, charged_micros=9_000, started=100.0),
        "b": Live(total=10, failed=1, attempts=5, started=100.0),
    }
    live.teachers["a"].errors["HTTP 429"] = 1
    live.teachers["b"].errors.update({"HTTP 429": 3, "timeout": 1})
    return live


def test_spend_cap_projection_rate_and_errors_of_all_and_of_each(live):
    noted = Noted()
    Panel(noted, cached=5, total=25, cap_micros=2_000_000).show(live)
    assert noted.steps == [(14, 25, "1/s")]
    assert noted.lines == [
        [
            "spent $0.0090 of $2.00, about $0.02 in all, 5 errors (HTTP 429 × 4)",
            "a: 8/10 answered, 0.9/s, $0.0090 of about $0.0112, 1 errors (HTTP 429 × 1)",
            "b: 0/10 answered, 0.5/s, 1 given up, 4 errors (HTTP 429 × 3)",
        ]
    ]


def test_lines_are_written_a_few_times_a_second_and_at_the_end(live):
    noted = Noted()
    panel = Panel(noted, 0, 20, None)
    for _ in range(3):
        panel.show(live)
    live.done = 19
    panel.show(live)
    assert (len(noted.steps), len(noted.lines)) == (4, 2)


def test_a_replay_counts_each_teacher(tmp_path):
    noted, ledger = Noted(), Ledger(tmp_path / "ledger.sqlite")
    with Recorder(answer()) as server:
        good, gone = server.teacher(), Teacher("gone", "http://127.0.0.1:9/v1")
        replay_states(STATES[:3], [good, gone], ledger, ReplayConfig(max_attempts=1), noted)
    ledger.close()
    spent, *teachers = noted.lines[-1]
    assert spent.startswith("spent $0.0004, about $0.00 in all, 3 errors (")
    assert [line.split(",")[0] for line in teachers] == ["m: 3/3 answered", "gone: 0/3 answered"]
    assert "3 given up, 3 errors (" in teachers[1]


def test_elsewhere_figures_are_plain_lines_under_their_step(capsys):
    shown = display.PlainLines()
    shown.stage("replay", "ask the teachers")
    shown.figures(["spent $1", "a: 1/2"])
    shown.step(1, 2, "3/s")
    shown.step(2, 2, "3/s")
    lines = [line.partition("] ")[2] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["replay: ask the teachers", "replay: 2/2 3/s", "  spent $1", "  a: 1/2"]
    shown.stage("pairs", "vote")
    shown.step(1, 1)
    assert "spent" not in capsys.readouterr().err


def test_on_a_terminal_figures_stand_under_the_bar(monkeypatch):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80, legacy_windows=False)
    monkeypatch.setattr(display, "Console", lambda **options: console)
    panel = display.LivePanel()
    panel.stage("replay", "ask the teachers")
    panel.figures(["spent $1 of $2", "a: 1/2 answered, 1 errors (timeout × 1)"])
    panel.step(1, 2, "3/s")
    panel._progress.refresh()
    text = screen.getvalue()
    assert "spent $1 of $2" in text and "a: 1/2 answered, 1 errors (timeout × 1)" in text
    assert text.index("ask the teachers") < text.index("spent $1 of $2")
    panel.close()


def test_a_part_of_longer_work_goes_on_from_where_it_began():
    noted = Noted()
    part = LongerWork(noted, before=8, total=24, what="episodes")
    part.step(3, 8, "rollouts")
    part.stage("evaluation", "not this one's to say")
    assert noted.steps == [(11, 24, "episodes")]


def test_every_rollout_of_a_measurement_is_told_as_it_ends():
    """`evaluate` said nothing for as long as a model played."""
    noted, environment = Noted(), ToolboxEnvironment(ToolboxConfig())
    config = parse_config({"training": {"max_turn_tokens": 8}, "evaluation": {"tasks": 3, "samples": 2}}, "small")
    policy = load_policy("tiny", environment, 0)
    evaluate_policy(policy, config, environment, "before", "heldout", LongerWork(noted, 6, 12, "episodes, before"))
    assert [(done, total) for done, total, _ in noted.steps] == [(done, 12) for done in range(7, 13)]
