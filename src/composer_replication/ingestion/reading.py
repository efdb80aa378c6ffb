"""One input file as lines or as JSON documents, and the report of what could not be used.

Nothing here raises for bad input: a line or file that cannot be read is quarantined with its place and a reason.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, cast

import orjson
import zstandard

from composer_replication.records import JsonObject
from composer_replication.store import hash_of

from .tables import TABLE_SUFFIXES, open_table
from .values import as_list, as_objects

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_LINE_BYTES = 64 << 20
MAX_DOCUMENT_BYTES = 256 << 20
MAX_NAME_CHARS = 40
HEAD_BYTES = 1 << 16
HEAD_RECORDS = 50
_LABEL = re.compile(r"[\w./:@+ -]*")
BUFFER_BYTES = 1 << 18
OF_A_LINE = ("not JSON", "not a JSON object", "nested too deeply", "line longer than")
"""How reasons begin for which one line or row is set aside, and not its file."""


def is_of_a_line(reason: str) -> bool:
    return reason.startswith(OF_A_LINE)


@dataclass(frozen=True)
class Quarantined:
    """Input that was set aside: the name of the `file`, where in it, and why."""

    file: str
    byte_offset: int
    reason: str


@dataclass
class ReadingReport:
    """What a reader left out, and why."""

    quarantined: list[Quarantined] = field(default_factory=list[Quarantined])
    skipped: Counter[str] = field(default_factory=Counter[str])
    """Rows left out on purpose, by reason."""
    unknown: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """Census of record types that the reader does not know, by version of the agent."""
    redactions: Counter[str] = field(default_factory=Counter[str])
    """Secrets that were rewritten, by kind."""
    left_as_is: Counter[str] = field(default_factory=Counter[str])
    """Strings that look random and were not rewritten, by kind."""

    def skip(self, group: str, kind: object) -> None:
        """Count something that is left out on purpose: `group/kind`."""
        self.skipped[f"{group}/{label(kind)}"] += 1

    def meet_unknown(self, version: str | None, kind: object) -> None:
        """Count a `kind` of record that the reader does not know, by `version` of the agent."""
        self.unknown.setdefault(label(version or "unknown"), Counter())[label(kind)] += 1
        self.skip("unknown", kind)

    def objects(self, value: Any) -> list[JsonObject]:
        """The objects of a list of messages; what else it holds is counted as unknown."""
        items = as_list(value)
        for item in items:
            if not isinstance(item, dict):
                self.meet_unknown(None, type(item).__name__)
        return as_objects(items)


@lru_cache(1024)
def _plain_label(text: str) -> bool:
    from composer_replication.redaction import find_secrets

    return _LABEL.fullmatch(text) is not None and not find_secrets(text, personal=True)


def label(kind: object) -> str:
    """A name found in a file, as reports may show it: short, plain, and no secret."""
    text = str(kind)
    return text if len(text) <= MAX_NAME_CHARS and _plain_label(text) else "(other)"


class TextRedactor(Protocol):
    """What a reader needs of a redactor."""

    counts: Counter[str]
    reported: Counter[str]

    def text(self, value: str) -> str: ...

    def json_text(self, value: str) -> str: ...

    def json_value(self, value: Any) -> Any: ...


class Unredacted:
    """For people who typed `--allow-unredacted`."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.reported: Counter[str] = Counter()

    def text(self, value: str) -> str:
        return value

    def json_text(self, value: str) -> str:
        return value

    def json_value(self, value: Any) -> Any:
        return value


class RawLine(NamedTuple):
    """A line as it stands in the file, `raw`, from byte `start` to byte `end`."""

    raw: bytes
    start: int
    end: int


class Document(NamedTuple):
    """A JSON value, from byte `start` to byte `end` of the file."""

    value: Any
    start: int
    end: int


@dataclass
class InputFile:
    """A session file, plain, `.zst` or `.gz`, or a table. Byte offsets count uncompressed bytes, of a table those of
    its rows as JSON lines."""

    path: Path
    report: ReadingReport
    redact: bool = True
    """Whether secrets are rewritten."""
    licence: str | None = None
    """Goes into the source of each trace."""
    name: str = ""
    """How artefacts call the file."""
    subagents: bool = False
    """Whether sessions of subagents are wanted."""

    def __post_init__(self) -> None:
        self.name = self.name or self.path.name

    def sha256(self) -> str:
        """Of the bytes on disk; of a folder, of its files in their order."""
        return hash_of(sorted(self.path.glob("*.json")) if self.path.is_dir() else [self.path])

    def new_redactor(self) -> TextRedactor:
        if not self.redact:
            return Unredacted()
        from composer_replication.redaction import Redactor

        return Redactor()

    @contextmanager
    def open(self) -> Generator[BinaryIO]:
        if self.path.suffix in TABLE_SUFFIXES:
            with open_table(self.path) as lines:
                yield lines
            return
        with self.path.open("rb", buffering=BUFFER_BYTES) as raw:
            if self.path.suffix == ".gz":
                with gzip.open(raw) as plain:
                    yield cast(BinaryIO, plain)
                return
            if self.path.suffix != ".zst":
                yield raw
                return
            with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as plain:
                yield cast(BinaryIO, io.BufferedReader(cast(Any, plain), BUFFER_BYTES))

    def leaves_out_subagent(self) -> bool:
        """Asked for each session of a subagent; counts it when it is not wanted."""
        self.report.skipped["subagent"] += not self.subagents
        return not self.subagents

    def quarantine(self, byte_offset: int, reason: str) -> None:
        """Set aside what stands at `byte_offset`, and go on."""
        self.report.quarantined.append(Quarantined(self.name, byte_offset, reason))

    def lines(self, only_to_look: bool = False) -> Iterator[RawLine]:
        """Lines that are not blank. A line above `MAX_LINE_BYTES` is quarantined without being held in memory; with
        `only_to_look` it is just passed over."""
        if self.path.is_dir():
            yield from self._files_as_lines()
            return
        end = 0
        with self.open() as handle:
            while raw := handle.readline(MAX_LINE_BYTES):
                start, end = end, end + len(raw)
                if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
                    while raw and not raw.endswith(b"\n"):
                        raw = handle.readline(MAX_LINE_BYTES)
                        end += len(raw)
                    if not only_to_look:
                        self.quarantine(start, f"line longer than {MAX_LINE_BYTES} bytes")
                elif not raw.isspace():
                    yield RawLine(raw, start, end)

    def _files_as_lines(self) -> Iterator[RawLine]:
        """A folder with one JSON file per event reads like one log; offsets run through all of them."""
        end = 0
        for file in sorted(self.path.glob("*.json")):
            raw = file.read_bytes() + b"\n"
            start, end = end, end + len(raw)
            yield RawLine(raw, start, end)

    def records(self) -> Iterator[tuple[JsonObject, RawLine]]:
        """The objects of a JSON-lines file. What is not one is quarantined; see `refuse`."""
        for line in self.lines():
            try:
                value = parse_shallow_json(line.raw)
            except ValueError as error:
                self.refuse(line, error)
                continue
            if isinstance(value, dict):
                yield cast(JsonObject, value), line
            else:
                self.quarantine(line.start, "not a JSON object")

    def refuse(self, line: RawLine, error: Exception) -> None:
        """Quarantine a line for `error`. A last line that has no newline and does not parse is a write in progress,
        which is normal: count it only."""
        if line.raw.endswith(b"\n"):
            self.quarantine(line.start, f"not JSON: {error}")
        else:
            self.report.skipped["torn_last_line"] += 1

    def documents(self) -> Iterator[Document]:
        """The JSON values of a file: one, if the whole file is a value, else one per line."""
        whole = None if self._begins_as_a_log() else self.whole()
        if whole:
            yield whole
        elif self._is_a_log():
            for record, line in self.records():
                yield Document(record, line.start, line.end)
        else:
            self.quarantine(0, "not a JSON document")

    def head(self) -> bytes:
        with self.open() as handle:
            return handle.read(HEAD_BYTES)

    def text(self) -> str:
        with self.open() as handle:
            data = handle.read(MAX_DOCUMENT_BYTES)
        return data.decode("utf-8", "replace")

    def whole(self) -> Document | None:
        with self.open() as handle:
            data = handle.read(MAX_DOCUMENT_BYTES)
        try:
            value = parse_shallow_json(data)
        except ValueError:
            return None
        return Document(value, 0, len(data))

    def _begins_as_a_log(self) -> bool:
        """Whether the first line is a value and another line follows: then there is no need to hold the whole file."""
        first = list(islice(self.lines(only_to_look=True), 2))
        return len(first) == 2 and is_json(first[0].raw)

    def _is_a_log(self) -> bool:
        """Whether a line among the first is a value of its own. Lines inside a document that was cut are indented."""
        head = islice(self.lines(only_to_look=True), HEAD_RECORDS)
        return any(line.raw[:1] in b"{[\xef" and is_json(line.raw) for line in head)


def is_json(raw: bytes) -> bool:
    try:
        parse_json(raw)
    except ValueError:
        return False
    return True


def parse_json(raw: bytes) -> Any:
    """A JSON value, strictly; a `ValueError` otherwise."""
    text = raw.removeprefix(BYTE_ORDER_MARK)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        # Agents written in JavaScript cut strings inside an emoji; orjson refuses the half that is left.
        if b"\\ud" not in text.lower():
            raise
        try:
            return orjson.loads(json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace"))
        except (ValueError, RecursionError):
            raise error from None


def parse_shallow_json(raw: bytes) -> Any:
    """Like `parse_json`, and refuses what is nested more deeply than it could be written again."""
    value = parse_json(raw)
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise ValueError("nested too deeply") from error
    return value
