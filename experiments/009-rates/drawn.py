"""The figures: success over steps by rate and at the best rates, seeds that are not at a level yet, and `dynamic`."""

from __future__ import annotations

from described import BEST, LEVELS, curve_over_tokens, sides
from measured import HORIZON, RATES, ROLLOUTS_PER_STEP, rollouts_to

from shared.analysis.described import curve_of
from shared.analysis.trained import Cell
from shared.crossing import not_there_yet
from shared.curves_chart import Curve, curves_chart

LAST_OF_DYNAMIC = 20
WATCHED = (f"grpo{BEST}", f"sdpo{BEST}", "sham-2e-5")
"""The sides of the time-to-level figures."""
TITLES = {"grpo": "GRPO", "sdpo": "+ SDPO", "sham": "+ sham", "dynamic": "+ dynamic"}


def figures(cell: Cell) -> dict[str, str]:
    """By file name, as SVG text."""
    every = sides(cell)
    by_rate = {f"curves-{rate}": [name for name in cell.arms if name.endswith(f"-{rate}")] for rate in RATES}
    shown = {**by_rate, "curves-best": list(WATCHED)}
    over_steps = {
        name: curves_chart(
            "Held-out success while training", "training step", "share of held-out tasks",
            [Curve(_label(side), curve_of(every[side])) for side in names], 1.0,
        )
        for name, names in shown.items()
    }  # fmt: skip
    waiting = {f"waiting-{level:g}": _waiting(cell, level) for level in LEVELS}
    return {**over_steps, **waiting, "dynamic": _dynamic(cell)}


def _label(side: str) -> str:
    """Short enough for the margin."""
    arm, _, rate = side.replace(BEST, "-best").partition("-")
    return f"{TITLES[arm]}, {rate}"


def _waiting(cell: Cell, level: float) -> str:
    horizon, every = float(HORIZON * ROLLOUTS_PER_STEP), sides(cell)
    curves = [
        Curve(_label(name), [(place, share, share, share) for place, share in corners])
        for name in WATCHED
        for corners in [not_there_yet([rollouts_to(run, level) for run in every[name].values()], horizon)]
    ]
    return curves_chart(f"Seeds below a success of {level:g}", "rollouts", "share of seeds not there yet", curves, 1.0)


def _dynamic(cell: Cell) -> str:
    names = [f"{kind}-{rate}" for rate in ("5e-6", "2e-5") for kind in ("grpo", "dynamic")]
    curves = [Curve(name, curve_over_tokens(cell.arms[name], LAST_OF_DYNAMIC)) for name in names]
    return curves_chart(
        "Dynamic sampling, to step 20", "million tokens of prompts and answers", "share of held-out tasks", curves, 1.0
    )
