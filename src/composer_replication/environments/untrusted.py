"""JSON and text that untrusted code or a model wrote, read so that nothing later stumbles over them.

One reader for every pipe, file and wire: what it lets through can be written to a record, parsed again and walked by
recursion. Reads and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import orjson

DEEPEST = 64


def read_json(text: bytes | str) -> Any:
    """Finite numbers, whole characters, at most `DEEPEST` levels; for everything else a ValueError whose text begins
    with `no JSON`. A number beyond 64 bits is a float, so that none is printed at length.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        half = ": no UTF-8, or half a surrogate pair" if "surrogate" in str(error) else ""
        raise ValueError(f"no JSON{half}") from error
    level, depth = [value], 0
    while level := [child for each in level for child in _children(each)]:
        depth += 1
        if depth > DEEPEST:
            raise ValueError(f"no JSON: nested deeper than {DEEPEST} levels")
    return value


def encodable(text: str) -> str:
    """With a question mark for each half of a surrogate pair: JSON and file names have them, no file or tokenizer
    takes them."""
    return text.encode("utf-8", "replace").decode()


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()
