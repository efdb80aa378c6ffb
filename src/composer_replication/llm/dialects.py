"""What each kind of server refuses, as data. `legal.py` makes a request obey its row; the strict servers of
tests/dialect_servers.py hold every row to the documents named in it.

A server that is not known gets `vllm`: most are engines that put a history through the chat template of a model, and
that is the strictest of the OpenAI-compatible ways to read one.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from .addresses import host_of

DialectName = Literal["openai", "anthropic", "mistral", "vllm"]
_NAME = r"[a-zA-Z0-9_-]{1,64}"


class Dialect(NamedTuple):
    documents: tuple[str, ...]
    """Where its rules stand. On `CHECKED` the sources of Mistral and vLLM were read; for the others, excerpts and the
    refusals that users of these servers report."""
    path: str = "/chat/completions"
    key_header: str = "Authorization"
    headers: tuple[tuple[str, str], ...] = ()
    batch: bool = False
    """Whether there is a batch endpoint at half the price."""
    function_name: str = _NAME
    call_id: str = r".{1,40}"
    property_name: str = r"(?s:.*)"
    argument_objects: bool = True
    """Arguments of a call in the history must be a JSON object."""
    system_first: bool = True
    """A system message may only open the history."""
    merged: tuple[str, ...] = ()
    """Roles of which two messages may not follow each other."""
    user_after_tool: bool = True
    opens_with_user: bool = False
    ends_with_assistant: bool = False
    blank_text: bool = True
    calls_need_tools: bool = False
    """A history with calls is refused where the request lists no tool."""


CHECKED = "2026-11-16"

DIALECTS: dict[DialectName, Dialect] = {
    "openai": Dialect(
        documents=(
            "platform.openai.com/docs/api-reference/chat/create (name, tool_calls, tool_call_id)",
            "platform.openai.com/docs/guides/function-calling (parameters: JSON Schema, arrays with items)",
            "platform.openai.com/docs/guides/batch",
        ),
        batch=True,
        argument_objects=False,
        system_first=False,
        ends_with_assistant=True,
    ),
    "anthropic": Dialect(
        documents=(
            "platform.claude.com/docs/en/api/messages/create (roles, system, input_schema)",
            "platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use (tool_result comes first)",
            "platform.claude.com/docs/en/build-with-claude/prompt-caching",
            "platform.claude.com/docs/en/api/creating-message-batches",
        ),
        path="/messages",
        key_header="x-api-key",
        headers=(("anthropic-version", "2023-06-01"),),
        batch=True,
        call_id=r"[a-zA-Z0-9_-]{1,64}",
        property_name=r"[a-zA-Z0-9_.-]{1,64}",
        merged=("user", "assistant"),
        opens_with_user=True,
        blank_text=False,
        calls_need_tools=True,
    ),
    "mistral": Dialect(
        documents=(
            "github.com/mistralai/mistral-common, protocol/instruct/validator.py (order of roles, ids, names)",
            "docs.mistral.ai/capabilities/function_calling",
        ),
        call_id=r"[a-zA-Z0-9]{9}",
        merged=("user", "assistant"),
        user_after_tool=False,
        blank_text=False,
    ),
    "vllm": Dialect(
        documents=(
            "github.com/vllm-project/vllm, entrypoints/chat_utils.py (arguments are parsed, and must be objects)",
            "huggingface.co/docs/transformers/chat_templating (templates that raise unless roles alternate)",
        ),
        merged=("user", "assistant"),
        opens_with_user=True,
    ),
}

_BY_HOST: dict[str, DialectName] = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "api.mistral.ai": "mistral",
}
_MISTRAL = re.compile(r"(mis|minis|magis|codes|devs|pix|vox)tral", re.IGNORECASE)
AZURE = re.compile(r"\.(openai\.azure|cognitiveservices\.azure|services\.ai\.azure)\.com$")
AZURE_KEY_HEADER = "api-key"


def dialect_of(model: str, base_url: str) -> DialectName:
    """What is spoken there unless the user says otherwise."""
    host = host_of(base_url)
    if host in _BY_HOST:
        return _BY_HOST[host]
    if _MISTRAL.search(model):
        return "mistral"
    return "openai" if AZURE.search(host) else "vllm"
