"""Makes a history and its tools legal for a dialect. What is legal already stays as it is.

Reads an OpenAI-style request as a trace gives it, writes one that the server takes. Nothing is left out but messages
without any text; what had to be put in says so itself. Apart from a result that comes late to its call, each change
depends on what comes before it alone: requests of one trace begin alike, and a provider's cache finds that.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, cast

from jsonschema import Draft7Validator, SchemaError

from composer_replication.records import JsonObject, canonical_json, json_object

from .dialects import Dialect

NO_RESULT = "(no result was recorded)"
NO_REPLY = "(no reply)"
OPENING = "(the session begins)"
GO_ON = "(go on)"
LATE_RESULT = "Result of an earlier tool call:\n"
MALFORMED = "malformed_arguments"
SCHEMAS_REMEMBERED = 1 << 12
_Messages = list[JsonObject]


def legal_messages(messages: Sequence[JsonObject], dialect: Dialect) -> list[JsonObject]:
    found = _paired(_placed(messages, dialect), dialect)
    if not dialect.blank_text:
        found = [message for message in found if _says_something(message)]
    found = _merged(found, dialect.merged)
    if not dialect.user_after_tool:
        found = list(_with_replies(found))
    first = next((place for place, message in enumerate(found) if message["role"] != "system"), len(found))
    if not found or (dialect.opens_with_user and (first == len(found) or found[first]["role"] != "user")):
        found.insert(first, {"role": "user", "content": OPENING})
    if not dialect.ends_with_assistant and found[-1]["role"] not in ("user", "tool"):
        found.append({"role": "user", "content": GO_ON})
    return found


def legal_name(name: str, dialect: Dialect) -> str:
    """The name itself, or one that no other name has: a function of the name alone, so that it can be mapped back."""
    if re.fullmatch(dialect.function_name, name):
        return name
    readable = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:48]
    return f"{readable or 'tool'}_{_short_hash(name)}"


def legal_tools(
    tools: Sequence[JsonObject], messages: Iterable[JsonObject], dialect: Dialect, inferred: bool = False
) -> list[JsonObject]:
    """Those that are functions, each name once. `inferred`: the list was put together from calls that worked, so that
    nobody ever said what is required."""
    functions = [(tool, tool["function"]) for tool in tools if _is_function(tool.get("function"))]
    if not functions and dialect.calls_need_tools:
        called = dict.fromkeys(call["function"]["name"] for message in messages for call in _calls(message))
        functions = [({}, {"name": name}) for name in called]
    found: dict[str, JsonObject] = {}
    for tool, function in functions:
        legal = _legal_function(function, dialect, inferred)
        found.setdefault(legal["name"], {**tool, "type": "function", "function": legal})
    return list(found.values())


def _is_function(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(cast(JsonObject, value).get("name"), str)


def _legal_function(function: JsonObject, dialect: Dialect, inferred: bool) -> JsonObject:
    parameters = _legal_parameters(canonical_json(function.get("parameters")), dialect.property_name, inferred)
    return {**function, "name": legal_name(function["name"], dialect), "parameters": parameters}


@lru_cache(SCHEMAS_REMEMBERED)
def _legal_parameters(text: str, property_name: str, inferred: bool) -> JsonObject:
    """An object with properties and without unions at its top. What is no JSON Schema at all becomes one that allows
    anything. Kept, because all requests of a trace have the same tools."""
    given: Any = json.loads(text)
    parameters = cast(JsonObject, given) if isinstance(given, dict) else {}
    dropped = ("oneOf", "anyOf", "allOf", "enum", "not", *(("required",) if inferred else ()))
    found = {"properties": {}, **{key: value for key, value in parameters.items() if key not in dropped}}
    found["type"] = "object"
    try:
        Draft7Validator.check_schema(found)
    except (SchemaError, RecursionError):
        return {"type": "object", "properties": {}}
    legal = cast(JsonObject, _legal_schema(found))
    properties: JsonObject = legal["properties"]
    legal["properties"] = {key: value for key, value in properties.items() if re.fullmatch(property_name, key)}
    if "required" in legal:
        left_out = properties.keys() - legal["properties"].keys()
        legal["required"] = [key for key in legal["required"] if key not in left_out]
    return legal


def _legal_schema(schema: Any) -> Any:
    """Arrays say of what, at every depth; an empty schema allows anything, as its absence did."""
    if not isinstance(schema, dict):
        return schema
    found = dict(cast(JsonObject, schema))
    for key, value in found.items():
        if key in ("properties", "$defs", "definitions", "patternProperties") and isinstance(value, dict):
            found[key] = {name: _legal_schema(one) for name, one in cast(JsonObject, value).items()}
        elif key in ("items", "additionalProperties", "not", "contains"):
            found[key] = _legal_schema(value)
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems") and isinstance(value, list):
            found[key] = [_legal_schema(one) for one in cast(list[Any], value)]
    kinds = found.get("type")
    if kinds == "array" or (isinstance(kinds, list) and "array" in kinds):
        found.setdefault("items", {})
    return found


def _placed(messages: Sequence[JsonObject], dialect: Dialect) -> _Messages:
    """System messages where they may stand: the opening ones as one, later ones as the user's."""
    if not dialect.system_first:
        return list(messages)
    first = next((place for place, message in enumerate(messages) if message["role"] != "system"), len(messages))
    opening = _merged(messages[:first], ("system",))
    return opening + [
        {**message, "role": "user"} if message["role"] == "system" else message for message in messages[first:]
    ]


def _paired(messages: Sequence[JsonObject], dialect: Dialect) -> _Messages:
    """Every call with its one result right behind it; a result without a call as the user's words."""
    result_of, used = _matched(messages)
    found: _Messages = []
    seen: set[str] = set()
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            if place not in used:
                found.append({"role": "user", "content": LATE_RESULT + message["content"]})
            continue
        calls = _calls(message)
        if not calls:
            found.append({key: value for key, value in message.items() if key != "tool_calls"})
            continue
        results: _Messages = []
        legal_calls: list[JsonObject] = []
        for number, call in enumerate(calls):
            id_ = _legal_id(call["id"], seen, dialect)
            legal_calls.append(_legal_call(call, id_, dialect))
            result = result_of.get((place, number))
            content = NO_RESULT if result is None else messages[result]["content"]
            results.append({"role": "tool", "content": content, "tool_call_id": id_})
        found += [{**message, "tool_calls": legal_calls}, *results]
    return found


def _matched(messages: Sequence[JsonObject]) -> tuple[dict[tuple[int, int], int], set[int]]:
    """The place of each call's result, by the place of its message and its number there; and all such places."""
    waiting: dict[str, deque[tuple[int, int]]] = defaultdict(deque)
    result_of: dict[tuple[int, int], int] = {}
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            if calls := waiting.get(message.get("tool_call_id", "")):
                result_of[calls.popleft()] = place
            continue
        for number, call in enumerate(_calls(message)):
            waiting[call["id"]].append((place, number))
    return result_of, set(result_of.values())


def _legal_id(id_: str, seen: set[str], dialect: Dialect) -> str:
    legal, again = id_, 0
    while legal in seen or not re.fullmatch(dialect.call_id, legal):
        legal, again = _short_hash(f"{id_}#{again}", 9), again + 1
    seen.add(legal)
    return legal


def _legal_call(call: JsonObject, id_: str, dialect: Dialect) -> JsonObject:
    function: JsonObject = call["function"]
    arguments: str = function["arguments"]
    if dialect.argument_objects and json_object(arguments) is None:
        arguments = json.dumps({MALFORMED: arguments}, ensure_ascii=False) if arguments.strip() else "{}"
    named = {**function, "name": legal_name(function["name"], dialect), "arguments": arguments}
    return {**call, "type": "function", "id": id_, "function": named}


def _merged(messages: Sequence[JsonObject], roles: Sequence[str]) -> _Messages:
    found: _Messages = []
    for message in messages:
        if found and message["role"] in roles and message["role"] == found[-1]["role"] and not _calls(found[-1]):
            texts = [text for text in (found[-1]["content"], message["content"]) if text]
            found[-1] = {**found[-1], **message, "content": "\n\n".join(texts)}
        else:
            found.append(message)
    return found


def _with_replies(messages: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """After a result only the assistant may speak."""
    before = ""
    for message in messages:
        if before == "tool" and message["role"] not in ("tool", "assistant"):
            yield {"role": "assistant", "content": NO_REPLY}
        yield message
        before = message["role"]


def _says_something(message: JsonObject) -> bool:
    return message["role"] == "tool" or bool(_calls(message)) or bool(message["content"].strip())


def _calls(message: JsonObject) -> list[JsonObject]:
    return message.get("tool_calls") or []


def _short_hash(text: str, length: int = 8) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]
