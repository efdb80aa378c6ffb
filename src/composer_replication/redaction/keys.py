"""Private keys, whole and in part: as `cat`, `head`, `tail`, `sed`, `grep -r` and line-numbered reads print them.

Whatever stands before the first line of a key on its line (a number, the name of a file, a mark of a diff) may stand
before all of its lines. Without a first or last line a key is known by two lines of 64 or 70 characters of base64 that
do not belong to something public, or by how its first line begins.

Not caught: one line from the middle of a key, and lines of another width without the first and the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from .credentials import shaped
from .engine import LinearPattern
from .runs import KEY_LINE_CHARS
from .spans import Found, Rank
from .values import entropy_bits

KIND = "private-key"
MAX_PREFIX_BYTES = 200
MAX_BLOCK_BYTES = 1 << 16
MAX_ROW_BYTES = 400
MIN_ENTROPY_BITS = 4.5

_SEPARATOR = rb"""(?:[\s"'`+>|,;#*()\-]|\\{1,4}[nrt"']|\d{1,6}(?:\xe2\x86\x92|\t|:|\|))"""
_BASE64 = rb"[A-Za-z0-9+/=]"
_END = rb"-{5}END[ A-Z0-9_-]{0,60}-{5}"
_BEGIN_LINE = re.compile(rb"-{5}BEGIN[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-{5}")
_END_LINE = re.compile(rb"-{5}END[ A-Z0-9_-]{0,60}PRIVATE KEY(?: BLOCK)?-{5}")
_HEADER = rb"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset)[^\r\n\\]{0,120}"
_WHOLE = re.compile(
    _BEGIN_LINE.pattern
    + rb"(?:" + _SEPARATOR + rb"{0,60}+(?:" + _HEADER + rb"|" + _BASE64 + rb"{16,}+)){1,20000}+"
    rb"(?:" + _SEPARATOR + rb"{1,60}" + _BASE64 + rb"{1,76}+(?![ \w]))?"
    rb"(?:" + _SEPARATOR + rb"{0,60}" + _END + rb")?"
)  # fmt: skip
_PUTTY = re.compile(rb"Private-Lines: \d{1,4}((?:(?:\r?\n|\\r|\\n){1,4}[A-Za-z0-9+/=]{16,80}){1,400})")
# How the bytes of PKCS 1, PKCS 8, EC and Ed25519 keys and of OpenSSH's own format begin, in base64.
_FIRST_LINE = re.compile(
    rb"(?:MII[A-P][\w+/]{2}IBAAKC|MII[A-P][\w+/]{2}IBADAN|MI[GH][\w+/]AgE[AB][\w+/]|MHcCAQEE|MC4CAQAwBQYDK2V|b3BlbnNzaC1rZXktdjEA)"
    rb"[A-Za-z0-9+/]{16,}+={0,2}"
)
_WIDE_LINE = LinearPattern(
    rf"(?m)(?:^\+?|[^A-Za-z0-9+/=]|\x1b\[[0-9;]{{0,8}}m)([A-Za-z0-9+/]{{{KEY_LINE_CHARS}}}(?:[A-Za-z0-9+/]{{6}})?)(?:[^A-Za-z0-9+/=?]|$)"
)
_LAST_LINE = re.compile(rb"[A-Za-z0-9+/]{1,70}={0,2}(?![\w+/=-])")
_ROW_END = re.compile(rb"([A-Za-z0-9+/]{16,70}={0,2})[\s\"'`,;\x1b]*\Z")
_PREFIX_PART = re.compile(rb"(\d+)|([ \t]+)|([:-])|([^\d \t:-]+)")
_ESCAPED_COLOUR = re.compile(rb".*\x1b\[[0-9;]{0,8}m", re.DOTALL)


def whole_key(data: bytes, start: int) -> Found | None:
    """From its first line on, with or without the last."""
    header = _BEGIN_LINE.match(data, start)
    if header is None:
        return None
    match = _WHOLE.match(data, start)
    end = match.end() if match else 0
    prefix = _prefix(data, start)
    if prefix and (rows := _rows_after(prefix).match(data, header.end())):
        end = max(end, rows.end())
    return Found(KIND, start, end, Rank.VENDOR) if end else None


def end_of_key(data: bytes, start: int) -> Found | None:
    """The lines before the last line of a key."""
    footer = _END_LINE.match(data, start)
    if footer is None:
        return None
    row_pattern = _row(_prefix(data, start))
    low = max(0, start - MAX_BLOCK_BYTES)
    begin = line_start = start
    while (line_end := data.rfind(b"\n", max(low, line_start - MAX_ROW_BYTES), line_start)) >= 0:
        line_start = max(low, line_end - MAX_ROW_BYTES, data.rfind(b"\n", low, line_end) + 1)
        line = data[line_start:line_end].rstrip(b"\r")
        row = row_pattern.fullmatch(line) or _ROW_END.search(line)
        if row is None:
            break
        begin = line_start + row.start(1)
        if row.re is _ROW_END:
            break
    return Found(KIND, begin, footer.end(), Rank.VENDOR) if begin < start else None


def first_line(data: bytes, start: int) -> Found | None:
    match = _FIRST_LINE.match(data, start)
    if match is None or _is_public(data, start):
        return None
    return Found(KIND, *match.span(), Rank.STRUCTURE)


def wide_lines(data: bytes) -> Iterator[Found]:
    """Neighbouring lines of a key of which neither the first nor the last line is there."""
    groups: list[list[tuple[int, int]]] = []
    for spans in _WIDE_LINE.find(data, 0, len(data)):
        start, end = spans[1]
        if not _is_mixed(data[start:end]):
            continue
        if groups and _are_neighbours(data, groups[-1][-1], start):
            groups[-1].append((start, end))
        else:
            groups.append([(start, end)])
    for lines in groups:
        if len(lines) > 1 and not _is_public(data, lines[0][0]):
            yield Found(KIND, lines[0][0], _with_last_line(data, lines[-1]), Rank.STRUCTURE)


def _are_neighbours(data: bytes, last: tuple[int, int], start: int) -> bool:
    between = data[last[1] : start] if start - last[1] <= MAX_PREFIX_BYTES else b""
    return between.count(b"\n") == 1 and len(between) - between.index(b"\n") <= MAX_PREFIX_BYTES


def _is_mixed(run: bytes) -> bool:
    return not (run.isalpha() or run.islower() or run.isupper()) and entropy_bits(run) >= MIN_ENTROPY_BITS


def _with_last_line(data: bytes, line: tuple[int, int]) -> int:
    """The end of the shorter line that may follow, behind what stands before the line above it."""
    line_end = data.find(b"\n", line[1], line[1] + 8)
    if line_end < 0:
        return line[1]
    prefix = _general(_prefix(data, line[0])).match(data, line_end + 1)
    last = _LAST_LINE.match(data, prefix.end()) if prefix else None
    if last is None or not (last[0].endswith(b"=") or (len(last[0]) % 4 == 0 and _is_mixed(last[0] * 2))):
        return line[1]
    return last.end()


def _is_public(data: bytes, start: int) -> bool:
    """Inside a certificate, a public key or a signature."""
    low = max(0, start - MAX_BLOCK_BYTES)
    begin = data.rfind(b"-----BEGIN ", low, start)
    return begin >= 0 and data.find(b"-----END", begin, start) < 0 and not _BEGIN_LINE.match(data, begin)


def _prefix(data: bytes, start: int) -> bytes:
    """What stands before a place on its line, from the last quote or colour on."""
    low = max(0, start - MAX_PREFIX_BYTES)
    line_start = max(low, data.rfind(b"\n", low, start) + 1)
    before = _ESCAPED_COLOUR.sub(b"", data[line_start:start])
    return before[max(before.rfind(quote) for quote in (b'"', b"'", b"`")) + 1 :]


@lru_cache(256)
def _general(prefix: bytes) -> re.Pattern[bytes]:
    """The same before other lines: numbers count on, blanks vary, `grep` writes a dash for a colon."""
    parts = (
        rb"\d{1,9}" if digits else rb"[ \t]*" if blanks else rb"[:-]" if sign else re.escape(other)
        for digits, blanks, sign, other in _PREFIX_PART.findall(prefix)
    )
    return re.compile(b"".join(parts))


@lru_cache(256)
def _rows_after(prefix: bytes) -> re.Pattern[bytes]:
    before = rb"[\"'`,]{0,2}\r?\n" + _general(prefix).pattern
    return re.compile(
        rb"(?:" + before + rb"(?:" + _HEADER + rb"|" + _BASE64 + rb"{16,}+)){1,20000}+"
        rb"(?:" + before + _BASE64 + rb"{1,76}+(?![ \w]))?(?:" + before + _END + rb")?"
    )  # fmt: skip


@lru_cache(256)
def _row(prefix: bytes) -> re.Pattern[bytes]:
    return re.compile(_general(prefix).pattern + rb"([A-Za-z0-9+/]{1,76}={0,2})[\"',]{0,2}")


FINDERS = {
    whole_key: ("-----begin",),
    end_of_key: ("-----end",),
    first_line: (
        "mii",
        "mighagea",
        "migtagea",
        "mig2agea",
        "mihuagea",
        "migkageb",
        "mihcageb",
        "mhccaqee",
        "mc4caqawbqydk2v",
        "b3blbnnzac1rzxktdje",
    ),
    shaped(_PUTTY, KIND, 1, Rank.VENDOR): ("private-lines:",),
}
