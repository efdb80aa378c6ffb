"""docs/promises.md names a test for each promise: the test must be there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text()
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| (?!promise )[^-]", line)]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", "\n".join(ROWS))))


def functions_in(path):
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("named", NAMED)
def test_a_named_test_exists(named):
    path, _, name = named.partition("::")
    assert not name or name in functions_in(path)


def test_every_promise_names_a_test():
    assert len(ROWS) >= 30
    assert [row for row in ROWS if "`tests/" not in row and "| the same |" not in row] == []
