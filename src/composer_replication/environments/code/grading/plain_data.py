"""Reads the tagged JSON of `inside/recompose_grading/plain_form.py` into values of exact builtin types.

Everything that comes here may be written by an enemy: a form that is not well made, or too large, becomes `OPAQUE`,
which equals nothing. No code of a submission runs, and none of its types exists here.
"""

from __future__ import annotations

import datetime
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

MAX_DEPTH, MAX_NODES, MAX_CHARACTERS = 19, 20_001, 200_000


class NotWellMade(ValueError):
    """A form that no encoder writes."""


class _Opaque:
    """What has no plain form."""


OPAQUE = _Opaque()


@dataclass(frozen=True)
class Thing:
    """An object of a type that is not known here; equal to another of the same name and parts."""

    tag: str
    name: str
    parts: Any = None
    side: str = ""
    """Identities of two processes are never the same."""

    def __hash__(self) -> int:
        return hash((self.tag, self.name))


def decode(form: object, side: str = "") -> Any:
    """`side` names the process that the form is from."""
    try:
        return _Decoder(side).value(form, 0)
    except (ValueError, TypeError, ArithmeticError, KeyError, IndexError, RecursionError, AttributeError):
        return OPAQUE


class _Decoder:
    def __init__(self, side: str) -> None:
        self._side, self._nodes = side, 0

    def value(self, form: object, depth: int) -> Any:
        self._nodes += 1
        if self._nodes > MAX_NODES or depth > MAX_DEPTH:
            raise NotWellMade
        if form is None or isinstance(form, bool | int):
            return form
        if isinstance(form, str):
            return _short(form)
        match form:
            case [str(tag), content] if tag in SIMPLE:
                return SIMPLE[tag](content)
            case [str(tag), [*items]] if tag in GROUPS:
                return GROUPS[tag]([self.value(item, depth + 1) for item in items])
            case ["dict" | "ordered" as tag, [*pairs]]:
                entries = self._pairs(pairs, depth)
                return OrderedDict(entries) if tag == "ordered" else dict(entries)
            case ["parts", [str(name), [*pairs]]]:
                return Thing("parts", _short(name), tuple(self._pairs(pairs, depth)))
            case ["enum", [str(name), str(member)]]:
                return Thing("enum", _short(name), _short(member))
            case ["identity", [str(name), int(number)]]:
                return Thing("identity", _short(name), number, self._side)
            case _:
                raise NotWellMade

    def _pairs(self, pairs: list[object], depth: int) -> list[tuple[Any, Any]]:
        found: list[tuple[Any, Any]] = []
        for pair in pairs:
            match pair:
                case [key, value]:
                    found.append((self.value(key, depth + 1), self.value(value, depth + 1)))
                case _:
                    raise NotWellMade
        return found


def _short(text: object) -> str:
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
        raise NotWellMade
    return text


def _complex(content: Any) -> complex:
    real, imaginary = content
    return complex(float.fromhex(_short(real)), float.fromhex(_short(imaginary)))


def _range(content: Any) -> range:
    start, stop, step = content
    return range(start, stop, step)


def _timedelta(content: Any) -> datetime.timedelta:
    days, seconds, microseconds = content
    return datetime.timedelta(days, seconds, microseconds)


def _path(content: Any) -> PurePosixPath | PureWindowsPath:
    flavour, text = content
    return (PureWindowsPath if flavour.startswith("Windows") else PurePosixPath)(_short(text))


def _pattern(items: list[Any]) -> Thing:
    """Not compiled: the text may be an enemy's."""
    return Thing("pattern", "re:Pattern", tuple(items))


SIMPLE: Mapping[str, Callable[[Any], Any]] = {
    "text": lambda content: bytes.fromhex(_short(content)).decode("utf-8", "surrogatepass"),
    "int": lambda content: int(_short(content), 16),
    "float": lambda content: float.fromhex(_short(content)),
    "complex": _complex,
    "bytes": lambda content: bytes.fromhex(_short(content)),
    "range": _range,
    "decimal": lambda content: Decimal(_short(content)),
    "datetime": lambda content: datetime.datetime.fromisoformat(_short(content)),
    "date": lambda content: datetime.date.fromisoformat(_short(content)),
    "time": lambda content: datetime.time.fromisoformat(_short(content)),
    "timedelta": _timedelta,
    "uuid": lambda content: uuid.UUID(hex=_short(content)),
    "path": _path,
    "named": lambda content: Thing("named", _short(content)),
}
GROUPS: Mapping[str, Callable[[list[Any]], Any]] = {
    "list": list[Any],
    "tuple": tuple[Any, ...],
    "set": frozenset[Any],
    "deque": deque[Any],
    "fraction": lambda items: Fraction(*items),
    "slice": lambda items: Thing("parts", "builtins:slice", tuple(items)),
    "pattern": _pattern,
}
