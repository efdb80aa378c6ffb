"""The chart of a comparison of arms. Reads `ArmComparison`, writes SVG text that stands on its own."""

from __future__ import annotations

import re

from .charts import EffectRow, effect_plot, standalone
from .contrast import ArmComparison

SHARES = re.compile(r"success|pass@\d+|area|area:success")


def contrast_chart(result: ArmComparison) -> str:
    share = SHARES.fullmatch(result.metric) is not None
    where = f", {result.split}" if result.split else ""
    unit = f"{result.metric}{where}, %" if share else f"{result.metric}{where}"
    found = {row.arm: row for row in result.comparisons}
    rows: list[EffectRow] = []
    for arm in result.arms:
        detail = f"{len(arm.seeds)} runs · {arm.tasks} tasks" if len(arm.seeds) > 1 else f"one run · {arm.tasks} tasks"
        row = EffectRow(arm.name, detail, arm.estimate, tuple(arm.by_seed.values()))
        if arm.name in found:
            against = found[arm.name]
            row = row._replace(
                difference=against.difference,
                seed_differences=tuple(against.by_seed.values()),
                verdict=f"Holm p {against.p_holm:.2g} · {against.verdict}",
            )
        rows.append(row)
    return standalone(effect_plot(f"{result.metric} of {len(rows)} arms", unit, rows, 100 if share else 1))
