"""Every answer by its name: the one table that the server, the export and `show --json` use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from composer_replication.errors import UsageError
from composer_replication.records import JsonObject
from composer_replication.runs import Run

from .answers.provenance import show
from .answers.run import about, agreement, compare, finding, monitor, run
from .answers.sites import cast_vote, pair, reply, site, votes
from .answers.traces import message, saw, source, trace
from .answers.training import rollout, task, tokens, training
from .lookup import RunView, listing
from .search import Indexer, search
from .visible import visible_json

Query = Mapping[str, str]
ANSWERS: dict[str, Callable[[RunView, Query], JsonObject]] = {
    "run": run,
    "agreement": agreement,
    "list": listing,
    "trace": trace,
    "message": message,
    "saw": saw,
    "source": source,
    "pair": pair,
    "reply": reply,
    "rollout": rollout,
    "task": task,
    "tokens": tokens,
    "training": training,
    "monitor": monitor,
    "finding": finding,
    "show": show,
}
PERSONAL = {"site": site, "votes": votes}
"""Answers that depend on who asks."""


class Library:
    """The runs that are open."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self.views: dict[str, RunView] = {}
        for folder in folders:
            base = folder.resolve().name
            name = next(n for n in (base, *(f"{base}-{i}" for i in range(2, 99))) if n not in self.views)
            self.views[name] = RunView(Run.open(folder), name)
        self._indexers = {name: Indexer(view) for name, view in self.views.items()}

    def about(self) -> JsonObject:
        return about(list(self.views.values()))

    def answer(self, run: str, name: str, query: Query, who: str = "") -> JsonObject:
        view = self.view(run)
        if name in PERSONAL:
            return PERSONAL[name](view, query, who)
        if name == "search":
            return search(view, self._indexers[run], query)
        if name == "compare":
            return compare(view, query, self.view(query["with"]) if query.get("with") else None)
        if name not in ANSWERS:
            raise UsageError(f"no answer called {name[:40]}", "see design/010-viewer.md")
        return ANSWERS[name](view, query)

    def vote(self, run: str, given: Any, who: str) -> JsonObject:
        return cast_vote(self.view(run), given, who)

    def view(self, run: str) -> RunView:
        if run not in self.views:
            raise UsageError(f"no run called {run[:100]} is open", f"open: {', '.join(self.views)}")
        return self.views[run]

    def prepare(self) -> None:
        """Fill the caches before a page asks. What cannot be read is told to the page that needs it."""
        for view in self.views.values():
            with suppress(Exception):
                view.fresh()
                view.cache.close()

    def close(self) -> None:
        for indexer in self._indexers.values():
            indexer.stop()


def encoded(answer: JsonObject) -> bytes:
    """With hostile characters as glyphs; numbers that JSON does not know become null."""
    return orjson.dumps(visible_json(answer), option=orjson.OPT_NON_STR_KEYS)
