"""Operations of Python on constants: put together, counted, decoded. Runs nothing but what is written here.

A value that is not known is `UNKNOWN`; as part of a text it is `*`. Results are cut at `MAX_CHARS`.
"""

from __future__ import annotations

import ast
import base64
import binascii
import codecs
import operator
import re
import urllib.parse
import zlib
from collections.abc import Callable, Sequence
from typing import Any, cast

MAX_CHARS = 20_000
MAX_REPLACEMENT_CHARS = 200
MAX_SHIFT = 80
WIDE = re.compile(r"[%{:][^a-zA-Z]*\d{4}|\*")
"""A format whose width could fill the memory."""


class Unknown:
    def __repr__(self) -> str:
        return "*"


UNKNOWN = Unknown()


def as_text(value: Any) -> str:
    if isinstance(value, str):
        return value[:MAX_CHARS]
    if isinstance(value, bytes | bytearray):
        return bytes(value[:MAX_CHARS]).decode("utf-8", "replace")
    if isinstance(value, int | float) or value is None:
        return str(value) if not isinstance(value, int) or value.bit_length() < 4_000 else "*"
    return "*"


def operated(how: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(how, ast.Add):
        if isinstance(left, str | bytes) or isinstance(right, str | bytes):
            if isinstance(left, bytes) and isinstance(right, bytes):
                return (left + right)[:MAX_CHARS]
            return (as_text(left) + as_text(right))[:MAX_CHARS]
        if isinstance(left, tuple) and isinstance(right, tuple):
            return (*cast(tuple[Any, ...], left)[:500], *cast(tuple[Any, ...], right)[:500])
        return left + right if small(left, right) else UNKNOWN
    if isinstance(how, ast.Div) and (isinstance(left, str) or isinstance(right, str)):
        return f"{as_text(left).rstrip('/')}/{as_text(right)}"
    if isinstance(how, ast.Mod) and isinstance(left, str):
        if WIDE.search(left):
            return UNKNOWN
        given = cast(tuple[Any, ...], right) if isinstance(right, tuple) else (right,)
        return left % tuple(value if isinstance(value, int | float) else as_text(value) for value in given)
    if isinstance(how, ast.Mult) and isinstance(left, str | tuple) and isinstance(right, int):
        return left[:MAX_CHARS] * min(max(right, 0), MAX_CHARS // max(1, len(cast(Sequence[Any], left))))
    if isinstance(how, ast.LShift):
        return left << right if small(left) and 0 <= right < MAX_SHIFT else UNKNOWN
    if isinstance(how, ast.Pow):
        return left**right if isinstance(left, int) and abs(left) <= MAX_SHIFT and 0 <= right < MAX_SHIFT else UNKNOWN
    if not small(left, right):
        return UNKNOWN
    compute = _ARITHMETIC.get(type(how))
    return compute(cast(int, left), cast(int, right)) if compute else UNKNOWN


_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Sub: operator.sub, ast.Mult: operator.mul, ast.BitXor: operator.xor, ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
}  # fmt: skip


def method_of_text(method: str, owner: Any, given: Sequence[Any]) -> Any:
    """What a method of a text or of bytes gives; of an unknown owner only what is joined is told."""
    if method == "join" and given:
        items: Any = given[0]
        joined = [as_text(item) for item in items] if isinstance(items, tuple | list | str) else ["*"]
        return as_text(owner).join(joined)[:MAX_CHARS]
    if not isinstance(owner, str | bytes):
        return UNKNOWN
    if method == "decode" and isinstance(owner, bytes):
        return owner.decode("utf-8", "replace")
    if method == "encode" and isinstance(owner, str):
        return owner.encode("utf-8", "replace")
    if method == "format" and isinstance(owner, str):
        return UNKNOWN if WIDE.search(owner) else owner.format(*map(as_text, given))[:MAX_CHARS]
    if method in SAFE_METHODS:
        return getattr(owner, method)(*given) if all(map(_short, given)) else UNKNOWN
    if method in ("split", "splitlines", "rsplit", "partition", "rpartition") and isinstance(owner, str):
        return tuple(getattr(owner, method)(*given)[:500])
    if method == "translate" and isinstance(owner, str) and given and _short_dict(given[0]):
        return owner.translate(cast(dict[int, Any], given[0]))
    return UNKNOWN


SAFE_METHODS = frozenset(
    "replace upper lower casefold strip lstrip rstrip title swapcase capitalize removeprefix removesuffix zfill"
    " hex".split()
)


def _short(value: Any) -> bool:
    """So short that a text in which it is put many times still fits into memory."""
    if isinstance(value, int):
        return abs(value) <= MAX_REPLACEMENT_CHARS
    return isinstance(value, str | bytes) and len(value) <= MAX_REPLACEMENT_CHARS


def _short_dict(value: Any) -> bool:
    return isinstance(value, dict) and all(
        _short(each) or each is None for each in cast(dict[Any, Any], value).values()
    )


def summed(start: Any, turns: Sequence[Any]) -> Any:
    for turn in turns:
        start = operated(ast.Add(), start, turn)
    return start


def small(*numbers: Any) -> bool:
    return all(isinstance(number, int | float) and abs(number) < 1 << 500 for number in numbers)


def _bytes_like(value: Any) -> bytes:
    return value if isinstance(value, bytes) else as_text(value).encode("latin-1", "replace")


def _coded(value: Any, codec: Any = "utf-8", *_: Any) -> Any:
    name = as_text(codec).lower().replace("-", "").replace("_", "")
    if name in ("rot13", "rot13codec"):
        return codecs.decode(as_text(value), "rot13")
    if name in ("hex", "hexcodec"):
        return bytes.fromhex(as_text(value))
    if name in ("base64", "base64codec"):
        return base64.b64decode(_bytes_like(value))
    return as_text(value)


def _bytes_of(value: Any = b"", *_: Any) -> Any:
    if isinstance(value, tuple | list):
        return bytes(cast(Sequence[int], value)[:MAX_CHARS])
    return _bytes_like(value) if isinstance(value, str | bytes) else UNKNOWN


def _inflated(value: Any, *_: Any) -> Any:
    return zlib.decompressobj(wbits=47).decompress(value, MAX_CHARS) if isinstance(value, bytes) else UNKNOWN


def _based(decode: Callable[[bytes], bytes]) -> Callable[..., Any]:
    def decoded(value: Any, *_: Any) -> Any:
        if isinstance(value, Unknown):
            return UNKNOWN
        try:
            return decode(_bytes_like(value))
        except (ValueError, binascii.Error):
            return UNKNOWN

    return decoded


JOINS_PATHS = frozenset("os.path.join posixpath.join pathlib.Path pathlib.PurePath pathlib.PosixPath".split())


def joined_path(*parts: Any) -> str:
    return "/".join(map(as_text, parts)) or "."


CALLS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(JOINS_PATHS, joined_path),
    "str": as_text,
    "list": tuple,
    "tuple": tuple,
    "hex": hex,
    "reversed": lambda items: tuple(reversed(items)),
    "urllib.parse.unquote": urllib.parse.unquote,
    "chr": lambda value: chr(value) if isinstance(value, int) else UNKNOWN,
    "ord": lambda value: ord(value),
    "int": lambda value, base=10: (
        int(value, base) if isinstance(value, str) else value if isinstance(value, int) else UNKNOWN
    ),
    "bytes": _bytes_of,
    "bytearray": _bytes_of,
    "range": lambda *bounds: tuple(range(*bounds)[:500]) if small(*bounds) else UNKNOWN,
    "len": lambda value: UNKNOWN,
    "str.maketrans": lambda *given: str.maketrans(*given),
    **dict.fromkeys(
        ("bytes.fromhex", "bytearray.fromhex", "binascii.unhexlify", "binascii.a2b_hex"),
        lambda value: bytes.fromhex(as_text(value)),
    ),
    **dict.fromkeys(
        ("base64.b64decode", "base64.standard_b64decode", "base64.decodebytes", "binascii.a2b_base64"),
        _based(base64.b64decode),
    ),
    "base64.urlsafe_b64decode": _based(base64.urlsafe_b64decode),
    "base64.b32decode": _based(base64.b32decode),
    "base64.b16decode": _based(lambda value: base64.b16decode(value, casefold=True)),
    "base64.b85decode": _based(base64.b85decode),
    "base64.a85decode": _based(base64.a85decode),
    "codecs.decode": _coded,
    "codecs.encode": _coded,
    "zlib.decompress": _inflated,
    "gzip.decompress": _inflated,
}
