"""Counts the random-looking strings that stay (hashes, ids, encoded data), so that a person can look at them."""

from __future__ import annotations

import re
from collections import Counter

from .runs import random_strings
from .values import entropy_bits, has_digit, is_uuid

MIN_ENTROPY_BITS = 4.0
_HEX = re.compile(rb"[0-9a-fA-F]+\Z")


def count_random_strings(data: bytes) -> Counter[str]:
    counts: Counter[str] = Counter()
    for run in random_strings(data):
        if not has_digit(run):
            continue
        if _HEX.match(run):
            counts["hex-digest"] += 1
        elif is_uuid(run):
            counts["uuid"] += 1
        elif entropy_bits(run) >= MIN_ENTROPY_BITS:
            counts["high-entropy"] += 1
    return counts
