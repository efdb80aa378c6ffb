"""The batch endpoints of OpenAI and Anthropic: many requests at once, answered within a day at half the price.

Documents: platform.openai.com/docs/guides/batch, platform.claude.com/docs/en/build-with-claude/batch-processing. With
both, a request that fails, is cancelled or expires costs nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import quote

import orjson

from composer_replication.errors import RecomposeError

from .client import Endpoint
from .dialects import DialectName
from .transport import Response, Transport

MAX_WORDS = 200
"""Of what a provider says about an error, in characters."""


class BatchItem(NamedTuple):
    """`custom_id`: at most 64 letters, digits, underscores and dashes."""

    custom_id: str
    body: bytes


class BatchResult(NamedTuple):
    """`answer` is the body of a good answer; without one `reason` says what went wrong, and nothing was charged."""

    custom_id: str
    answer: bytes | None
    reason: str = ""


class BatchRefused(RecomposeError):
    """The provider said no. `charged`: it may have begun all the same. `may_pass`: the same may work later."""

    def __init__(self, words: str, charged: bool, may_pass: bool = False) -> None:
        super().__init__(words, "mend what it says, then run the same command again")
        self.charged = charged
        self.may_pass = may_pass


class NeverBegun(Exception):
    """The provider looked at a batch and did not take it: none of its requests was asked."""


class BatchService(Protocol):
    async def begin(self, items: Sequence[BatchItem]) -> str:
        """The id of the new batch."""
        ...

    async def ended(self, batch: str) -> JsonStatus | None:
        """Its last status; None while it is at work."""
        ...

    async def results(self, batch: str, status: JsonStatus) -> list[BatchResult]: ...


JsonStatus = Mapping[str, Any]


class _Calls:
    def __init__(self, transport: Transport, endpoint: Endpoint) -> None:
        self._transport = transport
        self._endpoint = endpoint

    async def post(self, path: str, body: bytes, content_type: str = "application/json") -> dict[str, Any]:
        headers = {**self._endpoint.wire.all_headers(), "Content-Type": content_type}
        response = await self._transport.post(self._url(path), body, self._endpoint.key, headers)
        return _object(self._checked(response))

    async def get(self, path: str) -> bytes:
        headers = self._endpoint.wire.all_headers()
        return self._checked(await self._transport.get(self._url(path), self._endpoint.key, headers))

    async def get_object(self, path: str) -> dict[str, Any]:
        return _object(await self.get(path))

    def _url(self, path: str) -> str:
        return self._endpoint.wire.url(self._endpoint.base_url, path)

    def _checked(self, response: Response) -> bytes:
        if response.status == 200:
            return response.body
        words = f"{self._endpoint.name}'s provider answered HTTP {response.status}: {_words(response.body)}"
        raise BatchRefused(words, response.status >= 500, response.status >= 500 or response.status == 429)


class OpenAIBatches:
    def __init__(self, transport: Transport, endpoint: Endpoint) -> None:
        self._calls = _Calls(transport, endpoint)

    async def begin(self, items: Sequence[BatchItem]) -> str:
        form = b'{"custom_id":"%s","method":"POST","url":"/v1/chat/completions","body":%s}'
        lines = b"\n".join(form % (item.custom_id.encode(), item.body) for item in items)
        boundary = secrets.token_hex(16)
        upload = _multipart(boundary, {"purpose": b"batch"}, "requests.jsonl", lines)
        file = await self._calls.post("/files", upload, f"multipart/form-data; boundary={boundary}")
        asked = {"input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        return _id(await self._calls.post("/batches", orjson.dumps(asked)))

    async def ended(self, batch: str) -> JsonStatus | None:
        status = await self._calls.get_object(f"/batches/{quote(batch, safe='')}")
        if status.get("status") == "failed":
            raise NeverBegun(_words(orjson.dumps(status)))
        return status if status.get("status") in ("completed", "expired", "cancelled") else None

    async def results(self, batch: str, status: JsonStatus) -> list[BatchResult]:
        files = [status.get(name) for name in ("output_file_id", "error_file_id")]
        found: list[BatchResult] = []
        for file in filter(None, files):
            lines = await self._calls.get(f"/files/{quote(str(file), safe='')}/content")
            found += _read(lines, _openai_result)
        return found


class AnthropicBatches:
    def __init__(self, transport: Transport, endpoint: Endpoint) -> None:
        self._calls = _Calls(transport, endpoint)

    async def begin(self, items: Sequence[BatchItem]) -> str:
        form = b'{"custom_id":"%s","params":%s}'
        requests = b",".join(form % (item.custom_id.encode(), item.body) for item in items)
        return _id(await self._calls.post("/messages/batches", b'{"requests":[%s]}' % requests))

    async def ended(self, batch: str) -> JsonStatus | None:
        status = await self._calls.get_object(f"/messages/batches/{quote(batch, safe='')}")
        return status if status.get("processing_status") == "ended" else None

    async def results(self, batch: str, status: JsonStatus) -> list[BatchResult]:
        # `results_url` of the status leads to the same place; an address that an answer names is not followed.
        lines = await self._calls.get(f"/messages/batches/{quote(batch, safe='')}/results")
        return list(_read(lines, _anthropic_result))


BATCHES: dict[DialectName, Callable[[Transport, Endpoint], BatchService]] = {
    "openai": OpenAIBatches,
    "anthropic": AnthropicBatches,
}


def _openai_result(line: dict[str, Any]) -> BatchResult:
    response = line.get("response") or {}
    if response.get("status_code") == 200:
        return BatchResult(line["custom_id"], orjson.dumps(response["body"]))
    return BatchResult(line["custom_id"], None, _words(orjson.dumps(response.get("body") or line)))


def _anthropic_result(line: dict[str, Any]) -> BatchResult:
    result = line["result"]
    if result["type"] == "succeeded":
        return BatchResult(line["custom_id"], orjson.dumps(result["message"]))
    error = result.get("error")
    return BatchResult(line["custom_id"], None, _words(orjson.dumps(error)) if error else str(result["type"]))


def _read(lines: bytes, read: Callable[[dict[str, Any]], BatchResult]) -> Iterator[BatchResult]:
    """A line that makes no sense is as good as none: its question stays in doubt."""
    for line in lines.splitlines():
        try:
            yield read(orjson.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue


def _id(answer: Mapping[str, Any]) -> str:
    found = answer.get("id")
    if not isinstance(found, str) or not 0 < len(found) <= MAX_WORDS or not found.isascii():
        raise BatchRefused("the provider named no batch", charged=True)
    return found


def _object(body: bytes) -> dict[str, Any]:
    try:
        found: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise BatchRefused("the provider's answer makes no sense", charged=True)
    return cast("dict[str, Any]", found)


def _words(body: bytes) -> str:
    """The first message in a provider's answer, wherever it stands."""
    try:
        found = next(_messages(orjson.loads(body)), "no reason given")
    except orjson.JSONDecodeError:
        found = body.decode("utf-8", "replace")
    return " ".join("".join(one if one.isprintable() else " " for one in found[:MAX_WORDS]).split())


def _messages(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if isinstance(fields.get("message"), str):
            yield fields["message"]
        for one in fields.values():
            yield from _messages(one)
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            yield from _messages(one)


def _multipart(boundary: str, fields: Mapping[str, bytes], filename: str, file: bytes) -> bytes:
    form = b'--%s\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
    mark = boundary.encode()
    parts = [form % (mark, name.encode(), b"", value) for name, value in fields.items()]
    parts.append(form % (mark, b"file", b'; filename="%s"' % filename.encode(), file))
    return b"".join(parts) + b"--%s--\r\n" % mark
