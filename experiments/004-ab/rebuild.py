"""Every table and figure of the A/B, and docs/results.md, from the raw files. Needs no GPU and trains nothing.

    recompose experiment rebuild experiments/004-ab

Reads results/*/; writes results/tables.json, figures/*.svg and, from two
templates, docs/results.md and docs/results-details.md.
"""

import json
import statistics
from pathlib import Path
from statistics import mean

import jinja2
from effects import Arms, by_arm, effect, level, registered, rollouts_to_baseline, success_effect
from example import example
from reading import FREQUENT_KINDS, Started, runs, starts
from regimes import Cell, Slope, cell_facts, headline_facts, read_cells, slope_of

from composer_replication.evaluation.charts import EffectRow, effect_plot, standalone
from composer_replication.evaluation.resampling import bootstrap
from composer_replication.evaluation.stats import Estimate
from composer_replication.runs import write_atomically
from shared.analysis.rebuild import plain
from shared.curves_chart import Curve, curves_chart
from shared.prose import wrapped
from shared.result_lines import read_result
from shared.runner.plan import read_plan
from shared.scatter_chart import Cell as ScatterCell
from shared.scatter_chart import scatter_chart

NUMBERS = (
    "success", "area", "errors_on", "errors", "pass@8", "recovery", "recovery_parsable", "entropy", "kl", "renames",
    "compositions", "tokens", "seconds",
)  # fmt: skip
TITLES = {
    "grpo": "GRPO",
    "sdpo": "GRPO + SDPO",
    "trdpo": "GRPO + TR-DPO",
    "all": "all three",
    "sham": "GRPO + SDPO, sham hints",
    "sft": "GRPO + SFT on the same chosen",
    "penalty": "GRPO, −0.1 per error turn",
}
SHORT = {"sham": "+ SDPO, sham", "sft": "+ SFT", "penalty": "−0.1 per error", "sdpo": "+ SDPO", "trdpo": "+ TR-DPO"}
"""For figures; a plus stands behind GRPO."""
HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs" / "results.md"
DETAILS = DOCS.with_name("results-details.md")


def main() -> None:
    plan = read_plan(HERE / "plan.toml")
    results = HERE / "results"
    found = {regime: facts_of(results / regime) for regime in plan.regimes if (results / regime).is_dir()}
    pilot = next(run for run in runs(results / "pilot", starts(results / "pilot")) if run.arm == "grpo")
    tables = {
        "device": json.loads((results / "device.json").read_text()),
        "example": example(plan),
        "pilot_grpo": pilot.numbers["success"],
        "pilot_grpo_at_20": dict(pilot.curve)[20],
        "regimes": found,
        "planned": {regime: planned_runs(plan, regime) for regime in plan.regimes},
        "map": map_facts(cells := read_cells(read_plan(HERE / "map.toml"), results / "map")),
        "headline": headline_facts(results / "headline") | {"cell": headline_cell()},
    }
    write_atomically(results / "tables.json", json.dumps(tables, indent=1, default=plain) + "\n")
    figures = HERE / "figures"
    figures.mkdir(exist_ok=True)
    main_arms, headline_arms = (by_arm(runs(results / part, starts(results / part))) for part in ("main", "headline"))
    drawn = {
        "curves": draw_curves(main_arms),
        "effects": draw_effects(main_arms),
        "map": draw_map(cells),
        "headline": draw_curves(headline_arms),
    }
    for name, picture in drawn.items():
        write_atomically(figures / f"{name}.svg", picture)
    write_atomically(DOCS, render("results", tables))
    write_atomically(DETAILS, render("details", tables))
    number = sum(len(facts["runs"]) for facts in found.values())
    print(f"{number} runs; wrote {DOCS.name}, {DETAILS.name}, tables.json and the figures")


def planned_runs(plan, regime: str) -> int:
    return sum(len(plan.seeds(regime, arm)) for arm in plan.arms(regime))


def facts_of(folder: Path) -> dict:
    """What is quoted of one regime."""
    started = starts(folder)
    finished = runs(folder, started)
    arms = by_arm(finished)
    data = [next(iter(read_result(path))) for path in sorted(folder.glob("data-*.jsonl.zst"))]
    return {
        "runs": [{"arm": run.arm, "seed": run.seed, **run.numbers} for run in finished],
        "stopped": [run.header["stopped"] for run in finished if run.header["stopped"]],
        "starts": [start_facts(start) for start in started.values()],
        "start_success": bootstrap([start.success for start in started.values()], expanded=True),
        "gap": bootstrap([start.gap for start in started.values()], expanded=True),
        "sham_gap": bootstrap([one.right["sham"] - one.right["plain"] for one in started.values()], expanded=True),
        "kinds": kinds_on(list(started.values())),
        "levels": {arm: {number: level(own, number) for number in NUMBERS} for arm, own in arms.items()},
        "registered": [effect._asdict() for effect in registered(arms)] if "sft" in arms else [],
        "against_grpo": {
            arm: {
                "success": success_effect(arms, arm, "grpo")._asdict(),
                **{number: effect(arms, arm, "grpo", number)._asdict() for number in NUMBERS[1:]},
            }
            for arm in arms
            if arm != "grpo"
        },
        "by_kind": {
            arm: {kind: effect(arms, arm, "grpo", f"errors/{kind}")._asdict() for kind in FREQUENT_KINDS}
            for arm in ("sdpo", "sham", "trdpo")
            if arm in arms
        },
        "grpo_beside_penalty": {
            number: mean(arms["grpo"][seed].numbers[number] for seed in arms["penalty"])
            for number in ("errors", "recovery")
            if "penalty" in arms
        },
        "all_over_trdpo": success_effect(arms, "all", "trdpo")._asdict() if {"all", "trdpo"} <= arms.keys() else None,
        "gain_on_gap": correlation(started, arms) if "sdpo" in arms else None,
        "reaches_grpo": {arm: seeds_at_baseline(arms, arm) for arm in arms},
        "least_entropy_kept": min(run.numbers["entropy_kept"] for run in finished),
        "most_kl": max(run.numbers["kl"] for run in finished),
        "pairs": bootstrap([line["pairs"] for line in data], expanded=True) if data else None,
        "chosen_right": sum(line["chosen_right"] for line in data) / sum(line["pairs"] for line in data)
        if data
        else None,
        "push": {arm: pushes(arms, arm) for arm in arms},
        "gpu_seconds": sum(run.header["load_s"] + run.header["train_s"] + run.header["measure_s"] for run in finished),
    }


def map_facts(cells: list[Cell]) -> dict:
    gains = [cell.gain for cell in cells]
    return {
        "cells": {cell.name: cell_facts(cell) for cell in cells},
        "slope": slope(cells)._asdict(),
        "afterwards": {
            "flat": slope_of([cell.flat for cell in cells], gains)._asdict(),
            "room": slope_of([1 - cell.grpo for cell in cells], gains)._asdict(),
        },
        "runs": sum(len(own) for cell in cells for own in cell.arms.values()),
    }


def slope(cells: list[Cell]) -> Slope:
    return slope_of([cell.gap for cell in cells], [cell.gain for cell in cells])


def headline_cell() -> str:
    """Of which cell of the map the headline is the repetition: the one with its settings."""
    own = read_plan(HERE / "headline.toml").raw["regimes"]["headline"]["config"]
    cells = read_plan(HERE / "map.toml").raw["regimes"]
    return next(name for name, cell in cells.items() if cell["config"] == own)


def start_facts(start: Started) -> dict:
    return {
        "seed": start.seed,
        "success": start.success,
        "kinds_on": start.kinds_on,
        **{f"right_{condition}": share for condition, share in start.right.items()},
    }


def kinds_on(started: list[Started]) -> dict[str, dict]:
    """Per error kind: in how many starts it was on, and its gap there as the mean over starts."""
    names = sorted({kind for start in started for kind in start.gaps})
    return {
        kind: {
            "on": sum(kind in start.kinds_on for start in started),
            "sites": sum(start.gaps[kind]["sites"] for start in started if kind in start.gaps),
            "gap": mean(start.gaps[kind]["gap"]["mean"] for start in started if kind in start.gaps),
        }
        for kind in names
    }


def correlation(started: dict[int, Started], arms: Arms) -> float:
    """Over seeds, of the probed gap and what channel 2 added to GRPO."""
    gains = effect(arms, "sdpo", "grpo", "success").by_seed
    return statistics.correlation([started[seed].gap for seed in gains], list(gains.values()))


def seeds_at_baseline(arms: Arms, arm: str) -> dict[str, int]:
    found = rollouts_to_baseline(arms, arm)
    return {"reached": sum(value is not None for value in found), "of": len(found)}


def pushes(arms: Arms, arm: str) -> dict[str, float]:
    """Means over steps and seeds: each channel's gradient, what the cap left of it, and where it points."""
    steps = [line for run in arms[arm].values() for line in run.steps]
    names = (
        "gradient/sdpo",
        "gradient/replay",
        "gradient/sdpo_factor",
        "gradient/replay_factor",
        "gradient/cosine_policy_sdpo",
        "gradient/cosine_policy_replay",
        "sdpo/sites",
    )
    return {name: mean(values) for name in names if (values := [line[name] for line in steps if name in line])}


def draw_curves(arms: Arms) -> str:
    curves = []
    for arm, own in sorted(arms.items(), key=lambda each: list(TITLES).index(each[0])):
        steps = [step for step, _ in next(iter(own.values())).curve]
        bands = [bootstrap([run.curve[place][1] for run in own.values()], expanded=True) for place in range(len(steps))]
        curves.append(
            Curve(SHORT.get(arm, TITLES[arm]), [(s, b.mean, b.lo, b.hi) for s, b in zip(steps, bands, strict=True)])
        )
    return curves_chart("Held-out success while training", "training step", "share of held-out tasks", curves, 1.0)


def draw_effects(arms: Arms) -> str:
    rows = []
    for arm in (name for name in TITLES if name in arms):
        against = success_effect(arms, arm, "grpo") if arm != "grpo" else None
        own = arms[arm]
        rows.append(
            EffectRow(
                SHORT.get(arm, TITLES[arm]),
                f"{len(own)} seeds",
                level(own, "success"),
                [run.numbers["success"] for run in own.values()],
                against.interval if against else None,
                list(against.by_seed.values()) if against else (),
                f"sign-flip p {against.p:.2g}" if against else "",
            )
        )
    return standalone(effect_plot("Held-out success of the arms", "held-out success, %", rows, 100))


def draw_map(cells: list[Cell]) -> str:
    drawn = [
        ScatterCell(
            cell.name, [(100 * cell.started[seed].gap, 100 * gain) for seed, gain in cell.gains("sdpo").items()]
        )
        for cell in cells
    ]
    fit = slope(cells)
    return scatter_chart(
        "What channel 2 adds, by what the probe saw", "probed gap, points: right with the hint − right without",
        "gain over GRPO in held-out success, points", drawn, (fit.slope, 100 * fit.intercept),
    )  # fmt: skip


def render(page: str, tables: dict) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        autoescape=False,
    )  # fmt: skip
    environment.filters |= {"share": share, "points": points, "pvalue": pvalue, "thousandths": thousandths}
    return wrapped(environment.get_template(f"{page}.md.jinja").render(**tables, titles=TITLES))


def share(value: float | Estimate) -> str:
    """.42, or .42 [.40, .44]"""
    if isinstance(value, Estimate):
        return f"{share(value.mean)} [{share(value.lo)}, {share(value.hi)}]"
    return f"{value:.3f}".replace("0.", ".", 1)


def points(value: float | Estimate) -> str:
    """A difference of shares in points."""
    if isinstance(value, Estimate):
        return f"{points(value.mean)} [{points(value.lo)}, {points(value.hi)}]"
    return f"{100 * value:+.1f}".replace("-", "−")


def thousandths(value: float) -> str:
    return f"{1000 * value:+.1f}".replace("-", "−")


def pvalue(value: float) -> str:
    return f"{value:.4f}".lstrip("0") if value < 0.1 else f"{value:.2f}".lstrip("0")


if __name__ == "__main__":
    main()
