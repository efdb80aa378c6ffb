"""The session that ships with the package, so that everything can be tried without traces of one's own."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.resources import as_file, files

from .inputs import Input


@contextmanager
def embedded_session() -> Generator[Input]:
    """A real Claude Code session of the claude-code-viewer project; see `data/SOURCES.md`."""
    with as_file(files("composer_replication") / "data" / "claude_code_session.jsonl") as path:
        yield Input(path, "claude_code", licence="MIT")
