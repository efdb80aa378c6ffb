"""What OpenRouter is told about who may serve a request. Other servers get the plain request."""

from __future__ import annotations

from composer_replication.records import JsonObject

from .addresses import is_openrouter
from .pricing import PER_TOKENS, Prices

ROUTING = {"data_collection": "deny", "enforce_distillable_text": True}
"""Only providers that keep nothing, and only models whose authors allow training on their output."""


def routed(request: JsonObject, base_url: str) -> JsonObject:
    """The request that is asked and that the key names."""
    return {**request, "provider": dict(ROUTING)} if is_openrouter(base_url) else request


def priced(request: JsonObject, base_url: str, prices: Prices | None) -> JsonObject:
    """The request as sent: a provider dearer than the price that was reserved is not used. No part of the key."""
    if not prices or not is_openrouter(base_url):
        return request
    dollars = {name: micros / PER_TOKENS for name, micros in zip(("prompt", "completion"), prices, strict=True)}
    return {**request, "provider": {**request.get("provider", {}), "max_price": dollars}}
