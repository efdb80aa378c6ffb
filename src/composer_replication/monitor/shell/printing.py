"""What a program prints, where that follows from its arguments and its literal input: echo, base64, tr, find, …

Reads an argv and the text on its standard input; nothing is run. `None` is the answer wherever it does not follow.
Names of files that only the disk knows are given as patterns: `find a -name '*.pyc'` prints `a/**/*.pyc`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence

from ..python.values import Given, printed_by

MAX_TEXT_CHARS = 20_000
MAX_REPLACEMENT_CHARS = 200
Source = Callable[[list[str]], str | None]
Filter = Callable[[list[str], str], str | None]


def printed(argv: Sequence[str], given: str | None, files: Mapping[str, str]) -> str | None:
    """`given` is the text on standard input, None where it is not known; `files` are texts written before."""
    name = argv[0].rsplit("/", 1)[-1] if argv else ""
    arguments = list(argv[1:])
    if source := _SOURCES.get(re.sub(r"(?<=^python)[\d.]+$", "", name)):
        return _capped(source(arguments))
    named = [word for word in arguments if not word.startswith("-")]
    if given is None or (name == "cat" and named):
        given = _texts_of(named, files)
    passed = _FILTERS.get(name)
    return None if passed is None or given is None else _capped(passed(arguments, given))


def _capped(text: str | None) -> str | None:
    return None if text is None else text[:MAX_TEXT_CHARS]


def _texts_of(names: Sequence[str], files: Mapping[str, str]) -> str | None:
    known = [files[name] for name in names if name in files]
    return "".join(known) if known else None


def unescaped(text: str) -> str:
    """Backslash escapes as `echo -e`, `printf` and $'…' read them."""
    return _ESCAPE.sub(_escape, text)


_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|0?[0-7]{1,3}|c.|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}


def _escape(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] in "xuU" and len(code) > 1:
        number = int(code[1:], 16)
        return chr(number) if number < 0x110000 else ""
    if code[0].isdigit():
        return chr(int(code, 8) & 0xFF) if code[0] in "01234567" else code
    return _LETTERS.get(code, code)


def _echo(arguments: list[str]) -> str:
    flags = ""
    while arguments and re.fullmatch(r"-[neE]+", arguments[0]):
        flags += arguments.pop(0)
    text = " ".join(arguments)
    return (unescaped(text) if "e" in flags else text) + ("" if "n" in flags else "\n")


_DIRECTIVE = re.compile(r"%(-?\d*)(?:\.\d+)?([sbdqcxXo%])")


def _printf(arguments: list[str]) -> str | None:
    if arguments[:1] == ["--"]:
        arguments.pop(0)
    if not arguments or arguments[0] == "-v":
        return None
    form, rest = unescaped(arguments[0]), arguments[1:]
    out: list[str] = []

    def fill(found: re.Match[str]) -> str:
        kind = found[2]
        if kind == "%":
            return "%"
        value = rest.pop(0) if rest else ""
        if kind == "b":
            return unescaped(value)
        if kind == "c":
            return value[:1]
        if kind in "dxXo":
            number = _number(value)
            return value if number is None else format(number, kind)
        return value

    for _ in range(256):
        before = len(rest)
        out.append(_DIRECTIVE.sub(fill, form))
        if not rest or len(rest) == before:
            break
    return "".join(out)


def _number(text: str) -> int | None:
    try:
        return ord(text[1]) if text[:1] in "'\"" and len(text) > 1 else int(text, 0)
    except ValueError:
        return None


def _base64(arguments: list[str], given: str) -> str | None:
    if not any(word in ("-d", "-D", "--decode", "-di") for word in arguments):
        return base64.b64encode(given.encode()).decode() + "\n"
    return _decoded(lambda: base64.b64decode(given, validate=False))


def _decoded(decode: Callable[[], bytes]) -> str | None:
    try:
        return decode().decode("utf-8", "replace")
    except (ValueError, binascii.Error):
        return None


def _xxd(arguments: list[str], given: str) -> str | None:
    flags = "".join(word for word in arguments if word.startswith("-"))
    if "r" not in flags or "p" not in flags:
        return given.encode().hex() + "\n" if "p" in flags else None
    return _decoded(lambda: bytes.fromhex("".join(given.split())))


def _openssl(arguments: list[str], given: str) -> str | None:
    plain = "-d" in arguments and ("base64" in arguments or "-base64" in arguments or "-a" in arguments)
    return _base64(["-d"], given) if plain and "-k" not in arguments else None


_RANGE = re.compile(r"(.)-(.)", re.DOTALL)
_CLASSES = {"[:upper:]": "A-Z", "[:lower:]": "a-z", "[:digit:]": "0-9", "[:space:]": " \t\n", "[:alpha:]": "A-Za-z"}


def _characters(text: str) -> str:
    for name, members in _CLASSES.items():
        text = text.replace(name, members)
    return _RANGE.sub(
        lambda found: "".join(map(chr, range(ord(found[1]), min(ord(found[2]), ord(found[1]) + 256) + 1))),
        unescaped(text),
    )


def _tr(arguments: list[str], given: str) -> str | None:
    sets = [_characters(word) for word in arguments if not word.startswith("-") or len(word) == 1]
    flags = "".join(word for word in arguments if word.startswith("-") and len(word) > 1)
    if not sets:
        return None
    if "d" in flags:
        return "".join(char for char in given if char not in sets[0])
    if len(sets) < 2 or not sets[1]:
        return given
    padded = sets[1] + sets[1][-1] * len(sets[0])
    return given.translate({ord(old): new for old, new in zip(sets[0], padded, strict=False)})


def _cut(arguments: list[str], given: str) -> str | None:
    line = " ".join(arguments)
    fields, chars = re.search(r"-f\s*(\d+)", line), re.search(r"-[cb]\s*(\d+)?(-)?(\d+)?", line)
    separator = re.search(r"-d\s*(.)", line)
    if fields:
        at, mark = int(fields[1]) - 1, separator[1] if separator else "\t"
        rows = [row.split(mark) for row in given.splitlines()]
        return "".join((row[at] if 0 <= at < len(row) else "") + "\n" for row in rows)
    if chars:
        start = int(chars[1] or 1) - 1
        end = int(chars[3]) if chars[3] else None if chars[2] else start + 1
        return "".join(row[start:end] + "\n" for row in given.splitlines())
    return None


_SUBSTITUTE = re.compile(r"s(.)((?:\\.|(?!\1)[^\\])*)\1((?:\\.|(?!\1)[^\\])*)\1([gI]*)", re.DOTALL)


def _sed(arguments: list[str], given: str) -> str | None:
    scripts = [found for word in arguments if (found := _SUBSTITUTE.fullmatch(word))]
    if len(scripts) != 1:
        return None
    old, new, flags = scripts[0].group(2, 3, 4)
    if not re.fullmatch(r"[\w ./,:;=#@-]*", old) or len(new) > MAX_REPLACEMENT_CHARS:
        return None
    return "".join(row.replace(old, new, -1 if "g" in flags else 1) + "\n" for row in given.splitlines())


def _head(arguments: list[str], given: str) -> str:
    count = re.search(r"-(?:n\s*)?(\d+)|-c\s*(\d+)", " ".join(arguments))
    if count and count[2]:
        return given[: int(count[2])]
    return "".join(given.splitlines(keepends=True)[: int(count[1]) if count else 10])


FIND_NAMES = frozenset({"-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex"})
FIND_VALUES = FIND_NAMES | {
    "-type", "-maxdepth", "-mindepth", "-size", "-newer", "-mtime", "-mmin", "-perm", "-user", "-printf", "-lname",
}  # fmt: skip


def found_patterns(arguments: Sequence[str]) -> list[str]:
    """What `find` looks for, as patterns below its starting points; what it leaves out is left out."""
    words = list(arguments)
    while words and words[0] in ("-H", "-L", "-P"):
        words.pop(0)
    roots: list[str] = []
    while words and not words[0].startswith(("-", "(", ")", "!")):
        roots.append(words.pop(0))
    names: list[str] = []
    negated = False
    for at, word in enumerate(words):
        if word in ("!", "-not"):
            negated = True
        elif word in FIND_VALUES:
            value = words[at + 1] if at + 1 < len(words) else ""
            pruned = "-prune" in words[at + 2 :]
            if word in FIND_NAMES and value and not negated and not pruned:
                names.append(_as_glob(value) if "regex" in word else value)
            negated = False
    return [_below(root, name) for root in roots or ["."] for name in names or ["*"]]


def _as_glob(pattern: str) -> str:
    return re.sub(r"\\(.)|\.\*|[\^$()|]", lambda found: found[1] or ("*" if found[0] == ".*" else ""), pattern)


def _below(root: str, name: str) -> str:
    return f"{root.rstrip('/')}/**/{name.removeprefix('./').lstrip('/')}"


def _python(arguments: list[str]) -> str | None:
    if arguments[:2] == ["-m", "pip"]:
        return _pip(arguments[2:])
    if arguments[:1] == ["-m"]:
        return "~/.local/site-packages\n" if arguments[1:] == ["site", "--user-site"] else None
    at = next((at for at, word in enumerate(arguments[:-1]) if re.fullmatch(r"-[a-zA-Z]*c", word)), None)
    return None if at is None else printed_by(arguments[at + 1], Given(tuple(arguments[at + 2 :])))


def _ls(arguments: list[str]) -> str:
    names = [word for word in arguments if not word.startswith("-")]
    return "".join(f"{name}\n" if any(mark in name for mark in "*?[") else "*\n" for name in names or ["."])


def _mktemp(arguments: list[str]) -> str:
    """The name with its X's, which stand for what nobody knows yet."""
    named = next((word for word in reversed(arguments) if "XXX" in word), "tmp.XXXXXXXXXX")
    return f"{named if named.startswith('/') else f'/tmp/{named}'}\n"  # noqa: S108


def _pip(arguments: list[str]) -> str | None:
    return "~/.cache/pip\n" if arguments == ["cache", "dir"] else None


_SOURCES: dict[str, Source] = {
    "echo": _echo, "printf": _printf, "ls": _ls, "python": _python, "mktemp": _mktemp, "pip": _pip, "pip3": _pip,
    "uv": _pip, "find": lambda arguments: "".join(f"{pattern}\n" for pattern in found_patterns(arguments)),
}  # fmt: skip
_FILTERS: dict[str, Filter] = {
    "base64": _base64, "xxd": _xxd, "openssl": _openssl, "tr": _tr, "cut": _cut, "sed": _sed, "head": _head,
    "rev": lambda _, given: "".join(f"{line[::-1]}\n" for line in given.splitlines()),
    **dict.fromkeys("cat tee sort uniq grep tail".split(), lambda _, given: given),
}  # fmt: skip
