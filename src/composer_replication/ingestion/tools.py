"""A tool list for sessions that record none, put together from the calls that worked."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, cast

from composer_replication.records import JsonObject

from .reading import parse_json

JSON_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}


class Signature(NamedTuple):
    """A tool and the names and types of a call's arguments."""

    tool: str
    arguments: tuple[tuple[str, type], ...]


class ToolUse:
    def __init__(self) -> None:
        self._open: dict[str, Signature] = {}
        self._worked: Counter[Signature] = Counter()

    def begin(self, call_id: str, name: str, arguments: str | JsonObject) -> None:
        fields = dict(sorted(arguments.items())) if isinstance(arguments, dict) else _parsed(arguments)
        if fields is not None and name:
            self._open[call_id] = Signature(name, tuple([(key, type(value)) for key, value in fields.items()]))

    def end(self, call_id: str, worked: bool) -> None:
        signature = self._open.pop(call_id, None)
        if worked and signature:
            self._worked[signature] += 1

    def inferred(self) -> tuple[JsonObject, ...]:
        """One definition per tool in the order of first success; an argument that every call has is required."""
        tools = dict.fromkeys(signature.tool for signature in self._worked)
        return tuple(_definition(name, [used for used in self._worked if used.tool == name]) for name in tools)


def _definition(name: str, signatures: list[Signature]) -> JsonObject:
    types: dict[str, set[type]] = {}
    for signature in signatures:
        for argument, kind in signature.arguments:
            types.setdefault(argument, set()).add(kind)
    always = set[str].intersection(*({name for name, _ in signature.arguments} for signature in signatures))
    properties = {argument: _schema(kinds) for argument, kinds in types.items()}
    required = [argument for argument in types if argument in always]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def _schema(kinds: set[type]) -> JsonObject:
    known = sorted(JSON_TYPES[kind] for kind in kinds if kind in JSON_TYPES)
    if not known:
        return {}
    return {"type": known[0] if len(known) == 1 else known}


def _parsed(arguments: str) -> JsonObject | None:
    try:
        value = parse_json(arguments.encode("utf-8", "replace"))
    except ValueError:
        return None
    return cast(JsonObject, value) if isinstance(value, dict) else None
