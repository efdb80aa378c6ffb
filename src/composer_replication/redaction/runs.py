"""Long runs of characters that no literal gives away: random strings, lines of keys, phrases of wallets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from .boundaries import LEFT_RE2
from .engine import PatternSet
from .values import entropy_bits, has_digit, is_uuid

MIN_RANDOM_CHARS = 32
KEY_LINE_CHARS = 64
SHORTEST_PHRASE_BYTES = 12 * 3 + 11
SHORTEST_TOKEN_BYTES = 26
_BETWEEN_WORDS = (
    r"(?:[ ,\t]{1,2}|\r?\n[ \t]{0,8}(?:[0-9]{1,3}[.:)|\t\xe2\x86\x92]{1,3}[ \t]?)?|[ ]?[0-9]{1,2}[.):][ ]?)"
)
TWELVE_WORDS = rf"{LEFT_RE2}((?:[a-z]{{3,8}}{_BETWEEN_WORDS}){{11}}([a-z]{{3,8}}))\b"
KEY_LINE, PHRASE, OLD_VAULT_TOKEN = range(3)

TOKEN_TABLE = bytes(
    ord("a") if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in "+_=-") else ord(" ")
    for byte in range(256)
)
RANDOM_STRING = b"a" * MIN_RANDOM_CHARS
"""What a random string becomes by `TOKEN_TABLE`."""


def run_patterns() -> PatternSet:
    """Which of the three a text may hold. Each further pattern multiplies the
    states that new texts make: random strings are looked for on their own."""
    return PatternSet([
        rf"[A-Za-z0-9+/]{{{KEY_LINE_CHARS}}}",
        TWELVE_WORDS,
        LEFT_RE2 + r"s\.[a-zA-Z0-9]{24}",
    ])  # fmt: skip


def random_strings(data: bytes) -> Iterator[bytes]:
    """Runs that could be an id, a hash or encoded data."""
    tokens = data.translate(TOKEN_TABLE) + b" "
    end = 0
    while (start := tokens.find(RANDOM_STRING, end)) >= 0:
        end = tokens.find(b" ", start)
        yield data[start:end]


MIN_ENTROPY_BITS = 4.0
_HEX = re.compile(rb"[0-9a-fA-F]+\Z")


def count_random_strings(data: bytes) -> Counter[str]:
    """Those that stay (hashes, ids, encoded data), so that a person can look at them."""
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
