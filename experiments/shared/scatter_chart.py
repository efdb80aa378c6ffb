"""Two measures of several cells against each other, seeds and means, with a line. Numbers in, SVG text out."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import fmean
from typing import NamedTuple

from composer_replication.evaluation.charts import Scale, standalone, ticks

from .plot_frame import COLOURS, plot_frame

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 60, 640, 34, 360
LABEL_HEIGHT = 15


class Cell(NamedTuple):
    label: str
    seeds: Sequence[tuple[float, float]]

    @property
    def mean(self) -> tuple[float, float]:
        return fmean(x for x, _ in self.seeds), fmean(y for _, y in self.seeds)


def scatter_chart(
    title: str, x_name: str, y_name: str, cells: Sequence[Cell], line: tuple[float, float] | None = None
) -> str:
    """`line` is (slope, intercept); it is drawn over the range of the means."""
    every = [point for cell in cells for point in cell.seeds]
    if not every:
        raise ValueError("a scatter chart needs at least one point")
    x_marks = ticks(min(0.0, *(x for x, _ in every)), max(x for x, _ in every))
    y_marks = ticks(min(0.0, *(y for _, y in every)), max(y for _, y in every))
    x, y = Scale(x_marks[0], x_marks[-1], LEFT, RIGHT), Scale(y_marks[0], y_marks[-1], BOTTOM, TOP)
    out = plot_frame(x, y, x_marks, y_marks, x_name, y_name)
    out.append(f'<line x1="{LEFT}" y1="{y(0):.1f}" x2="{RIGHT}" y2="{y(0):.1f}" stroke="#5d6670"/>')
    if line:
        slope, intercept = line
        ends = sorted(cell.mean[0] for cell in cells)
        first, last = ends[0], ends[-1]
        out.append(
            f'<line x1="{x(first):.1f}" y1="{y(intercept + slope * first):.1f}" x2="{x(last):.1f}" '
            f'y2="{y(intercept + slope * last):.1f}" stroke="#5d6670" stroke-dasharray="6 4"/>'
        )
    heights = _label_heights(cells, x, y)
    coloured = [(cell, COLOURS[number % len(COLOURS)]) for number, cell in enumerate(cells)]
    out += [
        f'<text class="halo" x="{x(cell.mean[0]) + 10:.1f}" y="{height:.1f}" style="fill:{colour}">'
        f"{escape(cell.label)}</text>"
        for (cell, colour), height in zip(coloured, heights, strict=True)
    ]
    out += [_dots(cell, colour, x, y) for cell, colour in coloured]
    told = escape("; ".join(f"{cell.label}: {cell.mean[0]:.3g}, {cell.mean[1]:+.3g}" for cell in cells))
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{escape(title)}</title><desc>{told}</desc>'
    return standalone(f"{head}{''.join(out)}</svg>")


def _dots(cell: Cell, colour: str, x: Scale, y: Scale) -> str:
    at, up = cell.mean
    seeds = "".join(
        f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3" fill="{colour}" fill-opacity="0.4"/>' for a, b in cell.seeds
    )
    return f'{seeds}<circle cx="{x(at):.1f}" cy="{y(up):.1f}" r="6" fill="{colour}"/>'


def _label_heights(cells: Sequence[Cell], x: Scale, y: Scale) -> list[float]:
    """Labels whose cells lie side by side are moved down until they no longer cover each other."""
    placed: list[tuple[float, float]] = []
    heights: dict[int, float] = {}
    for number, cell in sorted(enumerate(cells), key=lambda each: y(each[1].mean[1])):
        at, height = x(cell.mean[0]), y(cell.mean[1]) + 4
        for other, taken in placed:
            if abs(other - at) < 120 and abs(taken - height) < LABEL_HEIGHT:
                height = taken + LABEL_HEIGHT
        placed.append((at, height))
        heights[number] = height
    return [heights[number] for number in range(len(cells))]
