import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from shared.curves_chart import BOTTOM, LABEL_STEP, TOP, Curve, curves_chart


def flat(label, height, points=3):
    return Curve(label, [(step, height, height - 0.05, height + 0.05) for step in range(points)])


def test_it_is_a_picture_of_its_own_with_every_name_and_last_value():
    drawn = curves_chart("T & t", "step", "share", [flat("a <b>", 0.5), flat("c", 0.25)], 1.0)
    texts = [node.text for node in ElementTree.fromstring(drawn).iter() if node.text]
    assert "T & t" in texts and "a <b> 0.50" in texts and "c 0.25" in texts


def test_labels_keep_apart_and_inside():
    drawn = curves_chart("t", "x", "y", [flat(str(number), 0.3) for number in range(6)], 1.0)
    heights = sorted(float(y) for y in re.findall(r'<text x="618" y="([\d.]+)"', drawn))
    assert len(heights) == 6
    assert all(later - earlier >= LABEL_STEP - 0.2 for earlier, later in pairwise(heights))
    assert heights[0] >= TOP and heights[-1] <= BOTTOM + 5


def test_a_curve_without_spread_has_no_band():
    line = Curve("a", [(0, 0.1, 0.1, 0.1), (1, 0.2, 0.2, 0.2)])
    assert "polygon" not in curves_chart("t", "x", "y", [line])
    assert "polygon" in curves_chart("t", "x", "y", [flat("a", 0.5)])


def test_higher_is_further_up():
    drawn = curves_chart("t", "x", "y", [Curve("a", [(0, 0.1, 0.1, 0.1), (1, 0.9, 0.9, 0.9)])], 1.0)
    first, last = (float(pair.split(",")[1]) for pair in re.search(r'points="([^"]+)"', drawn)[1].split())
    assert last < first


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="at least one point"):
        curves_chart("t", "x", "y", [])
