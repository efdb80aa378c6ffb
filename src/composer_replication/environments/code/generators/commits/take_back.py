"""Take a change back from a text that has changed since: what the change wrote must still stand there as it was.

Less strict than a merge: a change next to it does not matter. Reads texts, asks `git diff` where they differ.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HEADER = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)
SAYS_NOTHING = re.compile(r"\s*(#.*|__version__\s*=.*|version\s*=.*)?\s*")
"""Lines that may stay when they were changed again: blank ones, comments and version numbers."""


@dataclass(frozen=True)
class LineSplice:
    """Lines of a text, from 0 and without the end, and what takes their place."""

    start: int
    end: int
    lines: tuple[str, ...]


def lines_of(text: str) -> list[str]:
    """As git counts them: only at line feeds."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def splices(old: str, new: str) -> list[LineSplice]:
    """From `old` to `new`."""
    if old == new:
        return []
    git = shutil.which("git") or "git"
    with tempfile.TemporaryDirectory(prefix="recompose-") as scratch:
        files = [Path(scratch) / name for name in ("old", "new")]
        for file, text in zip(files, (old, new), strict=True):
            file.write_bytes(text.encode())
        options = ("--no-index", "--no-ext-diff", "--no-textconv", "--text", "--unified=0", "--histogram")
        told = subprocess.run(  # noqa: S603
            [git, "diff", *options, "--", *map(str, files)], capture_output=True, check=False
        )
    lines = lines_of(new)
    found: list[LineSplice] = []
    for header in HEADER.finditer(told.stdout.decode("utf-8", "replace")):
        start, count, begin, length = (1 if part is None else int(part) for part in header.groups())
        first = start - 1 if count else start
        from_line = begin - 1 if length else begin
        found.append(LineSplice(first, first + count, tuple(lines[from_line : from_line + length])))
    return found


def taken_back(current: str, after: str, before: str) -> list[LineSplice] | None:
    """What undoes the change from `before` to `after` in `current`; None where it was changed again."""
    place = _places(after, current)
    written, length = lines_of(after), len(lines_of(current))
    found: list[LineSplice] = []
    for splice in splices(after, before):
        moved = _moved(splice, place, len(written), length)
        if moved is not None:
            found.append(moved)
        elif not all(map(SAYS_NOTHING.fullmatch, (*written[splice.start : splice.end], *splice.lines))):
            return None
    return found


def apply(text: str, changes: Sequence[LineSplice]) -> str:
    lines = lines_of(text)
    for splice in sorted(changes, key=lambda each: each.start, reverse=True):
        lines[splice.start : splice.end] = splice.lines
    return "".join(lines)


def _places(old: str, new: str) -> dict[int, int]:
    """Line of `old` -> line of `new`, for the lines that stayed."""
    place: dict[int, int] = {}
    line = shift = 0
    total = len(lines_of(old))
    for splice in splices(old, new):
        place |= {number: number + shift for number in range(line, splice.start)}
        line, shift = splice.end, shift + len(splice.lines) - (splice.end - splice.start)
    return place | {number: number + shift for number in range(line, total)}


def _moved(splice: LineSplice, place: dict[int, int], old_length: int, new_length: int) -> LineSplice | None:
    """The splice where its lines stand now. One that only inserts needs its two neighbours next to each other."""
    if splice.start < splice.end:
        stands = [place.get(line) for line in range(splice.start, splice.end)]
        first = stands[0]
        if first is None or stands != list(range(first, first + len(stands))):
            return None
        return LineSplice(first, first + len(stands), splice.lines)
    above = -1 if splice.start == 0 else place.get(splice.start - 1)
    below = new_length if splice.start == old_length else place.get(splice.start)
    if above is None or below is None or below != above + 1:
        return None
    return LineSplice(below, below, splice.lines)
