"""The second gate: a request is scanned once more before it leaves. Traces are redacted when they are read; this finds
what came in another way, a config or a prompt, and whatever was ingested with `--allow-unredacted`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

from composer_replication.records import JsonObject

MESSAGES_REMEMBERED = 1 << 14


def secret_in(request: JsonObject) -> str | None:
    """The kind of the first secret in any string of the request, or None."""
    return next((kind for text in _strings(request) if (kind := _kind_of_secret(text))), None)


@lru_cache(MESSAGES_REMEMBERED)
def _kind_of_secret(text: str) -> str | None:
    """Requests of one trace share their beginning, so each message is scanned once."""
    from composer_replication.redaction import find_secrets

    found = find_secrets(text)
    return found[0].kind if found else None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in cast(JsonObject, value).items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in cast(list[Any], value):
            yield from _strings(item)
