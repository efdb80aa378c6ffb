"""Curves over training steps, several measures in a panel and several panels in a figure, as SVG text.

A strong line is the mean over seeds, a faint one a seed. Values are shares from 0 to 1. Texts are escaped here.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import fmean
from typing import NamedTuple

from composer_replication.evaluation.charts import Scale, ticks

Points = Sequence[tuple[int, float]]
WIDTH, HEIGHT, COLUMNS = 300, 210, 3
LEFT, TOP, RIGHT, BOTTOM = 40, 34, 288, 172
LEGEND_HEIGHT = 34
COLOURS = (("#c8550a", "#f0a04b"), ("#0068a8", "#62b5f0"), ("#2e7d4f", "#6fcf97"), ("#7a4fb5", "#b79ae6"))
"""For light and for dark pages."""


class Curve(NamedTuple):
    label: str
    seeds: Sequence[Points]
    """One sequence of (step, share) per seed, all with the same steps."""


class Panel(NamedTuple):
    title: str
    curves: Sequence[Curve]
    """The same labels in the same order in every panel."""


def curve_figure(title: str, panels: Sequence[Panel]) -> str:
    """A whole SVG file."""
    rows = -(-len(panels) // COLUMNS)
    width, height = COLUMNS * WIDTH, rows * HEIGHT + LEGEND_HEIGHT
    body = [_legend([curve.label for curve in panels[0].curves])]
    for place, panel in enumerate(panels):
        x, y = place % COLUMNS * WIDTH, place // COLUMNS * HEIGHT + LEGEND_HEIGHT
        body.append(f'<g transform="translate({x} {y})">{_panel(panel)}</g>')
    told = "; ".join(
        f"{panel.title}: " + ", ".join(f"{curve.label} {_mean(curve)[-1][1]:.2f}" for curve in panel.curves)
        for panel in panels
    )
    head = (
        f'<svg viewBox="0 0 {width} {height}" role="img" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif">'
    )
    about = f"<title>{escape(title)}</title><desc>{escape(f'At the end: {told}')}</desc>"
    return (
        f'{head}{about}<style>{_style()}</style><rect class="page" width="100%" height="100%"/>{"".join(body)}</svg>\n'
    )


def _panel(panel: Panel) -> str:
    steps = [step for curve in panel.curves for points in curve.seeds for step, _ in points]
    x, y = Scale(min(steps), max(*steps, min(steps) + 1), LEFT, RIGHT), Scale(0, 1, BOTTOM, TOP)
    out = [f'<text class="head" x="{LEFT}" y="20">{escape(panel.title)}</text>']
    for share in (0, 0.25, 0.5, 0.75, 1):
        out.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y(share):.1f}" y2="{y(share):.1f}"/>')
        out.append(f'<text class="tick" x="{LEFT - 6}" y="{y(share) + 4:.1f}" text-anchor="end">{share * 100:g}</text>')
    for step in ticks(x.lo, x.hi):
        if x.lo <= step <= x.hi:
            out.append(f'<text class="tick" x="{x(step):.1f}" y="{BOTTOM + 16}" text-anchor="middle">{step:g}</text>')
    for number, curve in enumerate(panel.curves):
        faint = curve.seeds if len(curve.seeds) > 1 else ()
        out += [_line(points, x, y, f"curve c{number} seed") for points in faint]
        out.append(_line(_mean(curve), x, y, f"curve c{number}"))
    return "".join(out)


def _mean(curve: Curve) -> list[tuple[int, float]]:
    by_step = zip(*curve.seeds, strict=True)
    return [(points[0][0], fmean(value for _, value in points)) for points in by_step]


def _line(points: Points, x: Scale, y: Scale, kind: str) -> str:
    return f'<polyline class="{kind}" points="{" ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in points)}"/>'


def _legend(labels: Sequence[str]) -> str:
    out: list[str] = []
    x = LEFT
    for number, label in enumerate(labels):
        out.append(f'<polyline class="curve c{number}" points="{x},18 {x + 22},18"/>')
        out.append(f'<text x="{x + 28}" y="22">{escape(label)}</text>')
        x += 48 + 7 * len(label)
    return "".join(out)


def _style() -> str:
    light = "".join(f".c{number}{{stroke:{colour}}}" for number, (colour, _) in enumerate(COLOURS))
    dark = "".join(f".c{number}{{stroke:{colour}}}" for number, (_, colour) in enumerate(COLOURS))
    return (
        "text{font-size:12px;fill:#1d2126}.head{font-size:14px;font-weight:600}.tick{fill:#5d6670;font-size:11px}"
        ".page{fill:#fdfdfb}.grid{stroke:#e2e2dc}.curve{fill:none;stroke-width:2.4}.seed{stroke-width:1;opacity:.45}"
        f"{light}@media (prefers-color-scheme:dark){{text{{fill:#e9eaec}}.tick{{fill:#9ba4ae}}.page{{fill:#15181c}}"
        f".grid{{stroke:#30363d}}{dark}}}"
    )
