"""Which files to read: those named, and those in folders that look like session files.

Links in folders are not followed, because they may lead anywhere; they are counted, those to folders by name.
"""

from __future__ import annotations

import codecs
import os
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from typing import NamedTuple

from composer_replication import __version__
from composer_replication.errors import UsageError
from composer_replication.records import content_id
from composer_replication.redaction import Redactor

from .formats import TRACE_READERS, detect_format
from .reading import InputFile, Quarantined, ReadingReport, is_json, label
from .tables import TABLE_SUFFIXES

SESSION_SUFFIXES = (".jsonl", ".traj", ".json", ".aider.chat.history.md", *TABLE_SUFFIXES)
ALWAYS_SESSIONS = (".jsonl", ".traj")
EVENT_FOLDER = "events"
RUN_FILES = {"config.json", "manifest.json"}
NEXT_COMMAND = "recompose ingest PATH --run DIR"
WHOLE_FILES = (
    "duplicate_session", "session_without_turns", "subagent", "subagent_file", "unrecognised_file", "link",
    "linked_folder", "not_a_file", "run_folder",
)  # fmt: skip
"""Of what is skipped, files and sessions that gave no trace; all else are lines and turns of those that did."""


class Input(NamedTuple):
    """One session file."""

    path: Path
    format: str
    """A name of `TRACE_READERS`."""
    licence: str | None = None
    """As its folder or the user names it."""
    name: str = ""
    """How artefacts call the file: its path below the folder that was given, redacted."""
    state: str = ""
    """Changes when the file does."""
    size: int = 0
    """Bytes on disk."""
    place: str = ""
    """Which file it is among those of the given paths, whatever other files there are."""


@dataclass(frozen=True)
class Inputs:
    """Session `files` that were found, what was `unreadable`, and by reason how many were `skipped`."""

    files: list[Input] = field(default_factory=list[Input])
    unreadable: list[Quarantined] = field(default_factory=list[Quarantined])
    skipped: Counter[str] = field(default_factory=Counter[str])
    subagents: bool = False
    """Whether sessions of subagents are wanted."""


def is_whole_file(reason: str) -> bool:
    return reason.partition("/")[0] in WHOLE_FILES


class InputCandidate(NamedTuple):
    path: Path
    name: str
    was_named: bool
    is_subagent: bool = False
    place: str = ""


def find_inputs(
    paths: Sequence[Path],
    format_name: str | None = None,
    subagents: bool = False,
    formats: Mapping[tuple[str, str], str] | None = None,
    at_most: int | None = None,
    places: Mapping[str, str] | None = None,
) -> Inputs:
    """Session files in the order of their names. An `UsageError` when there is none at all.

    Args:
        paths: Files and folders.
        format_name: A name of `TRACE_READERS`; without it a file is recognised by what it holds.
        subagents: Whether sessions of subagents are wanted.
        formats: Those of files that were read before, by name and state.
        at_most: Stop after so many.
        places: Those of files that were read before, by name: one that is gone keeps its name.
    """
    inputs = Inputs(subagents=subagents)
    for candidate in _candidates(paths, inputs, places or {}):
        if at_most is not None and len(inputs.files) >= at_most:
            break
        path, name = candidate.path, candidate.name
        state, size = _state(path)
        known, problem = (formats or {}).get((name, state)), None
        if known is None:
            known, problem = _inspect(InputFile(path, ReadingReport()), format_name)
        if known == "claude_code" and candidate.is_subagent and not subagents:
            inputs.skipped["subagent_file"] += 1
        elif known:
            inputs.files.append(Input(path, known, name=name, state=state, size=size, place=candidate.place))
        elif problem or candidate.was_named or _plain_name(path).endswith(ALWAYS_SESSIONS):
            inputs.unreadable.append(Quarantined(name, 0, problem or "is in no known format"))
        else:
            inputs.skipped["unrecognised_file"] += 1
    if not inputs.files:
        only_subagents = inputs.skipped["subagent_file"] and not inputs.unreadable
        next_command = f"{NEXT_COMMAND} --subagents" if only_subagents else NEXT_COMMAND
        raise UsageError(_nothing_readable(paths, inputs), next_command)
    return inputs


@contextmanager
def embedded_session() -> Generator[Input]:
    """A real Claude Code session that ships with the package, so that everything can be tried without traces of one's
    own: of the claude-code-viewer project; see `data/SOURCES.md`."""
    with as_file(files("composer_replication") / "data" / "claude_code_session.jsonl") as path:
        yield Input(path, "claude_code", licence="MIT", state=__version__, size=path.stat().st_size)


def _state(path: Path) -> tuple[str, int]:
    """What tells whether a file is as it was, without reading it, and its bytes. Of a folder, those of its files."""
    try:
        found = [file.stat() for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    except OSError:
        return "", 0
    parts = [(one.st_size, one.st_mtime_ns, one.st_ino) for one in found]
    return content_id(parts), sum(one.st_size for one in found)


def _inspect(file: InputFile, format_name: str | None) -> tuple[str | None, str | None]:
    """The format of a file, or why it cannot be read. Whatever a file holds, others are not harmed."""
    try:
        problem = None if file.path.is_dir() else _not_text(file.head())
        return (None, problem) if problem else (format_name or detect_format(file), None)
    except OSError as error:
        return None, f"cannot be opened: {error.strerror}"
    except ModuleNotFoundError as error:
        return None, f"needs {error.name}: pip install 'composer-replication[parquet]'"
    except Exception as error:
        return None, f"cannot be read: {type(error).__name__}"


def _candidates(paths: Sequence[Path], inputs: Inputs, places: Mapping[str, str]) -> Iterator[InputCandidate]:
    names = _Names()
    found = _unnamed(paths, inputs, names)
    if places:
        found = list(found)
        there = {file.place for file in found}
        names.gone = {name for name, place in places.items() if place and place not in there}
    for file in found:
        yield file._replace(name=names.of(file.path, file.name))


def _unnamed(paths: Sequence[Path], inputs: Inputs, names: _Names) -> Iterator[InputCandidate]:
    """Each file once, with the end of its path that may be its name."""
    seen: set[Path] = set()
    for number, path in enumerate(paths):
        if not (path.is_file() or path.is_dir()):
            raise UsageError(f"there is no file or folder {path}", NEXT_COMMAND)
        for file in [InputCandidate(path, path.name, True)] if path.is_file() else _walk(path, inputs, names):
            if file.path not in seen:
                seen.add(file.path)
                yield file._replace(place=content_id(number, os.fsencode(file.path.relative_to(path)).hex()))


class _Names:
    """How artefacts call files and folders: redacted, and each its own."""

    def __init__(self) -> None:
        self._redactor, self._taken = Redactor(), Counter[str]()
        self.gone: Set[str] = frozenset()
        """Names of files that were read before and are no longer there."""

    def of(self, path: Path, name: str) -> str:
        """`name`, the end of the path, or one part more of it where that is empty, taken, or of a file that is gone."""
        shown = self._redacted(name)
        if not shown or shown in self._taken or shown in self.gone:
            # The whole path is redacted, because its end alone would not look like a home folder.
            parts = self._redacted(str(path.absolute())).split("/")
            shown = "/".join(parts[-len(Path(name).parts) - 1 :])
        while True:
            self._taken[shown] += 1
            numbered = shown if self._taken[shown] == 1 else f"{shown} ({self._taken[shown]})"
            if numbered not in self.gone:
                return numbered

    def _redacted(self, text: str) -> str:
        return self._redactor.text(os.fsencode(text).decode("utf-8", "replace"))


def _walk(root: Path, inputs: Inputs, names_of: _Names) -> Iterator[InputCandidate]:
    def set_aside(error: OSError) -> None:
        folder = Path(error.filename)
        name = names_of.of(folder, str(folder.relative_to(root)) if folder != root else "")
        inputs.unreadable.append(Quarantined(f"{name}/", 0, f"cannot be opened: {error.strerror}"))

    for folder, folders, names in os.walk(root, onerror=set_aside):
        folders.sort()
        here = Path(folder)
        for name in folders:
            if (here / name).is_symlink():
                inputs.skipped[f"linked_folder/{label(name)}"] += 1
        if set(names) >= RUN_FILES and "ingestion" in folders:
            inputs.skipped["run_folder"] += 1
            folders.clear()
        elif here.name == EVENT_FOLDER and any(name.startswith("event-") for name in names):
            yield InputCandidate(here, str(here.relative_to(root.parent)), False)
            folders.clear()
        else:
            yield from _session_files(root, here, sorted(names), inputs.skipped)


def _session_files(root: Path, folder: Path, names: Sequence[str], skipped: Counter[str]) -> Iterator[InputCandidate]:
    for name in names:
        file = folder / name
        if not _plain_name(file).endswith(SESSION_SUFFIXES):
            continue
        if file.is_symlink():
            skipped["link"] += 1
        elif file.is_file():
            below = file.relative_to(root)
            yield InputCandidate(file, str(below), False, name.startswith("agent-") or "subagents" in below.parts[:-1])
        else:
            skipped["not_a_file"] += 1


def _plain_name(path: Path) -> str:
    return path.name.removesuffix(".zst").removesuffix(".gz")


def _not_text(head: bytes) -> str | None:
    """A damaged byte among lines that can be read costs its line only; the reader sets that aside."""
    if not head.strip():
        return "is empty"
    return None if _is_text(head) or any(map(is_json, head.splitlines())) else "is not text"


def _is_text(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return b"\0" not in head


def _nothing_readable(paths: Sequence[Path], inputs: Inputs) -> str:
    given = ", ".join(str(path) for path in paths) or "no path"
    left_out = ", ".join(f"{count} {reason}" for reason, count in (+inputs.skipped).items())
    if not inputs.unreadable:
        return f"no session file in {given}" + (f" (left out: {left_out})" if left_out else "")
    first = inputs.unreadable[0]
    known = f" (known: {', '.join(TRACE_READERS)})" if "format" in first.reason else ""
    if len(inputs.unreadable) == 1:
        return f"{given}: {first.file} {first.reason}{known}"
    number = len(inputs.unreadable)
    return f"none of {number} files in {given} could be read, the first: {first.file} {first.reason}{known}"
