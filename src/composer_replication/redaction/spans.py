"""Stretches of text that must go, as byte offsets, and how overlapping ones become one.

Offsets count bytes of UTF-8 with lone surrogates passed through, because that is what RE2 and the automaton read; ASCII
text needs no translation back.
"""

from __future__ import annotations

import re
from bisect import bisect, bisect_left
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

PLACEHOLDER = re.compile(rb"<SECRET:[a-z0-9-]+:\d+>")
MIN_REMAINDER_CHARS = 8
_UNICODE_ESCAPE = re.compile(rb"\\u[0-9a-fA-F]{4}")


class Rank(IntEnum):
    """Where two findings overlap the lower rank names the result."""

    VENDOR = 0
    STRUCTURE = 1
    ASSIGNED = 2
    GENERIC = 3
    PERSONAL = 4


class Found(NamedTuple):
    kind: str
    start: int
    end: int
    rank: Rank

    @property
    def is_secret(self) -> bool:
        return self.rank is not Rank.PERSONAL


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def merged(data: bytes, found: Iterable[Found]) -> list[Found]:
    """In order and without overlaps: the union of what overlaps, so that no end of a longer secret stays behind.

    Personal data gives way to a secret that it touches. Placeholders already in the text are cut out.
    """
    result: list[Found] = []
    for item in sorted(_outside_placeholders(data, found), key=lambda item: (item.start, item.end)):
        item = _on_character_boundaries(data, item)
        if result and item.start < result[-1].end:
            last = result[-1]
            named = min(last, item, key=lambda one: (one.rank, one.start - one.end))
            result[-1] = Found(named.kind, last.start, max(last.end, item.end), named.rank)
        else:
            result.append(item)
    return result


def _on_character_boundaries(data: bytes, item: Found) -> Found:
    start, end = item.start, item.end
    escape = _UNICODE_ESCAPE.search(data, max(0, start - 5), start + 5)
    if escape and escape.start() < start < escape.end() < end:
        start = escape.end()
    while end > start + 1 and data[end - 1 : end] == b"\\":
        end -= 1  # it belongs to the quote that follows
    while start > 0 and _is_continuation(data[start]):
        start -= 1
    while end < len(data) and _is_continuation(data[end]):
        end += 1
    return item._replace(start=start, end=end)


def _is_continuation(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _outside_placeholders(data: bytes, found: Iterable[Found]) -> Iterator[Found]:
    holes = [match.span() for match in PLACEHOLDER.finditer(data)] if b"<SECRET:" in data else []
    for item in found:
        first = bisect(holes, item.start, key=lambda hole: hole[1])
        inside = holes[first : bisect_left(holes, item.end, key=lambda hole: hole[0])]
        if not inside:
            yield item
            continue
        start = item.start
        for hole_start, hole_end in [*inside, (item.end, item.end)]:
            if _could_be_secret(data[start:hole_start]):
                yield item._replace(start=start, end=hole_start)
            start = max(start, hole_end)


def _could_be_secret(piece: bytes) -> bool:
    """What is left beside a placeholder goes too, unless it is only the name of a field or punctuation."""
    return len(piece) >= MIN_REMAINDER_CHARS and any(48 <= byte <= 57 for byte in piece)


def character_offsets(data: bytes, found: list[Found]) -> list[tuple[int, int]]:
    """Byte spans (in order) as spans of characters."""
    if data.isascii():
        return [(item.start, item.end) for item in found]
    spans: list[tuple[int, int]] = []
    byte_at = character_at = 0
    for item in found:
        start = character_at + len(decode(data[byte_at : item.start]))
        end = start + len(decode(data[item.start : item.end]))
        spans.append((start, end))
        byte_at, character_at = item.end, end
    return spans
