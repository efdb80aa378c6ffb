"""The batch endpoints of OpenAI and Anthropic: many requests at once, answered within a day at half the price.

Documents: platform.openai.com/docs/guides/batch, platform.claude.com/docs/en/build-with-claude/batch-processing. With
both, a request that fails, is cancelled or expires costs nothing.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import quote

import orjson

from .client import Endpoint
from .dialects import DialectName
from .http_answers import judge
from .provider_words import words_of_error
from .transport import Ambiguous, NotSent, Response, Transport

MAX_ID = 200
TOO_LATE = 408
LASTING_ERRORS = ("invalid_request_error", "request_too_large")
"""What Anthropic says of a request that it will never answer."""


class BatchItem(NamedTuple):
    """`custom_id`: at most 64 letters, digits, underscores and dashes."""

    custom_id: str
    body: bytes


class BatchResult(NamedTuple):
    """`answer` is the body of a good answer; without one `words` say what went wrong, and nothing was charged.
    `may_pass`: the same request may be answered later."""

    custom_id: str
    answer: bytes | None
    words: str = ""
    may_pass: bool = False


class BatchRefused(Exception):
    """The provider said no. `charged`: it may have begun all the same. `may_pass`: the same may work later."""

    def __init__(self, words: str, charged: bool, may_pass: bool = False, no_credit: bool = False) -> None:
        super().__init__(words)
        self.charged = charged
        self.may_pass = may_pass
        self.no_credit = no_credit


class NeverBegun(Exception):
    """The provider looked at a batch and did not take it: none of its requests was asked."""


JsonStatus = Mapping[str, Any]


class BatchService(ABC):
    def __init__(self, transport: Transport, endpoint: Endpoint) -> None:
        self._transport = transport
        self._endpoint = endpoint

    @abstractmethod
    async def begin(self, items: Sequence[BatchItem]) -> str:
        """The id of the new batch."""

    @abstractmethod
    async def ended(self, batch: str) -> JsonStatus | None:
        """Its last status; None while it is at work."""

    @abstractmethod
    async def results(self, batch: str, status: JsonStatus) -> list[BatchResult]: ...

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
        verdict, key = judge(response), self._endpoint.key
        words = key.hidden_in(verdict.words) if key else verdict.words
        told = f"HTTP {response.status}{words and f': {words}'}"
        raise BatchRefused(told, verdict.state == "in_doubt", verdict.action == "retry_soon", verdict.no_credit)


class OpenAIBatches(BatchService):
    async def begin(self, items: Sequence[BatchItem]) -> str:
        form = b'{"custom_id":"%s","method":"POST","url":"/v1/chat/completions","body":%s}'
        lines = b"\n".join(form % (item.custom_id.encode(), item.body) for item in items)
        boundary = secrets.token_hex(16)
        upload = _multipart(boundary, {"purpose": b"batch"}, "requests.jsonl", lines)
        try:
            file = _id(await self.post("/files", upload, f"multipart/form-data; boundary={boundary}"))
        except Ambiguous as error:
            raise NotSent(str(error)) from error  # a file alone costs nothing
        except BatchRefused as error:
            error.charged = False
            raise
        asked = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        return _id(await self.post("/batches", orjson.dumps(asked)))

    async def ended(self, batch: str) -> JsonStatus | None:
        status = await self.get_object(f"/batches/{quote(batch, safe='')}")
        if status.get("status") == "failed":
            errors: Any = status.get("errors")
            raise NeverBegun(words_of_error(200, errors.get("data") if isinstance(errors, dict) else errors).text)
        return status if status.get("status") in ("completed", "expired", "cancelled") else None

    async def results(self, batch: str, status: JsonStatus) -> list[BatchResult]:
        files = [status.get(name) for name in ("output_file_id", "error_file_id")]
        found: list[BatchResult] = []
        for file in filter(None, files):
            lines = await self.get(f"/files/{quote(str(file), safe='')}/content")
            found += _read(lines, _openai_result)
        return found


class AnthropicBatches(BatchService):
    async def begin(self, items: Sequence[BatchItem]) -> str:
        form = b'{"custom_id":"%s","params":%s}'
        requests = b",".join(form % (item.custom_id.encode(), item.body) for item in items)
        return _id(await self.post("/messages/batches", b'{"requests":[%s]}' % requests))

    async def ended(self, batch: str) -> JsonStatus | None:
        status = await self.get_object(f"/messages/batches/{quote(batch, safe='')}")
        return status if status.get("processing_status") == "ended" else None

    async def results(self, batch: str, status: JsonStatus) -> list[BatchResult]:
        # `results_url` of the status leads to the same place; an address that an answer names is not followed.
        lines = await self.get(f"/messages/batches/{quote(batch, safe='')}/results")
        return list(_read(lines, _anthropic_result))


BATCHES: dict[DialectName, type[BatchService]] = {"openai": OpenAIBatches, "anthropic": AnthropicBatches}


def _openai_result(line: dict[str, Any]) -> BatchResult:
    """One that came too late has no response."""
    given: JsonStatus = line.get("response") or {"status_code": TOO_LATE, "body": line}
    response = Response(given["status_code"], orjson.dumps(given["body"]))
    if response.status == 200:
        return BatchResult(line["custom_id"], response.body)
    verdict = judge(response)
    return BatchResult(line["custom_id"], None, verdict.words, verdict.action != "retry_never")


def _anthropic_result(line: dict[str, Any]) -> BatchResult:
    result = line["result"]
    if result["type"] == "succeeded":
        return BatchResult(line["custom_id"], orjson.dumps(result["message"]))
    error = result.get("error") or {"type": result["type"]}
    kind = (error.get("error") or error).get("type")
    return BatchResult(line["custom_id"], None, words_of_error(200, error).text, kind not in LASTING_ERRORS)


def _read(lines: bytes, read: Callable[[dict[str, Any]], BatchResult]) -> Iterator[BatchResult]:
    """A line that makes no sense is as good as none: its question stays in doubt."""
    for line in lines.splitlines():
        try:
            yield read(orjson.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue


def _id(answer: Mapping[str, Any]) -> str:
    found = answer.get("id")
    if not isinstance(found, str) or not 0 < len(found) <= MAX_ID or not found.isascii():
        raise BatchRefused("its answer names no id", charged=True)
    return found


def _object(body: bytes) -> dict[str, Any]:
    try:
        found: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise BatchRefused("its answer makes no sense", charged=True)
    return cast("dict[str, Any]", found)


def _multipart(boundary: str, fields: Mapping[str, bytes], filename: str, file: bytes) -> bytes:
    form = b'--%s\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n%s\r\n'
    mark = boundary.encode()
    parts = [form % (mark, name.encode(), b"", value) for name, value in fields.items()]
    parts.append(form % (mark, b"file", b'; filename="%s"' % filename.encode(), file))
    return b"".join(parts) + b"--%s--\r\n" % mark
