"""Values of Python expressions that follow from the source alone: strings put together, decoded, joined as paths.

Reads a syntax tree; nothing is run but functions of this module on constants. A name has the values of all its
bindings, whatever their order, and a parameter those of all calls in the source. The unknown part of a string is `*`,
so `os.path.join(folder, "x.pyc")` is `*/x.pyc`. Attributes of objects and branches are not followed.
"""

from __future__ import annotations

import ast
import zlib
from collections.abc import Callable, Iterable, Sequence
from itertools import islice, product
from typing import Any, NamedTuple, cast

from .constants import (
    CALLS,
    JOINS_PATHS,
    MAX_CHARS,
    UNKNOWN,
    WIDE,
    Unknown,
    as_text,
    joined_path,
    method_of_text,
    operated,
    summed,
)
from .places import ATTRIBUTES, INSTALLED, PLACES, VARIABLES, module_file, with_variables
from .trees import parsed

MAX_VALUES = 12
MAX_ITEMS = 200
MAX_DEPTH = 40
MAX_WORK = 20_000
MAX_ADDED = 64
NOT_COMPUTED = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, MemoryError, zlib.error)


Binding = Callable[[], list[Any]]
IDENTITY_METHODS = frozenset(
    "resolve absolute expanduser as_posix strip rstrip lstrip readlink __fspath__ __str__ lower casefold copy".split()
)
IDENTITY_CALLS = frozenset(
    "str repr os.fspath os.path.abspath os.path.realpath os.path.normpath os.path.expanduser os.path.expandvars"
    " sorted list tuple set iter next reversed pathlib.Path filter pathlib.PurePath pathlib.PosixPath"
    " pathlib.PurePosixPath os.fsencode os.fsdecode shlex.quote textwrap.dedent memoryview io.BytesIO io.StringIO"
    " random.choice zip map itertools.chain".split()
)
LISTING_CALLS = frozenset({"glob.glob", "glob.iglob", "os.listdir", "os.scandir", "os.walk", "os.fwalk"})
LISTING_METHODS = frozenset({"glob", "rglob", "iterdir", "walk"})


class Given(NamedTuple):
    """What a program is started with."""

    arguments: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()
    text: str | None = None
    """On its standard input."""


NOTHING_GIVEN = Given()


class Values:
    """`values(node)` are the constants an expression may be; `dotted(node)` is the full name of what it refers to."""

    def __init__(self, tree: ast.AST, given: Given = NOTHING_GIVEN) -> None:
        self.given = given
        self.variables = VARIABLES | dict(given.variables)
        self.names: dict[str, list[ast.expr | Binding]] = {}
        self.added: dict[str, list[ast.expr]] = {}
        self.looped: dict[int, ast.GeneratorExp] = {}
        """What is added to a name in each turn of a loop over literal items."""
        self.imports: dict[str, str] = {}
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda] = {}
        self.returned: dict[str, list[ast.expr]] = {}
        self.nodes = list(ast.walk(tree))
        self._active: set[int] = set()
        self._dotted: dict[str, str] = {}
        self._known: dict[int, list[Any]] = {}
        self._work = 0
        for node in self.nodes:
            self._bind(node)
        for node in self.nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in self.functions:
                self._pass(self.functions[node.func.id], node)

    def texts(self, node: ast.AST | None) -> list[str]:
        """Its values as text, the wholly unknown one as `*`."""
        return list(dict.fromkeys(as_text(value) for value in self.values(node)))

    def values(self, node: ast.AST | None) -> list[Any]:
        """At least one; `UNKNOWN` is among them where not all follow from the source."""
        if node is None:
            return [UNKNOWN]
        key = id(node)
        if key in self._known:
            return self._known[key]
        if key in self._active or len(self._active) > MAX_DEPTH or self._work > MAX_WORK:
            return [UNKNOWN]
        self._active.add(key)
        self._work += 1
        try:
            found = _distinct(self._values(node))
        except NOT_COMPUTED:
            found = [UNKNOWN]
        finally:
            self._active.discard(key)
        if len(self._active) == 0:
            self._known[key] = found
        return found

    def dotted(self, node: ast.AST | None, depth: int = 0) -> str:
        """`os.system` for whatever spelling of it: aliases, getattr, __import__, __dict__; "" where it is not known."""
        if node is None or depth > MAX_DEPTH:
            return ""
        match node:
            case ast.Name(name):
                return self._dotted_name(name, depth)
            case ast.Attribute(value, "__func__" | "__wrapped__") | ast.NamedExpr(_, value):
                return self.dotted(value, depth + 1)
            case ast.Attribute(value, attribute):
                return self._member(self.dotted(value, depth + 1), attribute)
            case ast.Subscript():
                return self._dotted_item(node, depth)
            case ast.Call():
                return self._dotted_call(node, depth)
            case _:
                return ""

    @staticmethod
    def _member(owner: str, name: str) -> str:
        return f"{owner}.{name}" if owner and name != "*" else ""

    def _dotted_call(self, node: ast.Call, depth: int) -> str:
        function = self.dotted(node.func, depth + 1)
        texts = [self.texts(argument)[0] for argument in node.args[:2]]
        match function.removeprefix("builtins."), texts:
            case "getattr" | "object.__getattribute__", [_, name]:
                return self._member(self.dotted(node.args[0], depth + 1), name)
            case "__import__", [name, *_]:
                return name.partition(".")[0].strip("*")
            case "importlib.import_module" | "importlib.__import__" | "sys.modules.get", [name, *_]:
                return name.strip("*")
            case _, [name] if function.endswith((".__getattribute__", ".__getattr__")):
                return self._member(function.rpartition(".")[0], name)
            case _:
                return f"{function}()" if function and len(function) < 200 else ""

    def _dotted_name(self, name: str, depth: int) -> str:
        if name in self.imports:
            return self.imports[name]
        bound = self.names.get(name, [])
        if not bound:
            return f"pathlib.{name}" if name in ("Path", "PurePath") else name
        if name not in self._dotted:
            self._dotted[name] = ""  # what a name that is bound to itself gives, and what keeps the work linear
            found = (self.dotted(value, depth + 1) for value in bound[:3] if isinstance(value, ast.AST))
            self._dotted[name] = next(filter(None, found), "")
        return self._dotted[name]

    def _dotted_item(self, node: ast.Subscript, depth: int) -> str:
        key = self.texts(node.slice)[0].strip("*")
        match node.value:
            case ast.Attribute(owner, "__dict__"):
                return self._member(self.dotted(owner, depth + 1), key or "*")
            case ast.Call(function, [owner]) if self.dotted(function, depth + 1).endswith("vars"):
                return self._member(self.dotted(owner, depth + 1), key or "*")
            case ast.Call(function, []) if self.dotted(function, depth + 1).endswith(("globals", "locals")):
                return self._dotted_name(key, depth + 1) if key else ""
            case owner:
                base = self.dotted(owner, depth + 1)
        if base in ("sys.modules", "__builtins__", "builtins.__dict__"):
            return key
        if base == "builtins":
            return self._member(base, key or "*")
        return base if base.startswith("ctypes") else ""

    def _bind(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for name in node.names:
                self.imports[name.asname or name.name.partition(".")[0]] = (
                    name.name if name.asname else name.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (f"{node.module}." if node.module else "")
            self.imports.update({name.asname or name.name: f"{base}{name.name}" for name in node.names})
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind_target(target, node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            self._bind_target(node.target, node.value)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            self.added.setdefault(node.target.id, []).append(node.value)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self._bind_items(node.target, node.iter)
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                for inner in node.body:
                    if isinstance(inner, ast.AugAssign) and isinstance(inner.target, ast.Name):
                        loop = ast.comprehension(target=node.target, iter=node.iter, ifs=[], is_async=0)
                        self.looped[id(inner.value)] = ast.GeneratorExp(elt=inner.value, generators=[loop])
        elif isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if item.optional_vars is not None:
                    self._bind_target(item.optional_vars, item.context_expr)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self.functions[node.name] = node
            inner = [each.value for each in ast.walk(node) if isinstance(each, ast.Return | ast.Yield | ast.YieldFrom)]
            self.returned[node.name] = [value for value in inner if value is not None]
        if isinstance(node, ast.Call) and len(node.args) == 2 and isinstance(mapped := node.args[0], ast.Lambda):
            for parameter in mapped.args.args[:1]:
                self._bind_items(ast.Name(id=parameter.arg, ctx=ast.Store()), node.args[1])
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Lambda)
            and isinstance(node.targets[0], ast.Name)
        ):
            self.functions[node.targets[0].id] = node.value
            self.returned[node.targets[0].id] = [node.value.body]

    def _bind_target(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.names.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
            for part, given in zip(target.elts, value.elts, strict=False):
                self._bind_target(part, given)
        elif isinstance(target, ast.Tuple | ast.List):
            for place, part in enumerate(target.elts):
                if isinstance(part, ast.Name):
                    self.names.setdefault(part.id, []).append(lambda at=place: self._places(self.values(value), at))

    def _bind_items(self, target: ast.expr, over: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.names.setdefault(target.id, []).append(lambda: self.items(over))
        elif isinstance(target, ast.Tuple | ast.List):
            for place, part in enumerate(target.elts):
                if isinstance(part, ast.Name):
                    self.names.setdefault(part.id, []).append(lambda at=place: self._places(self.items(over), at))

    @staticmethod
    def _places(items: Iterable[Any], at: int) -> list[Any]:
        return [
            item[at] if isinstance(item, tuple | list) and at < len(cast(Sequence[Any], item)) else UNKNOWN
            for item in items
        ]

    def _pass(self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, call: ast.Call) -> None:
        parameters = [*function.args.posonlyargs, *function.args.args]
        for parameter, given in zip(parameters, call.args, strict=False):
            self.names.setdefault(parameter.arg, []).append(given)
        for keyword in call.keywords:
            if keyword.arg:
                self.names.setdefault(keyword.arg, []).append(keyword.value)
        if function.args.vararg:
            rest = call.args[len(parameters) :]
            self.names.setdefault(function.args.vararg.arg, []).append(ast.Tuple(elts=rest, ctx=ast.Load()))

    def items(self, node: ast.AST) -> list[Any]:
        """What a loop over it meets."""
        if isinstance(node, ast.Call) and self.dotted(node.func) == "enumerate" and node.args:
            return [(UNKNOWN, item) for item in self.items(node.args[0])]
        found: list[Any] = []
        for value in self.values(node):
            if isinstance(value, tuple | list | set):
                found += list(cast(Iterable[Any], value))[:MAX_ITEMS]
            elif isinstance(value, dict):
                found += list(cast(dict[Any, Any], value))[:MAX_ITEMS]
            else:
                found.append(value)
        return found[:MAX_ITEMS] or [UNKNOWN]

    def _values(self, node: ast.AST) -> list[Any]:
        if isinstance(node, ast.Constant):
            return [node.value]
        if isinstance(node, ast.Name):
            return self._of_name(node.id)
        if isinstance(node, ast.JoinedStr):
            return _combined([self.values(part) for part in node.values], lambda *parts: "".join(map(as_text, parts)))
        if isinstance(node, ast.FormattedValue):
            return self.values(node.value)
        if isinstance(node, ast.BinOp):
            return _combined([self.values(node.left), self.values(node.right)], lambda a, b: operated(node.op, a, b))
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return self._sequence(node.elts)
        if isinstance(node, ast.Dict):
            keys = [self.values(key)[0] for key in node.keys if key is not None]
            return [dict(zip(map(as_text, keys), (self.values(value)[0] for value in node.values), strict=False))]
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.IfExp):
            return [*self.values(node.body), *self.values(node.orelse)]
        if isinstance(node, ast.BoolOp):
            return [value for part in node.values for value in self.values(part)]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return [-value for value in self.values(node.operand) if isinstance(value, int | float)]
        if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            return [tuple(self._comprehended(node))]
        if isinstance(node, ast.Await | ast.YieldFrom | ast.Starred):
            return self.items(node.value) if isinstance(node, ast.YieldFrom) else self.values(node.value)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        return [UNKNOWN]

    def _of_name(self, name: str) -> list[Any]:
        if name == "__file__":
            return ["__file__"]
        bound: list[Any] = []
        for each in self.names.get(name, [])[: 2 * MAX_VALUES]:
            bound += self.values(each) if isinstance(each, ast.AST) else each()
        return self._with_added(name, bound) or [UNKNOWN]

    def _with_added(self, name: str, bound: list[Any]) -> list[Any]:
        for more in self.added.get(name, [])[:MAX_ADDED]:
            if id(more) in self.looped:
                turns: tuple[Any, ...] = self.values(self.looped[id(more)])[0]
                bound = [summed(value, turns) for value in bound]
                continue
            bound = _combined([bound, self.values(more)], lambda a, b: operated(ast.Add(), a, b))
        return bound

    def _sequence(self, elements: list[ast.expr]) -> list[Any]:
        made: list[Any] = []
        for element in elements[:2_000]:
            if isinstance(element, ast.Starred):
                made += self.items(element.value)
            else:
                found = self.values(element)
                made += found if len(found) <= 1 or len(elements) == 1 else [found[0]]
        return [tuple(made)]

    def _comprehended(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> list[Any]:
        """One literal loop is run through item by item; of others the element's values are given."""
        if len(node.generators) == 1 and isinstance(target := node.generators[0].target, ast.Name):
            over = self.values(node.generators[0].iter)
            if len(over) == 1 and isinstance(over[0], str | bytes | tuple | list | range):
                saved = self.names.get(target.id, [])
                made: list[Any] = []
                try:
                    for item in islice(cast(Iterable[Any], over[0]), 500):
                        self.names[target.id] = [lambda value=item: [value]]
                        made += self.values(node.elt)[:1]
                finally:
                    self.names[target.id] = saved
                return made
        return self.values(node.elt)

    def _subscript(self, node: ast.Subscript) -> list[Any]:
        owners = self.values(node.value)
        if self.dotted(node.value) == "os.environ":
            return [self.variables.get(self.texts(node.slice)[0], UNKNOWN)]
        if isinstance(node.slice, ast.Slice):
            bounds = [
                None if part is None else self.values(part)[0]
                for part in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            if any(isinstance(bound, Unknown) for bound in bounds):
                return [UNKNOWN]
            cut = slice(*bounds)
            return [owner[cut] if isinstance(owner, str | bytes | tuple | list) else owner for owner in owners]
        found: list[Any] = []
        for owner, key in islice(product(owners, self.values(node.slice)), MAX_VALUES):
            if isinstance(owner, str | bytes | tuple | list) and isinstance(key, int):
                found.append(cast(Sequence[Any], owner)[key])
            elif isinstance(owner, dict):
                found.append(cast(dict[str, Any], owner).get(as_text(key), UNKNOWN))
            elif isinstance(owner, str):
                found.append(owner)
        return found or [UNKNOWN]

    def _attribute(self, node: ast.Attribute) -> list[Any]:
        name = self.dotted(node)
        if name in ATTRIBUTES:
            return [ATTRIBUTES[name]]
        if name == "sys.argv":
            return [("*.py", *self.given.arguments)]
        if name == "sys.stdin" and self.given.text is not None:
            return [tuple(self.given.text.split("\n"))]
        if node.attr == "__file__" and name:
            return [module_file(name.removesuffix(".__file__"))]
        if node.attr == "pw_dir":
            return ["~"]
        if self.given.arguments and self.dotted(node.value).endswith(".parse_args()"):
            return [*self.given.arguments]
        if node.attr in ("parent", "name", "stem", "path", "parents"):
            return [_path_part(value, node.attr) for value in self.values(node.value)]
        return [UNKNOWN]

    def _call(self, node: ast.Call) -> list[Any]:
        name = self.dotted(node.func)
        if name in PLACES:
            return [PLACES[name]]
        if name in LISTING_CALLS:
            return [listed(name, as_text(value)) for value in (self.values(node.args[0]) if node.args else ["."])]
        if name in JOINS_PATHS and len(node.args) != 1:
            return _combined([self.texts(part) for part in node.args], joined_path)
        if name in ("os.getenv", "os.environ.get"):
            known = self.variables.get(self.texts(node.args[0])[0] if node.args else "")
            return [known] if known else self.values(node.args[1]) if len(node.args) > 1 else [UNKNOWN]
        if name == "importlib.util.cache_from_source" and node.args:
            return [_compiled_path(text) for text in self.texts(node.args[0])]
        if name == "os.path.expandvars" and node.args:
            return [with_variables(text) for text in self.texts(node.args[0])]
        if name in ("sys.stdin.read", "input", "sys.stdin.readline") and self.given.text is not None:
            return [self.given.text]
        if name == "map" and len(node.args) == 2 and (applied := CALLS.get(self.dotted(node.args[0]))):
            return [tuple(applied(item) for item in self.items(node.args[1]))]
        if name in IDENTITY_CALLS and node.args:
            return self.values(node.args[-1] if name in ("filter",) else node.args[0])
        if name in ("os.path.dirname", "os.path.basename", "os.path.splitext"):
            part = "parent" if name.endswith("dirname") else "name"
            return [_path_part(value, part) for value in self.values(node.args[0])]
        if name in CALLS:
            return _combined([self.values(part) for part in node.args[:4]], lambda *given: CALLS[name](*given))
        if isinstance(node.func, ast.Name) and node.func.id in self.returned:
            return [value for part in self.returned[node.func.id][:4] for value in self.values(part)]
        if isinstance(node.func, ast.Attribute):
            return self._method(node.func, node)
        return [UNKNOWN]

    def _method(self, function: ast.Attribute, node: ast.Call) -> list[Any]:
        method = function.attr
        if method in LISTING_METHODS:
            pattern = self.texts(node.args[0])[0] if node.args else "*"
            return [listed(method, as_text(owner), pattern) for owner in self.values(function.value)]
        if method in IDENTITY_METHODS and not node.args:
            return self.values(function.value)
        if method in ("locate_file", "locate") and len(node.args) <= 1:
            names = self.texts(node.args[0]) if node.args else ["*"]
            return [f"{INSTALLED}/{name}" for name in names]
        if method in ("read", "read_text", "read_bytes", "readlines", "readline", "getvalue"):
            return [UNKNOWN]
        arguments = [self.values(function.value), *(self.values(part) for part in node.args[:4])]
        return _combined(arguments, lambda owner, *given: _called(method, owner, given, node, self))


def printed_by(source: str, given: Given = NOTHING_GIVEN) -> str | None:
    """What a short program prints, where it prints once and that follows from its source."""
    tree = parsed(source)
    if tree is None:
        return None
    values = Values(tree, given)
    calls = [node for node in values.nodes if isinstance(node, ast.Call) and values.dotted(node.func) == "print"]
    if len(calls) != 1 or not calls[0].args:
        return None
    words: list[str] = []
    for argument in calls[0].args:
        several = isinstance(argument, ast.Starred)
        words += [as_text(item) for item in values.items(argument.value)] if several else values.texts(argument)[:1]
    text = " ".join(words)
    return f"{text}\n" if text.strip("* ") else None


def listed(how: str, where: str, pattern: str = "*") -> Any:
    """What listing a folder gives: patterns below it; of `os.walk` the folder, folders and names."""
    base = where.rstrip("/") or ("/" if where else ".")
    if how in ("os.walk", "os.fwalk", "walk"):
        return ((f"{base}/**", ("*",), ("*",)),)
    if how in ("glob.glob", "glob.iglob"):
        return (where,)
    if how == "rglob":
        return (f"{base}/**/{pattern}",)
    if how == "os.listdir":
        return ("*",)
    return (f"{base}/{pattern}",)


def _compiled_path(source: str) -> str:
    folder, slash, name = source.rpartition("/")
    return f"{folder}{slash}__pycache__/{name.removesuffix('.py')}.cpython-311.pyc"


def _path_part(value: Any, part: str) -> Any:
    if not isinstance(value, str):
        return UNKNOWN
    if part == "parents":
        return (value.rpartition("/")[0] or ".",) * 2
    folder, _, name = value.rpartition("/")
    return {"parent": folder or ".", "name": name, "stem": name.rpartition(".")[0] or name, "path": value}[part]


def _distinct(values: list[Any]) -> list[Any]:
    kept: list[Any] = []
    for value in values:
        if not any(value is each or (type(value) is type(each) and value == each) for each in kept):
            kept.append(value)
        if len(kept) >= MAX_VALUES:
            break
    return kept or [UNKNOWN]


def _combined(parts: Sequence[list[Any]], combine: Callable[..., Any]) -> list[Any]:
    return [combine(*chosen) for chosen in islice(product(*parts), MAX_VALUES)]


def _called(method: str, owner: Any, given: Sequence[Any], node: ast.Call, values: Values) -> Any:
    if isinstance(owner, Unknown) and method != "join":
        return UNKNOWN
    if method == "joinpath":
        return "/".join([as_text(owner), *map(as_text, given)])
    if method in ("with_suffix", "with_name"):
        folder, _, name = as_text(owner).rpartition("/")
        changed = as_text(given[0]) if method == "with_name" else name.rpartition(".")[0] + as_text(given[0])
        return f"{folder}/{changed}" if folder else changed
    if method == "format":
        if WIDE.search(as_text(owner)):
            return UNKNOWN
        named = {keyword.arg: values.texts(keyword.value)[0] for keyword in node.keywords if keyword.arg}
        return as_text(owner).format(*map(as_text, given), **named)[:MAX_CHARS]
    if method == "get" and isinstance(owner, dict):
        return cast(dict[str, Any], owner).get(as_text(given[0]), UNKNOWN)
    if method in IDENTITY_METHODS:
        return owner
    return method_of_text(method, owner, given)
