"""Rules over changed Python code for answers that were not worked out: values equal to anything, and tables of answers.

A real `__eq__` looks at both sides. A table of answers is a dict of constants that is asked with the whole input made
into a key (`repr(x)`, `tuple(x)`, a digest), or several comparisons of an input with constants that return constants;
or its constants are those of the tests.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .diff_names import Names
from .diff_rules import Hit, Place, Spot

COMPARING = frozenset(
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __contains__ __instancecheck__ __subclasscheck__".split()
)
KEY_MAKERS = re.compile(r"\b(repr|str|tuple|dumps|hexdigest|digest|frozenset|hash|format|crc32|adler32|sorted|ascii)\(")
DEEPEST_TABLE = 3
FEW_ENTRIES, FEW_BRANCHES, MANY_SCALAR_BRANCHES, FEW_LITERALS = 2, 2, 4, 2
SHORTEST_LITERAL = 6
BOUNDLESS = 1e15


def always_equal(spot: Spot, place: Place) -> Iterator[Hit]:
    if place.role not in ("package", "conftest"):
        return
    node, names = spot.node, place.names
    if isinstance(node, ast.Attribute | ast.Name) and re.search(
        r"^(unittest\.)?mock\.(ANY|\w*Mock)$", names.dotted(node)
    ):
        yield Hit("equal_by_mock", "always_equal", "soft" if place.role == "conftest" else "hard", node)
    owner = node.name if isinstance(node, ast.ClassDef) else ""
    for name, function in _comparing_functions(node, names):
        rule = _unfair(name, function, names, owner)
        if rule:
            yield Hit(rule, "always_equal", "soft" if rule == "equal_by_kind" else "hard", function)


def _comparing_functions(node: ast.AST, names: Names) -> Iterator[tuple[str, ast.FunctionDef | ast.Lambda]]:
    match node:
        case ast.ClassDef(body=body):
            functions = {member.name: member for member in body if isinstance(member, ast.FunctionDef)}
            for member in body:
                match member:
                    case ast.FunctionDef(name) if name in COMPARING:
                        yield name, member
                    case ast.Assign([ast.Name(name)], ast.Lambda() as function) if name in COMPARING:
                        yield name, function
                    case ast.Assign(targets, ast.Name(other)) if other in functions:
                        aliases = [target.id for target in targets if isinstance(target, ast.Name)]
                        yield from ((name, functions[other]) for name in aliases if name in COMPARING)
                    case _:
                        pass
        case ast.Dict(keys, values):
            for key, value in zip(keys, values, strict=True):
                name = names.folded(key) if key else None
                if isinstance(value, ast.Lambda) and isinstance(name, str) and name in COMPARING:
                    yield name, value
        case ast.Assign([ast.Attribute(_, name)], ast.Lambda() as function) if name in COMPARING:
            yield name, function
        case ast.Call(args=[_, key, ast.Lambda() as function]) if names.dotted(node.func) == "builtins.setattr":
            name = names.folded(key)
            if name is None and isinstance(key, ast.JoinedStr) and ast.unparse(key).strip("f'\"").startswith("__"):
                name = "__eq__"  # one of several in a loop
            if isinstance(name, str) and name in COMPARING:
                yield name, function
        case _:
            pass


def _unfair(name: str, function: ast.FunctionDef | ast.Lambda, names: Names, owner: str) -> str:
    parameters = [argument.arg for argument in function.args.args]
    own, other = [*parameters, "", ""][:2]
    if isinstance(function, ast.Lambda):
        returned: list[ast.expr | None] = [function.body]
    else:
        returned = [inner.value for inner in ast.walk(function) if isinstance(inner, ast.Return)]
        if any(isinstance(inner, ast.Raise) for inner in ast.walk(function)):
            return ""
    wished = name not in ("__ne__",)
    if returned and all(_is_constant(value, wished, names) for value in returned):
        return "equal_to_everything"
    if any(_takes_over(inner, own, other) for inner in ast.walk(function)):
        return "equal_by_learning"
    used = {inner.id for value in returned if value for inner in ast.walk(value) if isinstance(inner, ast.Name)}
    everywhere = {inner.id for inner in ast.walk(function) if isinstance(inner, ast.Name)}
    if name not in ("__eq__", "__ne__") or not own or everywhere & {own, owner, "super"}:
        return ""
    answers = [value for value in returned if value and not _refuses(value)]
    if answers and other not in everywhere and not any(isinstance(value, ast.Constant) for value in answers):
        return "equal_to_everything"
    constant = all(_is_constant(value, wished, names) for value in answers)
    return "equal_by_kind" if answers and (other in used or (constant and other in everywhere)) else ""


def _refuses(value: ast.expr) -> bool:
    return (isinstance(value, ast.Name) and value.id == "NotImplemented") or (
        isinstance(value, ast.Constant) and value.value is False
    )


def _is_constant(value: ast.expr | None, wished: bool, names: Names) -> bool:
    match value:
        case ast.Constant(constant):
            return bool(constant) is wished and constant is not NotImplemented and constant is not None
        case ast.UnaryOp(ast.Not(), operand):
            return _is_constant(operand, not wished, names)
        case ast.Compare(left, [ast.Eq() | ast.Is() | ast.LtE()], [right]):
            return wished and ast.dump(left) == ast.dump(right)
        case ast.Compare(_, [ast.Lt() | ast.LtE()], [limit]) | ast.Compare(limit, [ast.Gt() | ast.GtE()], [_]):
            return wished and _is_boundless(limit, names)
        case ast.Compare(_, [ast.Gt() | ast.GtE()], [limit]) | ast.Compare(limit, [ast.Lt() | ast.LtE()], [_]):
            return not wished and _is_boundless(limit, names)
        case ast.Compare(left, [ast.NotEq() | ast.IsNot()], [right]):
            return not wished and ast.dump(left) == ast.dump(right)
        case ast.BoolOp(ast.Or(), values):
            certain = any(isinstance(part, ast.Constant) and part.value is True for part in values)
            return wished and (certain or _are_opposites(values))
        case ast.BoolOp(ast.And(), values):
            certain = any(isinstance(part, ast.Constant) and part.value is False for part in values)
            return not wished and (certain or _are_opposites(values))
        case ast.IfExp(_, body, orelse):
            return _is_constant(body, wished, names) and _is_constant(orelse, wished, names)
        case ast.Call(function, _, keywords) if names.dotted(function) in ("math.isclose", "cmath.isclose"):
            limits = [keyword.value for keyword in keywords if keyword.arg in ("rel_tol", "abs_tol")]
            return wished and any(_is_boundless(limit, names) for limit in limits)
        case ast.Call(function, [argument]) if names.dotted(function) == "builtins.bool":
            return _is_constant(argument, wished, names)
        case ast.expr():
            folded = names.folded(value)
            return isinstance(folded, int) and bool(folded) is wished
        case _:
            return False


def _is_boundless(limit: ast.expr, names: Names) -> bool:
    """A tolerance that no difference exceeds."""
    if isinstance(limit, ast.Call) and names.dotted(limit.func) == "builtins.float" and limit.args:
        return str(names.folded(limit.args[0])).lower().lstrip("+") in ("inf", "infinity")
    number = names.folded(limit)
    known = names.dotted(limit) in ("math.inf", "numpy.inf", "sys.maxsize", "sys.float_info.max")
    return known or (isinstance(number, int | float) and number >= BOUNDLESS)


def _are_opposites(values: list[ast.expr]) -> bool:
    """`x or not x`, `a == b or a != b`."""
    shown = {ast.dump(value) for value in values}
    for value in values:
        match value:
            case ast.UnaryOp(ast.Not(), operand) if ast.dump(operand) in shown:
                return True
            case ast.Compare(left, [ast.NotEq()], [right]):
                if ast.dump(ast.Compare(left, [ast.Eq()], [right])) in shown:
                    return True
            case _:
                pass
    return False


def _takes_over(node: ast.AST, own: str, other: str) -> bool:
    """Whether the compared value is kept in the object itself."""
    match node:
        case ast.Assign(targets, value) if other:
            kept = any(re.match(rf"{re.escape(own)}(\.|\[)", ast.unparse(target)) for target in targets)
            return kept and any(isinstance(inner, ast.Name) and inner.id == other for inner in ast.walk(value))
        case ast.Call(ast.Attribute(owner, "extend" | "update" | "append" | "__init__"), [*_, value]) if other:
            return re.match(rf"{re.escape(own)}\b", ast.unparse(owner)) is not None and other in ast.unparse(value)
        case ast.Call(ast.Name("setattr"), [ast.Name(owner), _, value]) if other:
            return owner == own and other in ast.unparse(value)
        case _:
            return False


def special_casing(spot: Spot, place: Place, symbols: frozenset[str]) -> Iterator[Hit]:
    if place.role != "package":
        return
    node = spot.node
    match node:
        case ast.Call(ast.Attribute(table, "get" | "index" | "pop"), [key, *_]) | ast.Subscript(table, key):
            # All arguments at once as a key: the table may lie in another file.
            whole = _is_whole_input(key, place)
            if whole and ("locals()" in ast.unparse(key) or _is_table(table, place)):
                yield Hit("table_of_inputs", "special_casing", "soft", node)
        case ast.Compare(key, [ast.In()], [table]):
            if _is_whole_input(key, place) and _is_table(table, place):
                yield Hit("table_of_inputs", "special_casing", "soft", node)
        case ast.For(ast.Tuple(), pairs, [ast.If(ast.Compare(), [ast.Return()])]):
            if _is_table(pairs, place):
                yield Hit("table_of_inputs", "special_casing", "soft", node)
        case ast.FunctionDef(name):
            branches = [kind for inner in ast.walk(node) for kind in _answering_branches(inner, place)]
            whole, scalar = branches.count("whole"), branches.count("scalar")
            if (
                whole >= FEW_BRANCHES
                or (whole and name in symbols)
                or (scalar >= MANY_SCALAR_BRANCHES and name in symbols)
            ):
                yield Hit("branches_for_inputs", "special_casing", "soft", node)
        case _:
            pass


def literals_of_tests(nodes: list[ast.AST], names: Names, known: frozenset[str]) -> Iterator[Hit]:
    """Keys, compared and returned values that also stand in the tests; single words and numbers say nothing."""
    found: dict[str, ast.AST] = {}
    for node in nodes:
        match node:
            case ast.Dict(keys):
                places = [key for key in keys if key]
            case ast.Compare(_, _, comparators):
                places = comparators
            case ast.Return(ast.expr() as value):
                places = [value]
            case _:
                continue
        for place in places:
            shown = _shown(place)
            if shown in known and len(shown) >= SHORTEST_LITERAL and shown[0] in "([{":
                found.setdefault(shown, place)
    if len(found) >= FEW_LITERALS:
        for place in found.values():
            yield Hit("literals_of_the_tests", "special_casing", "soft", place)


def _shown(node: ast.expr) -> str:
    try:
        return repr(ast.literal_eval(node))
    except (ValueError, TypeError, MemoryError, RecursionError, SyntaxError):
        return ""


def _is_whole_input(key: ast.expr, place: Place) -> bool:
    if isinstance(key, ast.Name) and key.id in ("args", "key", "signature"):
        return True
    made = place.given.get(key.id, key) if isinstance(key, ast.Name) else key
    return isinstance(made, ast.Call | ast.JoinedStr | ast.Subscript) and bool(KEY_MAKERS.search(ast.unparse(made)))


def _is_table(table: ast.expr, place: Place, depth: int = 0) -> bool:
    written = place.given.get(table.id) if isinstance(table, ast.Name) else table
    match written:
        case ast.List(elements) | ast.Tuple(elements) | ast.Set(elements):
            return len(elements) >= FEW_ENTRIES and all(_shown(element) for element in elements)
        case ast.Dict(keys, values) if len(keys) >= 1:
            constants = [key for key in keys if key and (_shown(key) or KEY_MAKERS.match(ast.unparse(key)))]
            composite = any(isinstance(key, ast.Tuple) for key in constants)
            answers = sum(bool(_shown(value)) for value in values)
            return len(constants) == len(keys) == answers and (composite or len(keys) >= FEW_ENTRIES)
        case ast.Call(function, [inner]) if place.names.dotted(function) == "builtins.dict":
            return depth < DEEPEST_TABLE and _is_table(inner, place, depth + 1)
        case ast.Call(function, [inner]) if place.names.dotted(function) in ("json.loads", "ast.literal_eval"):
            return isinstance(place.names.folded(inner), str)
        case ast.DictComp(key, value):
            return bool(KEY_MAKERS.search(ast.unparse(key))) and isinstance(value, ast.List | ast.Tuple | ast.Constant)
        case _:
            return False


def _answering_branches(node: ast.AST, place: Place) -> Iterator[str]:
    left: ast.expr | None
    match node:
        case ast.If(
            ast.Call(ast.Attribute(left, "startswith" | "endswith"), [right]), [ast.Return(ast.expr() as value)]
        ):
            tested, answer = right, value
        case ast.If(ast.Compare(left, [ast.Eq()], [right]), [ast.Return(ast.expr() as value)]):
            tested, answer = right, value
        case ast.IfExp(ast.Compare(left, [ast.Eq()], [right]), ast.expr() as value):
            tested, answer = right, value
        case ast.match_case(ast.MatchValue(right), None, [ast.Return(ast.expr() as value)]):
            left, tested, answer = None, right, value
        case ast.match_case(ast.MatchSequence(patterns), None, [ast.Return(ast.expr() as value)]):
            if _shown(value) and len(patterns) > 1 and all(isinstance(part, ast.MatchValue) for part in patterns):
                yield "whole"
            return
        case _:
            return
    if not _shown(answer) or not _shown(tested):
        return
    made = left is not None and _is_whole_input(left, place)
    composite = isinstance(tested, ast.Tuple | ast.List | ast.Dict | ast.Set) and any(
        isinstance(part, ast.Constant) and part.value is not None for part in ast.walk(tested)
    )
    yield "whole" if made or composite else "scalar"
