"""What the agent is told when it is to write tests, from the most to the least."""

from __future__ import annotations

from collections.abc import Sequence

from ...tasks.repository import Repository
from ...tasks.task import Level, Symbol

RULES = (
    "The code is correct as it stands: every test that you write must pass on it. Your tests are then run on copies of "
    "the code with one small bug each; the reward is the share of copies on which one of your tests fails. Tests that "
    "read the source instead of calling it are not counted. Do not change the source.\n"
)


def statements(
    repository: Repository, symbols: Sequence[Symbol], test_files: Sequence[str], mutants: int
) -> dict[Level, str]:
    names = ", ".join(f"`{symbol.name}` in `{symbol.file}`" for symbol in symbols)
    files = ", ".join(f"`{path}`" for path in test_files)
    modules = ", ".join(f"`{path}`" for path in dict.fromkeys(symbol.file for symbol in symbols))
    place = f"Write pytest tests in {files}, or in new files `test_*.py` next to it"
    return {
        "L0": f"{place}, for {names}. There are {mutants} bugs to notice: wrong conditions, edges of ranges, forgotten "
        f"cases, wrong constants and defaults, swapped arguments.\n\n{RULES}",
        "L1": f"{place}, for {names}.\n\n{RULES}",
        "L2": f"{place}, for what {modules} offers and no test of the repository covers.\n\n{RULES}",
        "L3": f"{place}, for what {repository.name} offers and no test of the repository covers.\n\n{RULES}",
    }
