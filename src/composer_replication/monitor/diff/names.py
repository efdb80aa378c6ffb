"""What names and expressions of a Python module stand for, as far as its text alone says: nothing is run.

`Names.dotted` gives `os._exit` for `os._exit`, for `from os import _exit as q; q`, for `getattr(__import__("o" + "s"),
"_ex" "it")` and for `sys.modules["os"].__dict__["_exit"]`. `Names.folded` gives the value of an expression of
constants: joins, slices, `chr`, base64, hexadecimal, rot13, short comprehensions.

Not followed: values that go through functions of the module, loops, files or other modules.
"""

from __future__ import annotations

import ast
import base64
import binascii
import builtins
import codecs
import operator
import urllib.parse
import zlib
from collections.abc import Callable, Iterable
from typing import Any, cast

MOST_CHARS, MOST_ITEMS, DEEPEST = 100_000, 5_000, 40
BUILTIN_NAMES = frozenset(dir(builtins))
REEXPORTED = frozenset("os sys builtins gc inspect signal subprocess ctypes threading time random".split())
"""Modules that are often reached through another one, as `shutil.os`."""
SAME = {"posix": "os", "nt": "os", "_thread": "threading", "_io": "io", "__builtins__": "builtins", "_random": "random"}
IMPORTING = ("builtins.__import__", "importlib.import_module", "sys.modules.get")
TEXT_METHODS = frozenset(
    "join replace lower upper strip lstrip rstrip title swapcase capitalize casefold removeprefix removesuffix encode"
    " decode format split hex zfill translate partition rpartition splitlines".split()
)
BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.BitXor: operator.xor,
    ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
PURE: dict[str, Callable[..., Any]] = {
    "builtins.chr": chr,
    "builtins.ord": ord,
    "builtins.str": str,
    "builtins.int": int,
    "builtins.bytes": bytes,
    "builtins.bytearray": bytes,
    "builtins.list": list,
    "builtins.tuple": tuple,
    "builtins.hex": hex,
    "builtins.reversed": lambda items: list(reversed(items)),
    "builtins.bytes.fromhex": bytes.fromhex,
    "builtins.bytearray.fromhex": bytes.fromhex,
    "base64.b64decode": base64.b64decode,
    "base64.urlsafe_b64decode": base64.urlsafe_b64decode,
    "base64.standard_b64decode": base64.b64decode,
    "base64.b32decode": base64.b32decode,
    "base64.b16decode": base64.b16decode,
    "base64.b85decode": base64.b85decode,
    "base64.a85decode": base64.a85decode,
    "base64.decodebytes": base64.decodebytes,
    "binascii.unhexlify": binascii.unhexlify,
    "binascii.a2b_hex": binascii.unhexlify,
    "binascii.a2b_base64": binascii.a2b_base64,
    "codecs.decode": codecs.decode,
    "codecs.encode": codecs.encode,
    "urllib.parse.unquote": urllib.parse.unquote,
    "os.path.join": lambda *parts: "/".join(parts),
    "pathlib.Path": lambda *parts: "/".join(parts),
    "pathlib.PurePath": lambda *parts: "/".join(parts),
    "pathlib.PosixPath": lambda *parts: "/".join(parts),
}
DECODERS = frozenset(name for name in PURE if name.startswith(("base64", "binascii", "codecs", "zlib", "urllib"))) | {
    "builtins.chr",
    "builtins.bytes.fromhex",
    "builtins.bytearray.fromhex",
    "zlib.decompress",
}


class Names:
    """Of one module; `add` more statements to learn the names that they bind."""

    def __init__(self) -> None:
        self._stands_for: dict[str, str] = {}
        self._values: dict[str, object] = {}
        self._bound: set[str] = set()

    def add(self, statements: Iterable[ast.AST]) -> None:
        for node in statements:
            match node:
                case ast.Import(names):
                    for alias in names:
                        top = alias.name if alias.asname else alias.name.partition(".")[0]
                        self._stands_for[alias.asname or top] = SAME.get(top, top)
                case ast.ImportFrom(module, names, level):
                    base = "." * (level or 0) + (module or "")
                    for alias in names:
                        joined = f"{base}.{alias.name}" if base.strip(".") else f"{base}{alias.name}"
                        self._stands_for[alias.asname or alias.name] = joined
                case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                    self._bound.add(name)
                case ast.Assign([ast.Name(name)], value) | ast.NamedExpr(ast.Name(name), value):
                    self._bind(name, value)
                case ast.AnnAssign(ast.Name(name), _, ast.expr() as value):
                    self._bind(name, value)
                case ast.AugAssign(ast.Name(name), ast.Add(), value) if isinstance(self._values.get(name), str | bytes):
                    more = self.folded(value)
                    before = cast(str, self._values[name])
                    if isinstance(more, type(before)) and len(before) + len(more) < MOST_CHARS:
                        self._values[name] = before + more
                case _:
                    pass

    def dotted(self, node: ast.AST, depth: int = 0) -> str:
        """Empty where it is not known. A name that nothing binds is itself."""
        name = self._dotted(node, depth) if depth < DEEPEST else ""
        first, _, rest = name.partition(".")
        name = f"{SAME[first]}.{rest}".rstrip(".") if first in SAME else name
        parts = name.split(".")
        for place in range(len(parts) - 1, 0, -1):
            # `time.time` and `random.random` are functions.
            if parts[place] in REEXPORTED and parts[0] not in ("", "self", "cls", parts[place]):
                return ".".join(parts[place:])
        return name

    def _bind(self, name: str, value: ast.expr) -> None:
        if name in self._stands_for or name in self._values:
            return
        folded = self.folded(value)
        if folded is not None:
            self._values[name] = folded
            return
        known = self.dotted(value)
        imports = isinstance(value, ast.Call) and self.dotted(value.func) in IMPORTING
        if known and known != name and ("." in known or imports):
            self._stands_for[name] = known
        elif isinstance(value, ast.Name) and value.id in self._stands_for:
            self._stands_for[name] = self._stands_for[value.id]
        else:
            self._bound.add(name)

    def _dotted(self, node: ast.AST, depth: int) -> str:
        match node:
            case ast.Name(name):
                if name in self._stands_for:
                    return self._stands_for[name]
                builtin = name in BUILTIN_NAMES and name not in self._bound and name not in self._values
                return f"builtins.{name}" if builtin else name
            case ast.Attribute(value, "__func__" | "__wrapped__"):
                return self.dotted(value, depth + 1)
            case ast.Attribute(value, attribute):
                return self._member(self.dotted(value, depth + 1), attribute)
            case ast.Subscript(value, key):
                return self._item(value, key, depth)
            case ast.Call(function, arguments):
                return self._called(function, arguments, depth)
            case ast.NamedExpr(_, value):
                return self.dotted(value, depth + 1)
            case _:
                return ""

    def _item(self, value: ast.expr, key: ast.expr, depth: int) -> str:
        name = self._text(key)
        if name is None:
            return ""
        match value:
            case ast.Attribute(owner, "__dict__"):
                return self._member(self.dotted(owner, depth + 1), name)
            case ast.Call(function, [owner]) if self.dotted(function, depth + 1) == "builtins.vars":
                return self._member(self.dotted(owner, depth + 1), name)
            case ast.Call(function, []) if self.dotted(function, depth + 1) in ("builtins.globals", "builtins.locals"):
                return self._stands_for.get(name, name)
            case _:
                owner = self.dotted(value, depth + 1)
                return name if owner == "sys.modules" else f"builtins.{name}" if owner == "builtins" else ""

    def _called(self, function: ast.expr, arguments: list[ast.expr], depth: int) -> str:
        called = self.dotted(function, depth + 1)
        texts = [self._text(argument) for argument in arguments[:2]]
        match called, texts:
            case "builtins.__import__", [str(name), *_]:
                return name.partition(".")[0]
            case "importlib.import_module" | "sys.modules.get", [str(name), *_]:
                return name
            case "builtins.getattr" | "builtins.object.__getattribute__", [_, str(name)]:
                return self._member(self.dotted(arguments[0], depth + 1), name)
            case "ctypes.CDLL" | "ctypes.PyDLL" | "ctypes.cdll.LoadLibrary" | "ctypes.LibraryLoader", _:
                return "ctypes.CDLL"
            case "functools.partial" | "builtins.staticmethod" | "builtins.classmethod", [_, *_]:
                return self.dotted(arguments[0], depth + 1)
            case _, [str(name)] if called.endswith(".__getattribute__"):
                return self._member(called.removesuffix(".__getattribute__"), name)
            case _, [_, *_] if isinstance(function, ast.Call):
                if self.dotted(function.func, depth + 1) == "operator.attrgetter" and function.args:
                    name = self._text(function.args[0])
                    return self._member(self.dotted(arguments[0], depth + 1), name) if name else ""
                return ""
            case _:
                return ""

    @staticmethod
    def _member(owner: str, name: str) -> str:
        return f"{owner}.{name}" if owner else ""

    def _text(self, node: ast.expr) -> str | None:
        value = self.folded(node)
        return value if isinstance(value, str) else None

    def folded(self, node: ast.expr) -> object | None:
        """None where it is not known: the constant None is never told."""
        try:
            return self._fold(node, {}, 0)
        except (
            ValueError,
            TypeError,
            IndexError,
            KeyError,
            OverflowError,
            ArithmeticError,
            LookupError,
            RecursionError,
        ):
            return None
        except (zlib.error, UnicodeError, AttributeError):
            return None

    def _fold(self, node: ast.expr, own: dict[str, Any], depth: int) -> Any:
        if depth > DEEPEST:
            raise ValueError

        def fold(inner: ast.expr) -> Any:
            return self._fold(inner, own, depth + 1)

        match node:
            case ast.Constant(value) if isinstance(value, str | bytes | int | float):
                return value
            case ast.Name(name):
                return own[name] if name in own else self._values[name]
            case ast.BinOp(left, ast.Mult(), right):
                first, second = fold(left), fold(right)
                size = (len(first) if isinstance(first, str | bytes | list | tuple) else 1) * (
                    second if isinstance(second, int) and not isinstance(first, int) else 1
                )
                return _bounded(first * second) if size < MOST_CHARS else _refuse()
            case ast.BinOp(left, ast.Div(), right):
                return f"{_as_text(fold(left))}/{_as_text(fold(right))}"
            case ast.BinOp(left, ast.LShift(), right):
                amount = fold(right)
                return fold(left) << amount if amount < 80 else _refuse()
            case ast.BinOp(left, ast.Pow(), right):
                base, power = fold(left), fold(right)
                return base**power if isinstance(base, int) and abs(base) <= 64 and 0 <= power < 64 else _refuse()
            case ast.BinOp(left, operation, right) if type(operation) in BINARY:
                return _bounded(BINARY[type(operation)](fold(left), fold(right)))
            case ast.UnaryOp(ast.USub(), operand):
                return -fold(operand)
            case ast.JoinedStr(values):
                return "".join(_as_text(fold(value)) for value in values)
            case ast.FormattedValue(value, -1, None):
                return fold(value)
            case ast.Tuple(elements):
                return tuple(_bounded([fold(element) for element in elements]))
            case ast.List(elements):
                return _bounded([fold(element) for element in elements])
            case ast.Subscript(value, ast.Slice(lower, upper, step)):
                ends = [None if end is None else fold(end) for end in (lower, upper, step)]
                return fold(value)[slice(*ends)]
            case ast.Subscript(value, key):
                return fold(value)[fold(key)]
            case ast.ListComp(element, [single]) | ast.GeneratorExp(element, [single]):
                if single.ifs or not isinstance(single.target, ast.Name):
                    raise ValueError
                name = single.target.id
                return [
                    self._fold(element, {**own, name: item}, depth + 1) for item in _bounded(list(fold(single.iter)))
                ]
            case ast.Call(ast.Attribute(value, method) as function, arguments, []) if (
                method in TEXT_METHODS and self.dotted(function) not in PURE
            ):
                owner = self._module_text(value, fold)
                return _bounded(getattr(owner, method)(*map(fold, arguments)))
            case ast.Call(function, arguments):
                return self._fold_call(function, arguments, fold)
            case _:
                raise ValueError

    def _module_text(self, value: ast.expr, fold: Callable[[ast.expr], Any]) -> str | bytes:
        owner = fold(value)
        if not isinstance(owner, str | bytes):
            raise ValueError
        return owner

    def _fold_call(self, function: ast.expr, arguments: list[ast.expr], fold: Callable[[ast.expr], Any]) -> Any:
        called = self.dotted(function)
        if called == "builtins.map" and len(arguments) == 2:
            mapped = PURE[self.dotted(arguments[0])]
            return [mapped(item) for item in _bounded(list(fold(arguments[1])))]
        if called == "zlib.decompress" and len(arguments) == 1:
            return zlib.decompressobj().decompress(fold(arguments[0]), MOST_CHARS)
        given = [fold(argument) for argument in arguments]
        if called in ("builtins.bytes", "builtins.bytearray") and any(isinstance(value, int) for value in given):
            raise ValueError
        return _bounded(PURE[called](*given))


def is_encoded(node: ast.expr, names: Names) -> bool:
    """Whether a value is spelled so that its text does not show it."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and (
            names.dotted(inner.func) in DECODERS
            or (isinstance(inner.func, ast.Attribute) and inner.func.attr in ("join", "decode", "translate"))
            or any(names.dotted(argument) == "builtins.chr" for argument in inner.args)
        ):
            return True
        if isinstance(inner, ast.Slice) and isinstance(inner.step, ast.UnaryOp):
            return True
    return False


def _as_text(value: object) -> str:
    if not isinstance(value, str | int):
        raise ValueError
    return str(value)


def _bounded(value: Any) -> Any:
    if isinstance(value, str | bytes) and len(value) > MOST_CHARS:
        raise ValueError
    if isinstance(value, list) and len(cast(list[Any], value)) > MOST_ITEMS:
        raise ValueError
    return value


def _refuse() -> Any:
    raise ValueError
