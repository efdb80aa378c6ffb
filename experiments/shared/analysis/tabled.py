"""The numbers as a Markdown page. Pure text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from composer_replication.evaluation.stats import Estimate

from .registered import Tested

ABOUT_ARMS = ("errors_per_turn", "kl_to_start", "dose", "seconds")
HEADS = ("errors per turn", "KL to the start", "dose", "seconds")


def page(experiment: str, tested: Sequence[Tested], described: Mapping[str, Any]) -> str:
    parts = [
        f"# {experiment}: the registered numbers",
        "Written by `rebuild.py`. Intervals are 95 %; differences are in points, slopes in points per point.",
        "## Tests",
        table(("", "difference", "number", "found", "p", "Holm", "detectable, .05 / first", "told"),
              [_test_row(one) for one in tested]),
    ]  # fmt: skip
    if described["lines"]:
        rows = [
            (f"`{name}`", one["sides"], one["over"], points(one["slope"], 1), points(one["intercept"]))
            for name, one in described["lines"].items()
        ]
        parts += ["## Lines over a gap", table(("", "difference", "over", "slope", "intercept"), rows)]
    if described["best_rates"]:
        counts = {
            kind: ", ".join(f"{rate} for {count} seeds" for rate, count in found.items())
            for kind, found in described["best_rates"].items()
        }
        parts += ["## Best rates", "\n".join(f"- `{kind}`: {told}" for kind, told in counts.items())]
    for regime, cell in described["regimes"].items():
        parts += [f"## Regime `{regime}`", _starts(cell), _arms(cell)]
    rows = [(one["sides"], one["number"], points(one["interval"])) for one in described["differences"]]
    parts += ["## Differences, without tests", table(("", "number", "found"), rows)]
    if described["triples"]:
        rows = [[_cell(value) for value in one.values()] for one in described["triples"]]
        parts += ["## Triples of teachers", table(list(described["triples"][0]), rows)]
    return "\n\n".join([*parts, "## Besides", "\n".join(f"- {line}" for line in _besides(described))]) + "\n"


def _test_row(one: Tested) -> Sequence[str]:
    found = one.difference
    unit, digits = (1, 2) if found.number.startswith("slope") else (100, 1)
    return (
        one.name, found.sides, found.number, points(found.interval, unit), f"{found.p:.4f}", f"{one.p_holm:.4f}",
        f"{unit * found.detectable:.{digits}f} / {unit * one.detectable_at_first_step:.{digits}f}", one.told,
    )  # fmt: skip


def _starts(cell: Mapping[str, Any]) -> str:
    right = ", ".join(f"{name} {share(value)}" for name, value in cell["right"].items())
    reminded = ", ".join(f"`{name}` {share(value)}" for name, value in cell["reminded"].items())
    told = f"Untrained: {share(cell['start'])}"
    told += f"; with a reminder before every turn: {reminded}" if reminded else ""
    return f"{told}. Error turns that are right when written again: {right or 'not probed'}."


def _arms(cell: Mapping[str, Any]) -> str:
    passes = next(name for name in next(iter(cell["arms"].values())) if name.startswith("pass@"))
    rows = [
        (
            f"`{name}`", share(level["speed"]), share(level["success"]), share(level[passes]),
            *(share(level[about]) if about in level else "" for about in ABOUT_ARMS),
        )
        for name, level in cell["arms"].items()
    ]  # fmt: skip
    return table(("", "speed", "success at the end", passes, *HEADS), rows)


def _besides(described: Mapping[str, Any]) -> list[str]:
    levels = {
        f"{regime}/{name}": level
        for regime, cell in described["regimes"].items()
        for name, level in cell["arms"].items()
        if not name.endswith(", best")
    }
    stopped = {name: level["stopped"] for name, level in levels.items() if level["stopped"]}
    alarms = {name: dict(level["alarms"]) for name, level in levels.items() if level["alarms"]}
    return [
        f"Runs set aside, as their start or data could not be made again: {described['orphans']}",
        f"Runs ended early: {stopped or 'none'}",
        f"Alarms: {alarms or 'none'}",
    ]


def share(value: Estimate) -> str:
    return f"{value.mean:.3f} [{value.lo:.3f}, {value.hi:.3f}]"


def points(value: Estimate, unit: float = 100) -> str:
    digits = 1 if unit == 100 else 2
    told = f"{unit * value.mean:+.{digits}f} [{unit * value.lo:+.{digits}f}, {unit * value.hi:+.{digits}f}]"
    return told.replace("-", "−")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
