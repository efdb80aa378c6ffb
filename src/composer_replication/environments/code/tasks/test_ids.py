"""What pytest's ids and file names say of a test, without running it."""

from __future__ import annotations

from pathlib import PurePosixPath

Function = tuple[str, str]
"""Path and name of a test function, as in pytest's ids."""


def file_of(test: str) -> str:
    return test.partition("::")[0]


def function_of(test: str) -> Function:
    """The file and the name of a test, without its parameters."""
    file, _, rest = test.partition("::")
    return file, rest.partition("[")[0]


def test_function(test_id: str) -> str:
    """`path::Class::function` of a pytest id, without the parameters."""
    return "::".join(function_of(test_id))


def last_name(name: str) -> str:
    return name.rpartition("::")[2]


def is_test_file(path: str) -> bool:
    """By pytest's own rule for names."""
    name = PurePosixPath(path).name
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))
