"""Reads every text that a command of a sandbox can read, and keeps what is needed to find a copy of a function in it.

Runs inside a sandbox, sent on the command line; needs the standard library alone. Arguments: the folders and files to
read. Writes one line of JSON ({files, definitions, grams}) and then, `grams` times eight bytes each, fingerprints and
the files that they stand in. Our own side imports the functions that make fingerprints, so that both count alike.

A fingerprint is of ten tokens in a row. Comments and long strings are left out; a name counts as itself where it is
called or is an attribute, and as any name elsewhere, so that a copy with other local names is still one. One
fingerprint in four is kept.
"""

from __future__ import annotations

import io
import json
import keyword
import os
import re
import sys
import zipfile
import zlib
from array import array
from collections.abc import Iterable, Iterator
from functools import cache

LENGTH = 10
KEPT_ONE_IN = 4
LARGEST_BYTES = 4 * 1024 * 1024
LEFT_OUT = ("/proc", "/sys", "/dev", "/tmp", "/home", "/work", "/usr/share/zoneinfo")  # noqa: S108 - no world of tasks
ARCHIVES = (".zip", ".whl", ".egg", ".pyz", ".jar")
TOKEN = re.compile(
    r"#[^\n]*"
    r"|[rbufRBUF]{0,2}(?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?''')"
    r"|[rbufRBUF]{0,2}(?:\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"
    r"|(\.\s*)?([A-Za-z_]\w*)(\s*\()?"
    r"|[0-9]\w*|[^\s\w]"
)
DEFINITION = re.compile(r"^[ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.MULTILINE)
KEYWORDS = frozenset(keyword.kwlist) | {"self", "cls"}
ANY_NAME = 1


def fingerprints(text: str) -> Iterator[int]:
    """Those of them that are kept; the same on every machine and in every process."""
    numbers = list(_token_numbers(text))
    windows = zip(*(numbers[start:] for start in range(LENGTH)), strict=False)
    return (found for found in map(hash, windows) if found % KEPT_ONE_IN == 0)


def _token_numbers(text: str) -> Iterator[int]:
    for match in TOKEN.finditer(text):
        dot, name, call = match.groups()
        if name is not None:
            if dot:
                yield _number(".")
            yield _number(name) if dot or call or name in KEYWORDS else ANY_NAME
            if call:
                yield _number("(")
        elif not (found := match[0]).startswith("#") and not found.endswith(('"""', "'''")):
            yield _number(found.strip("rbufRBUF").strip("\"'") if found[-1] in "\"'" else found)


@cache
def _number(token: str) -> int:
    return zlib.crc32(token.encode("utf-8", "replace"))


def texts(roots: Iterable[str]) -> Iterator[tuple[str, str]]:
    for root in roots:
        for path in [root] if os.path.isfile(root) else _files(root):
            try:
                with open(path, "rb") as file:
                    content = file.read(LARGEST_BYTES)
            except OSError:
                continue
            yield from _texts_of(path, content)


def _files(root: str) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name != "__pycache__" and os.path.join(folder, name) not in LEFT_OUT]
        yield from (os.path.join(folder, name) for name in names)


def _texts_of(path: str, content: bytes) -> Iterator[tuple[str, str]]:
    if path.endswith(ARCHIVES) and zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist():
                if not member.is_dir() and member.file_size <= LARGEST_BYTES:
                    yield from _texts_of(f"{path}/{member.filename}", archive.read(member))
    elif b"\0" not in content[:8192]:
        yield path, content.decode("utf-8", "replace")


def main(roots: list[str]) -> None:
    files: list[str] = []
    definitions: dict[str, list[int]] = {}
    grams: list[tuple[int, int]] = []
    for path, text in texts(roots):
        for name in set(DEFINITION.findall(text)):
            definitions.setdefault(name, []).append(len(files))
        grams += [(found, len(files)) for found in set(fingerprints(text))]
        files.append(path)
    grams.sort()
    out = sys.stdout.buffer
    out.write(json.dumps({"files": files, "definitions": definitions, "grams": len(grams)}).encode() + b"\n")
    out.write(array("q", [found for found, _ in grams]).tobytes())
    out.write(array("q", [place for _, place in grams]).tobytes())


if __name__ == "__main__":
    main(sys.argv[1:])
