"""One run is one compressed file of JSON lines; `line` says what a line is."""

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import zstandard

from composer_replication.runs import write_lines


def write_lines_of(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}")
    write_lines(partial, ((json.dumps(rounded(line)) + "\n").encode() for line in lines))
    partial.rename(path)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as plain:
        for line in io.TextIOWrapper(plain, encoding="utf-8"):
            yield json.loads(line)


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(own) for key, own in value.items()}
    return [rounded(own) for own in value] if isinstance(value, list | tuple) else value
