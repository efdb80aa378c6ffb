"""A question as it goes over the wire to one server: legal there, with the parameters that its model takes."""

from __future__ import annotations

from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit, urlunsplit

from composer_replication.records import JsonObject

from .anthropic import messages_request
from .dialects import AZURE, AZURE_KEY_HEADER, DIALECTS, DialectName
from .legal import legal_messages, legal_name, legal_tools
from .parameters import Parameters


class ChatWire(NamedTuple):
    dialect: DialectName = "vllm"
    parameters: Parameters = Parameters()
    headers: tuple[tuple[str, str], ...] = ()

    def request(self, question: JsonObject, tools_inferred: bool = False, cache_marks: bool = False) -> JsonObject:
        """`question`: OpenAI style, with `max_tokens` and `temperature`, as its name was made from it."""
        rules = DIALECTS[self.dialect]
        found = {key: value for key, value in question.items() if key not in ("parameters", "messages", "tools")}
        tools = legal_tools(question.get("tools", ()), question["messages"], rules, tools_inferred)
        found |= {"messages": legal_messages(question["messages"], rules)} | ({"tools": tools} if tools else {})
        if self.dialect != "anthropic":
            return self.parameters.applied(found)
        # The Messages API has one name for the limit, whatever the roster says of the model elsewhere.
        return messages_request(self.parameters._replace(limit="max_tokens").applied(found), cache_marks)

    def own_names(self, tools: tuple[JsonObject, ...]) -> dict[str, str]:
        """The tools that go by another name here, and what they are called by us."""
        functions = (tool.get("function") for tool in tools)
        names: list[Any] = [cast(JsonObject, one).get("name") for one in functions if isinstance(one, dict)]
        sent = {legal_name(name, DIALECTS[self.dialect]): name for name in names if isinstance(name, str)}
        return {legal: name for legal, name in sent.items() if legal != name}

    def url(self, base_url: str, path: str | None = None) -> str:
        """An address may end in a query, as Azure's do; the path goes before it."""
        parts = urlsplit(base_url)
        whole = parts.path.rstrip("/") + (DIALECTS[self.dialect].path if path is None else path)
        return urlunsplit(parts._replace(path=whole))

    def key_header(self, base_url: str) -> str:
        azure = AZURE.search(urlsplit(base_url).hostname or "")
        return AZURE_KEY_HEADER if azure else DIALECTS[self.dialect].key_header

    def all_headers(self) -> dict[str, str]:
        return {**dict(DIALECTS[self.dialect].headers), **dict(self.headers)}
