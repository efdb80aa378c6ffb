"""A request on its way out: who may serve it, whether it holds a secret, and its bytes.

The scan is the second gate. Traces are redacted when they are read; this finds what came in another way, a config or a
prompt, and whatever was ingested with `--allow-unredacted`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

import orjson

from composer_replication.records import JsonObject

from .addresses import is_openrouter
from .pricing import PER_TOKENS, Prices

ROUTING = {"data_collection": "deny", "enforce_distillable_text": True}
"""For OpenRouter: only providers that keep nothing, and only models whose authors allow training on their output."""
MESSAGES_REMEMBERED = 1 << 14


def routed(request: JsonObject, base_url: str) -> JsonObject:
    """The request that is asked and that the key names. Servers other than OpenRouter get it as it is."""
    return {**request, "provider": dict(ROUTING)} if is_openrouter(base_url) else request


def priced(request: JsonObject, base_url: str, prices: Prices | None) -> JsonObject:
    """The request as sent: a provider dearer than the price that was reserved is not used. No part of the key."""
    if not prices or not is_openrouter(base_url):
        return request
    dollars = {name: micros / PER_TOKENS for name, micros in zip(("prompt", "completion"), prices, strict=True)}
    return {**request, "provider": {**request.get("provider", {}), "max_price": dollars}}


def secret_in(request: JsonObject) -> str | None:
    """The kind of the first secret in any string of the request, or None."""
    return next((kind for text in _strings(request) if (kind := _kind_of_secret(text))), None)


def encoded(request: JsonObject) -> bytes:
    try:
        return orjson.dumps(request)
    except TypeError:  # half surrogates, which no server reads, and very large numbers
        return json.dumps(request, ensure_ascii=False).encode("utf-8", "replace")


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
