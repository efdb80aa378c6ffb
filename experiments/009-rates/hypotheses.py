"""The six registered comparisons, with Holm over the six. Pure functions.

At the best rate each seed's rate was chosen from the other seeds, so that the eight differences share a little of their
choice; the intervals and the test take them as independent, as the plan registered.
"""

from __future__ import annotations

from measured import RATES

from shared.analysis.registered import Tested, at_best_rate, in_speed, in_success, judged
from shared.analysis.trained import Cell


def registered(cell: Cell) -> list[Tested]:
    arms = cell.arms
    best = {kind: at_best_rate(cell, kind, RATES) for kind in ("sdpo", "grpo")}
    return judged(
        {
            "H1": in_speed("sdpo − grpo, best rates", best["sdpo"], best["grpo"]),
            "H2": in_success("sdpo − grpo, best rates", best["sdpo"], best["grpo"], 40),
            "H3": in_speed("sdpo − sham at 2e-5", arms["sdpo-2e-5"], arms["sham-2e-5"]),
            "H4": in_success("sdpo − grpo at 5e-6", arms["sdpo-5e-6"], arms["grpo-5e-6"], 20),
            "H5": in_success("grpo at 2e-5 − sdpo at 5e-6", arms["grpo-2e-5"], arms["sdpo-5e-6"], 20),
            "H6": in_success("sdpo − grpo at 2e-5", arms["sdpo-2e-5"], arms["grpo-2e-5"], 10),
        }
    )
