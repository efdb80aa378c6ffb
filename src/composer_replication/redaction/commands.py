"""Secrets on command lines: the words of a command are split as a shell would, and a table says which are secret.

Finders are called where the name of a program stands (see `command_table`), or where a command reads a secret that an
`echo` or a here-string feeds it.

Not caught: tools that the table does not know, values of fewer than `MIN_SECRET_CHARS` characters, variables that were
set in another line, words that tutorials use ("changeme").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from .assignments import names_secret
from .command_table import CommandRow, rows
from .command_words import MAX_WORDS, CommandWord, command_words, unquoted
from .credentials import shaped
from .spans import Found, Rank
from .values import is_stand_in

KIND = "command-secret"
MIN_SECRET_CHARS = 4
MAX_FED_CHARS = 600
MAX_COMMAND_BYTES = 1000
CommandFinder = Callable[[bytes, int], "list[Found] | Found | None"]

_REFERENCE = re.compile(
    rb"[$`<{*@-]|%\w+%|(?:file|env|stdin|fd|https?):|[^\x21-\x7e\x80-\xff]|[\d.]{1,5}\Z|\.{1,2}/|~/|/\w+/"
)
_LOWER_WORD = re.compile(rb"[a-z]+[.,:;]?\Z")
"""In prose the word after `cargo login` is one of these."""
_SHORT_FLAGS = re.compile(rb"-[A-Za-z0-9]+\Z")
_WORD = rb"""("(?:[^"\\\n]|\\.)*+"|'[^'\n]*+'|\\{1,7}".{1,200}?\\{1,7}"|[^\s"'`|;&<>()\\]+)"""
_ECHO = re.compile(
    rb"(?:echo|printf)[ \t]+(?:-[neE]+[ \t]+)?(?:[\\]{0,7}['\"]?%s(?:\\{1,8}n)?[\\]{0,7}['\"]?[ \t]+)?"
    + _WORD + rb"[ \t]*\|[ \t]*(?:[^|;&\n]{0,200})\Z"
)  # fmt: skip
_HERE_STRING = re.compile(rb"[^|;&\n]{0,200}?<<<[ \t]*" + _WORD)
_SQL = re.compile(
    rb"(?i)(?:identified(?:[ ]with[ ]\S{1,60})?[ ]by|password)[ ]{1,4}(?:\\{0,7}['\"])([^'\"\\\s]{4,200})\\{0,7}['\"]"
)


def command(row: CommandRow) -> Callable[[bytes, int], list[Found] | None]:
    mentions = _mentions(row)

    def find(data: bytes, start: int) -> list[Found] | None:
        if mentions and not mentions.search(data, start, start + MAX_COMMAND_BYTES):
            return None
        limit = MAX_WORDS
        while True:
            words = command_words(data, start, limit)
            if len(words) < 2 or words[0].text.lower() != row.program:
                return None
            found = [_found(data, place) for place in _secret_words(row, words) if _is_given(data, place)]
            # A command that goes on and has secrets up to here is read further. What was found is not looked at again,
            # so this takes linear time; stopping would leave a secret behind at every cut, for one more pass each.
            if len(words) < limit or not found or found[-1].end <= words[limit // 2].start:
                return found or None
            limit *= 2

    return find


def _mentions(row: CommandRow) -> re.Pattern[bytes] | None:
    """Whether a place of the row is there at all, which is cheaper to tell than the words."""
    if row.plain_words or row.after_names:
        return None
    flags = (rb"[A-Za-z]{0,8}" + re.escape(name[1:]) for name in row.options if len(name) == 2)
    long = (re.escape(name[1:]) for name in row.options if len(name) > 2)
    # One first sign for all options, because a pattern that begins with a plain sign is searched for fast.
    first = next(iter(row.options), b"")[:1]
    options = [first + b"(?:" + b"|".join((*flags, *long)) + b")"] if first else []
    return re.compile(b"|".join((*options, *map(re.escape, row.following))))


def _secret_words(row: CommandRow, words: list[CommandWord]) -> Iterator[CommandWord]:
    plain = [word for word in words[1:] if not word.text.startswith(b"-")]
    if tuple(word.text.lower() for word in plain[: len(row.words)]) != row.words:
        return
    if row.flag and not any(_SHORT_FLAGS.match(word.text) and row.flag in word.text for word in words):
        return
    plain = plain[len(row.words) :]
    for number, sign in row.plain_words.items():
        if len(plain) >= number and not _LOWER_WORD.match(plain[number - 1].text):
            yield from _part(plain[number - 1], sign)
    for word, following in zip(words, [*words[1:], None], strict=True):
        if word.text.startswith((b"-", b"/")):
            yield from _option_value(row, word, following)
        if following and (word.text in row.following or (row.after_names and names_secret(word.text))):
            yield following


def _option_value(row: CommandRow, word: CommandWord, following: CommandWord | None) -> Iterator[CommandWord]:
    for name, sign in row.options.items():
        if word.text == name or _ends_flags(word.text, name):
            if following and name not in row.only_glued:
                yield from _part(following, sign)
        elif name.startswith(b"--") or name in (b"-password", b"-pass"):
            if word.text.startswith(name + b"="):
                yield from _part(_from(word, len(name) + 1), sign)
        elif word.text.startswith(name) and (len(name) == 2 or name in row.only_glued or name[:1] == b"/"):
            yield from _part(_from(word, len(name)), sign)


def _ends_flags(text: bytes, name: bytes) -> bool:
    """`-sSu` ends with the option `-u`."""
    return len(name) == 2 and len(text) > 2 and text.endswith(name[1:]) and text[1:].isalpha() and text[1:2] != name[1:]


def _from(word: CommandWord, size: int) -> CommandWord:
    return CommandWord(word.start + size, word.end, word.text[size:])


def _part(word: CommandWord, sign: bytes) -> Iterator[CommandWord]:
    """The whole word, or what stands after the sign; of `user/secret@host` what stands between."""
    if not sign:
        yield word
    elif sign in word.text:
        rest = _from(word, word.text.index(sign) + 1)
        if sign == b"/" and b"@" in rest.text:
            rest = CommandWord(rest.start, rest.start + rest.text.rindex(b"@"), rest.text[: rest.text.rindex(b"@")])
        yield rest


def _is_given(data: bytes, word: CommandWord) -> bool:
    value = unquoted(data, word.start, word.end).text
    return len(value) >= MIN_SECRET_CHARS and not _REFERENCE.match(value) and not is_stand_in(value)


def _found(data: bytes, word: CommandWord) -> Found:
    start, end, _ = unquoted(data, word.start, word.end)
    return Found(KIND, start, end, Rank.STRUCTURE)


def fed_secret(data: bytes, start: int) -> list[Found] | None:
    """`echo secret | sudo -S`, `sudo -S <<< secret`, `echo user:secret | chpasswd`."""
    low = max(0, start - MAX_FED_CHARS)
    line_start = max(low, data.rfind(b"\n", low, start) + 1)
    echoed = list(re.finditer(rb"echo|printf", data[line_start:start]))
    match = _ECHO.match(data, line_start + echoed[-1].start(), start) if echoed else None
    match = match or _HERE_STRING.match(data, start)
    if match is None:
        return None
    word = unquoted(data, *match.span(1))
    if data[start : start + 8].lower() == b"chpasswd":
        word = next(_part(word, b":"), word)
    return [_found(data, word)] if _is_given(data, word) else None


def _finders() -> dict[CommandFinder, tuple[str, ...]]:
    made: dict[CommandFinder, tuple[str, ...]] = {}
    for row in rows():
        literal = row.literal
        listed = () if row.words else (f'{literal.strip()}"', f"{literal.strip()}'", f"{literal.strip()}\\")
        made[command(row)] = (literal, *listed)
    quoted = shaped(_SQL, KIND, 1, accepts=lambda value: not _REFERENCE.match(value) and not is_stand_in(value))
    made[quoted] = ("identified by", "identified with", "password '", 'password "', "password \\")
    made[fed_secret] = (
        "sudo -s", "chpasswd", "--password-stdin", "passwd --stdin", "--with-token", "--passphrase-fd", "cryptsetup",
    )  # fmt: skip
    return made


FINDERS = _finders()
