"""Counts the random-looking strings that stay (hashes, ids, encoded data), so that a person can look at them."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

from .engine import LinearPattern, Presence
from .values import entropy_bits, has_digit, is_uuid

MIN_ENTROPY_BITS = 4.0
MIN_RUN_CHARS = 32
_RUN_REGEX = rf"[A-Za-z0-9+_=-]{{{MIN_RUN_CHARS},}}"
_RUN = LinearPattern(_RUN_REGEX)
_HEX = re.compile(rb"[0-9a-fA-F]+\Z")


@cache
def _has_run() -> Presence:
    return Presence(_RUN_REGEX)


def count_random_strings(data: bytes) -> Counter[str] | None:
    """None when there is none."""
    if len(data) < MIN_RUN_CHARS or not _has_run()(data):
        return None
    counts: Counter[str] = Counter()
    for spans in _RUN.find(data, 0, len(data)):
        start, end = spans[0]
        run = data[start:end]
        if not has_digit(run):
            continue
        if _HEX.match(run):
            counts["hex-digest"] += 1
        elif is_uuid(run):
            counts["uuid"] += 1
        elif entropy_bits(run) >= MIN_ENTROPY_BITS:
            counts["high-entropy"] += 1
    return counts
