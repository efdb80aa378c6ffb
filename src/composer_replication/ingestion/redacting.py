"""What a reader needs of a redactor, and the one that does nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any, Protocol


class TextRedactor(Protocol):
    counts: Counter[str]
    reported: Counter[str]

    def text(self, value: str) -> str: ...

    def json_text(self, value: str) -> str: ...

    def json_value(self, value: Any) -> Any: ...


class Unredacted:
    """For people who typed `--allow-unredacted`."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.reported: Counter[str] = Counter()

    def text(self, value: str) -> str:
        return value

    def json_text(self, value: str) -> str:
        return value

    def json_value(self, value: Any) -> Any:
        return value
