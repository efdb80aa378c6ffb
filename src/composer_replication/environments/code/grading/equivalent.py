"""The same program, compiled a little differently each time: what it does stays.

A test that tells the true code from a broken copy by its text, its hash or its compiled form fails on this one too.
"""

from __future__ import annotations

import ast
import importlib.util
import marshal
from random import Random

from composer_replication.syntax import parse


class _AddLocals(ast.NodeTransformer):
    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.body = self._padded(node.body)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        self.generic_visit(node)
        node.body = self._padded(node.body)
        return node

    def _padded(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """An unused local after the docstring."""
        after = 1 if _is_text(body[0]) else 0
        name = f"_spare_{self._chance.randrange(10**6)}"
        number = self._chance.randrange(10**6)
        return [*body[:after], parse(f"{name} = {number}").body[0], *body[after:]]


def equivalent(text: str, chance: Random) -> str:
    tree = _AddLocals(chance).visit(parse(text))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def compiled(text: str, path: str) -> bytes:
    """The content of a `.pyc` that is imported whatever its source; for the interpreter that runs this."""
    code = compile(text, path, "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
