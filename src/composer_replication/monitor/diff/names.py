"""What names and expressions of a changed module stand for, as far as its text alone says: nothing is run.

`Names.dotted` gives `os._exit` for `os._exit`, for `from os import _exit as q; q`, for `getattr(__import__("o" + "s"),
"_ex" "it")` and for `sys.modules["os"].__dict__["_exit"]`. `Names.folded` gives the one value of an expression of
constants. Stricter than `Values`, which it rests on: a value that is known in part is not known, a name has its first
known value, and nothing is taken from the machine or from calls of the module's own functions.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable
from typing import Any, TypeVar

from ..python.constants import CALLS, UNKNOWN, method_of_text
from ..python.values import NOT_COMPUTED, Values

BUILTIN_NAMES = frozenset(dir(builtins))
REEXPORTED = frozenset("os sys builtins gc inspect signal subprocess ctypes threading time random".split())
"""Modules that are often reached through another one, as `shutil.os`."""
SAME = {"posix": "os", "nt": "os", "_thread": "threading", "_io": "io", "__builtins__": "builtins", "_random": "random"}
LIBRARIES = frozenset("ctypes.CDLL ctypes.PyDLL ctypes.cdll.LoadLibrary ctypes.LibraryLoader".split())
WRAPPERS = frozenset("functools.partial builtins.staticmethod builtins.classmethod".split())
BINDING = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.AugAssign)
FOLDED = (
    ast.Constant, ast.Name, ast.JoinedStr, ast.FormattedValue, ast.BinOp, ast.UnaryOp, ast.List, ast.Tuple,
    ast.Subscript, ast.ListComp, ast.GeneratorExp, ast.Call,
)  # fmt: skip
DECODERS = frozenset("chr bytes.fromhex bytearray.fromhex".split()).union(
    name for name in CALLS if name.startswith(("base64", "binascii", "codecs", "zlib", "urllib"))
)


T = TypeVar("T", str, int)


class Names(Values):
    """Of one module; `add` nodes in their order to learn the names that they bind, before anything is asked."""

    def __init__(self) -> None:
        super().__init__(ast.Module([], []))
        self.variables = {}
        self._defined: set[str] = set()
        self._folded: dict[ast.expr, object | None] = {}
        self._full_names: dict[ast.AST, str] = {}

    def add(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            if isinstance(node, BINDING):
                self._bind(node)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._defined.add(node.name)

    def folded(self, node: ast.expr) -> object | None:
        """None where it is not known: the constant None is never told."""
        if node not in self._folded:
            self._work = 0
            try:
                self._folded[node] = self.values(node)[0]
            except (*NOT_COMPUTED, RecursionError):
                self._folded[node] = None
        return self._folded[node]

    def folded_inside(self, node: ast.AST, kind: type[T]) -> list[T]:
        """Known values of this kind of all expressions in a node."""
        found = (self.folded(inner) for inner in ast.walk(node) if isinstance(inner, ast.expr))
        return [value for value in found if isinstance(value, kind)]

    def called_inside(self, node: ast.AST) -> set[str]:
        return {self.dotted(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call)}

    def names_inside(self, node: ast.AST) -> set[str]:
        """Full names of all that a node refers to."""
        kinds = (ast.Attribute, ast.Name, ast.Call, ast.Subscript)
        return {known for inner in ast.walk(node) if isinstance(inner, kinds) and (known := self.dotted(inner))}

    def texts(self, node: ast.AST | None) -> list[str]:
        value = self.folded(node) if isinstance(node, ast.expr) else None
        return [value if isinstance(value, str) else "*"]

    def values(self, node: ast.AST | None) -> list[Any]:
        found = super().values(node)
        if any(value is UNKNOWN for value in found):
            raise ValueError("not known")
        return found

    def dotted(self, node: ast.AST | None, depth: int = 0) -> str:
        """Empty where it is not known. A name that nothing binds is itself, or one of `builtins`."""
        if node is None:
            return ""
        if node not in self._full_names:
            self._full_names[node] = self._full_name(super().dotted(node, depth))
        return self._full_names[node]

    @staticmethod
    def _full_name(name: str) -> str:
        if "(" in name:
            return ""
        first, _, rest = name.partition(".")
        name = f"{SAME[first]}.{rest}".rstrip(".") if first in SAME else name
        parts = name.split(".")
        for place in range(len(parts) - 1, 0, -1):
            # `time.time` and `random.random` are functions.
            if parts[place] in REEXPORTED and parts[0] not in ("", "self", "cls", parts[place]):
                return ".".join(parts[place:])
        return name

    def _dotted_name(self, name: str, depth: int) -> str:
        if name in self.imports:
            return self.imports[name]
        if name not in self.names:
            return f"builtins.{name}" if name in BUILTIN_NAMES and name not in self._defined else name
        if name not in self._dotted:
            self._dotted[name] = name
            self._dotted[name] = self._stands_for(name, depth)
        return self._dotted[name]

    def _stands_for(self, name: str, depth: int) -> str:
        for value in self.names[name]:
            if not isinstance(value, ast.expr):
                continue
            if self.folded(value) is not None:
                return name
            known = self.dotted(value, depth + 1)
            module = isinstance(value, ast.Call) or (
                isinstance(value, ast.Name) and (known != value.id or value.id in self.imports)
            )
            if known and known != name and ("." in known or module):
                return known
        return name

    def _dotted_call(self, node: ast.Call, depth: int) -> str:
        called = self.dotted(node.func, depth + 1)
        if called in LIBRARIES:
            return "ctypes.CDLL"
        if called in WRAPPERS and node.args:
            return self.dotted(node.args[0], depth + 1)
        match node.func, node.args:
            case ast.Call(made, [name]), [owner, *_] if self.dotted(made, depth + 1) == "operator.attrgetter":
                return self._member(self.dotted(owner, depth + 1), self.texts(name)[0])
            case _:
                pass
        return super()._dotted_call(node, depth)

    def _values(self, node: ast.AST) -> list[Any]:
        if isinstance(node, ast.Constant):
            return [node.value if isinstance(node.value, str | bytes | int | float) else UNKNOWN]
        return super()._values(node) if isinstance(node, FOLDED) else [UNKNOWN]

    def _of_name(self, name: str) -> list[Any]:
        bindings = self.names.get(name, [])
        known = (self.folded(bound) if isinstance(bound, ast.expr) else bound()[0] for bound in bindings)
        return self._with_added(name, [value for value in known if value is not None][:1]) or [UNKNOWN]

    def _call(self, node: ast.Call) -> list[Any]:
        name = self.dotted(node.func).removeprefix("builtins.")
        arguments = node.args
        if name == "map" and len(arguments) == 2:
            applied = CALLS[self.dotted(arguments[0]).removeprefix("builtins.")]
            return [tuple(applied(item) for item in self.items(arguments[1]))]
        given = [self.values(argument)[0] for argument in arguments]
        if name in CALLS:
            return [CALLS[name](*given)]
        if isinstance(node.func, ast.Attribute) and not node.keywords:
            return [method_of_text(node.func.attr, self.values(node.func.value)[0], given)]
        return [UNKNOWN]


def is_encoded(node: ast.expr, names: Names) -> bool:
    """Whether a value is spelled so that its text does not show it."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and (
            names.dotted(inner.func).removeprefix("builtins.") in DECODERS
            or (isinstance(inner.func, ast.Attribute) and inner.func.attr in ("join", "decode", "translate"))
            or any(names.dotted(argument) == "builtins.chr" for argument in inner.args)
        ):
            return True
        if isinstance(inner, ast.Slice) and isinstance(inner.step, ast.UnaryOp):
            return True
    return False
