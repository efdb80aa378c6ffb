"""A scatter chart says its numbers, and its labels stay apart."""

import re
from xml.etree import ElementTree

import pytest

from shared.scatter_chart import LABEL_HEIGHT, Cell, scatter_chart

CELLS = [Cell("low & strong", [(70, 20), (74, 4), (72, 34)]), Cell("none", [(0, 0), (-1, -3)]), Cell("one", [(71, 19)])]


def test_every_cell_is_drawn_and_told():
    drawn = scatter_chart("Gain", "gap", "gain", CELLS, (0.3, -1.0))
    root = ElementTree.fromstring(drawn)
    circles = root.findall(".//{http://www.w3.org/2000/svg}circle")
    assert len(circles) == sum(len(cell.seeds) for cell in CELLS) + len(CELLS)
    assert "low &amp; strong" in drawn and "72, +19.3" in drawn
    assert 'dasharray="6 4"' in drawn and 'dasharray="6 4"' not in scatter_chart("Gain", "gap", "gain", CELLS)


def test_labels_of_neighbours_do_not_cover_each_other():
    drawn = scatter_chart("Gain", "gap", "gain", CELLS)
    heights = [float(found) for found in re.findall(r'y="([\d.]+)" style="fill', drawn)]
    assert abs(heights[0] - heights[2]) >= LABEL_HEIGHT


def test_an_empty_chart_is_refused():
    with pytest.raises(ValueError, match="at least one point"):
        scatter_chart("Gain", "gap", "gain", [])
