"""The registered analysis. The shared code reads the queue and writes what is made here; its argparse takes the words.

recompose experiment rebuild experiments/009-rates
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from described import as_table, describe
from drawn import figures
from hypotheses import registered
from tabled import page

from shared.analysis.rebuild import Analysed, main
from shared.analysis.trained import Cell
from shared.runner.plan import Plan


def analysed(experiment: str, plan: Plan, cells: Mapping[str, Cell]) -> Analysed:
    (cell,) = cells.values()
    tested, described = registered(cell), describe(cell)
    tables = [{**one._asdict(), "difference": as_table(one.difference)} for one in tested]
    return Analysed({"registered": tables, **described}, page(tested, described), figures(cell))


if __name__ == "__main__":
    main(Path(__file__).parent, analysed)
