"""API keys come from environment variables that the config names, and cannot be printed, stored or logged."""

from __future__ import annotations

import os
from typing import NoReturn

from composer_replication.errors import UsageError


class ApiKey:
    """Shows as `***` wherever it is printed. Only `headers` knows the value."""

    __slots__ = ("_name", "_value")

    def __init__(self, value: str, header: str = "Authorization") -> None:
        self._value = value
        self._name = header

    def __repr__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return "***"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key is not stored")

    def hidden_in(self, text: str) -> str:
        """The text with the key, should it be there, as it shows."""
        return text.replace(self._value, "***")

    def headers(self) -> dict[str, str]:
        return {self._name: f"Bearer {self._value}" if self._name == "Authorization" else self._value}


def key_from_environment(variable: str | None, header: str = "Authorization") -> ApiKey | None:
    """The key in a variable, for the header that the server wants it in, or None where none is named."""
    if variable is None:
        return None
    value = os.environ.get(variable, "").strip()
    if not value or not value.isascii() or not value.isprintable():
        raise UsageError(f"the environment variable {variable} holds no API key", f"export {variable}=…")
    return ApiKey(value, header)
