"""Whether new code decides by who called it. Reading a frame for a warning or a message decides nothing.

Frames that are only counted, or compared with the module's own name or place, are work on a stack level.
What came from a frame is followed through assignments, loops and what functions return, over all changed statements at
once; a sign is where it is compared, asked for a part of its text, or looked up in a table.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from ..python.trees import names_in
from .names import Names

FRAMES = frozenset(
    "sys._getframe inspect.stack inspect.currentframe inspect.getouterframes inspect.trace traceback.extract_stack"
    " traceback.format_stack traceback.walk_stack sys._current_frames sys._getframemodulename".split()
)
FRAME_FIELDS = frozenset("f_back f_code f_locals f_globals co_filename".split())
OWN_NAMES = frozenset("__name__ __file__ __package__ __path__ __spec__".split())
INTERPRETER_MODULES = frozenset("importlib _bootstrap warnings logging functools contextlib threading asyncio".split())
ASKED_OF_TEXT = frozenset("startswith endswith find count".split())
ASKED_WITH_TEXT = frozenset("match search fullmatch findall get __contains__".split())


def decisions_by_caller(nodes: Sequence[ast.AST], names: Names) -> Iterator[ast.AST]:
    if any(_reads_frame(node, names) for node in nodes):
        # Variables that hold something of a frame, with functions that return it; and the module's own name or place.
        held = _bound_to(nodes, frozenset(), lambda value, held: _of_frame(value, held, names))
        own = _bound_to(nodes, OWN_NAMES, lambda value, own: bool(_words(value) & own))
        yield from (node for node in nodes if _decides(node, held, names) and not _is_for_a_stack_level(node, own))


def _bound_to(
    nodes: Sequence[ast.AST], known: frozenset[str], is_bound: Callable[[ast.expr, frozenset[str]], bool]
) -> frozenset[str]:
    """The known names, and all that are bound to one of them, however many bindings lie between."""
    while not (more := {name for name, value in _bindings(nodes) if is_bound(value, known)}) <= known:
        known |= more
    return known


def _bindings(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    for node in nodes:
        if isinstance(node, ast.Assign):
            yield from ((name, node.value) for target in node.targets for name in names_in(target))
        elif isinstance(node, ast.AnnAssign | ast.AugAssign | ast.NamedExpr) and node.value is not None:
            yield from ((name, node.value) for name in names_in(node.target))
        elif isinstance(node, ast.For | ast.comprehension):
            yield from ((name, node.iter) for name in names_in(node.target))
        elif isinstance(node, ast.FunctionDef):
            returned = (inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return | ast.Yield))
            yield from ((node.name, value) for value in returned if value is not None)


def _reads_frame(node: ast.AST, names: Names) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in FRAME_FIELDS
    return isinstance(node, ast.Call) and names.dotted(node.func) in FRAMES


def _of_frame(node: ast.AST, held: frozenset[str], names: Names) -> bool:
    return bool(names_in(node) & held) or any(_reads_frame(inner, names) for inner in ast.walk(node))


def _decides(node: ast.AST, held: frozenset[str], names: Names) -> bool:
    asked: list[ast.expr] = []
    if isinstance(node, ast.Compare):
        asked = [node.left, *node.comparators]
        if any(isinstance(side, ast.Constant) and side.value is None for side in asked):
            return False
    elif isinstance(node, ast.Subscript):
        asked = [node.slice]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ASKED_OF_TEXT:
            asked = [node.func.value]
        elif node.func.attr in ASKED_WITH_TEXT:
            asked = node.args
    return any(_of_frame(part, held, names) for part in asked)


def _words(node: ast.AST) -> frozenset[str]:
    return frozenset(
        names_in(node) | {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)} & OWN_NAMES
    )


def _is_for_a_stack_level(node: ast.AST, own: frozenset[str]) -> bool:
    if _words(node) & own:
        return True
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value).endswith(("sys.modules", "__dict__", "f_globals", "f_locals"))
    if isinstance(node, ast.Call):
        return any(map(_names_the_interpreter, node.args))
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    counted = any(
        isinstance(side, ast.Call) and isinstance(side.func, ast.Name) and side.func.id == "len" for side in sides
    ) or any(isinstance(side, ast.Constant) and isinstance(side.value, int) for side in sides)
    same_object = isinstance(node.ops[0], ast.Is | ast.IsNot)
    looked_up = isinstance(node.ops[0], ast.In | ast.NotIn) and ast.unparse(sides[-1]).endswith(
        ("f_locals", "f_globals")
    )
    by_variable = looked_up and not isinstance(node.left, ast.Constant)
    return counted or same_object or by_variable or any(map(_names_the_interpreter, sides))


def _names_the_interpreter(node: ast.expr) -> bool:
    """`<module>`, `<frozen importlib…>` and what else of Python itself stands between a caller and a callee."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.Set | ast.List) else [node]
    return bool(parts) and all(
        isinstance(part, ast.Constant)
        and isinstance(part.value, str)
        and (part.value.startswith("<") or part.value in INTERPRETER_MODULES)
        for part in parts
    )
