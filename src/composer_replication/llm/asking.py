"""Many questions to one model: each is paid once, however many runs and processes meet it, because answers are kept on
disk. A server that does not answer is left alone.
"""

from __future__ import annotations

import fcntl
import json
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from composer_replication.records import JsonObject
from composer_replication.runs import write_atomically

from .chat import ChatClient, ChatFailure, ChatReply

MAX_FAILURES_IN_A_ROW = 3


@dataclass
class AskTally:
    """What came of the questions. `site_micros` holds the cost of each that was sent; `sites` share the sum."""

    sites: int = 0
    cached: int = 0
    rejected: Counter[str] = field(default_factory=Counter[str])
    failed: Counter[str] = field(default_factory=Counter[str])
    site_micros: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def spent_micros(self) -> int:
        return sum(self.site_micros.values())

    def counts(self) -> JsonObject:
        return {
            "cached": self.cached,
            "rejected": dict(self.rejected),
            "failed": dict(self.failed),
            "spent_micros": self.spent_micros,
            "micros_per_site": round(self.spent_micros / self.sites, 1) if self.sites else 0.0,
        }


class Asker:
    """Looks for an answer in memory, then in the folder that all processes share, and asks the client last.

    An answer that the caller then refuses is kept too, because it was paid for.
    """

    def __init__(self, client: ChatClient, cache_dir: str | Path | None, tally: AskTally) -> None:
        self._client = client
        self._cache = AnswerCache(Path(cache_dir)) if cache_dir else None
        self._tally = tally
        self._known: dict[str, ChatReply] = {}
        self._failures = 0

    def reply(self, key: str, make_request: Callable[[], JsonObject]) -> ChatReply | None:
        """The answer to the question called `key`, or None where there is none; the tally has the reason."""
        try:
            return self._reply(key, make_request)
        except ChatFailure as failure:
            self._tally.failed[str(failure)] += 1
            return None

    def _reply(self, key: str, make_request: Callable[[], JsonObject]) -> ChatReply:
        if key not in self._known:
            if self._cache is None:
                self._known[key] = self._ask(key, make_request())
                return self._known[key]
            # Held while asking: another process with the same question waits and then reads the answer.
            with self._cache.lock(key):
                found = self._cache.read(key)
                self._known[key] = found or self._ask(key, make_request())
                if found is None:
                    self._cache.write(key, self._known[key])
                    return self._known[key]
        self._tally.cached += 1
        return self._known[key]

    def _ask(self, key: str, request: JsonObject) -> ChatReply:
        if self._failures >= MAX_FAILURES_IN_A_ROW:
            raise ChatFailure("not asked after several failures")
        try:
            reply = self._client(request, key)
        except ChatFailure as failure:
            self._failures += 1
            self._tally.site_micros[key] = failure.cost_micros
            raise
        self._failures = 0
        self._tally.site_micros[key] = reply.cost_micros
        return reply


class AnswerCache:
    """One JSON file per question, complete or absent; 256 lock files stand for all questions."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def lock(self, key: str) -> Generator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f".lock-{key[:2]}").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def read(self, key: str) -> ChatReply | None:
        try:
            reply = ChatReply(**json.loads((self._folder / f"{key}.json").read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return reply if isinstance(reply.text, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]

    def write(self, key: str, reply: ChatReply) -> None:
        write_atomically(self._folder / f"{key}.json", json.dumps(reply._asdict()))
