"""Takes secrets and personal data out of the strings of a trace, before anything is written or sent.

Reads messages, writes messages of the same shape. A secret becomes `<SECRET:kind:n>`, an account name `user<n>`, an
e-mail address `user<n>@example.com`; numbers follow first appearance, so the same trace gives the same text. A secret
that was recognised once is also replaced where it stands alone later in the trace. Whatever raises, raises: there is no
way out of here with text that was not scanned.

Not caught: see `credentials` and `personal`; and a secret that stands alone before the place that gives it away.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, cast

from composer_replication.records import canonical_json

from .depths import without_escapes
from .environment import ExactValues, secrets_among
from .gitleaks import GENERIC
from .personal import EMAIL
from .runs import count_random_strings
from .scanner import NOTHING, scanner
from .spans import PLACEHOLDER, Found, character_offsets, decode, encode, merged

MIN_KNOWN_CHARS = 8
MAX_KNOWN_CHARS = 1000
MAX_PASSES = 32
MAX_PLAIN_BYTES = 256
"""Texts up to this length that hold nothing are known again: a session names the same tools and files over and over."""


class SecretFound(NamedTuple):
    """A secret of this `kind`: characters `start` to `end` of the text that was searched."""

    kind: str
    start: int
    end: int


class NotSettled(RuntimeError):
    """Redaction kept finding secrets in its own output; the trace must not be used."""


class Redactor:
    """Redacts the strings of one trace. The same secret gets the same placeholder everywhere in it.

    Args:
        environ: Variables whose values are secrets too, where their names say so; without it those of this process.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._scanner = scanner()
        self.counts: Counter[str] = Counter()
        self.reported: Counter[str] = Counter()
        self._placeholders: dict[bytes, bytes] = {}
        self._numbers: Counter[str] = Counter()
        self._known = secrets_among(environ)
        self._exact = ExactValues(self._known)
        self._exact_is_stale = False
        self._plain: set[bytes] = set()

    def text(self, value: str) -> str:
        """Plain text without its secrets."""
        data = value.encode("utf-8", "surrogatepass")
        if len(data) <= MAX_PLAIN_BYTES and data in self._plain:
            return value
        redacted = self._settle(data, [])
        return value if redacted is data else decode(redacted)

    def json_text(self, value: str) -> str:
        """Redacts the strings inside JSON text, keys too where they hold a secret; other text is treated as text."""
        try:
            parsed = _DECODER.decode(value)
        except (ValueError, RecursionError):
            return self.text(value)
        redacted = self.json_value(parsed)
        return value if redacted is parsed else canonical_json(redacted)

    def json_value(self, value: Any) -> Any:
        """Like `json_text`, for a value that is parsed already; the same object when nothing changed."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            items = cast("list[Any]", value)
            new_items = [self.json_value(item) for item in items]
            return new_items if any(new is not old for new, old in zip(new_items, items, strict=True)) else items
        if isinstance(value, dict):
            entries = cast("dict[str, Any]", value)
            new = dict[str, Any]()
            is_same = True
            for key, entry in entries.items():
                new_key, new_entry = self._entry(key, entry)
                new[new_key] = new_entry
                is_same = is_same and new_key is key and new_entry is entry
            return entries if is_same else new
        return value

    def _entry(self, key: str, value: Any) -> tuple[str, Any]:
        """A value may be a secret only because of its key: `"password": "..."`."""
        if _is_plain_key(key) and not (self._known and self._find_known(encode(key))):
            return key, self.text(value) if isinstance(value, str) else self.json_value(value)
        new_key = self.text(key)
        if not isinstance(value, str):
            return new_key, self.json_value(value)
        lead = encode(f'"{key}":"')
        data = encode(value)
        with_key = lead + data + b'"'
        found = [
            item._replace(start=item.start - len(lead), end=item.end - len(lead))
            for item in self._scanner.scan(with_key).found
            if item.is_secret and item.start >= len(lead) and item.end < len(with_key)
        ]
        redacted = self._settle(data, found)
        return new_key, value if redacted is data else decode(redacted)

    def _settle(self, data: bytes, extra: list[Found]) -> bytes:
        """Replacing a secret can bring another one to light beside it, so look again until nothing is found."""
        for _ in range(MAX_PASSES):
            known = self._find_known if self._known else None
            is_flat = known is None and b"\\" not in data
            scan = self._scanner.scan(data) if is_flat else self._scanner.scan_all_depths(data, known)
            if scan is NOTHING and not extra:
                if len(data) <= MAX_PLAIN_BYTES:
                    self._plain.add(data)
                return data
            found = merged(data, [*scan.found, *extra])
            extra = []
            if found:
                data = self._replace(data, found)
            if not any(item.is_secret for item in found):
                if scan.uncertain:
                    self.reported[GENERIC] += scan.uncertain
                if scan.has_random_run:
                    self.reported.update(count_random_strings(data))
                return data
        raise NotSettled(f"redaction did not settle after {MAX_PASSES} passes; quarantine this trace and report it")

    def _find_known(self, data: bytes) -> list[Found]:
        if self._exact_is_stale:
            self._exact = ExactValues(self._known)
            self._exact_is_stale = False
        return self._exact.find(data)

    def _replace(self, data: bytes, found: list[Found]) -> bytes:
        pieces: list[bytes] = []
        at = 0
        for item in found:
            pieces += [data[at : item.start], self._placeholder(item, data[item.start : item.end])]
            at = item.end
            self.counts[item.kind] += 1
        return b"".join([*pieces, data[at:]])

    def _placeholder(self, item: Found, written: bytes) -> bytes:
        value = without_escapes(written)
        if value in self._placeholders:
            return self._placeholders[value]
        self._numbers[item.kind] += 1
        number = self._numbers[item.kind]
        if item.is_secret:
            self._remember(item.kind, value)
            placeholder = f"<SECRET:{item.kind}:{number}>"
        else:
            placeholder = f"user{number}@example.com" if item.kind == EMAIL else f"user{number}"
        self._placeholders[value] = placeholder.encode()
        return self._placeholders[value]

    def _remember(self, kind: str, value: bytes) -> None:
        if (
            MIN_KNOWN_CHARS <= len(value) <= MAX_KNOWN_CHARS
            and value not in self._known
            and not PLACEHOLDER.search(value)
        ):
            self._known[value] = kind
            self._exact_is_stale = True
            self._plain.clear()


def find_secrets(text: str, *, personal: bool = False, environ: Mapping[str, str] | None = None) -> list[SecretFound]:
    """Secrets in the text, in order and without overlaps; home directories and e-mail addresses too when asked for.

    Placeholders of a `Redactor` are no secrets. Knows no trace: a secret that only its context gave away is not found
    where it stands alone.
    """
    data = encode(text)
    exact = ExactValues(secrets_among(environ))
    found = merged(data, scanner().scan_all_depths(data, exact.find).found)
    found = [item for item in found if personal or item.is_secret]
    spans = character_offsets(data, found)
    return [SecretFound(item.kind, start, end) for item, (start, end) in zip(found, spans, strict=True)]


@lru_cache(maxsize=4096)
def _is_plain_key(key: str) -> bool:
    """Whether no rule could take an interest in a JSON key; tools use few keys, and these over and over."""
    return not scanner().has_literal(encode(f'"{key}":"'))


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A repeated key would hide the first value from us but not from a reader of the original text."""
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("repeated key")
    return entries


_DECODER = json.JSONDecoder(object_pairs_hook=_object_without_duplicates)
