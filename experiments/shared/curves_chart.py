"""Several curves in one chart, each named at its end. Reads numbers, writes SVG text that stands on its own."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from composer_replication.evaluation.charts import Scale, standalone, ticks

from .plot_frame import COLOURS, plot_frame

WIDTH, HEIGHT = 760, 212
LEFT, RIGHT, TOP, BOTTOM = 56, 600, 24, 168
LABEL_STEP = 17
DASHES = ("", "7 4", "2 3")


class Curve(NamedTuple):
    """`points` are (x, mean, lo, hi) in order of x; the band is drawn where lo and hi differ."""

    label: str
    points: Sequence[tuple[float, float, float, float]]
    dash: int = 0


def curves_chart(title: str, x_name: str, y_name: str, curves: Sequence[Curve], most: float | None = None) -> str:
    """`most` fixes the top of the y axis, as 1 for shares."""
    every = [point for curve in curves for point in curve.points]
    if not every:
        raise ValueError("a chart of curves needs at least one point")
    x_marks = ticks(min(x for x, *_ in every), max(x for x, *_ in every))
    y_marks = ticks(min(0.0, *(lo for _, _, lo, _ in every)), most or max(hi for *_, hi in every))
    x, y = Scale(x_marks[0], x_marks[-1], LEFT, RIGHT), Scale(y_marks[0], y_marks[-1], BOTTOM, TOP)
    out = plot_frame(x, y, x_marks, y_marks, x_name, y_name)
    for number, curve in enumerate(curves):
        out.append(_drawn(curve, COLOURS[number % len(COLOURS)], x, y))
    for (number, curve), height in zip(
        sorted(enumerate(curves), key=lambda each: y(each[1].points[-1][1])), _label_heights(curves, y), strict=True
    ):
        colour, last = COLOURS[number % len(COLOURS)], curve.points[-1]
        out.append(
            f'<line x1="{x(last[0]):.1f}" y1="{y(last[1]):.1f}" x2="{RIGHT + 14}" y2="{height - 4:.1f}" '
            f'stroke="{colour}" stroke-opacity="0.4"/>'
            f'<text x="{RIGHT + 18}" y="{height:.1f}" style="fill:{colour}">{escape(curve.label)} {last[1]:.2f}</text>'
        )
    told = escape("; ".join(f"{curve.label}: {curve.points[-1][1]:.3g} in the end" for curve in curves))
    body = "".join(out)
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{escape(title)}</title><desc>{told}</desc>'
    return standalone(f"{head}{body}</svg>")


def _drawn(curve: Curve, colour: str, x: Scale, y: Scale) -> str:
    upper = [f"{x(at):.1f},{y(hi):.1f}" for at, _, _, hi in curve.points]
    lower = [f"{x(at):.1f},{y(lo):.1f}" for at, _, lo, _ in reversed(curve.points)]
    middle = " ".join(f"{x(at):.1f},{y(mean):.1f}" for at, mean, _, _ in curve.points)
    has_band = any(hi > lo for _, _, lo, hi in curve.points)
    band = f'<polygon points="{" ".join(upper + lower)}" fill="{colour}" fill-opacity="0.1"/>' if has_band else ""
    dash = f' stroke-dasharray="{DASHES[curve.dash]}"' if curve.dash else ""
    return f'{band}<polyline points="{middle}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'


def _label_heights(curves: Sequence[Curve], y: Scale) -> list[float]:
    """One per curve from the top down, as near to its end as labels without overlap can be."""
    heights: list[float] = []
    for wanted in sorted(y(curve.points[-1][1]) + 4 for curve in curves):
        heights.append(max(wanted, heights[-1] + LABEL_STEP) if heights else wanted)
    overflow = max(0.0, heights[-1] - (BOTTOM + 4))
    return [height - overflow for height in heights]
