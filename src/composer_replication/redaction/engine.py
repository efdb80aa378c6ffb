"""The two untyped libraries behind the scan, kept behind typed names: RE2 (linear time) and an Aho-Corasick automaton.

RE2 runs on bytes in Latin-1 mode: every byte is a character, so damaged UTF-8 cannot stop a match. `\\b`, `^` and `$`
see the whole text also when only a window of it is searched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import ahocorasick_rs
import re2

CHUNK_BYTES = 1 << 18
MAX_TABLE_BYTES = 1 << 14
_RE2: Any = re2
_AUTOMATA: Any = ahocorasick_rs

Span = tuple[int, int]
Hit = tuple[int, int, int]
"""Index of the literal, start, end."""


class LinearPattern:
    """A regular expression, compiled when it is first needed."""

    __slots__ = ("_compiled", "_regex")

    def __init__(self, regex: str) -> None:
        self._regex = regex
        self._compiled: Any = None

    def find(self, data: bytes, start: int, end: int) -> Iterator[list[Span]]:
        """The spans of each match and its groups; (-1, -1) for a group that took no part."""
        compiled = self._ready()
        groups = compiled.groups + 1
        for match in compiled.finditer(data, start, end):
            yield [match.span(group) for group in range(groups)]

    def occurs_in(self, data: bytes) -> bool:
        return self._ready().search(data) is not None

    def _ready(self) -> Any:
        if self._compiled is None:
            self._compiled = _RE2.compile(self._regex.encode("ascii"), _options())
        return self._compiled


def _options() -> Any:
    options = _RE2.Options()
    options.encoding = _RE2.Options.Encoding.LATIN1
    options.log_errors = False
    return options


class PatternSet:
    """Tells in one pass and at little cost which of some regular expressions match anywhere."""

    def __init__(self, regexes: Sequence[str]) -> None:
        patterns: Any = _RE2.Set.SearchSet(_options())
        for regex in regexes:
            patterns.Add(regex.encode("ascii"))
        patterns.Compile()
        # The wrapper's method only tells text from bytes, which costs as much as a search of 200 bytes.
        self.matching: Callable[[bytes], Sequence[int]] = patterns._set.Match
        """Numbers of those that match."""


class Literals:
    """Finds all occurrences of many byte strings in one pass."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._longest = max(map(len, literals))
        # A full table is fastest but takes 256 states per byte of the literals: only for short ones.
        kinds = _AUTOMATA.Implementation
        kind = kinds.DFA if sum(map(len, literals)) <= MAX_TABLE_BYTES else kinds.ContiguousNFA
        self._find: Any = _AUTOMATA.BytesAhoCorasick(literals, implementation=kind).find_matches_as_indexes

    def find(self, data: bytes) -> Iterable[list[Hit]]:
        """Chunk by chunk: hostile text must not fill memory with hits. False where a short text has none."""
        if len(data) > CHUNK_BYTES:
            return self._find_in_chunks(data)
        hits = self._find(data, True)
        return (hits,) if hits else ()

    def _find_in_chunks(self, data: bytes) -> Iterator[list[Hit]]:
        overlap = self._longest - 1
        for begin in range(0, len(data), CHUNK_BYTES):
            lead = min(begin, overlap)
            chunk = data[begin - lead : begin + CHUNK_BYTES]
            hits = self._find(chunk, True)
            offset = begin - lead
            yield [(index, start + offset, end + offset) for index, start, end in hits if end > lead]
