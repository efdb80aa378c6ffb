"""One pass over the text finds all literals; only around them do the rules look closer.

Reads bytes (see `spans`), gives every `Found` in no order and with overlaps. Tables are built once per process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple, cast

from . import account_files, commands, credentials, keys, personal
from .assignments import LITERALS as ASSIGNMENT_LITERALS
from .assignments import assigned_secret
from .depths import depths
from .engine import Literals, Span
from .gitleaks import GENERIC, VAULT, VendorRule, is_certain, load_rules
from .runs import (
    KEY_LINE,
    MIN_RANDOM_CHARS,
    OLD_VAULT_TOKEN,
    PHRASE,
    RANDOM_STRING,
    SHORTEST_PHRASE_BYTES,
    SHORTEST_TOKEN_BYTES,
    TOKEN_TABLE,
    run_patterns,
)
from .spans import Found

Check = Callable[[bytes, int], object]
"""Called where a literal stands. None: nothing here. A `Found` or a list of them: those. Anything else: the rules have
to look around."""


class Scan(NamedTuple):
    found: Sequence[Found]
    uncertain: int
    """Matches of the generic rule that are too likely to be something else."""
    has_random_run: bool


NOTHING = Scan((), 0, False)


class Scanner:
    def __init__(self) -> None:
        checks: dict[str, list[tuple[Check, list[VendorRule] | None]]] = {}
        finders: dict[Check, tuple[str, ...]] = {
            **keys.FINDERS, **credentials.FINDERS, **account_files.FINDERS, **commands.FINDERS, **personal.FINDERS,
            assigned_secret: ASSIGNMENT_LITERALS,
        }  # fmt: skip
        for finder, literals in finders.items():
            for literal in literals:
                checks.setdefault(literal, []).append((finder, None))
        vendors = load_rules()
        self._old_vault_rule = next(rule for rule in vendors if rule.kind == VAULT)
        for (literal, gate), rules in _rules_by_literal_and_gate(vendors).items():
            checks.setdefault(literal, []).append((gate.match if gate else _always, rules))
        self._checks = list(checks.values())
        self._literals = Literals([literal.encode() for literal in checks])
        self._runs = run_patterns().matching

    def has_literal(self, data: bytes) -> bool:
        return any(hits for hits in self._literals.find(data.lower()))

    def scan_all_depths(self, data: bytes, known: Callable[[bytes], list[Found]] | None) -> Scan:
        """What must go from a text and from the texts under its escapes; `known` finds more in each of them."""
        outer = self.scan(data)
        more = known(data) if known else []
        for depth in depths(data):
            if inside := [*self.scan(depth.text).found, *(known(depth.text) if known else ())]:
                more += depth.carried_back(inside)
        return outer._replace(found=[*outer.found, *more]) if more else outer

    def scan(self, data: bytes) -> Scan:
        """What must go from a text as it stands."""
        literals = self._literals.find(data.lower())
        size = len(data)
        # Below the length of a phrase only a token is possible.
        is_long = size >= SHORTEST_PHRASE_BYTES or (size >= SHORTEST_TOKEN_BYTES and b"s." in data)
        runs = self._runs(data) if is_long else ()
        has_random_run = size >= MIN_RANDOM_CHARS and RANDOM_STRING in data.translate(TOKEN_TABLE)
        if not literals and not runs:
            return Scan((), 0, True) if has_random_run else NOTHING
        found: list[Found] = []
        windows: dict[VendorRule, list[Span]] = {}
        if runs:
            if KEY_LINE in runs:
                found += keys.wide_lines(data)
            if PHRASE in runs:
                found += account_files.phrases(data)
            if OLD_VAULT_TOKEN in runs:
                windows[self._old_vault_rule] = [(0, len(data))]
        checks = self._checks
        found_until: dict[Check, int] = {}
        for hits in literals:
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
                    elif isinstance(passed, list):
                        found += cast("list[Found]", passed)
                        found_until[check] = found[-1].end
                    for rule in rules or ():
                        _widen(windows.setdefault(rule, []), rule, start, end)
        uncertain = 0
        for rule, spans in windows.items():
            for match, secret in _matches(rule, data, spans):
                if rule.kind == GENERIC and not is_certain(data, match, secret):
                    uncertain += 1
                else:
                    found.append(rule.found(secret))
        return Scan(found, uncertain, has_random_run) if found or uncertain or has_random_run else NOTHING


def _rules_by_literal_and_gate(
    vendors: list[VendorRule],
) -> dict[tuple[str, re.Pattern[bytes] | None], list[VendorRule]]:
    groups: dict[tuple[str, re.Pattern[bytes] | None], list[VendorRule]] = {}
    for rule in vendors:
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
