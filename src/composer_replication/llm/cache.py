"""Answers on disk, so that a question is asked once however many runs and processes meet it."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from .chat import ChatReply


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
        handle, temporary = tempfile.mkstemp(dir=self._folder, prefix=f".{key}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump(reply._asdict(), out)
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, self._folder / f"{key}.json")
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
