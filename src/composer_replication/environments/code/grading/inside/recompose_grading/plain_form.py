"""Runs inside the grading sandbox: writes a value as tagged JSON, which `grading/plain_data.py` reads outside.

Exact builtin types go by their content, subclasses of them by the content of the builtin, objects that compare by their
parts by those parts, and everything that compares by identity by a number of this process. What has no plain form
(generators, cycles, too deep, too large) is `opaque`, which equals nothing.
"""

from __future__ import annotations

import collections
import collections.abc
import dataclasses
import datetime
import decimal
import enum
import fractions
import numbers
import pathlib
import re
import sys
import types
import uuid
from collections.abc import Callable, Iterable
from typing import Any

Form = Any
MAX_DEPTH, MAX_NODES, MAX_CHARACTERS = 18, 20_000, 200_000
MAX_JSON_INT = 2**53
OBSERVE = "_observe"
OPAQUE: Form = ["opaque", None]
KINDS: tuple[Any, ...] = tuple(getattr(collections.abc, name) for name in collections.abc.__all__) + tuple(
    getattr(numbers, name) for name in numbers.__all__
)
PLAIN_TYPES: frozenset[type] = frozenset({type(None), bool, int, float, complex, str, bytes, list, tuple, dict})
"""Those that their content tells."""


class NoPlainForm(Exception):
    """The value, or a part of it, cannot be written."""


def name_of(kind: Any) -> str:
    """Top package and qualified name: which module of a package a class stands in is nobody's business, and the names
    of lowered test modules are drawn."""
    module = str(kind.__module__)
    is_test = OBSERVE in getattr(sys.modules.get(module), "__dict__", ())
    return f"{'' if is_test else module.partition('.')[0]}:{kind.__qualname__}"


class Encoder:
    """Of one process: objects that compare by identity keep their number, and are kept alive for it."""

    def __init__(self) -> None:
        self._numbered: dict[int, tuple[int, object]] = {}
        self._nodes = 0

    def operand(self, value: Any) -> Form:
        """The form; for what is no plain builtin also whether it is true and the names of what it is an instance of."""
        if type(value) in PLAIN_TYPES:
            return [self.form(value)]
        try:
            is_true = bool(value)
        except Exception:
            is_true = None
        return [self.form(value), is_true, instance_names(value)]

    def form(self, value: Any) -> Form:
        self._nodes = 0
        try:
            return self._form(value, ())
        except Exception:  # attributes and descriptors of the submission may raise anything
            return OPAQUE

    def _form(self, value: Any, outer: tuple[int, ...]) -> Form:
        self._nodes += 1
        if self._nodes > MAX_NODES or len(outer) > MAX_DEPTH or id(value) in outer:
            raise NoPlainForm
        kind = type(value)
        if value is None or kind is bool:
            return value
        if isinstance(value, enum.Enum) and not isinstance(value, (int, str)):
            return ["enum", [name_of(kind), value.name]]
        for base, write in WRITERS:
            if isinstance(value, base):
                return write(self, value, (*outer, id(value)))
        return self._object(value, (*outer, id(value)))

    def _many(self, values: Iterable[Any], outer: tuple[int, ...]) -> Form:
        return [self._form(value, outer) for value in values]

    def _pairs(self, pairs: Iterable[tuple[Any, Any]], outer: tuple[int, ...]) -> Form:
        return [[self._form(key, outer), self._form(value, outer)] for key, value in pairs]

    def _named(self, value: Any, outer: tuple[int, ...]) -> Form:
        """A class or function that stands where its name says goes by its name."""
        found: Any = sys.modules.get(value.__module__ or "")
        for part in value.__qualname__.split("."):
            found = getattr(found, part, None)
        return ["named", name_of(value)] if found is value else self._identity(value)

    def _object(self, value: Any, outer: tuple[int, ...]) -> Form:
        kind: Any = type(value)
        if kind.__eq__ is object.__eq__ or isinstance(value, BaseException):
            return self._identity(value)
        parts = list(_parts(value))
        if not parts:
            raise NoPlainForm
        return ["parts", [name_of(kind), self._pairs(parts, outer)]]

    def _identity(self, value: Any) -> Form:
        number, _ = self._numbered.setdefault(id(value), (len(self._numbered), value))
        return ["identity", [name_of(type(value)), number]]


def instance_names(value: Any) -> list[str]:
    """Of the classes that the value is an instance of, with the abstract ones of the library."""
    classes = dict.fromkeys((*type(value).__mro__, *getattr(value.__class__, "__mro__", ())))
    return [name_of(kind) for kind in (*classes, *(kind for kind in KINDS if _is_instance(value, kind)))]


def _is_instance(value: Any, kind: Any) -> bool:
    try:
        return isinstance(value, kind)
    except Exception:
        return False


def _parts(value: Any) -> Iterable[tuple[str, Any]]:
    """What takes part in the comparison of two such objects, as far as their class tells."""
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value) if field.compare]
    if attributes := getattr(type(value), "__attrs_attrs__", None):
        return [(each.name, getattr(value, each.name)) for each in attributes if each.eq]
    slots = [name for kind in type(value).__mro__ for name in _slots(kind) if hasattr(value, name)]
    own: dict[str, Any] = getattr(value, "__dict__", {})
    return sorted({**own, **{name: getattr(value, name) for name in slots}}.items())


def _slots(kind: type) -> tuple[str, ...]:
    given: Any = vars(kind).get("__slots__", ())
    return (given,) if isinstance(given, str) else tuple(name for name in given if not name.startswith("__"))


def _text(encoder: Encoder, value: str, outer: tuple[int, ...]) -> Form:
    exact = _short(str.__str__(value))
    try:
        exact.encode()
    except UnicodeEncodeError:
        return ["text", exact.encode("utf-8", "surrogatepass").hex()]
    return exact


def _whole(encoder: Encoder, value: int, outer: tuple[int, ...]) -> Form:
    exact = int.__int__(value)
    return exact if abs(exact) < MAX_JSON_INT else ["int", _short(hex(exact))]


def _short(text: str) -> str:
    if len(text) > MAX_CHARACTERS:
        raise NoPlainForm
    return text


def _floating(value: float) -> str:
    return float.hex(float.__float__(value))


Writer = Callable[[Encoder, Any, tuple[int, ...]], Form]


def _items(tag: str, iterate: Callable[[Any], Iterable[Any]]) -> Writer:
    return lambda encoder, value, outer: [tag, encoder._many(iterate(value), outer)]  # pyright: ignore[reportPrivateUsage]


def _unordered(iterate: Callable[[Any], Iterable[Any]]) -> Writer:
    """In the order of the written forms: that of a set differs between processes."""
    return lambda encoder, value, outer: ["set", sorted(encoder._many(iterate(value), outer), key=repr)]  # pyright: ignore[reportPrivateUsage]


def _entries(tag: str, iterate: Callable[[Any], Iterable[tuple[Any, Any]]]) -> Writer:
    return lambda encoder, value, outer: [tag, encoder._pairs(iterate(value), outer)]  # pyright: ignore[reportPrivateUsage]


def _written(tag: str, write: Callable[[Any], Any]) -> Writer:
    return lambda encoder, value, outer: [tag, write(value)]


WRITERS: tuple[tuple[Any, Writer], ...] = (
    (str, _text),
    (int, _whole),
    (float, _written("float", _floating)),
    (complex, _written("complex", lambda value: [_floating(value.real), _floating(value.imag)])),
    (bytes, _written("bytes", lambda value: _short(bytes.hex(value)))),
    (bytearray, _written("bytes", lambda value: _short(bytearray.hex(value)))),
    (memoryview, _written("bytes", lambda value: _short(value.hex()))),
    (list, _items("list", list.__iter__)),
    (tuple, _items("tuple", tuple.__iter__)),
    (set, _unordered(set.__iter__)),
    (frozenset, _unordered(frozenset.__iter__)),
    (collections.deque, _items("deque", collections.deque.__iter__)),
    (collections.OrderedDict, _entries("ordered", collections.OrderedDict.items)),
    (dict, _entries("dict", dict.items)),
    (types.MappingProxyType, _entries("dict", lambda value: value.items())),
    ((type({}.keys()), type({}.items())), _unordered(iter)),
    (range, _written("range", lambda value: [value.start, value.stop, value.step])),
    (slice, _items("slice", lambda value: (value.start, value.stop, value.step))),
    (decimal.Decimal, _written("decimal", lambda value: _short(str(value)))),
    (fractions.Fraction, _items("fraction", lambda value: (value.numerator, value.denominator))),
    (datetime.datetime, _written("datetime", lambda value: value.isoformat())),
    (datetime.date, _written("date", lambda value: value.isoformat())),
    (datetime.time, _written("time", lambda value: value.isoformat())),
    (datetime.timedelta, _written("timedelta", lambda value: [value.days, value.seconds, value.microseconds])),
    (uuid.UUID, _written("uuid", lambda value: value.hex)),
    (pathlib.PurePath, _written("path", lambda value: [type(value).__name__.removeprefix("Pure"), str(value)])),
    (re.Pattern, _items("pattern", lambda value: (value.pattern, value.flags))),
    ((type(...), type(NotImplemented)), _written("named", lambda value: f"builtins:{value!r}")),
    (types.ModuleType, _written("named", lambda value: f"module:{value.__name__}")),
    ((type, types.FunctionType, types.BuiltinFunctionType), Encoder._named),  # pyright: ignore[reportPrivateUsage]
)
