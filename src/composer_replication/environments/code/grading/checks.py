"""Evaluates the checks of a lowered test on what its process sent, with Python's own operators on exact builtins.

The trusted half of a comparison: what the submission sent on one side, what the solution sent when the task was made on
the other. Whatever is missing, odd or not comparable fails the check.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .inside.recompose_grading.plain_form import PLAIN_TYPES, instance_names
from .lowering import LoweredCheck
from .plain_data import OPAQUE, Thing, decode

MAX_MATCHED_CHARACTERS = 20_000
"""Of a text that a pattern is tried on."""
MAX_UNHASHABLE = 300
NOT_COMPARABLE = (
    ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError, ValueError, re.error
)  # fmt: skip
MAX_TEXT_OF_A_TEST = 200_000
"""Characters of all that is known of one test."""


@dataclass(frozen=True)
class Operand:
    value: Any
    is_true: bool | None
    names: frozenset[str]
    """Of the classes that it is an instance of; empty where the value itself tells."""
    place: int
    """Operands of one check with the same number are the same object."""


@dataclass(frozen=True)
class Raised:
    names: frozenset[str]
    text: str


@dataclass(frozen=True)
class Claim:
    check: int
    operands: tuple[Operand, ...]
    raised: Raised | None = None


def read_claim(entry: object, side: str) -> Claim | None:
    """What a process claims that one check saw; None where that is no such claim."""
    match entry:
        case {"seen": int(check), "raised": [*names], "text": str(text)}:
            return Claim(check, (), Raised(frozenset(map(str, names)), text))
        case {"seen": int(check), "operands": [*forms], "same": [*places]} if len(places) == len(forms):
            return Claim(check, tuple(_operand(form, place, side) for form, place in zip(forms, places, strict=True)))
        case _:
            return None


def _operand(entry: object, place: object, side: str) -> Operand:
    where = place if isinstance(place, int) else -1
    match entry:
        case [form]:
            value = decode(form, side)
            is_plain = value is not OPAQUE and not isinstance(value, Thing)
            return Operand(value, bool(value) if is_plain else None, frozenset(), where)
        case [form, bool() | None as is_true, [*names]]:
            return Operand(decode(form, side), is_true, frozenset(map(str, names)), where)
        case _:
            return Operand(OPAQUE, None, frozenset(), where)


def holds(check: LoweredCheck, seen: Claim, known: Mapping[int, object]) -> bool:
    """`known` has a form for each operand that is not live."""
    try:
        if check.kind == "raises":
            return _raised_as_expected(seen.raised, known)
        if seen.raised is not None:
            return False
        live = iter(seen.operands)
        operands = [
            next(live) if is_live else Operand(decode(known[index], "known"), None, frozenset(), -2 - index)
            for index, is_live in enumerate(check.live)
        ]
        if next(live, None) is not None:
            return False
        return KINDS[check.kind](operands, check.options)
    except NOT_COMPARABLE:
        return False


def _raised_as_expected(raised: Raised | None, known: Mapping[int, object]) -> bool:
    if raised is None or not _is_one_of(raised.names, decode(known[1], "known")):
        return False
    return 2 not in known or known[2] is None or _matches(decode(known[2], "known"), raised.text)


def _is_one_of(names: frozenset[str], classes: Any) -> bool:
    if isinstance(classes, tuple):
        return any(_is_one_of(names, each) for each in classes)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    return isinstance(classes, Thing) and classes.tag == "named" and classes.name in names


def _matches(pattern: Any, text: Any) -> bool:
    """The pattern is the test's own; the text may be anybody's, so it is kept short."""
    parts: tuple[Any, ...] = pattern.parts if isinstance(pattern, Thing) and pattern.tag == "pattern" else (pattern,)
    return isinstance(text, str) and re.compile(*parts).search(text[:MAX_MATCHED_CHARACTERS]) is not None


Options = Mapping[str, Any]
Kind = Callable[[list[Operand], Options], bool]


def _comparable(operand: Operand) -> Any:
    if operand.value is OPAQUE:
        raise ValueError("no plain form")
    return operand.value


def _by(compare: Callable[[Any, Any], Any]) -> Kind:
    return lambda operands, options: bool(compare(*map(_comparable, operands)))


def _equal(operands: list[Operand], options: Options) -> bool:
    if kind := options.get("type"):
        plain = {"set": "frozenset"}.get(kind, kind)
        if not all(f"builtins:{kind}" in each.names or type(each.value).__name__ == plain for each in operands):
            return False
    left, right = map(_comparable, operands)
    return bool(left == right)


def _same(operands: list[Operand], options: Options) -> bool:
    """Two live operands by identity; a live one and a known one by type and content."""
    left, right = operands
    if left.place >= 0 and right.place >= 0:
        return left.place == right.place
    live, known = (left, right) if left.place >= 0 else (right, left)
    if known.value is None or isinstance(known.value, bool):
        return not live.names and live.value is known.value
    return type(live.value) is type(known.value) and live.value == _comparable(known)


def _is_instance(operands: list[Operand], options: Options) -> bool:
    operand, classes = operands
    return _is_one_of(operand.names or _plain_names(operand.value), _comparable(classes))


def _plain_names(value: Any) -> frozenset[str]:
    if type(value) not in PLAIN_TYPES:
        raise ValueError("no plain type")
    return frozenset(instance_names(value))


def _approx(operands: list[Operand], options: Options) -> bool:
    from pytest import approx

    left, right = map(_comparable, operands)
    actual, expected = (right, left) if options.get("side") == 0 else (left, right)
    tolerance: dict[str, Any] = {
        "rel": options.get("rel"),
        "abs": options.get("abs"),
        "nan_ok": bool(options.get("nan_ok")),
    }
    return bool(actual == approx(expected, **tolerance))


def _almost_equal(operands: list[Operand], options: Options) -> bool:
    left, right = map(_comparable, operands)
    if left == right:
        return True
    distance = abs(left - right)
    if options.get("delta") is not None:
        return bool(distance <= options["delta"])
    places = options.get("places")
    return round(distance, 7 if places is None else places) == 0


def _regex(operands: list[Operand], options: Options) -> bool:
    text, pattern = operands
    if pattern.place >= 0:
        raise ValueError("a pattern of the submission's")
    return _matches(_comparable(pattern), _comparable(text))


def _count_equal(operands: list[Operand], options: Options) -> bool:
    left, right = (list(_comparable(operand)) for operand in operands)
    try:
        return Counter(left) == Counter(right)
    except TypeError:
        return len(left) == len(right) <= MAX_UNHASHABLE and all(left.count(each) == right.count(each) for each in left)


def _not(kind: Kind) -> Kind:
    return lambda operands, options: not kind(operands, options)


KINDS: Mapping[str, Kind] = {
    "eq": _equal,
    "ne": _by(operator.ne),
    "lt": _by(operator.lt),
    "le": _by(operator.le),
    "gt": _by(operator.gt),
    "ge": _by(operator.ge),
    "in": _by(lambda item, container: item in container),
    "not_in": _by(lambda item, container: item not in container),
    "is": _same,
    "is_not": _not(_same),
    "truth": lambda operands, options: operands[0].is_true is True,
    "falsehood": lambda operands, options: operands[0].is_true is False,
    "isinstance": _is_instance,
    "not_isinstance": _not(_is_instance),
    "approx": _approx,
    "almost_equal": _almost_equal,
    "not_almost_equal": _not(_almost_equal),
    "regex": _regex,
    "not_regex": _not(_regex),
    "count_equal": _count_equal,
}
