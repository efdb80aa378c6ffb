"""The hot path of the Claude Code reader: only the fields that matter are decoded, the rest is skipped as raw bytes.

The sidecar `toolUseResult` alone is a third of all bytes, and progress records another fifth.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
import orjson
from msgspec import UNSET, Raw, Struct, UnsetType

from ..reading import BYTE_ORDER_MARK, parse_json

NOTHING = Raw(b"null")
PROGRESS = b'"type":"progress"'
HEAD_BYTES = 512


class LoggedMessage(Struct, gc=False):
    id: str | None = None
    model: str | None = None
    content: Raw = NOTHING


class Attachment(Struct, gc=False):
    type: str | None = None
    hookEvent: str | None = None
    content: Raw = NOTHING
    files: Raw = NOTHING
    rendered: Raw = NOTHING
    prompt: Raw = NOTHING
    systemPrompt: Raw = NOTHING
    tools: Raw = NOTHING
    snippet: Raw = NOTHING
    filename: Raw = NOTHING
    addedLines: Raw = NOTHING
    addedBlocks: Raw = NOTHING
    newDate: Raw = NOTHING


class LoggedRecord(Struct, gc=False):
    type: str | None = None
    subtype: str | None = None
    uuid: str | None = None
    parentUuid: str | UnsetType | None = UNSET
    sessionId: str | None = None
    agentId: str | None = None
    version: str | None = None
    isSidechain: bool | None = None
    isMeta: bool | None = None
    isCompactSummary: bool | None = None
    isApiErrorMessage: bool | None = None
    operation: str | None = None
    message: LoggedMessage | None = None
    attachment: Attachment | None = None
    content: Raw = NOTHING
    compactMetadata: Raw = NOTHING
    microcompactMetadata: Raw = NOTHING


class Block(Struct, gc=False):
    type: str | None = None
    id: str | None = None
    tool_use_id: str | None = None
    name: str | None = None
    is_error: bool | None = None
    text: Raw = NOTHING
    thinking: Raw = NOTHING
    input: Raw = NOTHING
    content: Raw = NOTHING
    source: Raw = NOTHING


_RECORD = msgspec.json.Decoder(LoggedRecord)
_BLOCKS = msgspec.json.Decoder(list[Block])
_STRUCTS: dict[str, type[Struct]] = {"message": LoggedMessage, "attachment": Attachment}
_TYPES = {"str": str, "bool": bool}


def is_bulky(raw: bytes) -> bool:
    """Whether a line is a progress record, judged by its first bytes: these only report to the screen."""
    at = raw.find(PROGRESS, 0, HEAD_BYTES)
    return at > 0 and raw.find(b"{", 1, at) < 0 and raw.endswith(b"}\n")


def decode(raw: bytes) -> LoggedRecord:
    """A `ValueError` where the line is not a JSON object. A field of an unexpected type counts as absent."""
    try:
        return _RECORD.decode(raw)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
        value = parse_json(raw.removeprefix(BYTE_ORDER_MARK))
        if not isinstance(value, dict):
            raise ValueError("not a JSON object") from None
        return _RECORD.decode(orjson.dumps(_fitting(cast(dict[str, Any], value), LoggedRecord)))


def blocks_of(content: Raw) -> list[Block]:
    """The blocks of a message; a plain string is one text block."""
    data = bytes(content)
    if data.startswith(b'"'):
        return [Block(type="text", text=content)]
    try:
        return _BLOCKS.decode(data)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
        parts = loads(content)
        return [_lenient_block(part) for part in parts] if isinstance(parts, list) else []


def _lenient_block(part: Any) -> Block:
    if not isinstance(part, dict):
        return Block(type="text", text=Raw(orjson.dumps(str(part))))
    return msgspec.json.decode(orjson.dumps(_fitting(cast(dict[str, Any], part), Block)), type=Block)


def _fitting(value: dict[str, Any], struct: type[Struct]) -> dict[str, Any]:
    """The fields of a struct that have the declared type."""
    kept: dict[str, Any] = {}
    for name, annotation in struct.__annotations__.items():
        item = value.get(name)
        declared = annotation.split(" ")[0]
        if declared == "Raw":
            if name in value:
                kept[name] = item
        elif name in _STRUCTS:
            if isinstance(item, dict):
                kept[name] = _fitting(cast(dict[str, Any], item), _STRUCTS[name])
        elif isinstance(item, _TYPES[declared]):
            kept[name] = item
    return kept


def loads(raw: Raw) -> Any:
    return parse_json(bytes(raw))
