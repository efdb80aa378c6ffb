"""Words of a shell command as the shell would hand them on: quotes removed, variables and braces expanded.

Reads nodes of tree-sitter-bash and the variables known so far. What is not literal keeps its text, `$X` or `$(…)`.
Patterns of file names are left as they are; arithmetic is not computed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import NamedTuple

from tree_sitter import Node

from .printing import MAX_REPLACEMENT_CHARS, MAX_TEXT_CHARS, unescaped


def raw(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def flat(node: Node) -> Iterator[Node]:
    """Children, with chains of `&&` and `||` laid flat: the parser nests them as deep as they are long."""
    waiting = list(reversed(node.children))
    while waiting:
        child = waiting.pop()
        if child.type == "list":
            waiting += reversed(child.children)
        else:
            yield child


def descriptor(redirect: Node) -> str:
    """The number before a redirection, as the 3 of `3> file`; empty where none is written."""
    first = redirect.children[0] if redirect.children else None
    return raw(first) if first is not None and first.type == "file_descriptor" else ""


Value = str | tuple[str, ...]
Substitute = Callable[[Node], str | None]
MAX_WORDS = 64
WELL_KNOWN = {
    "XDG_CACHE_HOME": "~/.cache", "XDG_DATA_HOME": "~/.local/share", "PIP_CACHE_DIR": "~/.cache/pip",
    "UV_CACHE_DIR": "~/.cache/uv",
    "HOME": "~", "PWD": ".", "TMPDIR": "/tmp", "IFS": " ", "OLDPWD": ".", "SHELL": "bash", "BASH": "bash",  # noqa: S108
}  # fmt: skip
_SIMPLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_OPEN, _CLOSE, _COMMA = "\x01", "\x02", "\x03"
_BRACED = re.compile(f"{_OPEN}([^{_OPEN}{_CLOSE}]*){_CLOSE}")
_MARKED = str.maketrans("{},", _OPEN + _CLOSE + _COMMA)
_PLAIN = str.maketrans(_OPEN + _CLOSE + _COMMA, "{},")
_EXPANSIONS = frozenset({"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"})
_IN_QUOTES = re.compile(r'\\([\\"$`\n])')
_OUTSIDE = re.compile(r"\\(.)", re.DOTALL)


class Piece(NamedTuple):
    text: str
    splits: bool = False
    """Whether white space in it parts words, as in an unquoted expansion."""
    known: bool = True
    parts: tuple[str, ...] | None = None
    """An array that stays several words even in quotes."""


class Expander:
    def __init__(self, variables: dict[str, Value], substitute: Substitute) -> None:
        """`substitute` gives what a command substitution prints, or None."""
        self.variables, self.substitute = variables, substitute

    def words(self, node: Node) -> list[str]:
        pieces = self._pieces(node)
        if len(pieces) == 1 and pieces[0].parts is not None:
            return list(pieces[0].parts)
        built: list[str | None] = [None]
        for piece in pieces:
            if not piece.splits:
                built[-1] = (built[-1] or "") + piece.text
                continue
            fields = piece.text.split()
            if not fields:
                if piece.text and built[-1] is not None:
                    built.append(None)
                continue
            if piece.text[:1].isspace() and built[-1] is not None:
                built.append(None)
            built[-1] = (built[-1] or "") + fields[0]
            built += fields[1:]
            if piece.text[-1:].isspace():
                built.append(None)
        ready = [word for word in built[:MAX_WORDS] if word is not None]
        return [each for word in ready for each in _braces(word)]

    def text(self, node: Node) -> tuple[str, bool]:
        """One word, as in an assignment or a redirection."""
        pieces = self._pieces(node)
        text = "".join(piece.text for piece in pieces)[:MAX_TEXT_CHARS]
        return text.translate(_PLAIN), all(piece.known for piece in pieces)

    def filled(self, node: Node, skipped_bytes: int = 0) -> tuple[str, bool]:
        """The text of a string or a here-document with its expansions filled in, without the quotes at both ends."""
        source, base = node.text or b"", node.start_byte
        out: list[str] = []
        known, at = True, skipped_bytes
        for child in node.named_children:
            if child.type not in _EXPANSIONS or child.start_byte - base < at:
                continue
            out.append(_IN_QUOTES.sub(_literal, source[at : child.start_byte - base].decode("utf-8", "replace")))
            for piece in self._pieces(child):
                out.append(" ".join(piece.parts) if piece.parts is not None else piece.text)
                known = known and piece.known
            at = child.end_byte - base
        out.append(_IN_QUOTES.sub(_literal, source[at : len(source) - skipped_bytes].decode("utf-8", "replace")))
        return "".join(out)[:MAX_TEXT_CHARS], known

    def _pieces(self, node: Node) -> list[Piece]:
        kind = node.type
        if kind == "word":
            return [Piece(_OUTSIDE.sub(_literal, raw(node).translate(_MARKED)))]
        if kind == "raw_string":
            return [Piece(raw(node)[1:-1])]
        if kind == "ansi_c_string":
            return [Piece(unescaped(raw(node)[2:-1]))]
        if kind == "string":
            return self._quoted(node)
        if kind in ("concatenation", "command_name"):
            return [piece for child in node.children for piece in self._pieces(child)]
        if kind in ("simple_expansion", "expansion"):
            return [self._variable(raw(node))]
        if kind == "command_substitution":
            printed = self.substitute(node)
            return [Piece(raw(node), known=False) if printed is None else Piece(printed.rstrip("\n"), splits=True)]
        if kind == "process_substitution":
            printed = self.substitute(node)
            return [Piece(raw(node) if printed is None else printed)]
        if kind == "translated_string":
            return self._pieces(node.children[-1]) if node.children else []
        return [Piece(raw(node), known=kind not in ("arithmetic_expansion", "ERROR"))]

    def _quoted(self, node: Node) -> list[Piece]:
        inner = [child for child in node.named_children if child.type != "string_content"]
        if len(inner) == 1 and len(raw(node)) == len(raw(inner[0])) + 2:
            only = self._pieces(inner[0])[0]
            return [only._replace(splits=False)]
        text, known = self.filled(node, skipped_bytes=1)
        return [Piece(text, known=known)]

    def _variable(self, written: str) -> Piece:
        name, operation = _name_and_operation(written)
        if name.startswith("!"):
            pointed = self.variables.get(name[1:])
            name = pointed if isinstance(pointed, str) else name
        element = re.fullmatch(r"(\w+)\[(.*)\]", name, re.DOTALL)
        value = self.variables.get(element[1] if element else name)
        if value is None and not element and name in WELL_KNOWN:
            value = WELL_KNOWN[name]
        if value is None:
            found = re.fullmatch(r":?[-=](.*)", operation, re.DOTALL)
            default = self._simply_filled(found[1]) if found else None
            if default is not None:
                return Piece(default.strip("\"'"), splits=True)
            return Piece(written, known=False)
        if isinstance(value, tuple):
            return _element(written, value, element[2] if element else name if name in ("@", "*") else "0")
        default = re.fullmatch(r":?[-=]([^$]+)", operation)
        if default and value.startswith(("$(", "`")):
            return Piece(default[1].strip("\"'"), splits=True)
        changed = operated(value, operation)
        return Piece(written, known=False) if changed is None else Piece(changed, splits=True)

    def _simply_filled(self, text: str) -> str | None:
        """A default such as `$HOME/.cache`; None where a part of it is not known."""
        known = WELL_KNOWN | {name: value for name, value in self.variables.items() if isinstance(value, str)}
        filled = _SIMPLE.sub(lambda found: known.get(found[1] or found[2], found[0]), text)
        return None if "$" in filled else filled


def _element(written: str, value: tuple[str, ...], index: str) -> Piece:
    if index in ("@", "*"):
        return Piece(" ".join(value), splits=True, parts=value)
    if re.fullmatch(r"-?\d{1,4}", index) and -len(value) <= int(index) < len(value):
        return Piece(value[int(index)], splits=True)
    return Piece(written, known=False)


def _name_and_operation(written: str) -> tuple[str, str]:
    if not written.startswith("${"):
        return written[1:], ""
    inner = written[2:-1]
    if re.fullmatch(r"#\w+(\[.*\])?", inner):
        return inner[1:], "length"
    found = re.match(r"!?(\w+(\[[^\]]*\])?|[@*#?$!])", inner)
    return (found[0], inner[found.end() :]) if found else (inner, "")


def operated(value: str, operation: str) -> str | None:
    """`${x:1:2}`, `${x//a/b}`, `${x#a}`, `${x%a}`, `${x^^}`; None where it is another one."""
    if not operation or re.match(r":?[-=?]", operation):
        return value
    if operation == "length":
        return str(len(value))
    if operation.startswith(":+") or operation.startswith("+"):
        return operation.lstrip(":+").strip("\"'")
    if found := re.fullmatch(r":\s*(-?\d+)\s*(?::\s*(-?\d+))?", operation):
        start = int(found[1])
        rest = value[start:] if start >= 0 else value[max(0, len(value) + start) :]
        return rest if found[2] is None else rest[: int(found[2])]
    if found := re.fullmatch(r"/([/#%]?)([^/]+)(?:/(.*))?", operation, re.DOTALL):
        old, new = found[2].strip("\"'"), (found[3] or "").strip("\"'")
        if any(mark in old for mark in "*?[$") or len(new) > MAX_REPLACEMENT_CHARS:
            return None
        return value.replace(old, new) if found[1] == "/" else value.replace(old, new, 1)
    if found := re.fullmatch(r"(##?|%%?)(.+)", operation, re.DOTALL):
        return _trimmed(value, found[1], found[2].strip("\"'"))
    if operation in ("^^", ",,"):
        return value.upper() if operation == "^^" else value.lower()
    return None


def _trimmed(value: str, mark: str, pattern: str) -> str | None:
    if "*" not in pattern and "?" not in pattern:
        return value.removeprefix(pattern) if mark[0] == "#" else value.removesuffix(pattern)
    if mark[0] == "#" and pattern.startswith("*") and (rest := pattern[1:]):
        return value.rpartition(rest)[2] if mark == "##" else value.partition(rest)[2]
    if mark[0] == "%" and pattern.endswith("*") and (rest := pattern[:-1]):
        return value.partition(rest)[0] if mark == "%%" else value.rpartition(rest)[0]
    return None


def _braces(word: str) -> list[str]:
    if _OPEN not in word:
        return [word.translate(_PLAIN)]
    found = _BRACED.search(word)
    choices: list[list[str]] = []
    at = 0
    while found and len(choices) < 12:
        options = _options(found[1])
        choices += [[word[at : found.start()]], options or [f"{{{found[1].translate(_PLAIN)}}}"]]
        at = found.end()
        found = _BRACED.search(word, at)
    choices.append([word[at:]])
    return ["".join(parts).translate(_PLAIN) for parts in islice(product(*choices), MAX_WORDS)]


def _options(inner: str) -> list[str]:
    if _COMMA in inner:
        return inner.split(_COMMA)
    found = re.fullmatch(r"(-?\d{1,4})\.\.(-?\d{1,4})", inner)
    if found:
        start, end = int(found[1]), int(found[2])
        step = 1 if end >= start else -1
        return [str(number) for number in range(start, end + step, step)][:MAX_WORDS]
    found = re.fullmatch(r"([a-zA-Z])\.\.([a-zA-Z])", inner)
    return [chr(code) for code in range(ord(found[1]), ord(found[2]) + 1)] if found else []


def _literal(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1].translate(_PLAIN)
