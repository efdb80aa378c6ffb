r"""The text under escapes: JSON inside a string, `=` as `\u003d`, `/` as `\/`; one depth after the other.

A depth is made by substitutions and holds only lines that had an escape. What is found in it is carried back by doing
the substitutions once more and counting, so that a text without a finding costs no map. Findings begin and end between
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
_PLAIN_LINES = re.compile(rb"(?m)(?:^[^\\\n]*+\n)++")
_ESCAPE = re.compile(rb"""\\(?:[nrt"'/\\]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})""")
_SIGNS = {
    rb"\n": b"\n", rb"\r": b"\r", rb"\t": b"\t", rb"\"": b'"', rb"\'": b"'", rb"\/": b"/", rb"\\": b"\\",
}  # fmt: skip


class Substitution(NamedTuple):
    pattern: re.Pattern[bytes]
    replacement: Callable[[re.Match[bytes]], bytes]

    def applied(self, text: bytes) -> bytes:
        return self.pattern.sub(self.replacement, text)

    def carried_back(self, text: bytes, found: Iterable[Found]) -> list[Found]:
        """Findings in what came out, as findings in the text that went in."""
        edits = list(self._edits(text))
        starts = [edit.made_start for edit in edits]
        return [
            item._replace(start=_before(item.start, edits, starts).start, end=_before(item.end - 1, edits, starts).end)
            for item in found
        ]

    def _edits(self, text: bytes) -> Iterator[_Edit]:
        shift = 0
        for match in self.pattern.finditer(text):
            size = len(self.replacement(match))
            start = match.start() + shift
            yield _Edit(match.start(), match.end(), start, start + size)
            shift += size - len(match[0])


class _Edit(NamedTuple):
    start: int
    end: int
    made_start: int
    made_end: int


class _Origin(NamedTuple):
    start: int
    end: int


def _before(place: int, edits: list[_Edit], starts: list[int]) -> _Origin:
    """Where the byte at a place came from."""
    number = bisect_right(starts, place) - 1
    if number < 0:
        return _Origin(place, place + 1)
    edit = edits[number]
    if place < edit.made_end:
        return _Origin(edit.start, edit.end)
    origin = edit.end + place - edit.made_end
    return _Origin(origin, origin + 1)


def _sign(match: re.Match[bytes]) -> bytes:
    escape = match[0]
    return _SIGNS.get(escape) or chr(int(escape[2:], 16)).encode("utf-8", "surrogatepass")


def _line_end(match: re.Match[bytes]) -> bytes:
    return b"\n"


_ONE_DEPTH = (Substitution(_PLAIN_LINES, _line_end), Substitution(_ESCAPE, _sign))


class Depth(NamedTuple):
    text: bytes
    """Without the escapes of the depth above."""
    steps: tuple[tuple[Substitution, bytes], ...]
    """What was done to reach it, each with the text it was done to."""

    def carried_back(self, found: Iterable[Found]) -> list[Found]:
        spans = list(found)
        for substitution, text in reversed(self.steps):
            spans = substitution.carried_back(text, spans)
        return spans


def depths(data: bytes) -> Iterator[Depth]:
    """The texts under the escapes of a text, from the outside in. None for a text without an escape."""
    text: bytes = data
    steps: tuple[tuple[Substitution, bytes], ...] = ()
    for _ in range(MAX_DEPTH):
        if b"\\" not in text:
            return
        for substitution in _ONE_DEPTH:
            steps = (*steps, (substitution, text))
            text = substitution.applied(text)
        if len(text) == len(steps[-1][1]):
            return
        yield Depth(text, steps)


def without_escapes(value: bytes) -> bytes:
    """A secret as it is, however it was written."""
    for _ in range(MAX_DEPTH):
        if b"\\" not in value:
            break
        value = _ESCAPE.sub(_sign, value)
    return value
