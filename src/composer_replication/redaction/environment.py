"""Secrets of this machine: values of variables such as *_KEY or *_TOKEN, found in a trace by exact match."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import lru_cache

from .engine import Literals
from .spans import Found, Rank, encode
from .values import is_reference, is_stand_in

KIND = "environment-value"
MIN_VALUE_CHARS = 8
_SECRET_VARIABLE = re.compile(r"(?i)(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$")


def secrets_among(variables: Mapping[str, str] | None) -> dict[bytes, str]:
    """Values of these variables that are secrets, each with its kind; without any, of those of this process."""
    found = os.environ if variables is None else variables
    return dict.fromkeys(_secret_values(frozenset(found.items())), KIND)


@lru_cache(maxsize=8)
def _secret_values(variables: frozenset[tuple[str, str]]) -> frozenset[bytes]:
    """Paths, numbers and stand-ins are left out: they would be rewritten all over the trace."""
    values = (encode(value) for name, value in variables if _SECRET_VARIABLE.search(name))
    return frozenset(
        value
        for value in values
        if len(value) >= MIN_VALUE_CHARS and not is_reference(value) and not is_stand_in(value)
    )


class ExactValues:
    """Finds given byte strings, each under its own kind."""

    def __init__(self, kinds: Mapping[bytes, str]) -> None:
        self._values = sorted(kinds)
        self._kinds = [kinds[value] for value in self._values]
        self._literals = Literals(self._values) if self._values else None

    def find(self, data: bytes) -> list[Found]:
        if self._literals is None:
            return []
        hits = self._literals.find(data)
        return [Found(self._kinds[index], start, end, Rank.STRUCTURE) for chunk in hits for index, start, end in chunk]
