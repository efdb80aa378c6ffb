"""Search over all text of a run: substrings, without regard to case. SQLite FTS5 with trigrams, built when first used.

The index holds no text and no positions: it names candidates, and the text itself, from the cache, decides. One table
per source, so that a stage that was made again is indexed again alone. Building goes on where it stopped.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from composer_replication.errors import UsageError
from composer_replication.records import JsonObject, render_action

from .cache import CHUNK, Cache, unpacked
from .lookup import RunView, number

TEXTS: dict[str, tuple[str, ...]] = {
    "site": ("error_message",),
    "hint": ("text", "sham_text"),
    "reply": ("action", "raw"),
    "finding": ("lines",),
    "pair": ("chosen", "rejected"),
    "rollout": ("prompt", "turns"),
}
"""Fields of records that are searched; messages of traces besides."""
AROUND, WAIT_S, BATCH, MAX_CANDIDATES, MAX_RESULTS = 80, 1.5, 500, 5000, 200
TURN_S = 0.5
"""How long the index may keep others from writing to the cache."""
_WORDS = re.compile(r'"([^"]+)"|(\S+)')
_TABLES = """
CREATE TABLE IF NOT EXISTS documents (
    number INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, record INTEGER NOT NULL, field TEXT NOT NULL,
    place INTEGER
);
CREATE INDEX IF NOT EXISTS documents_of ON documents (source);
CREATE TABLE IF NOT EXISTS indexed (
    source TEXT PRIMARY KEY, mark TEXT NOT NULL, last INTEGER NOT NULL, ahead INTEGER NOT NULL
) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS trigrams USING fts5(text, content='', detail=none, tokenize='trigram');
"""


class SearchText(NamedTuple):
    """A text: a field of a record, or a message of a trace (`place`)."""

    field: str
    place: int | None
    text: str


class Indexer:
    """Builds in a thread of its own; `show` never starts it."""

    def __init__(self, view: RunView) -> None:
        self._view, self._lock = view, threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._failure: BaseException | None = None

    def ensure(self, wait_s: float = WAIT_S) -> JsonObject | None:
        """Begin or go on, and wait a little. How far it is, or None when all is indexed."""
        cache = self._view.fresh()
        cache.db.executescript(_TABLES)
        with self._lock:
            if self._thread is None and pending(cache):
                self._failure = None
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()
            thread = self._thread
        if thread:
            thread.join(wait_s)
        if self._failure:
            raise self._failure
        return progress(cache) if pending(cache) else None

    def stop(self) -> None:
        self._stopped.set()
        if self._thread:
            self._thread.join()

    def _work(self) -> None:
        cache = self._view.cache
        try:
            while not self._stopped.is_set() and (sources := pending(cache)):
                _index_some(cache, *sources[0])
        except BaseException as error:
            self._failure = error
        finally:
            cache.close()
            self._thread = None


def pending(cache: Cache) -> list[tuple[str, str]]:
    """Sources with records that are not indexed yet, or were made again since."""
    return cache.rows(
        "SELECT name, sources.mark FROM sources LEFT JOIN indexed ON source = name AND indexed.mark = sources.mark "
        "WHERE COALESCE(last, -1) < COALESCE((SELECT MAX(number) FROM records WHERE records.source = name), -1)"
    )  # pyright: ignore[reportReturnType]


def progress(cache: Cache) -> JsonObject:
    done = "SELECT COUNT(*) FROM records JOIN indexed USING (source) WHERE number <= last"
    return {"done": cache.rows(done)[0][0], "total": cache.rows("SELECT COUNT(*) FROM records")[0][0]}


def _index_some(cache: Cache, source: str, mark: str) -> None:
    """For a moment, in one transaction: others must be able to write in between. Documents of an earlier state of the
    source are forgotten first; what the trigrams still say of them leads nowhere."""
    added, started = 0, time.monotonic()
    with cache.writing() as db:
        known = cache.rows("SELECT last, ahead FROM indexed WHERE source = ? AND mark = ?", source, mark)
        if not known:
            db.execute("DELETE FROM documents WHERE source = ?", (source,))
        last, ahead = known[0] if known else (-1, 0)
        query = "SELECT number, kind, id, body FROM records WHERE source = ? AND number > ? ORDER BY number LIMIT ?"
        for record, kind, record_id, body in cache.rows(query, source, last, BATCH):
            for document in texts_of(cache, kind, record_id, body, ahead):
                if added and document.place and time.monotonic() - started > TURN_S:
                    ahead = document.place
                    break
                row = (source, record, document.field, document.place)
                number = db.execute("INSERT INTO documents VALUES (NULL, ?, ?, ?, ?)", row).lastrowid
                text = document.text.encode("utf-8", "replace").decode()  # arguments may hold halves of a pair
                db.execute("INSERT INTO trigrams (rowid, text) VALUES (?, ?)", (number, text))
                added += 1
            else:
                last, ahead = record, 0
            if time.monotonic() - started > TURN_S:
                break
        db.execute("INSERT OR REPLACE INTO indexed VALUES (?, ?, ?, ?)", (source, mark, last, ahead))


def texts_of(cache: Cache, kind: str, record_id: str, body: bytes, start: int = 0) -> Iterator[SearchText]:
    """Of a trace the messages from `start` on."""
    if kind == "trace":
        query = "SELECT first, body FROM parts WHERE trace_id = ? AND what = 'm' AND first >= ? ORDER BY first"
        for first, chunk in cache.db.execute(query, (record_id, start - start % CHUNK)):
            for place, message in enumerate(unpacked(chunk), first):
                if place >= start:
                    yield SearchText(message["role"], place, render_action(message))
        return
    fields = TEXTS.get(kind)
    if fields:
        record = unpacked(body)
        yield from (SearchText(field, None, _text(record.get(field))) for field in fields if record.get(field))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and "role" in value:
        return render_action(value)  # pyright: ignore[reportUnknownArgumentType, reportArgumentType]
    return orjson.dumps(value).decode()


def search(view: RunView, indexer: Indexer, query: Mapping[str, str]) -> JsonObject:
    words = [phrase or word for phrase, word in _WORDS.findall(query.get("q", "")[:400].replace("\0", " "))]
    if not words or max(map(len, words)) < 3:
        raise UsageError("search needs three characters", "type more")
    limit = min(number(query.get("limit", ""), 50), MAX_RESULTS)
    indexing = indexer.ensure()
    results: list[JsonObject] = []
    for tried, row in enumerate(_candidates(view.cache, words, query.get("kind"), query.get("trace"))):
        if len(results) >= limit or tried >= MAX_CANDIDATES:
            return {"q": query["q"], "indexing": indexing, "results": results, "more": True}
        if found := _hit(view.cache, row, words):
            results.append(found)
    return {"q": query["q"], "indexing": indexing, "results": results, "more": False}


def _candidates(cache: Cache, words: list[str], kind: str | None, trace: str | None) -> Iterator[tuple[Any, ...]]:
    grams = {word[place : place + 3] for word in words for place in range(len(word) - 2)}
    matching = " AND ".join('"' + gram.replace('"', '""') + '"' for gram in sorted(grams))
    wanted = {"kind": kind, "records.trace_id": trace}
    narrowed = "".join(f" AND {field} = ?" for field, value in wanted.items() if value)
    query = (
        "SELECT kind, id, turn, records.trace_id, field, place, body FROM trigrams "  # noqa: S608
        "JOIN documents ON documents.number = trigrams.rowid JOIN records ON records.number = record "
        f"WHERE trigrams MATCH ?{narrowed} ORDER BY trigrams.rowid"
    )
    return cache.db.execute(query, (matching, *filter(None, wanted.values())))


def _hit(cache: Cache, row: tuple[Any, ...], words: list[str]) -> JsonObject | None:
    kind, record_id, turn, trace_id, field, place, body = row
    if place is not None:
        found = cache.part(record_id, "m", place, place + 1)
        text = render_action(found[0]) if found else ""
        turn = turn_of_message(cache, record_id, place)
    else:
        text = _text(unpacked(body).get(field))
    low = _lower(text)
    if not all(_lower(word) in low for word in words):
        return None
    start = low.find(_lower(words[0]))
    end = start + len(words[0])
    return {
        **{"kind": kind, "id": record_id, "turn": turn, "field": field, "trace_id": trace_id, "message": place},
        "before": text[max(0, start - AROUND) : start],
        "match": text[start:end],
        "after": text[end : end + AROUND],
    }


def _lower(text: str) -> str:
    """As long as the text, for places in it: of all letters only this one has two characters in lower case."""
    return text.replace("İ", "I").lower()


def turn_of_message(cache: Cache, trace_id: str, place: int) -> int | None:
    """The last turn that begins at or before a message; None before the first. Chunks begin in order."""
    low, high = 0, cache.rows("SELECT COUNT(*) FROM parts WHERE trace_id = ? AND what = 't'", trace_id)[0][0]
    while low < high:
        middle = (low + high) // 2
        first = cache.part(trace_id, "t", middle * CHUNK, middle * CHUNK + 1)[0]
        low, high = (middle + 1, high) if first["start"] <= place else (low, middle)
    if not low:
        return None
    chunk = cache.part(trace_id, "t", (low - 1) * CHUNK, low * CHUNK)
    return (low - 1) * CHUNK + sum(turn["start"] <= place for turn in chunk) - 1
