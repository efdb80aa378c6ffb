"""The shared analysis of registered tests, on made-up result files with known numbers. No real result is read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tomli_w

from composer_replication.errors import RecomposeError
from shared.analysis.registered import best_rates, verdicts
from shared.analysis.trained import read_results
from shared.result_lines import write_result
from shared.runner.plan import read_plan

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
SEEDS = list(range(501, 509))
GAPS = {"low": 0.0, "mid": 0.1, "high": 0.2}
TASKS = [f"toolbox/heldout/{number}" for number in range(100)]
SIDES = ["sdpo", "sham"]
CONTENT = {
    "base": {"model": {"name": "tiny"}, "channels": [{"name": "grpo"}]},
    "measuring": {"curve": {"10": 4}},
    "seconds": {"arm": 1},
    "arms": {"grpo": {}, "sdpo": {}, "sham": {}},
    "regimes": {name: {"arms": ["grpo", *SIDES], "seeds": SEEDS} for name in GAPS},
    "tests": {
        "H1": {"sides": SIDES, "over": "content gap"},
        "H2": {"sides": SIDES, "regime": "high"},
        "H3": {"sides": SIDES, "regime": "low"},
        "H4": {"sides": ["grpo", "sdpo"], "regime": "high", "success_at": 20},
    },
    "described": {"content": {"sides": SIDES, "over": "content gap"}},
}


def task_lines(solved):
    """Of 100 tasks with 4 samples, this many right throughout."""
    return [
        {"line": "task", "split": "heldout", "task_id": task, "rewards": [int(number < solved)] * 4}
        for number, task in enumerate(TASKS)
    ]


def write_start(folder, seed, gap):
    right = {"hint": {"mean": 0.5 + gap}, "sham": {"mean": 0.5}, "plain": {"mean": 0.4}}
    lines = [{"line": "start", "seed": seed, "start_sha256": f"of {seed}"}, *task_lines(20)]
    write_result(folder / f"start-{seed}.jsonl.zst", [*lines, {"line": "gap", "kind": "all", "right": right}])


def write_run(folder, arm, seed, at_ten, at_end, **head):
    norms = {"gradient/policy": 0.2, "gradient/sdpo": 0.05, "gradient/sdpo_factor": 2.0, "grad_norm": 1.0}
    lines = [
        {"line": "run", "arm": arm, "seed": seed, "start_sha256": f"of {seed}", "last_step": 20, "stopped": None,
         "train_s": 1.0, **head},
        *({"line": "step", "step": step, **norms} for step in (1, 2)),
        {"line": "curve", "step": 10, "samples": 4, "solved": [4 * (number < at_ten) for number in range(100)]},
        {"line": "final", "split": "heldout", "errors_per_turn": 0.1, "kl_to_start": 0.01},
        *task_lines(at_end),
    ]  # fmt: skip
    write_result(folder / f"{arm}-{seed}.jsonl.zst", lines)


@pytest.fixture
def content(tmp_path):
    """Twice the gap is what true hints add to shams at step 10, where it weighs half; grpo ends ten points higher."""
    (tmp_path / "plan.toml").write_text(tomli_w.dumps(CONTENT))
    for regime, gap in GAPS.items():
        for seed in SEEDS:
            write_start(tmp_path / "results" / regime, seed, gap)
            base = 40 + seed % 3
            for arm, more in (("grpo", 0), ("sham", 0), ("sdpo", round(200 * gap))):
                write_run(tmp_path / "results" / regime, arm, seed, base + more, 80 if arm == "grpo" else 70)
    return tmp_path


def found_in(folder, raw):
    plan = read_plan(folder / "plan.toml")
    cells = read_results(plan, folder / "results", "some")
    return {one.name: one for one in verdicts(raw["tests"], cells, raw.get("rates", []))}, cells


def test_differences_and_slopes_are_those_that_were_put_in(content):
    found, cells = found_in(content, CONTENT)
    assert found["H1"].difference.interval.mean == pytest.approx(1.0)
    assert found["H2"].difference.interval.mean == pytest.approx(0.2)
    assert found["H4"].difference.interval.mean == pytest.approx(0.1)
    assert [one.told for one in found.values()] == ["higher", "higher", "no clear difference", "higher"]
    assert found["H2"].p_holm == pytest.approx(4 / 128)
    assert cells["mid"].arms["sdpo"][501].numbers["dose"] == pytest.approx(0.5), "0.05 times 2 over 0.2"


def test_with_five_seeds_nothing_can_be_tested(content):
    few = {**CONTENT, "regimes": {name: {**own, "seeds": SEEDS[:5]} for name, own in CONTENT["regimes"].items()}}
    (content / "plan.toml").write_text(tomli_w.dumps(few))
    found, _ = found_in(content, few)
    assert {one.told for one in found.values()} == {"cannot be tested"}


def test_a_plan_with_a_run_missing_is_not_computed(content):
    (content / "results" / "mid" / "sham-504.jsonl.zst").unlink()
    with pytest.raises(RecomposeError, match="1 of 96 jobs are missing"):
        found_in(content, CONTENT)
    ended = rebuild(content)
    assert ended.returncode == 1 and "incomplete" in ended.stderr
    assert not (content / "results" / "tables.json").exists()


def test_a_run_from_another_start_is_not_compared(content):
    write_run(content / "results" / "mid", "sham", 504, 40, 70, start_sha256="another")
    with pytest.raises(ValueError, match="did not begin"):
        found_in(content, CONTENT)


def rebuild(folder):
    places = {"--plan": "plan.toml", "--results": "results", "--figures": "svg"}
    given = [word for name, place in places.items() for word in (name, str(folder / place))]
    command = [sys.executable, str(EXPERIMENTS / "011-content" / "rebuild.py"), *given]
    paths = {"PYTHONPATH": f"{EXPERIMENTS}:{Path(__file__).parents[2] / 'src'}"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=paths)


def test_tables_and_figures_are_written(content):
    ended = rebuild(content)
    assert ended.returncode == 0, ended.stderr
    tables = json.loads((content / "results" / "tables.json").read_text())
    assert [one["name"] for one in tables["registered"]] == ["H1", "H2", "H3", "H4"]
    assert tables["lines"]["content"]["slope"]["mean"] == pytest.approx(1.0)
    (ends,) = (
        one["interval"]["mean"]
        for one in tables["differences"]
        if one["sides"] == "grpo − sdpo, mid" and one["number"] == "success at step 20"
    )
    assert ends == pytest.approx(0.1)
    assert tables["regimes"]["mid"]["arms"]["grpo"]["curve"]["10"]["mean"] == pytest.approx(0.41, abs=0.01)
    assert "| H1 | sdpo − sham | slope of speed on the content gap | +1.00" in ended.stdout
    drawn = {path.name for path in (content / "svg").iterdir()}
    assert drawn == {"curves-low.svg", "curves-mid.svg", "curves-high.svg", "gain-content.svg"}


def test_no_seed_chooses_its_own_rate_and_every_seed_has_its_triple(tmp_path):
    raw = {
        **{key: value for key, value in CONTENT.items() if key != "described"},
        "rates": ["1e-5", "2e-5"],
        "teachers": [{"kind": "usual"}, {"kind": "clean"}],
        "arms": {"grpo": {}, "sft": {"channels": [{"name": "grpo"}, {"name": "trdpo", "weight": 1.0}]}},
        "regimes": {"one": {"arms": ["grpo", "sft"], "seeds": SEEDS}},
        "tests": {"H1": {"sides": ["sft", "grpo"], "regime": "one"}},
    }
    (tmp_path / "plan.toml").write_text(tomli_w.dumps(raw))
    folder = tmp_path / "results" / "one"
    for seed in SEEDS:
        write_start(folder, seed, 0.1)
        head = {"line": "data", "data_sha256": "d", "pairs": 10, "chosen_right": 8}
        write_result(folder / f"data-{seed}.jsonl.zst", [head])
        for rate in raw["rates"]:
            # The higher rate is better by ten points, and for one seed alone much worse.
            high = rate == "2e-5"
            write_run(folder, f"grpo-{rate}", seed, 10 if high and seed == 501 else 40 + 10 * high, 60)
            write_run(folder, f"sft-{rate}", seed, 50 + 10 * high, 70, data_sha256="d")
    found, cells = found_in(tmp_path, raw)
    rates = best_rates(cells["one"], "grpo", raw["rates"])
    assert rates[501] == "2e-5", "the other seven say so"
    assert found["H1"].difference.by_seed[501] > found["H1"].difference.by_seed[502] == pytest.approx(0.075)
    ended = rebuild(tmp_path)
    assert ended.returncode == 0, ended.stderr
    triples = json.loads((tmp_path / "results" / "tables.json").read_text())["triples"]
    assert [one["kind"] for one in triples[:2]] == ["clean", "usual"] and triples[0]["chosen_right"] == 0.8
