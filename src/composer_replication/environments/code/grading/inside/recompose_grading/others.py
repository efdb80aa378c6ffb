"""Runs inside the grading sandbox: another value of the same type, for tests that are contradicted."""

from __future__ import annotations

import math
from typing import Any


def other(value: Any) -> Any:
    """Surely not equal to the value. What has no other of its type that is surely different comes in a list."""
    kind = type(value)
    if kind is bool:
        return not value
    if (kind is int or kind is float) and math.isfinite(value) and value + 1 != value:
        return value + 1
    if kind is str:
        return _other_text(value)
    if kind is bytes:
        return value + b"1"
    if kind is list or kind is tuple:
        return kind((*value[:-1], other(value[-1]))) if value else kind((0,))
    if kind is dict:
        return {key: other(entry) for key, entry in value.items()} | {_unused_key(value): 0}
    if kind is set or kind is frozenset:
        return value | {"another"} if "another" not in value else value - {"another"}
    return [value]


def _unused_key(known: dict[Any, Any]) -> str:
    """What is compared may look at the keys alone."""
    key = "another"
    while key in known:
        key += " one"
    return key


def _other_text(text: str) -> str:
    letter = next((letter for letter in "ae1" if letter != text[-1:].casefold()), "a")
    return text[:-1] + letter
