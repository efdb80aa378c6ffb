"""Raw results of an experiment: one run is one compressed file of JSON lines, and `line` says what a line is."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import zstandard

from composer_replication.runs import write_lines

SUFFIX = ".jsonl.zst"


def write_result(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Whole or not at all. Numbers are kept to six digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}")
    write_lines(partial, ((json.dumps(_rounded(line)) + "\n").encode() for line in lines))
    partial.rename(path)


def read_result(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as plain:
        for line in io.TextIOWrapper(plain, encoding="utf-8"):
            yield json.loads(line)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(own) for key, own in cast("dict[str, Any]", value).items()}
    return [_rounded(own) for own in cast("list[Any]", value)] if isinstance(value, list | tuple) else value
