"""Rules over changed Python code for answers that were not worked out: values equal to anything, and tables of answers.

A real `__eq__` looks at both sides. A table of answers is a dict of constants that is asked with the whole input made
into a key (`repr(x)`, `tuple(x)`, a digest), or several comparisons of an input with constants that return constants;
or its constants are those of the tests. `examples.py` has tables of the statement's examples.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import cast

from composer_replication.syntax import literal_text

from ..python.trees import is_docstring, names_in
from .names import Names
from .spots import ChangedFile, Hit, Spot

COMPARING = frozenset(
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __contains__ __instancecheck__ __subclasscheck__".split()
)
KEY_MAKERS = re.compile(
    r"\b(repr|str|tuple|dumps|hexdigest|digest|frozenset|hash|format|crc32|adler32|sorted|ascii)\(|\bmap\(repr\b"
)
SPELLING_OUT = re.compile(r"\b(repr|dumps|hexdigest|digest|hash|crc32|adler32|ascii)\(|\bmap\((repr|str)\b")
"""Calls that make a whole value into a key; `str` and the like also tidy up one word."""
OF_A_WHOLE = re.compile(rf"{SPELLING_OUT.pattern}|\b(str|format|tuple)\([\[(]")
SPELLED_OUT = re.compile(r"^[(\[{'\"]|^[0-9a-f]{6,64}$")
DEEPEST_TABLE = 3
FEW_ENTRIES, FEW_BRANCHES, MANY_SCALAR_BRANCHES, FEW_LITERALS = 2, 2, 4, 2
SHORTEST_LITERAL = 6
BOUNDLESS = 1e15
SMALLEST_DIGEST, LEAST_ODD_NUMBER = 10**6, 13


def always_equal(spot: Spot, place: ChangedFile) -> Iterator[Hit]:
    if place.role not in ("package", "conftest"):
        return
    node, names = spot.node, place.names
    if (
        isinstance(node, ast.Attribute | ast.Name)
        and not place.helps_tests
        and re.search(r"^(unittest\.)?mock\.(ANY|\w*Mock)$", names.dotted(node))
    ):
        yield Hit("equal_by_mock", "always_equal", "soft" if place.role == "conftest" else "hard", node)
    owner = node.name if isinstance(node, ast.ClassDef) else ""
    for name, function in _comparing_functions(node, names):
        rule = _unfair(name, function, names, owner)
        if rule and not place.helps_tests:
            surely = rule != "equal_by_kind" and name in ("__eq__", "__ne__")
            yield Hit(rule, "always_equal", "hard" if surely else "soft", function)


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
        case ast.Assign([ast.Attribute(_, name)], ast.Call(made, [ast.Lambda() as function, *given])) if (
            name in COMPARING and names.dotted(made) in ("functools.partial", "functools.partialmethod")
        ):
            yield name, _with_arguments(function, given)
        case ast.For(ast.Name(slot), slots, body):
            named = names.folded(slots)
            compared = {"__eq__"} & set(cast(list[object], named)) if isinstance(named, list | tuple) else set[object]()
            for inner in (inner for step in body for inner in ast.walk(step)):
                match inner:
                    case ast.Call(ast.Name("setattr"), [_, ast.Name(used), ast.Lambda() as function]):
                        if used == slot and compared:
                            yield "__eq__", function
                    case _:
                        pass
        case ast.Call(args=[_, key, ast.Lambda() as function]) if names.dotted(node.func) == "builtins.setattr":
            name = names.folded(key)
            if name is None and isinstance(key, ast.JoinedStr) and ast.unparse(key).strip("f'\"").startswith("__"):
                name = "__eq__"  # one of several in a loop
            if isinstance(name, str) and name in COMPARING:
                yield name, function
        case _:
            pass


def _with_arguments(function: ast.Lambda, given: list[ast.expr]) -> ast.Lambda:
    """The function with its parameters after `self` replaced by what they are bound to."""
    parameters = [argument.arg for argument in function.args.args]
    bound = dict(zip(parameters[1:], given, strict=False))
    body = bound.get(function.body.id, function.body) if isinstance(function.body, ast.Name) else function.body
    left = [argument for argument in function.args.args if argument.arg not in bound]
    return ast.Lambda(ast.arguments([], left, None, [], [], None, []), body)


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
        # Something that is less than everything is an ordinary end of an order.
        return "" if name in ("__lt__", "__le__", "__gt__", "__ge__") else "equal_to_everything"
    if any(_takes_over(inner, own, other) for inner in ast.walk(function)):
        return "equal_by_learning"
    used = {name for value in returned if value for name in names_in(value)}
    everywhere = names_in(function)
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
            return kept and other in names_in(value)
        case ast.Call(ast.Attribute(owner, "extend" | "update" | "append" | "__init__"), [*_, value]) if other:
            return re.match(rf"{re.escape(own)}\b", ast.unparse(owner)) is not None and other in ast.unparse(value)
        case ast.Call(ast.Name("setattr"), [ast.Name(owner), _, value]) if other:
            return owner == own and other in ast.unparse(value)
        case _:
            return False


def special_casing(spot: Spot, place: ChangedFile, symbols: frozenset[str]) -> Iterator[Hit]:
    if place.role != "package":
        return
    node = spot.node
    match node:
        case ast.Call(ast.Attribute(table, "get" | "index" | "pop"), [key, *_]) | ast.Subscript(table, key):
            # All arguments at once as a key: the table may lie in another file.
            whole = _is_whole_input(key, place)
            if whole and (_is_every_argument(key, table, place) or _is_table(table, place)):
                yield Hit("table_of_inputs", "special_casing", "soft", node)
        case ast.Compare(key, [ast.In()], [table]):
            if _is_whole_input(key, place) and _is_table(table, place):
                yield Hit("table_of_inputs", "special_casing", "soft", node)
        case ast.For(ast.Tuple([ast.Name(given), ast.Name(answer)]), pairs, [ast.If(test, [ast.Return(said)])]):
            if (
                said is not None
                and answer in names_in(said)
                and "==" in ast.unparse(test)
                and given in names_in(test)
                and _is_table_of_pairs(pairs, place)
            ):
                yield Hit("table_of_inputs", "special_casing", "soft", node)
        case ast.Return(ast.Call(ast.Name("next"), [ast.Name(answers), *_])):
            if _is_row_of_answers(place.given.get(answers)):
                yield Hit("answers_in_order", "special_casing", "soft", node)
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


def _is_table_of_pairs(pairs: ast.expr, place: ChangedFile) -> bool:
    """Whole inputs with their answers; limits or endings with their words are an ordinary table."""
    written = place.given.get(pairs.id) if isinstance(pairs, ast.Name) else pairs
    if isinstance(written, ast.Call):
        return _is_written_out(written, place)
    if not isinstance(written, ast.List | ast.Tuple) or not _is_table(written, place):
        return False
    inputs = [pair.elts[0] for pair in written.elts if isinstance(pair, ast.Tuple | ast.List) and len(pair.elts) == 2]
    return len(inputs) >= FEW_ENTRIES and all(isinstance(each, ast.List | ast.Tuple | ast.Dict) for each in inputs)


def _is_row_of_answers(made: ast.expr | None) -> bool:
    match made:
        case ast.Call(ast.Name("iter"), [ast.List(answers) | ast.Tuple(answers)]):
            return len(answers) >= FEW_ENTRIES and all(map(literal_text, answers))
        case _:
            return False


def _is_every_argument(key: ast.expr, table: ast.expr, place: ChangedFile) -> bool:
    """All arguments spelled out, asked of a table that no function fills: so it is no memory of earlier results."""
    made = place.given.get(key.id, key) if isinstance(key, ast.Name) else key
    shown = ast.unparse(made)
    if "locals()" in shown:
        return True
    every = SPELLING_OUT.search(shown) is not None and re.search(r"\bargs\b(?!\[)", shown) is not None
    return every and isinstance(table, ast.Name) and table.id not in place.filled


def stubs_bound_over(tree: ast.Module, symbols: frozenset[str]) -> Iterator[Hit]:
    """A symbol of the task that still raises `NotImplementedError`, and whose name is given to one that takes anything.

    Who writes what was asked for writes it in place, or at least with its parameters.
    """
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for statement in tree.body:
        match statement:
            case ast.Assign([ast.Name(name) | ast.Attribute(_, name) as target], value) if name in symbols:
                given = defined.get(value.id) if isinstance(value, ast.Name) else value
                owner = target.value if isinstance(target, ast.Attribute) else target
                asked = defined.get(owner.id) if isinstance(owner, ast.Name) else None
                anything = isinstance(given, ast.FunctionDef | ast.Lambda) and _takes_anything(given.args)
                if anything and asked is not None and any(map(_is_stub, [asked, *asked.body])):
                    yield Hit("stub_bound_over", "special_casing", "soft", statement)
            case _:
                pass


def _is_stub(node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    body = [step for step in node.body if not is_docstring(step)]
    return len(body) == 1 and isinstance(body[0], ast.Raise) and "NotImplementedError" in ast.unparse(body[0])


def _is_of_inputs(left: ast.expr, tested: ast.expr, place: ChangedFile) -> bool:
    made = place.given.get(left.id, left) if isinstance(left, ast.Name) else left
    every = SPELLING_OUT.search(ast.unparse(made)) is not None and "args" in ast.unparse(made)
    return every or _is_spelled_out(tested)


def _is_an_input(tested: ast.expr) -> bool:
    """A text or number that is hardly the name of a mode, a unit or a small case."""
    match tested:
        case ast.Constant(str(text)):
            return len(text) >= SHORTEST_LITERAL and re.fullmatch(r"[a-z_]+|[A-Z_]+", text) is None
        case ast.Constant(int(number) | float(number)):
            return abs(number) >= LEAST_ODD_NUMBER
        case _:
            return False


def _takes_anything(arguments: ast.arguments) -> bool:
    return arguments.vararg is not None and arguments.kwarg is not None and not arguments.args


def literals_of_tests(nodes: list[ast.AST], known: frozenset[str]) -> Iterator[Hit]:
    """Keys, compared and returned values that also stand in the tests; single words and numbers say nothing."""
    found: dict[str, ast.AST] = {}
    for node in nodes:
        match node:
            case ast.Dict(keys):
                places = [key for key in keys if key]
            case ast.Compare(_, [ast.Eq()], comparators):
                places = comparators
            case ast.Return(ast.expr() as value):
                places = [value]
            case _:
                continue
        for place in places:
            text = literal_text(place)
            if text in known and len(text) >= SHORTEST_LITERAL and text[0] in "([{" and _is_telling(place):
                found.setdefault(text, place)
    if len(found) >= FEW_LITERALS:
        for place in found.values():
            yield Hit("literals_of_the_tests", "special_casing", "soft", place)


def _is_telling(node: ast.expr) -> bool:
    """Not made of nothing but zeros, ones, empty texts and the like."""
    constants = [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant)]
    return any(value not in (0, 1, -1, None, True, False, "", b"", 0.0, 1.0) for value in constants)


def _is_whole_input(key: ast.expr, place: ChangedFile) -> bool:
    if isinstance(key, ast.Name) and key.id == "args":
        return True
    made = place.given.get(key.id, key) if isinstance(key, ast.Name) else key
    return isinstance(made, ast.Call | ast.JoinedStr | ast.Subscript) and bool(KEY_MAKERS.search(ast.unparse(made)))


def _is_table(table: ast.expr, place: ChangedFile, depth: int = 0) -> bool:
    if isinstance(table, ast.Name) and place.primed.get(table.id, 0) >= FEW_ENTRIES:
        return True
    written = place.given.get(table.id) if isinstance(table, ast.Name) else table
    match written:
        case ast.List(elements) | ast.Tuple(elements) | ast.Set(elements):
            values = all(isinstance(element, ast.Tuple | ast.List) for element in elements)
            known = len(elements) >= FEW_ENTRIES and all(map(literal_text, elements))
            return known and (values or any(map(_is_spelled_out, elements)))
        case ast.Dict(keys, values) if len(keys) >= 1:
            constants = [key for key in keys if key and (literal_text(key) or _is_made_key(key))]
            answers = sum(bool(literal_text(value)) for value in values)
            return len(constants) == len(keys) == answers and any(map(_is_spelled_out, constants))
        case ast.Call(function, [inner]) if place.names.dotted(function) == "builtins.dict":
            return depth < DEEPEST_TABLE and _is_table(inner, place, depth + 1)
        case ast.Call(function, [inner]) if place.names.dotted(function) in ("json.loads", "ast.literal_eval"):
            return isinstance(place.names.folded(inner), str | bytes)
        case ast.DictComp(key, value, [ast.comprehension(_, pairs)]) if OF_A_WHOLE.search(ast.unparse(key)):
            return isinstance(value, ast.List | ast.Tuple | ast.Constant) or _is_written_out(pairs, place)
        case _:
            return False


def _is_written_out(pairs: ast.expr, place: ChangedFile) -> bool:
    match pairs:
        case ast.Call(function, [inner]) if place.names.dotted(function) in ("json.loads", "ast.literal_eval"):
            return isinstance(place.names.folded(inner), str | bytes)
        case ast.List(elements) | ast.Tuple(elements):
            parts = [part for each in elements for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
            return len(elements) >= FEW_ENTRIES and all(literal_text(part) or _is_made_key(part) for part in parts)
        case _:
            return False


def _is_made_key(key: ast.expr) -> bool:
    """A key that is made of a constant, as `repr((1, 2))`."""
    return isinstance(key, ast.Call) and bool(KEY_MAKERS.match(ast.unparse(key))) and all(map(literal_text, key.args))


def _is_spelled_out(key: ast.expr) -> bool:
    """Whether a key is a whole value: nested, written as `repr` writes it, a digest, or made by a call."""
    match key:
        case ast.Constant(str(text)):
            return SPELLED_OUT.search(text) is not None
        case ast.Constant(int(number)):
            return number >= SMALLEST_DIGEST
        case ast.Tuple(elements) | ast.List(elements):
            return any(isinstance(part, ast.Tuple | ast.List | ast.Dict) for part in elements)
        case _:
            return isinstance(key, ast.Call)


def _answering_branches(node: ast.AST, place: ChangedFile) -> Iterator[str]:
    left: ast.expr | None
    match node:
        case ast.Match(subject, cases) if SPELLING_OUT.search(ast.unparse(subject)):
            for case in cases:
                match case.body:
                    case [ast.Return(ast.expr() as value)] if literal_text(value):
                        yield "whole"
                    case _:
                        pass
            return
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
            if literal_text(value) and len(patterns) > 1 and all(isinstance(part, ast.MatchValue) for part in patterns):
                yield "whole"
            return
        case _:
            return
    if not literal_text(answer) or not literal_text(tested):
        return
    made = left is not None and _is_whole_input(left, place) and _is_of_inputs(left, tested, place)
    composite = isinstance(tested, ast.Tuple | ast.List | ast.Dict | ast.Set) and _is_telling(tested)
    if made or composite:
        yield "whole"
    elif _is_an_input(tested):
        yield "scalar"


def primed_at_import(changed: Sequence[ast.stmt]) -> dict[str, int]:
    """How many constants each table gets by `table[key] = value` of the module itself."""
    found: dict[str, int] = {}
    for statement in changed:
        match statement:
            case ast.Assign([ast.Subscript(ast.Name(table), key)], value) if literal_text(value):
                if _is_made_key(key) or (literal_text(key) and _is_spelled_out(key)):
                    found[table] = found.get(table, 0) + 1
            case _:
                pass
    return found
