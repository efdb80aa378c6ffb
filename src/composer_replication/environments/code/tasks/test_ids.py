"""What pytest's ids and file names say of a test, without running it."""

from __future__ import annotations

from pathlib import PurePosixPath


def file_of(test: str) -> str:
    return test.partition("::")[0]


def is_test_file(path: str) -> bool:
    """By pytest's own rule for names."""
    name = PurePosixPath(path).name
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))
