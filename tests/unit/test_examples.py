"""`examples/own_environment.ipynb` has the cells of the script beside it, and runs."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"


def cells_of_script():
    """Kind and source of each cell; the module docstring is the script's own."""
    _, *cells = re.split(r"^# %%", (EXAMPLES / "own_environment.py").read_text(), flags=re.MULTILINE)
    for cell in cells:
        mark, source = cell.split("\n", 1)
        if mark.strip() == "[markdown]":
            yield "markdown", re.sub(r"^# ?", "", source.strip(), flags=re.MULTILINE)
        else:
            yield "code", source.strip()


def notebook():
    new = nbformat.v4
    make = {"markdown": new.new_markdown_cell, "code": new.new_code_cell}
    cells = [make[kind](source, id=f"cell-{place}") for place, (kind, source) in enumerate(cells_of_script())]
    return new.new_notebook(cells=cells, metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})


def test_the_notebook_is_the_script():
    """`python -m tests.unit.test_examples` writes it again."""
    assert nbformat.read(EXAMPLES / "own_environment.ipynb", as_version=4) == notebook()


def test_the_notebook_trains_a_policy_to_what_is_held_out():
    ran = notebook()
    NotebookClient(ran, timeout=600).execute()
    said = "".join(output.get("text", "") for output in ran.cells[-1].outputs)
    before, after = map(float, re.fullmatch(r"held-out success: (\S+) before, (\S+) after\n", said).groups())
    assert before < 0.5 and after > 0.9


if __name__ == "__main__":
    nbformat.write(notebook(), EXAMPLES / "own_environment.ipynb")
