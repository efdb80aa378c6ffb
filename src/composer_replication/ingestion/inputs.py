"""Which files to read: those named, and those in folders that look like session files. Links are not followed."""

from __future__ import annotations

import codecs
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from composer_replication.errors import UsageError

from .formats import TRACE_READERS, detect_format
from .reading import InputFile, Quarantined, Report

SESSION_SUFFIXES = (".jsonl", ".traj", ".json", ".aider.chat.history.md")
ALWAYS_SESSIONS = (".jsonl", ".traj")
EVENT_FOLDER = "events"
NEXT_COMMAND = "recompose ingest PATH --run DIR"


class Input(NamedTuple):
    path: Path
    format: str
    licence: str | None = None


@dataclass(frozen=True)
class Inputs:
    files: list[Input] = field(default_factory=list[Input])
    unreadable: list[Quarantined] = field(default_factory=list[Quarantined])
    skipped: Counter[str] = field(default_factory=Counter[str])


def find_inputs(paths: Sequence[Path], format_name: str | None = None) -> Inputs:
    """Session files in the order of their names. An `UsageError` when there is none at all."""
    inputs = Inputs()
    for path, named in _unique(paths, inputs.skipped):
        file = InputFile(path, Report())
        try:
            problem = _not_text(file)
            known = format_name or (None if problem else detect_format(file))
        except OSError as error:
            problem, known = f"cannot be opened: {error.strerror}", None
        if known and not problem:
            inputs.files.append(Input(path, known))
        elif problem or named or plain_name(path).endswith(ALWAYS_SESSIONS):
            inputs.unreadable.append(Quarantined(path.name, 0, problem or "is in no known format"))
        else:
            inputs.skipped["unrecognised_file"] += 1
    if not inputs.files:
        raise UsageError(_nothing_readable(paths, inputs), NEXT_COMMAND)
    return inputs


def plain_name(path: Path) -> str:
    return path.name.removesuffix(".zst")


def _unique(paths: Sequence[Path], skipped: Counter[str]) -> Iterator[tuple[Path, bool]]:
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise UsageError(f"there is no file or folder {path}", NEXT_COMMAND)
        named = path.is_file()
        for file in [path] if named else _session_files(path, skipped):
            if file not in seen:
                seen.add(file)
                yield file, named


def _session_files(root: Path, skipped: Counter[str]) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders.sort()
        here = Path(folder)
        if here.name == EVENT_FOLDER and any(name.startswith("event-") for name in names):
            yield here
            folders.clear()
            continue
        for name in sorted(names):
            file = here / name
            if not plain_name(file).endswith(SESSION_SUFFIXES) or file.is_symlink():
                continue
            if name.startswith("agent-") or "subagents" in file.relative_to(root).parts[:-1]:
                skipped["subagent_file"] += 1
            else:
                yield file


def _not_text(file: InputFile) -> str | None:
    head = b"" if file.path.is_dir() else file.head()
    if not head.strip() and not file.path.is_dir():
        return "is empty"
    if b"\0" in head:
        return "is not text"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "is not text"
    return None


def _nothing_readable(paths: Sequence[Path], inputs: Inputs) -> str:
    given = ", ".join(str(path) for path in paths) or "no path"
    if not inputs.unreadable:
        return f"no session file in {given}"
    first = inputs.unreadable[0]
    known = f" (known: {', '.join(TRACE_READERS)})" if "format" in first.reason else ""
    if len(inputs.unreadable) == 1:
        return f"{given}: {first.file} {first.reason}{known}"
    number = len(inputs.unreadable)
    return f"none of {number} files in {given} could be read, the first: {first.file} {first.reason}{known}"
