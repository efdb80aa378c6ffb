"""The words of a command line that stands anywhere in a text: in prose, in quotes, in a list of words, over lines.

Reads bytes and the place where the name of a program begins. Nothing is expanded: a word keeps its quotes and escapes,
because its place in the text is what counts. Bounded: a command is cut after `limit` words.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .boundaries import LEFT

MAX_WORDS = 60
MAX_LOOK_BACK = 400
_AT_WORD_START = re.compile(rb"(?:" + LEFT + rb")(?<![.$@=])|(?<=[\\/(])")
_QUOTE = re.compile(rb"""\\{0,7}["'`]""")
_STRING_END = re.compile(rb"""\\+[nrtu"'/]""")
_APOSTROPHE = re.compile(rb"(?<=[A-Za-z])'(?=[a-z])")
_GAP = re.compile(rb"(?:[ \t]|\\\r?\n(?:[^\S\n]*\d{1,6}(?:\xe2\x86\x92|[\t:|-]))?[+>-]?)+")
_LIST_GAP = re.compile(rb"""(\\{0,7}["']),\s{0,40}\1""")
_INNER = rb"""[^\s"'`\\;|&<>()$]++|\$(?!\()|\$\([^)\n]{0,200}\)|\\(?!\r?\n)[\s\S]"""
_QUOTED = {b'"': rb'"(?:[^"\\\n]|\\.)*+"', b"'": rb"'[^'\n]*+'", b"`": rb"`[^`\n]*+`"}
_PLACEHOLDER = rb"<[\w:.-]{1,60}>"
_BY_ENCLOSING = {
    enclosing: re.compile(
        rb"(?:"
        + b"|".join((
            _INNER,
            _PLACEHOLDER,
            *(quoted for sign, quoted in _QUOTED.items() if sign != enclosing),
        ))
        + rb")++"
    )
    for enclosing in (b"", b'"', b"'", b"`")
}  # fmt: skip
_REOPENED = {sign: re.compile(rb"(?<=[\s=:])" + quoted) for sign, quoted in _QUOTED.items()}


class CommandWord(NamedTuple):
    """Bytes `start` to `end` of the text, without quotes around the whole of it."""

    start: int
    end: int
    text: bytes


def command_words(data: bytes, start: int, limit: int = MAX_WORDS) -> list[CommandWord]:
    """The program that is named at `start` and the words after it; nothing where it is only a part of a word."""
    if _AT_WORD_START.match(data, start) is None:
        return []
    first = _BY_ENCLOSING[b"'"].match(data, start) if data[start - 1 : start] == b"'" else None
    first = first or _BY_ENCLOSING[b'"'].match(data, start)
    if first is None:
        return []
    if _LIST_GAP.match(data, first.end()) and _QUOTE.match(data, start - 1):
        return _listed(data, first, limit)
    return _written(data, start, limit)


def _listed(data: bytes, first: re.Match[bytes], limit: int) -> list[CommandWord]:
    """`"mysql", "-u", "root"`: each in quotes of its own."""
    words = [CommandWord(first.start(), first.end(), first[0])]
    gap = _LIST_GAP.match(data, first.end())
    while gap and len(words) < limit:
        end = data.find(gap[1], gap.end(), gap.end() + 4096)
        if end < 0:
            break
        words.append(CommandWord(gap.end(), end, data[gap.end() : end]))
        gap = _LIST_GAP.match(data, end)
    return words


def _written(data: bytes, start: int, limit: int) -> list[CommandWord]:
    enclosing = _open_quote(data, start)
    pattern, reopened = _BY_ENCLOSING[enclosing], _REOPENED.get(enclosing)
    words: list[CommandWord] = []
    at = start
    while len(words) < limit:
        match = pattern.match(data, at) or (reopened.match(data, at) if reopened else None)
        if match is None:
            break
        end = match.end()
        # A quote that follows a space or an equals sign opens, also where the whole command stands in such quotes.
        if reopened and (more := reopened.match(data, end)):
            end = more.end()
        words.append(unquoted(data, at, end))
        gap = _GAP.match(data, end)
        if gap is None:
            break
        at = gap.end()
    return words


def unquoted(data: bytes, start: int, end: int) -> CommandWord:
    opening = _QUOTE.match(data, start, end)
    if opening and end - start >= 2 * len(opening[0]) and data[start:end].endswith(opening[0]):
        start, end = opening.end(), end - len(opening[0])
    # A string of JSON that ends here goes on outside; the text under its escapes is looked at on its own.
    ended = _STRING_END.search(data, start + 1, end)
    end = ended.start() if ended else end
    return CommandWord(start, end, data[start:end])


def _open_quote(data: bytes, start: int) -> bytes:
    """The quote that a place stands in, as far as its line tells."""
    low = max(0, start - MAX_LOOK_BACK)
    line_start = max(low, data.rfind(b"\n", low, start) + 1)
    before = _APOSTROPHE.sub(b"", data[line_start:start])
    state = b""
    for match in _QUOTE.finditer(before):
        sign = match[0][-1:]
        if not state:
            state = sign
        elif sign == state:
            state = b""
    return state
