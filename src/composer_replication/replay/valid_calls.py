"""Whether a tool would take a call at all: it is listed, has what its schema requires, and in the right types.

A call that no tool takes has no vote. Numbers written as text pass, as the vote reads them as numbers. Patterns are not
tried, because a schema of a stranger may hold one that never ends, and nothing that a schema points to is fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Literal, cast

from composer_replication.records import JsonObject, canonical_json

Objection = Literal["unknown_tool", "missing_argument", "ill_typed_argument"]
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(\.[0-9]{1,14})?")


def objection(action: str, tools: Sequence[JsonObject], inferred: bool = False) -> Objection | None:
    """Why the call of a canonical action is not valid; None where it is, or where no tool is listed at all.

    Of an `inferred` list nobody said what is required: there only a call is short of arguments that has none of those
    that every call had.
    """
    if not tools:
        return None
    call: JsonObject = json.loads(action)
    listed = dict(map(_named_schema, tools))
    if call["name"] not in listed:
        return "unknown_tool"
    schema, arguments = listed[call["name"]], cast("JsonObject", call["arguments"])
    required: Any = schema.get("required") if inferred else None
    if inferred:
        schema = {name: value for name, value in schema.items() if name != "required"}
    if isinstance(required, list) and required and not any(name in arguments for name in cast("list[Any]", required)):
        return "missing_argument"
    return _against(canonical_json(schema), arguments)


def _named_schema(tool: JsonObject) -> tuple[str, JsonObject]:
    function: JsonObject = tool.get("function") or tool
    parameters: Any = function.get("parameters")
    return str(function.get("name")), cast("JsonObject", parameters) if isinstance(parameters, dict) else {}


def _against(schema: str, arguments: JsonObject) -> Objection | None:
    from jsonschema.exceptions import UnknownType
    from referencing.exceptions import Unresolvable

    try:
        broken = {error.validator for error in _validator(schema).iter_errors(arguments)}
    except (UnknownType, Unresolvable, TypeError, ValueError, AttributeError, KeyError, RecursionError):
        return None  # A schema that is none forbids nothing.
    if not broken:
        return None
    return "missing_argument" if "required" in broken else "ill_typed_argument"


@lru_cache(512)
def _validator(schema: str) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend
    from referencing import Registry

    checker = Draft202012Validator.TYPE_CHECKER
    for kind in ("number", "integer"):
        checker = checker.redefine(kind, _or_written(checker, kind))
    lenient = extend(Draft202012Validator, {"pattern": _no_errors, "patternProperties": _no_errors}, None, checker)
    return lenient(json.loads(schema), registry=Registry())


def _or_written(checker: Any, kind: str) -> Callable[[Any, Any], bool]:
    def accepts(_: Any, value: Any) -> bool:
        if isinstance(value, str):
            found = _NUMBER.fullmatch(value)
            return found is not None and (kind == "number" or not found[1])
        return checker.is_type(value, kind)

    return accepts


def _no_errors(*_: Any) -> Iterator[Any]:
    return iter(())
