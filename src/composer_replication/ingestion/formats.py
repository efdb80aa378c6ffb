"""The formats we read: one line each. A reader is a function from an input file to sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple, cast

from .readers import (
    adp,
    aider,
    atif,
    claude_code,
    cline,
    codex,
    copilot_cli,
    gemini_cli,
    mini_swe_agent,
    openai_messages,
    openhands_v0,
    openhands_v1,
    swe_agent,
    swe_smith,
    verifiers,
)
from .reading import BYTE_ORDER_MARK, HEAD_BYTES, HEAD_RECORDS, InputFile, parse_json
from .session import Session


class Format(NamedTuple):
    recognises: Callable[[Any], bool]
    """Whether a JSON value can only come from this format: a record of a log, a whole document, or, where the file is
    not JSON, its first characters as a string."""
    read: Callable[[InputFile], Iterator[Session]]


TRACE_READERS: dict[str, Format] = {
    "claude_code": Format(claude_code.recognises, claude_code.read),
    "codex": Format(codex.recognises, codex.read),
    "atif": Format(atif.recognises, atif.read),
    "openhands_v1": Format(openhands_v1.recognises, openhands_v1.read),
    "openhands_v0": Format(openhands_v0.recognises, openhands_v0.read),
    "swe_agent": Format(swe_agent.recognises, swe_agent.read),
    "swe_smith": Format(swe_smith.recognises, swe_smith.read),
    "mini_swe_agent": Format(mini_swe_agent.recognises, mini_swe_agent.read),
    "verifiers": Format(verifiers.recognises, verifiers.read),
    "gemini_cli": Format(gemini_cli.recognises, gemini_cli.read),
    "copilot_cli": Format(copilot_cli.recognises, copilot_cli.read),
    "cline": Format(cline.recognises, cline.read),
    "adp": Format(adp.recognises, adp.read),
    "aider": Format(aider.recognises, aider.read),
    "messages": Format(openai_messages.recognises, openai_messages.read),
}


def detect_format(file: InputFile) -> str | None:
    """The name of the format that the file shows, or None: the first of all that recognise one of its values."""
    found = list(TRACE_READERS.items())
    best: int | None = None
    for value in _head_values(file):
        known = (place for place, (_, format) in enumerate(found[:best]) if format.recognises(value))
        best = next(known, best)
        if best == 0:
            break
    return None if best is None else found[best][0]


def _head_values(file: InputFile) -> Iterator[Any]:
    """The first records of a log; else the whole document, and its first item if it is a list; else the text."""
    lines = list(_head_lines(file))
    values = map(_value, lines)
    first = next(values, None)
    # Without a line that is short enough it may be a document on a single one.
    begins_a_document = first is None and (not lines or lines[0].lstrip(BYTE_ORDER_MARK + b" \t")[:1] in (b"{", b"["))
    document = file.whole() if begins_a_document else None
    is_text = True
    for value in [document.value] if document else chain([first], values):
        if isinstance(value, list) and value:
            yield cast(list[Any], value)[0]
        if value is not None:
            yield value
        is_text = is_text and not isinstance(value, dict | list)
    if is_text:
        yield b"".join(lines).decode("utf-8", "replace")


def _head_lines(file: InputFile) -> Iterator[bytes]:
    taken = 0
    for line in islice(file.lines(only_to_look=True), HEAD_RECORDS):
        yield line.raw
        taken += len(line.raw)
        if taken > HEAD_BYTES:
            return


def _value(line: bytes) -> Any:
    try:
        return parse_json(line)
    except ValueError:
        return None
