"""Every figure of docs/benchmarks.md is the one in the raw file that its row names, rounded as the page shows it."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "benchmarks.md").read_text().splitlines()
    if line.startswith("|") and line.endswith("` |")
]


@cache
def raw(name):
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())


def value(name, path):
    found = raw(name)
    while path:
        if isinstance(found, dict) and path in found:  # a key with points in it
            return found[path]
        key, _, path = path.partition(".")
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found


def shown(cell):
    """The number of a cell and how many digits it has behind the point."""
    number = re.search(r"\d[\d,]*(?:\.(\d+))?", cell)
    return float(number[0].replace(",", "")), len(number[1] or "")


def agrees(cell, expected):
    number, digits = shown(cell)
    return abs(number - expected) <= 0.5000001 * 10**-digits


def test_the_page_has_its_rows():
    assert len(ROWS) >= 30


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[-1].strip("`"))
def test_a_row_says_what_its_file_says(row):
    name, path = row[-1].strip("`").split(" ", 1)
    if path == "score":
        for cell, part in zip(row[1:5], ("mean", "lo", "hi", "n"), strict=True):
            assert agrees(cell, value(name, f"score.{part}")), (cell, part)
    elif "*" in path:
        sizes = [value(name, path.replace("*", size)) for size in ("100", "400", "4000")]
        for cell, expected in zip(row[1:5], [*sizes, sizes[2] / sizes[0]], strict=True):
            assert agrees(cell, expected), (cell, expected)
    else:
        over, *under = path.split(" / ")
        expected = value(name, over) / value(name, under[0]) if under else value(name, over)
        assert agrees(row[1], expected), (row[1], expected)


def test_another_figure_would_be_noticed():
    assert agrees("**slower** 1.26", 1.2580) and not agrees("1.26", 1.2512) and not agrees("40 %", 41)
