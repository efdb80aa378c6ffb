"""Helpers and base classes of other test files, taken into the file that imports them. Makes a new tree.

So a test that is inherited from another file, or asserts by a function of another file, is lowered like any other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from composer_replication.syntax import parse

from .shape import mentioned

DEPTH = 200


def merged(path: str, tree: ast.Module, others: Mapping[str, str]) -> ast.Module:
    """`others` are trusted test files by path, as `path` is. An import stays where names would clash."""
    body = list(tree.body)
    refused: set[ast.stmt] = set()
    homes: dict[str, str] = {}
    for _ in range(DEPTH):
        found = next((node for node in body if isinstance(node, ast.ImportFrom) and node not in refused), None)
        if found is None:
            break
        source = _file_of(path, found, others)
        rest = [node for node in body if node is not found]
        taken = _taken(path, found, source, others, rest, homes) if source else None
        if taken is None or source is None:
            refused.add(found)
            continue
        place = body.index(found)
        body[place : place + 1] = taken
        defined = (node for node in taken if not isinstance(node, ast.Import | ast.ImportFrom))
        homes |= {name: source for node in defined for name in bound_names(node)}
    return ast.Module(body, [])


def _taken(
    path: str,
    node: ast.ImportFrom,
    source: str,
    others: Mapping[str, str],
    rest: list[ast.stmt],
    homes: Mapping[str, str],
) -> list[ast.stmt] | None:
    """What stands for an import; None where it must stay. `homes`: the files of names that were taken before."""
    if any(alias.name == "*" or alias.asname not in (None, alias.name) for alias in node.names):
        return None
    try:
        other = parse(others[source])
    except (SyntaxError, ValueError):
        return None
    names = {alias.name for alias in node.names}
    if not names <= {name for part in other.body for name in bound_names(part)}:
        return None
    needed = _closure(other, names)
    relative = any(isinstance(part, ast.ImportFrom) and part.level for part in needed)
    if relative and PurePosixPath(source).parent != PurePosixPath(path).parent:
        return None
    present = {ast.unparse(part) for part in rest if isinstance(part, ast.Import | ast.ImportFrom)}
    new = [part for part in needed if not _is_there(part, source, others, present, homes)]
    mine = {name for part in rest for name in bound_names(part)}
    return None if mine & {name for part in new for name in bound_names(part)} else new


def _is_there(
    node: ast.stmt, source: str, others: Mapping[str, str], present: set[str], homes: Mapping[str, str]
) -> bool:
    if isinstance(node, ast.ImportFrom):
        source = _file_of(source, node, others) or ""
    names = list(bound_names(node))
    if isinstance(node, ast.Import | ast.ImportFrom) and ast.unparse(node) in present:
        return True
    return bool(names) and all(homes.get(name) == source for name in names)


def _file_of(path: str, node: ast.ImportFrom, others: Mapping[str, str]) -> str | None:
    folder = PurePosixPath(path).parent
    parts = (node.module or "").split(".") if node.module else []
    if node.level:
        for _ in range(node.level - 1):
            folder = folder.parent
        places = [folder.joinpath(*parts)]
    else:
        ends = "/" + "/".join(parts)
        places = [PurePosixPath(*parts), folder.joinpath(*parts)]
        places += [PurePosixPath(other[:-3]) for other in others if other.endswith(f"{ends}.py")]
    found = [name for place in places for name in (f"{place}.py", str(place / "__init__.py")) if name in others]
    return found[0] if found and found[0] != path else None


def bound_names(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.Import() | ast.ImportFrom():
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        case _:
            stored = (part for part in ast.walk(node) if isinstance(part, ast.Name))
            yield from (part.id for part in stored if isinstance(part.ctx, ast.Store))


def _closure(tree: ast.Module, names: set[str]) -> list[ast.stmt]:
    """The statements that bind these names and what they refer to; and those that bind nothing, for what they do."""
    needed = set(names)
    kept: set[ast.stmt] = set()
    while True:
        new = [node for node in tree.body if node not in kept and _stays(node, needed)]
        if not new:
            return [node for node in tree.body if node in kept]
        kept.update(new)
        needed.update(word for node in new for word in mentioned(node))


def _stays(node: ast.stmt, needed: set[str]) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return False
        case ast.ImportFrom(module="__future__"):
            return False
        case _:
            bound = set(bound_names(node))
            return not bound or bool(bound & needed)
