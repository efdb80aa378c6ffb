"""A run as a folder that opens from `file://`: the page's own files, and each answer in a script of its own.

Writes DIR/index.html and the like, and DIR/data/*.js. Holds the answers of `_questions` and the texts to search, within
the limits below; not the bytes of source files, which are not redacted, whole messages that a window cuts, nor votes by
person. It may go to anybody: of the machine's paths only the run's folder name is kept, and what is about the machine
(settings, errors) is redacted. A folder that is there and not empty is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, cast
from urllib.parse import quote

import orjson

from composer_replication.errors import RecomposeError, UsageError
from composer_replication.progress import Progress
from composer_replication.records import JsonObject
from composer_replication.redaction import Redactor

from .api import Library, encoded
from .lookup import FACETS, MAX_ROWS, RunView
from .search import texts_of

WINDOW, MAX_LISTED, MAX_SEARCHED_CHARS = 50, 5000, 20_000_000
PAGES = ("site", "reply", "pair", "rollout", "finding")
"""Kinds whose records have an answer of their own, of the same name."""
LEFT_OUT = "(a path, left out)"


def export(library: Library, folder: Path, page: Mapping[str, bytes], progress: Progress) -> int:
    """Number of answers written."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not empty", "choose another folder for --export")
    data = folder / "data"
    data.mkdir(parents=True)
    for name, content in page.items():
        (folder / name).write_bytes(content)
    names: dict[str, str] = {}
    for address, answer in _answers(library):
        names[address] = name = f"{len(names):06d}.js"
        (data / name).write_bytes(_script("recompose_data", address, encoded(answer)))
        if len(names) % 100 == 0:
            progress.note(f"{len(names)} views written")
    (data / "index.js").write_bytes(b"recompose_index(" + _inside_script(orjson.dumps(names)) + b");\n")
    return len(names)


def address(run: str, name: str, query: Mapping[str, object]) -> str:
    """As the page writes it: the names of the query in order of the alphabet, encoded like `encodeURIComponent`."""
    pairs = [f"{quote(key, safe=_KEPT)}={quote(str(query[key]), safe=_KEPT)}" for key in sorted(query)]
    return f"/api/{quote(run, safe=_KEPT)}/{name}{'?' if pairs else ''}{'&'.join(pairs)}"


_KEPT = "!~*'()"


def _answers(library: Library) -> Iterator[tuple[str, JsonObject]]:
    for view in library.views.values():
        view.place = view.run.path.resolve().name
    yield "/api/runs", {**Redactor().json_value(_without_paths(library.about())), "is_export": True}
    for run, view in library.views.items():
        view.fresh()
        for name, query in _questions(library, run, view):
            yield from _answered(library, run, name, query)
        yield address(run, "texts", {}), _texts(view)


def _answered(library: Library, run: str, name: str, query: dict[str, str]) -> Iterator[tuple[str, JsonObject]]:
    at = address(run, name, query)
    try:
        answer = library.answer(run, name, query)
    except RecomposeError as error:
        view, told = library.view(run), {"error": str(error.args[0]), "next": error.next_command}
        here = f"{view.run.path}/"  # of a file of the run that cannot be read
        yield at, Redactor().json_value({key: text.replace(here, f"{view.place}/") for key, text in told.items()})
        return
    yield at, Redactor().json_value(_without_paths(answer)) if name == "run" else answer
    if name == "trace" and answer["to"] < min(int(query["to"]), answer["n_turns"]):
        yield from _answered(library, run, name, {**query, "from": str(answer["to"])})


def _without_paths(value: Any) -> Any:
    """Settings name folders in many places: sessions, tasks, a harness, a model."""
    if isinstance(value, dict):
        fields = cast("JsonObject", value)
        return {
            name: LEFT_OUT if name == "paths" and inner else _without_paths(inner) for name, inner in fields.items()
        }
    if isinstance(value, list):
        return [_without_paths(inner) for inner in cast("list[Any]", value)]
    return LEFT_OUT if isinstance(value, str) and _is_path(value) else value


def _is_path(text: str) -> bool:
    return text.startswith(("~", "./", "../")) or any(
        kind(text).is_absolute() for kind in (PurePosixPath, PureWindowsPath)
    )


def _questions(library: Library, run: str, view: RunView) -> Iterator[tuple[str, dict[str, str]]]:
    for name in ("run", "agreement", "training", "monitor", "compare", "tokens"):
        yield name, {}
    yield from (("compare", {"with": other}) for other in library.views if other != run)
    for kind in FACETS:
        for offset in range(0, MAX_LISTED, MAX_ROWS):
            if not offset or view.cache.rows("SELECT COUNT(*) FROM records WHERE kind = ?", kind)[0][0] > offset:
                yield "list", {"kind": kind, "limit": str(MAX_ROWS), "offset": str(offset)}
        for record_id, turns in _ids(view, kind):
            if kind in PAGES:
                yield kind, {"id": record_id}
            if kind != "tokens":
                yield "show", {"id": record_id}
            for start in range(0, turns, WINDOW):
                yield "trace", {"id": record_id, "from": str(start), "to": str(start + WINDOW)}
    yield from (
        ("tokens", {"id": row[0]}) for row in view.cache.rows("SELECT DISTINCT id FROM records WHERE kind = 'tokens'")
    )
    yield from (("saw", {"trace": row[0], "turn": str(row[1])}) for row in view.cache.rows(_STATES))
    yield from (("task", {"id": row[0]}) for row in view.cache.rows(_TASKS))


_STATES = "SELECT DISTINCT trace_id, turn FROM records WHERE kind IN ('site', 'pair')"
_TASKS = "SELECT DISTINCT facts ->> 'task_id' FROM records WHERE facts ->> 'task_id' IS NOT NULL"


def _ids(view: RunView, kind: str) -> Iterator[tuple[str, int]]:
    """Of kinds that are shown alone; traces with their number of turns."""
    if kind in ("outcome", "verdict", "tokens"):
        return
    query = "SELECT id, facts ->> 'turns' FROM records WHERE kind = ? ORDER BY number"
    for record_id, turns in view.cache.rows(query, kind):
        yield record_id, int(turns) if kind == "trace" else 0


def _texts(view: RunView) -> JsonObject:
    """What a page without a server searches, up to what a browser can hold."""
    texts, chars = list[JsonObject](), 0
    for text in _all_texts(view):
        chars += len(text["text"])
        if chars > MAX_SEARCHED_CHARS:
            return {"texts": texts, "more": True}
        texts.append(text)
    return {"texts": texts, "more": False}


def _all_texts(view: RunView) -> Iterator[JsonObject]:
    query = "SELECT kind, id, turn, trace_id, body FROM records WHERE kind != 'tokens' ORDER BY number"
    for kind, record_id, turn, trace_id, body in view.cache.db.execute(query):
        for document in texts_of(view.cache, kind, record_id, body):
            place = {"kind": kind, "id": record_id, "turn": turn, "trace_id": trace_id}
            yield {**place, "field": document.field, "message": document.place, "text": document.text}


def _script(function: str, at: str, answer: bytes) -> bytes:
    return b"".join((function.encode(), b"(", _inside_script(orjson.dumps(at)), b",", _inside_script(answer), b");\n"))


def _inside_script(value: bytes) -> bytes:
    """JSON that is safe in a script, also where a file is pasted into a page."""
    return value.replace(b"<", b"\\u003c").replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
