r"""The text under escapes: JSON inside a string, `=` as `\u003d`, `/` as `\/`; one depth after the other.

A depth holds the lines that had escapes, without them. What is found in it is carried back by looking for
the escapes once more and counting, so that a text without a finding costs no map. Findings begin and end between
escapes, hence a string that holds one stays a string.

Not undone: percent signs, entities of HTML, base64 and other encodings.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from .spans import Found

MAX_DEPTH = 6
_ESCAPE = re.compile(rb"""\\(?:[nrt"'/\\]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})""")
_HARMLESS_ALONE = (b"n", b"d", b"s", b"w", b"b", b".", b"(", b"|", b"")
_SIGNS = {
    rb"\n": b"\n", rb"\r": b"\r", rb"\t": b"\t", rb"\"": b'"', rb"\'": b"'", rb"\/": b"/", rb"\\": b"\\",
}  # fmt: skip


class ByteEdit(NamedTuple):
    """Bytes `start` to `end` of a text became bytes `made_start` to `made_end` of the next one."""

    start: int
    end: int
    made_start: int
    made_end: int


Step = tuple[Callable[[bytes], Iterator[ByteEdit]], bytes]
"""What was done, and the text that it was done to."""


class Depth(NamedTuple):
    text: bytes
    steps: tuple[Step, ...]

    def carried_back(self, found: Iterable[Found]) -> list[Found]:
        """Findings in this text, as findings in the outermost one."""
        spans = list(found)
        for edits_of, text in reversed(self.steps):
            edits = list(edits_of(text))
            starts = [edit.made_start for edit in edits]
            spans = [
                item._replace(
                    start=_origin(item.start, edits, starts)[0],
                    end=_origin(item.end - 1, edits, starts)[1],
                )
                for item in spans
            ]
        return spans


def depths(data: bytes) -> Iterator[Depth]:
    """The texts under the escapes of a text, from the outside in. None for a text without an escape."""
    text = data
    steps: tuple[Step, ...] = ()
    while b"\\" in text and len(steps) < 2 * MAX_DEPTH:
        lines = b"\n".join(text[start:end] for start, end in _escaped_lines(text))
        steps = (*steps, (_left_out, text), (_undone, lines))
        text = _ESCAPE.sub(_sign, lines)
        if len(text) == len(lines):
            return
        yield Depth(text, steps)


def without_escapes(value: bytes) -> bytes:
    """A secret as it is, however it was written."""
    for _ in range(MAX_DEPTH):
        if b"\\" not in value:
            break
        value = _ESCAPE.sub(_sign, value)
    return value


def _escaped_lines(text: bytes) -> Iterator[tuple[int, int]]:
    """Lines with backslashes. One alone before one of these letters hides nothing: it ends a string of a program."""
    end = 0
    while (at := text.find(b"\\", end)) >= 0:
        start = text.rfind(b"\n", end, at) + 1 or end
        end = text.find(b"\n", at)
        if end < 0:
            end = len(text)
        if text[at + 1 : at + 2] not in _HARMLESS_ALONE or text.find(b"\\", at + 1, end) >= 0:
            yield start, end


def _left_out(text: bytes) -> Iterator[ByteEdit]:
    """What stood between the lines with a backslash became one line end."""
    last_end = made = 0
    for start, end in _escaped_lines(text):
        size = 1 if made else 0
        yield ByteEdit(last_end, start, made, made + size)
        made += size + end - start
        last_end = end


def _undone(text: bytes) -> Iterator[ByteEdit]:
    shift = 0
    for match in _ESCAPE.finditer(text):
        start, size = match.start() + shift, len(_sign(match))
        yield ByteEdit(match.start(), match.end(), start, start + size)
        shift += size - len(match[0])


def _sign(match: re.Match[bytes]) -> bytes:
    escape = match[0]
    return _SIGNS.get(escape) or chr(int(escape[2:], 16)).encode("utf-8", "surrogatepass")


def _origin(place: int, edits: list[ByteEdit], starts: list[int]) -> tuple[int, int]:
    """Start and end of what the byte at a place came from."""
    number = bisect_right(starts, place) - 1
    if number < 0:
        return place, place + 1
    edit = edits[number]
    if place < edit.made_end:
        return edit.start, edit.end
    origin = edit.end + place - edit.made_end
    return origin, origin + 1
