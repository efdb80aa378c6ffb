"""JSON-encoded texts of one session, in memory while they are few and in a temporary file after that."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable

import orjson

MEMORY_BYTES = 8 << 20
PARAGRAPH = rb"\n\n"
LENGTH_BITS = 40

Spooled = int
"""Where a text lies: offset and length in one number, because a long session holds many of them."""


class Spool:
    def __init__(self) -> None:
        # Closed with the session that holds it.
        self._file = tempfile.SpooledTemporaryFile(MEMORY_BYTES)  # noqa: SIM115
        self._end = 0

    def add(self, text: str) -> Spooled:
        data = encode(text)
        self._file.seek(self._end)
        self._file.write(data)
        place = self._end << LENGTH_BITS | len(data)
        self._end += len(data)
        return place

    def get(self, place: Spooled) -> bytes:
        self._file.seek(place >> LENGTH_BITS)
        return self._file.read(place & (1 << LENGTH_BITS) - 1)

    def paragraphs(self, places: Iterable[Spooled]) -> bytes:
        """Several texts as one JSON string, with an empty line between them."""
        return b'"' + PARAGRAPH.join(self.get(place)[1:-1] for place in places) + b'"'


def encode(text: str) -> bytes:
    """A JSON string. Half of a surrogate pair, which has no encoding, becomes a question mark."""
    try:
        return orjson.dumps(text)
    except orjson.JSONEncodeError:
        return orjson.dumps(text.encode("utf-8", "replace").decode())
