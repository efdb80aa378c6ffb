"""What the lowering of a test file gives: two texts, and what is compared by whom. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

OBSERVE = "_observe"
KNOWN = "_known"
SEEN = "_seen"

Option = str | int | float | bool | None


@dataclass(frozen=True)
class LoweredCheck:
    """One comparison. Operands keep the order of the source; of `raises` they are the outcome, the classes and, where
    given, the pattern. `live` says of each whether the graded process sends it, or gold's value is known."""

    number: int
    kind: str
    live: tuple[bool, ...]
    options: Mapping[str, Option]


@dataclass(frozen=True)
class LoweredModule:
    path: str
    graded: str
    recording: str
    functions: Mapping[str, str]
    """Lowered tests: the name in pytest's ids of the source, and the name in both texts."""
    checks: Mapping[int, LoweredCheck]
    left: Mapping[str, str]
    """Tests that keep their old form, and why."""
    exposed: frozenset[str]
    """Lowered tests (by their old names) whose graded text still shows something that is only expected."""


class UnlowerableError(Exception):
    """The meaning would not surely be kept; the text says why."""
