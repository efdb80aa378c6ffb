"""The frame of a plot: lines across at the marks of y, marks of x below, the names of both. Gives pieces of SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from composer_replication.evaluation.charts import Scale

COLOURS = ("#0068a8", "#c8550a", "#2f7d32", "#8e44ad", "#b8860b", "#5d6670", "#b3261e")


def plot_frame(
    x: Scale, y: Scale, x_marks: Sequence[float], y_marks: Sequence[float], x_name: str, y_name: str
) -> list[str]:
    left, right, bottom = x.left, x.right, y.left
    return [
        *(
            f'<line class="grid" x1="{left}" y1="{y(mark):.1f}" x2="{right}" y2="{y(mark):.1f}"/>'
            f'<text class="tick" x="{left - 8}" y="{y(mark) + 4:.1f}" text-anchor="end">{mark:g}</text>'
            for mark in y_marks
        ),
        *(
            f'<text class="tick" x="{x(mark):.1f}" y="{bottom + 18}" text-anchor="middle">{mark:g}</text>'
            for mark in x_marks
        ),
        f'<text class="head" x="{left}" y="16">{escape(y_name)}</text>',
        f'<text class="note" x="{(left + right) / 2}" y="{bottom + 38}" text-anchor="middle">{escape(x_name)}</text>',
    ]
