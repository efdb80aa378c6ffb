"""Charts as SVG text. Pure functions; colours come from the page's style sheet by class name.

Every text argument may hold untrusted trace text and is escaped here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from typing import NamedTuple

from .stats import Estimate, no_interval

WIDTH = 900
LEFT = 190
LABEL_CHARS = 22
MARGIN = 16
STANDALONE_STYLE = """
:root { --page: #fdfdfb; --ink: #1d2126; --soft: #5d6670; --rule: #e2e2dc; --before: #c8550a; --after: #0068a8; }
@media (prefers-color-scheme: dark) {
  :root { --page: #15181c; --ink: #e9eaec; --soft: #9ba4ae; --rule: #30363d; --before: #f0a04b; --after: #62b5f0; } }
svg { background: var(--page); }
text { fill: var(--ink); font-size: 14px; font-variant-numeric: tabular-nums; }
.value { font-weight: 600; } .note, .tick { fill: var(--soft); font-size: 12px; }
.small { font-size: 12px; font-weight: 500; } .head { fill: var(--soft); font-size: 13px; }
.grid { stroke: var(--rule); } .zero { stroke: var(--soft); stroke-dasharray: 3 3; }
.whisker { stroke-width: 2.5; stroke-linecap: round; }
.before { stroke: var(--before); } .after { stroke: var(--after); } .delta { stroke: var(--ink); }
.dot.before { fill: var(--before); } .dot.after { fill: var(--after); } .dot.delta { fill: var(--ink); }
.seed { fill: none; opacity: 0.55; }
.halo { stroke: var(--page); stroke-width: 4px; paint-order: stroke; }
"""


class EffectRow(NamedTuple):
    """One arm: its mean, and its difference from the baseline with what a test says. The baseline has no difference."""

    label: str
    detail: str
    estimate: Estimate
    seeds: Sequence[float]
    difference: Estimate | None = None
    seed_differences: Sequence[float] = ()
    verdict: str = ""


class Scale(NamedTuple):
    """Maps [lo, hi] to pixels [left, right]."""

    lo: float
    hi: float
    left: float
    right: float

    def __call__(self, value: float) -> float:
        return self.left + (value - self.lo) / (self.hi - self.lo) * (self.right - self.left)


def ticks(lo: float, hi: float, most: int = 5) -> list[float]:
    """Round numbers that cover [lo, hi], at most about `most` steps apart."""
    if hi <= lo:
        lo, hi = lo - (abs(lo) or 1) / 2, hi + (abs(hi) or 1) / 2
    raw = (hi - lo) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw * 0.999)
    first, last = math.floor(lo / step + 1e-9), math.ceil(hi / step - 1e-9)
    return [round(step * k, 12) for k in range(first, last + 1)]


def effect_plot(title: str, unit: str, rows: Sequence[EffectRow], factor: float = 1) -> str:
    """Arms on the left, differences from the baseline on the right, with 95 % intervals; small dots are seeds.

    Values are drawn times `factor`: 100 turns shares into percent.
    """
    top, step = 58, 56
    bottom = top + step * len(rows)
    scaled = [_times(row, factor) for row in rows]
    seen = [value for row in scaled for value in (row.estimate.lo, row.estimate.hi, *row.seeds)]
    shown = [(row.difference, row.seed_differences) for row in scaled if row.difference]
    apart = [0.0, *(value for change, dots in shown for value in (change.lo, change.hi, *dots))]
    marks, steps = ticks(min(seen), max(seen), 4), ticks(min(apart), max(apart), 4)
    points = ", points" if factor == 100 else ""
    level, gain = Scale(marks[0], marks[-1], LEFT, 460), Scale(steps[0], steps[-1], 525, 725)
    out = [
        _text(level.left, 18, unit, "head"),
        _text(gain.left, 18, f"Difference from {_clip(rows[0].label)}{points}", "head"),
    ]
    out += [_x_axis(level, marks, 36, bottom), _x_axis(gain, steps, 36, bottom, signed=True)]
    out.append(_line(gain(0), 42, gain(0), bottom, "zero"))
    for index, row in enumerate(scaled):
        y = top + step * index + 18
        kind = "after" if row.difference else "before"
        out += [_text(0, y, _clip(row.label), "label"), _text(0, y + 17, _clip(row.detail, LABEL_CHARS + 3), "note")]
        out += [_seed_dots(level, row.seeds, y + 12, kind), _whisker(level, row.estimate, y - 4, kind)]
        out += [_text(level(row.estimate.hi) + 8, y, f"{row.estimate.mean:.3g}", "value small")]
        if row.difference:
            out += [
                _seed_dots(gain, row.seed_differences, y + 12, "delta"),
                _whisker(gain, row.difference, y - 4, "delta"),
            ]
            size = max(abs(step) for step in steps)
            change = [_signed(value, size) for value in (row.difference.mean, row.difference.lo, row.difference.hi)]
            out += [_text(WIDTH, y - 1, change[0], "value", "end")]
            ends = f"{change[1]} to {change[2]}" if row.difference.has_width else no_interval(row.difference.n)
            out += [_text(WIDTH, y + 15, ends, "note", "end")]
            out += [_text(WIDTH, y + 30, row.verdict, "note", "end")]
    told = [f"{row.label}: {row.estimate.mean:.4g}" for row in scaled]
    return _svg(WIDTH, bottom + 6, title, "; ".join(told), out)


def standalone(svg: str) -> str:
    """A chart as a file of its own: with its name space, colours for light and dark, and a background."""
    style = f"<style>{STANDALONE_STYLE}</style>"
    head, rest = re.sub(r'viewBox="0 0 (\S+) (\S+)"', _with_margin, svg, count=1).split(">", 1)
    return f'{head} xmlns="http://www.w3.org/2000/svg" font-family="system-ui, sans-serif">{style}{rest}\n'


def _with_margin(box: re.Match[str]) -> str:
    width, height = float(box[1]) + 2 * MARGIN, float(box[2]) + 2 * MARGIN
    return f'viewBox="{-MARGIN} {-MARGIN} {width:g} {height:g}"'


def line_chart(title: str, points: Sequence[tuple[int, float | None]], kind: str) -> str:
    """A faint line through every step, a strong one through the mean of the last tenth of the steps."""
    width, height, left, bottom = 430, 200, 52, 158
    known = [(step, value) for step, value in points if value is not None and math.isfinite(value)]
    if not known:
        return _svg(width, height, title, "no values", [_text(width / 2, height / 2, "no values", "note", "middle")])
    marks = ticks(*_worth_showing([value for _, value in known]), 4)
    y = Scale(marks[0], marks[-1], bottom, 12)
    first, last = points[0][0], max(points[-1][0], points[0][0] + 1)
    x = Scale(first, last, left, width - 12)
    whole = [mark for mark in ticks(first, last) if mark == int(mark) and first <= mark <= last]
    out = [_line(left, y(mark), width - 12, y(mark), "grid") for mark in marks]
    out += [_text(left - 8, y(mark) + 4, _number(mark, marks), "tick", "end") for mark in marks]
    out += [_text(x(mark), bottom + 18, f"{mark:,.0f}", "tick", "middle") for mark in whole]
    out.append(_text((left + width - 12) / 2, bottom + 36, "training step", "note", "middle"))
    window = smoothing_window(len(points))
    recent = [[v for _, v in known[max(0, i - window + 1) : i + 1]] for i in range(len(known))]
    smooth = {step: sum(values) / len(values) for (step, _), values in zip(known, recent, strict=True)}
    out += _curve([(s, v if s in smooth else None) for s, v in points], x, y, f"{kind} raw" if window > 1 else kind)
    if window > 1:
        out += _curve([(s, smooth.get(s)) for s, _ in points], x, y, kind)
    return _svg(width, height, title, f"from {known[0][1]:.4g} to {known[-1][1]:.4g}", out)


def _worth_showing(values: Sequence[float]) -> tuple[float, float]:
    """The range of an axis: changes of less than a percent would need labels that do not fit."""
    lo, hi = min(values), max(values)
    middle, least = (lo + hi) / 2, max(abs(lo), abs(hi)) / 100
    return (lo, hi) if hi == lo or hi - lo >= least else (middle - least / 2, middle + least / 2)


def smoothing_window(steps: int) -> int:
    """How many of the latest steps the strong line averages; 1 means that there is no second line."""
    return max(1, steps // 10)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def points(share: float) -> str:
    """A difference of shares in percentage points, with a true minus sign."""
    return "0.0" if f"{100 * share:.1f}" in ("0.0", "-0.0") else f"{100 * share:+.1f}".replace("-", "−")


def _curve(values: Sequence[tuple[int, float | None]], x: Scale, y: Scale, kind: str) -> Iterator[str]:
    for known, run in groupby(values, key=lambda point: point[1] is not None):
        dots = [(x(step), y(value)) for step, value in run if value is not None]
        if known and len(dots) == 1:
            yield f'<circle class="dot {kind}" cx="{dots[0][0]:.1f}" cy="{dots[0][1]:.1f}" r="3"/>'
        elif known:
            yield f'<polyline class="curve {kind}" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in dots)}"/>'


def _whisker(scale: Scale, estimate: Estimate, y: float, kind: str) -> str:
    dot = f'<circle class="dot {kind}" cx="{scale(estimate.mean):.1f}" cy="{y:.1f}" r="5"/>'
    return _line(scale(estimate.lo), y, scale(estimate.hi), y, f"whisker {kind}") + dot


def _seed_dots(scale: Scale, values: Sequence[float], y: float, kind: str) -> str:
    if len(values) < 2:
        return ""
    return "".join(f'<circle class="seed {kind}" cx="{scale(v):.1f}" cy="{y:.1f}" r="3.5"/>' for v in values)


def _times(row: EffectRow, factor: float) -> EffectRow:
    return row._replace(
        estimate=_scaled(row.estimate, factor),
        seeds=[factor * value for value in row.seeds],
        difference=row.difference and _scaled(row.difference, factor),
        seed_differences=[factor * value for value in row.seed_differences],
    )


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    lo, mean, hi = (factor * value for value in (estimate.lo, estimate.mean, estimate.hi))
    return Estimate(mean=mean, lo=lo, hi=hi, n=estimate.n)


def _signed(value: float, size: float) -> str:
    """Three digits of the largest number on the axis."""
    decimals = max(0, 2 - math.floor(math.log10(size)))
    return f"{value:+,.{decimals}f}".replace("-", "−")


def _x_axis(scale: Scale, marks: Sequence[float], top: float, bottom: float, signed: bool = False) -> str:
    lines = [_line(scale(mark), top + 8, scale(mark), bottom, "grid") for mark in marks]
    names = [("+" if signed and mark > 0 else "") + _number(mark, marks) for mark in marks]
    return "".join(lines + [_text(scale(m), top, name, "tick", "middle") for m, name in zip(marks, names, strict=True)])


def _number(value: float, marks: Sequence[float]) -> str:
    step = marks[1] - marks[0]
    decimals = next(d for d in range(13) if abs(round(step, d) - step) < step * 1e-6)
    return f"{value:,.{decimals}f}".replace("-", "−")


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>' if text else ""


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _clip(text: str, most: int = LABEL_CHARS) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _svg(width: int, height: float, title: str, description: str, body: Sequence[str]) -> str:
    head = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    return f'<svg viewBox="0 0 {width} {height:g}" role="img">{head}{"".join(body)}</svg>'
