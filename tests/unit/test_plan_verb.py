"""`recompose plan`: what goes over the wire, how the work of a step is counted, what is said of it."""

import json
import os
import re
from pathlib import Path

import pytest

from composer_replication.cli.plan import plan
from composer_replication.config import Config, HardwareConfig
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.errors import UsageError
from composer_replication.objective import GrpoSettings, SdpoSettings
from composer_replication.runs import Run
from composer_replication.training.models.shape import find_config, shape_of
from composer_replication.training.planning.costs import (
    Episodes,
    costs_of,
    known_costs,
    sampling_work,
    training_work,
    wire_bytes,
)
from composer_replication.training.planning.layouts import Link, plan_layout
from composer_replication.training.planning.memory import Workload
from composer_replication.training.planning.plan import Machine, plan_training
from tests.pages import ROOT, done

GOLDEN = Path(__file__).parents[1] / "golden" / "plan"
COSTS = GOLDEN / "costs.json"
SHAPE = shape_of(find_config("Qwen/Qwen3-8B"))
ALONE = Config(channels=(GrpoSettings(),))
EPISODES = Episodes(turns=3, rounds=90, prompt_tokens=100)


def work(**changes):
    return Workload(**{"rows": 4, "row_tokens": 256, "sampled_rows": 8, "on_gpu": True, **changes})


def test_ddp_sends_all_gradients_twice_around_the_ring():
    assert wire_bytes(SHAPE, ALONE, work(), 1).ddp == 0
    assert wire_bytes(SHAPE, ALONE, work(), 8).ddp == pytest.approx(2 * 7 / 8 * 4 * SHAPE.parameters)


def test_adapters_are_all_that_ddp_and_diloco_send():
    config = Config(channels=(GrpoSettings(),), hardware=HardwareConfig(lora_rank=16, weights="bfloat16"))
    sent, adapters = wire_bytes(SHAPE, config, work(), 2, 2, 5), 16 * SHAPE.adapter_parameters_per_rank
    assert sent.ddp == 4 * adapters
    assert sent.diloco == 4 * adapters / 5


def test_fsdp2_gathers_for_every_pass():
    once, twice = (wire_bytes(SHAPE, ALONE, work(rows=rows), 4).fsdp2 for rows in (8, 4))
    assert twice - once == pytest.approx(2 * 3 / 4 * 2 * SHAPE.parameters)


@pytest.mark.parametrize("sync_every", [1, 10, 100])
def test_diloco_sends_float32_weights_once_a_window(sync_every):
    sent = wire_bytes(SHAPE, ALONE, work(), 1, sites=2, sync_every=sync_every)
    assert sent.diloco == pytest.approx(4 * SHAPE.parameters / sync_every)


def test_the_plain_sampler_reads_every_context_again():
    once, again = (sampling_work(SHAPE, ALONE, work(on_gpu=on_gpu), EPISODES).read_flop for on_gpu in (True, False))
    assert once == 8 * 256 * 2 * SHAPE.linear_parameters
    assert again == 8 * (3 * 100 + 156) * 2 * SHAPE.linear_parameters


def test_a_checkpointed_pass_computes_forward_twice_and_adapters_save_half_of_backward():
    def flop(**hardware):
        config = Config(channels=(GrpoSettings(),), hardware=HardwareConfig(**hardware))
        return training_work(SHAPE, config, work(), 0, 0).flop

    assert flop(gradient_checkpointing=True) / flop() == pytest.approx(8 / 6)
    assert flop(lora_rank=8) / flop() == pytest.approx(4 / 6)


def test_a_hinted_turn_is_read_once_by_the_teacher():
    online = Config(channels=(GrpoSettings(), SdpoSettings(source="rollouts")))
    read = training_work(SHAPE, online, work(), 8, 0).flop - training_work(SHAPE, online, work(), 0, 0).flop
    assert read == 8 * 256 * 2 * SHAPE.linear_parameters


def test_only_layouts_that_were_run_have_an_interval():
    costs = costs_of("h200", COSTS)
    run_here = plan_layout(SHAPE, ALONE, work(), EPISODES, 2000, costs)
    modelled = plan_layout(SHAPE, ALONE, work(processes=8), EPISODES, 2000, costs)
    assert (run_here["status"], modelled["status"]) == ("fitted to measured runs", "modelled")
    assert run_here["step_s"]["lo"] < run_here["step_s"]["mean"] < run_here["step_s"]["hi"]
    assert modelled["step_s"] == {"mean": modelled["step_s"]["mean"], "lo": None, "hi": None, "n": 0}


def test_sites_pay_the_line_every_step_or_once_a_window():
    costs = costs_of("h200", COSTS)
    together = plan_layout(SHAPE, ALONE, work(processes=2), EPISODES, 2000, costs, Link(2, 0, 1.0))
    apart = plan_layout(SHAPE, ALONE, work(), EPISODES, 2000, costs, Link(2, 10, 1.0))
    assert together["wire_s"] == pytest.approx(10 * apart["wire_s"], rel=1e-3)
    assert apart["layout"] == "diloco of one process"
    assert together["wire"]["line_bytes_per_token"] == pytest.approx(
        20 * apart["wire"]["line_bytes_per_token"], rel=1e-3
    )
    held = 2 * 4 * SHAPE.parameters / 2**20
    alone = plan_layout(SHAPE, ALONE, work(), EPISODES, 2000, costs)["memory"]["peak_mib"]
    assert apart["memory"]["peak_mib"] - alone == pytest.approx(held, rel=1e-3)


def test_the_dry_run_and_the_plan_say_the_same(tmp_path, capsys):
    run = Run.start(tmp_path / "run", Config())
    dry = plan_training(run, open_toolbox(run.config), [], Machine(on_gpu=True))
    plan(traces=run.path, json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["layouts"] == [dry["time"]]
    assert told["layouts"][0]["memory"]["peak_mib"] == dry["memory"]["peak_mib"]


@pytest.mark.parametrize(("name", "given"), [
    ("one-gpu", {"model": "Qwen/Qwen3-8B"}),
    ("eight-gpus", {"model": "Qwen/Qwen3-8B", "gpus": 8}),
    ("two-sites", {"model": "Qwen/Qwen3-8B", "gpus": 2, "sites": 2}),
])  # fmt: skip
def test_what_is_printed(monkeypatch, capsys, name, given):
    monkeypatch.setenv("COLUMNS", "200")
    plan(**given, costs=COSTS)
    told, golden = capsys.readouterr().out, GOLDEN / f"{name}.txt"
    if os.environ.get("WRITE_GOLDEN"):
        golden.write_text(told)
    assert told == golden.read_text()


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_no_figure_is_cut_where_the_table_is_too_wide(monkeypatch, capsys, columns):
    """80 columns is also what a pipe or the log of CI has."""
    monkeypatch.setenv("COLUMNS", str(columns))
    plan(model="Qwen/Qwen3-8B", gpus=2, sites=2, costs=COSTS)
    told = " ".join(capsys.readouterr().out.split())
    wide = (GOLDEN / "two-sites.txt").read_text()
    cells = [cell.strip() for line in wide.splitlines() if line.startswith("│") for cell in line.split("│")]
    assert "…" not in told
    assert not [cell for cell in cells if cell not in told]


def test_the_commands_of_the_page_give_what_it_shows(monkeypatch):
    """Where it plans for sessions, a smaller folder of them: only the examples without any are compared."""
    monkeypatch.setenv("COLUMNS", "200")
    page = (ROOT / "docs/plan.md").read_text()
    shown = re.findall(r"^ *\$ recompose (plan [^#\n]*).*\n((?: {4}  .*\n)*)", page, re.MULTILINE)
    assert len(shown) == 5
    for command, lines in shown:
        words = re.sub(r"--traces \S+", f"--traces {ROOT}/tests/samples/claude_code_mini", command).split()
        told = done([*words, "--gpu", "h200"], ROOT).stdout
        if lines and "--traces" not in command:
            figures = re.findall(r"\d[\d,]*\.?\d*(?= (?:GiB|s a step|GB|MB|kB))", lines)
            assert len(figures) >= 3 and [figure for figure in figures if figure not in told] == []


def test_sessions_are_priced_and_leave_nothing_behind(tmp_path, monkeypatch, capsys):
    from composer_replication.ingestion.inputs import embedded_session

    monkeypatch.chdir(tmp_path)
    with embedded_session() as file:
        plan(model="Qwen/Qwen3-8B", traces=Path(file.path), costs=COSTS, json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["teachers"]["calls"] > 0
    assert 0 < told["teachers"]["expected_usd"] < told["teachers"]["at_most_usd"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("given", "said"), [
    ({"gpus": -1}, "whole numbers"),
    ({"sites": 0}, "whole numbers"),
    ({"line_gbit": 0.0}, "whole numbers"),
    ({"gpu": "abacus"}, "no costs of abacus"),
    ({"gpus": 3}, "cannot be split"),
    ({"model": "no/such-model"}, "is not known here"),
    ({"traces": Path("no-such-folder")}, "there is no"),
    ({"config": Path("no-such.toml")}, "no config file"),
    ({"costs": Path("no-such.json")}, "holds no costs"),
])  # fmt: skip
def test_bad_input_is_told(given, said):
    with pytest.raises(UsageError, match=said):
        plan(**given)


def test_costs_that_ship_hold_what_they_say():
    """The error that the plan prints is the one of the raw runs, and it meets its limit."""
    from benchmarks.plan import RESULTS, errors, summary

    runs = json.loads(RESULTS.read_text())
    runs.pop("machines")
    every = {}
    for kind, costs in known_costs().items():
        found = errors(costs, kind, runs[kind], is_held_out=True)
        fitted = errors(costs, kind, runs[kind], is_held_out=False)
        assert costs.held_out == pytest.approx(summary(found), abs=1e-3)
        assert costs.fitted == pytest.approx(summary(fitted), abs=1e-3)
        every |= {(kind, name): error for name, error in found.items()}
    assert len(every) >= 4
    assert summary(every)["median_error"] <= 0.15


def test_every_measured_run_lies_inside_its_interval():
    """Held-out and fitted ones: errors are relative to what was measured, so the interval reaches further up."""
    from benchmarks.plan import RESULTS, foreseen, measured

    runs = json.loads(RESULTS.read_text())
    for kind, costs in known_costs().items():
        for name, run in runs[kind].items():
            lo, hi = costs.interval(sum(foreseen(costs, kind, run)))
            assert lo <= sum(measured(run)) <= hi, (kind, name)


def test_an_error_as_large_as_the_time_itself_leaves_no_upper_end(tmp_path, monkeypatch, capsys):
    given = json.loads(COSTS.read_text())
    given["h200"]["fitted"]["largest_error"] = 1.5
    (tmp_path / "wide.json").write_text(json.dumps(given))
    assert costs_of("h200", tmp_path / "wide.json").interval(5.0) == (2.0, None)
    monkeypatch.setenv("COLUMNS", "200")
    plan(model="Qwen/Qwen3-8B", costs=tmp_path / "wide.json")
    assert " or more)" in capsys.readouterr().out
