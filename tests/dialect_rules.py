"""What four kinds of server refuse, as far as known (see `Dialect.documents`), apart from our own table of rules.

OpenAI      platform.openai.com/docs/api-reference/chat/create; guides/function-calling; guides/reasoning
Anthropic   platform.claude.com/docs/en/api/messages/create; agents-and-tools/tool-use/implement-tool-use;
            build-with-claude/prompt-caching; about-claude/models/migration-guide
Mistral     github.com/mistralai/mistral-common, protocol/instruct/validator.py; docs.mistral.ai/api (extra fields: 422)
vLLM        github.com/vllm-project/vllm, entrypoints/chat_utils.py; the chat templates of Qwen and Mistral, which raise
            on a late system message, on roles that do not alternate and where no user speaks

Where a document says that a server is lenient, but one of its models is not, the stricter reading is taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import jsonschema

Request = dict[str, Any]
UNIONS = {"oneOf", "anyOf", "allOf", "enum", "not"}
CHAT_FIELDS = {"model", "messages", "tools", "temperature", "max_tokens"}
OPENAI_FIELDS = CHAT_FIELDS | {"max_completion_tokens", "reasoning_effort", "metadata", "store", "seed"}
MESSAGE_FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}


class Refused(Exception):
    """A request that the server answers with 400, in its own words."""


def need(condition: object, words: str) -> None:
    if not condition:
        raise Refused(words)


def check_openai(request: Request) -> None:
    need(not set(request) - OPENAI_FIELDS, f"Unrecognized request argument supplied: {set(request) - OPENAI_FIELDS}")
    if re.match(r"o\d|gpt-5", request["model"]):
        need("max_tokens" not in request, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        need(request.get("temperature", 1) == 1, "Unsupported value: 'temperature'. Only the default (1) is supported.")
    need(len(request.get("tools", [])) <= 128, "tools: array too long")
    _chat_shape(request)
    _function_tools(request)
    for tool in request.get("tools", []):
        name, parameters = tool["function"]["name"], tool["function"].get("parameters", {})
        need(not UNIONS & set(parameters), f"Invalid schema for function '{name}': unions at the top level")
        need("properties" in parameters, f"Invalid schema for function '{name}': object schema missing properties")
        need(not _arrays_without_items(parameters), f"Invalid schema for function '{name}': array schema missing items")
    for message in request["messages"]:
        for call in message.get("tool_calls", []):
            need(len(call["id"]) <= 40, "messages.tool_calls.id: string too long, maximum length 40")
    _answered_calls(request["messages"])


def check_mistral(request: Request) -> None:
    need(not set(request) - CHAT_FIELDS, f"422 extra_forbidden: {set(request) - CHAT_FIELDS}")
    _chat_shape(request)
    _function_tools(request)
    may_follow = {
        "system": {"user", "assistant", "system"},
        "user": {"assistant", "system", "user"},
        "assistant": {"assistant", "user", "tool"},
        "tool": {"assistant", "tool"},
    }
    messages, before, open_calls = request["messages"], None, 0
    for message in messages:
        role = message["role"]
        need(before is None or role in may_follow[before], f"Unexpected role '{role}' after role '{before}'")
        if role == "assistant":
            need(not open_calls, "Not the same number of function calls and responses")
            need(message["content"] or message.get("tool_calls"), "Assistant message must have content or tool_calls")
            open_calls = len(message.get("tool_calls", []))
            for call in message.get("tool_calls", []):
                need(re.fullmatch("[a-zA-Z0-9]{9}", call["id"]), f"Tool call id was {call['id']}")
        if role == "tool":
            need(re.fullmatch("[a-zA-Z0-9]{9}", message["tool_call_id"]), f"Tool call id was {message['tool_call_id']}")
            open_calls -= 1
        before = role
    need(not open_calls, "Not the same number of function calls and responses")
    need(before in ("user", "tool"), f"Expected last role User or Tool for serving but got {before}")
    need(messages[0]["role"] != "tool", "Conversation must start with a user message or system message")
    for tool in request.get("tools", []):
        try:
            jsonschema.Draft7Validator.check_schema(tool["function"].get("parameters", {}))
        except jsonschema.SchemaError as error:
            raise Refused(f"Invalid tool schema: {error.message}") from error


def check_vllm(request: Request) -> None:
    _chat_shape(request)
    roles = [message["role"] for message in request["messages"]]
    need("system" not in roles[1:], "System message must be at the beginning.")
    spoken = roles[1:] if roles[:1] == ["system"] else roles
    need(spoken[:1] == ["user"], "No user query found in messages.")
    for before, role in pairwise(spoken):
        alternate = role != before or role == "tool"
        need(alternate, "After the optional system message, conversation roles must alternate user and assistant")
    for message in request["messages"]:
        for call in message.get("tool_calls", []):
            try:
                arguments = json.loads(call["function"]["arguments"] or "{}")
            except ValueError as error:
                raise Refused(f"Invalid JSON in tool call arguments: {error}") from error
            need(isinstance(arguments, dict), "tool call arguments must be a JSON object")
    _answered_calls(request["messages"])


def check_anthropic(request: Request) -> None:
    known = {"model", "messages", "system", "tools", "max_tokens", "temperature", "output_config", "thinking"}
    need(not set(request) - known, f"Extra inputs are not permitted: {set(request) - known}")
    need(isinstance(request.get("max_tokens"), int) and request["max_tokens"] > 0, "max_tokens: Field required")
    need("temperature" not in request or "opus-4-7" not in request["model"], "`temperature` is deprecated")
    messages, tools = request["messages"], request.get("tools", [])
    need(messages and messages[0]["role"] == "user", "messages: first message must use the user role")
    need(messages[-1]["role"] == "user", "This model does not support assistant message prefill")
    asked: list[str] = []
    every: set[str] = set()
    for before, message in zip([None, *messages], messages, strict=False):
        need(message["role"] in ("user", "assistant"), f"messages: Unexpected role {message['role']!r}")
        need(before is None or before["role"] != message["role"], "messages: roles must alternate")
        need(message["content"], "messages: all messages must have non-empty content")
        asked = _check_blocks(message, asked, every)
    need(not every or tools, "Requests which include `tool_use` or `tool_result` blocks must define tools")
    _check_texts(request.get("system", []))
    names = [tool["name"] for tool in tools]
    need(len(names) == len(set(names)), "tools: Tool names must be unique.")
    for tool in tools:
        schema = tool["input_schema"]
        need(re.fullmatch("[a-zA-Z0-9_-]{1,128}", tool["name"]), f"tools.name: {tool['name']!r} does not match")
        need(schema.get("type") == "object", "tools.input_schema.type: Field required")
        need(not {"oneOf", "anyOf", "allOf"} & set(schema), "input_schema does not support unions at the top level")
        for key in schema.get("properties", {}):
            need(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key), f"Property keys should match pattern: {key!r}")
    need(json.dumps(request).count('"cache_control":') <= 4, "A maximum of 4 blocks with cache_control may be provided")


def _check_blocks(message: Request, asked: list[str], every: set[str]) -> list[str]:
    """The ids that the next message has to answer, first of all, and `every` id so far."""
    calls: list[str] = []
    blocks = message["content"]
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    need(sorted(results) == sorted(asked), "tool_use ids were found without tool_result blocks immediately after")
    need(all(block["type"] == "tool_result" for block in blocks[: len(results)]), "tool_result blocks must come first")
    _check_texts([block for block in blocks if block["type"] == "text"])
    for block in blocks:
        need(block["type"] in ("text", "tool_use", "tool_result"), f"Input tag {block['type']!r}")
        if block["type"] == "tool_use":
            need(message["role"] == "assistant", "`tool_use` blocks can only be in `assistant` messages")
            need(re.fullmatch("[a-zA-Z0-9_-]+", block["id"]), f"tool_use.id: {block['id']!r} does not match")
            need(re.fullmatch("[a-zA-Z0-9_-]{1,128}", block["name"]), f"tool_use.name: {block['name']!r}")
            need(isinstance(block["input"], dict), "tool_use.input: Input should be a valid dictionary")
            need(block["id"] not in every, "messages: `tool_use` ids must be unique")
            every.add(block["id"])
            calls.append(block["id"])
    return calls


def _check_texts(blocks: list[Request]) -> None:
    need(all(block["text"].strip() for block in blocks), "text content blocks must contain non-whitespace text")


def _chat_shape(request: Request) -> None:
    need(request["messages"], "messages: at least one message")
    need("tools" not in request or request["tools"], "tools: [] is too short")
    for message in request["messages"]:
        fields = MESSAGE_FIELDS.get(message["role"])
        need(fields and not set(message) - fields, f"messages: unexpected role or field in {sorted(message)}")
        need(isinstance(message["content"], str), "messages.content: a text")
        need(message.get("tool_calls") != [], "messages.tool_calls: [] is too short")
        for call in message.get("tool_calls", []):
            need(call.get("type") == "function" and isinstance(call["function"]["arguments"], str), "tool_calls")


def _function_tools(request: Request) -> None:
    """Names of functions, in the list and in the history."""
    listed = [tool["function"]["name"] for tool in request.get("tools", [])]
    called = [call["function"]["name"] for one in request["messages"] for call in one.get("tool_calls", [])]
    need(len(listed) == len(set(listed)), "tools: names must be unique")
    for name in (*listed, *called):
        need(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name), f"function name {name!r}: must be a-z, A-Z, 0-9, _ or -")


def _answered_calls(messages: list[Request]) -> None:
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            need(message["tool_call_id"] in waiting, "role 'tool' must follow a message with 'tool_calls'")
            waiting.remove(message["tool_call_id"])
            continue
        need(not waiting, f"tool_call_ids did not have response messages: {waiting}")
        waiting = [call["id"] for call in message.get("tool_calls", [])]
    need(not waiting, f"tool_call_ids did not have response messages: {waiting}")


def _arrays_without_items(schema: Any) -> bool:
    if isinstance(schema, list):
        return any(map(_arrays_without_items, schema))
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type")
    is_array = kind == "array" or (isinstance(kind, list) and "array" in kind)
    return (is_array and "items" not in schema) or any(map(_arrays_without_items, schema.values()))


CHECKS: dict[str, Callable[[Request], None]] = {
    "openai": check_openai,
    "anthropic": check_anthropic,
    "mistral": check_mistral,
    "vllm": check_vllm,
}
