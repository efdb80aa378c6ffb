"""One pass over the text finds all literals; only around them do the rules look closer.

Reads bytes (see `spans`), gives every `Found` in no order and with overlaps. Tables are built once per process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

from . import credentials, personal
from .assignments import LITERALS as ASSIGNMENT_LITERALS
from .assignments import assigned_secret
from .engine import Literals, Span
from .gitleaks import GENERIC, VendorRule, is_certain, load_rules
from .spans import Found

Check = Callable[[bytes, int], object]
"""Called where a literal stands. None: nothing here. A `Found`: that. Anything else: the rules have to look around."""


class Scanner:
    def __init__(self) -> None:
        checks: dict[str, list[tuple[Check, list[VendorRule] | None]]] = {}
        finders = {**credentials.FINDERS, **personal.FINDERS, assigned_secret: ASSIGNMENT_LITERALS}
        for finder, literals in finders.items():
            for literal in literals:
                checks.setdefault(literal, []).append((finder, None))
        for (literal, gate), rules in _rules_by_literal_and_gate().items():
            checks.setdefault(literal, []).append((gate.match if gate else _always, rules))
        self._checks = list(checks.values())
        self._literals = Literals([literal.encode() for literal in checks])

    def has_literal(self, data: bytes) -> bool:
        return any(hits for hits in self._literals.find(data.lower()))

    def scan(self, data: bytes) -> tuple[list[Found], int]:
        """What must go, and how many matches of the generic rule are too likely to be something else."""
        found: list[Found] = []
        windows: dict[VendorRule, list[Span]] = {}
        checks = self._checks
        found_until: dict[Check, int] = {}
        for hits in self._literals.find(data.lower()):
            for index, start, end in hits:
                for check, rules in checks[index]:
                    # The same finder inside its own finding would cost quadratic time and tell nothing new.
                    if found_until and start < found_until.get(check, 0):
                        continue
                    passed = check(data, start)
                    if passed is None:
                        continue
                    if isinstance(passed, Found):
                        found.append(passed)
                        found_until[check] = passed.end
                    for rule in rules or ():
                        _widen(windows.setdefault(rule, []), rule, start, end)
        uncertain = 0
        for rule, spans in windows.items():
            for match, secret in _matches(rule, data, spans):
                if rule.kind == GENERIC and not is_certain(data, match, secret):
                    uncertain += 1
                else:
                    found.append(rule.found(secret))
        return found, uncertain


def _rules_by_literal_and_gate() -> dict[tuple[str, re.Pattern[bytes] | None], list[VendorRule]]:
    groups: dict[tuple[str, re.Pattern[bytes] | None], list[VendorRule]] = {}
    for rule in load_rules():
        for literal in rule.literals:
            groups.setdefault((literal, rule.gate(literal)), []).append(rule)
    return groups


def _always(data: bytes, start: int) -> bool:
    return True


def _widen(windows: list[Span], rule: VendorRule, start: int, end: int) -> None:
    low, high = max(0, start - rule.reach_before), end + rule.reach_after
    if windows and low <= windows[-1][1]:
        windows[-1] = (min(low, windows[-1][0]), max(high, windows[-1][1]))
    else:
        windows.append((low, high))


def _matches(rule: VendorRule, data: bytes, windows: list[Span]) -> Iterator[tuple[Span, Span]]:
    for low, high in windows:
        yield from rule.find(data, low, min(high, len(data)))


@cache
def scanner() -> Scanner:
    return Scanner()
