"""Fields of JSON that nobody checked: each accessor gives the wanted type or its empty value."""

from __future__ import annotations

from typing import Any

from composer_replication.records import JsonObject, content_id


def as_object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_objects(value: Any) -> list[JsonObject]:
    """The objects of a list; what else it holds is left out."""
    return [item for item in as_list(value) if isinstance(item, dict)]


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def as_name(value: Any) -> str | None:
    """An id, a model or a version: a string that is not empty."""
    return value if isinstance(value, str) and value else None


def as_int(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def label(value: Any) -> str:
    """A kind for reports: the string, or the type of what stands in its place."""
    return value if isinstance(value, str) else type(value).__name__


def placeholder(kind: object, content: Any) -> str:
    """Stands for an image or another part that is not text, and tells equal ones from others."""
    return f"[{kind} {content_id(content)[:8]}]"
