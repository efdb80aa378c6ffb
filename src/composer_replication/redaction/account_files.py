"""What files of accounts and of requests hold: hashes of passwords, signatures, `.pgpass`, elements of XML, phrases.

Each is known by its form or its place. Hashes of files and commits are none of these and stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

from .assignments import names_secret
from .credentials import is_own, shaped
from .engine import LinearPattern
from .runs import TWELVE_WORDS
from .spans import Found, Rank
from .values import Form, looks_secret

MIN_PHRASE_WORDS = 12
MIN_DISTINCT_WORDS = 10
MAX_PHRASE_BYTES = 1000


_HASH = re.compile(
    rb"\$(?:1|5|6|y|gy|7|apr1|2[abxy]|sha1|md5)\$[A-Za-z0-9./$=,+-]{20,200}"
    rb"|\$(?:argon2(?:id|i|d)|scrypt|pbkdf2(?:-sha\d{1,3})?)\$[A-Za-z0-9./$=,+-]{20,300}"
    rb"|pbkdf2(?:_sha\d{1,3}|:sha\d{1,3}:)\$?\d{1,8}\$[A-Za-z0-9./$=,+_-]{20,200}"
    rb"|scrypt:\d{1,8}:\d{1,3}:\d{1,3}\$[A-Za-z0-9./$=,+-]{20,300}"
    rb"|\{(?i:ssha|sha|smd5|md5|crypt|ssha256|ssha512|pbkdf2)\}[A-Za-z0-9./$=,+]{20,300}"
)
_SIGNATURE = re.compile(
    rb"(?i:x-(?:amz|goog)-(?:signature|security-token|credential)|(?<=[?&,; ])signature)(?:=|%3D)"
    rb"([A-Za-z0-9%+/=_-]{24,4096})"
    rb"|(?i:x-hub-signature(?:-256)?)[\"']?[:=,]\s{0,3}\\{0,3}[\"']?sha\d{1,3}=([0-9a-fA-F]{40,64})"
)
_PGPASS = re.compile(
    rb"(?::(?:\d{4,5}|\*)):[\w.*-]{1,63}:[\w.@*-]{1,63}:([^\s:\"'`\\\x1b\xe2]{4,200})(?=[\s\"'`\\,)\x1b\xe2]|\Z)"
)
_PGPASS_HOST = re.compile(rb"(?:^|[^\w.*@-])[\w.*-]{1,100}\Z")
_ELEMENT = re.compile(
    rb"""(?P<name>[\w.:-]{0,40})
    (?: (?:[ ][^<>\n]{0,200})?>\s{0,40}(?:<!\[CDATA\[)?
      | \\{0,7}["']\s{0,4}>\s{0,40}
      | \\{0,7}["']\s{1,4}value\s?=\s?\\{0,7}["']
      | </key>\s{0,40}
        (?:(?:\d{1,6}(?:\xe2\x86\x92|[\t:|-])|[\w./-]{1,120}[:-](?:\d{1,6}[:-])?|[+>-])\s{0,40})?<string> )
    (?P<value>[^<>\s"'\\]{4,512})(?:\]\]>)?(?:</|\\{0,7}["']\s{0,4}/?>)""",
    re.VERBOSE,
)
_ELEMENT_START = re.compile(
    rb"(?:<[\w.:-]{0,40}|<key>[\w.:-]{0,40}|<(?:add|property|entry|param|setting|env)\b[^<>]{0,80})\Z"
)
_PHRASE = LinearPattern(TWELVE_WORDS)
_WORD = re.compile(rb"[a-z]+")
_INSIDE_STRING = re.compile(rb'[^"\\<>{}]*')


def signature(data: bytes, start: int) -> Found | None:
    match = _SIGNATURE.match(data, start)
    if match is None:
        return None
    group = 1 if match[1] else 2
    return Found("request-signature", *match.span(group), Rank.STRUCTURE) if is_own(match[group]) else None


def pgpass(data: bytes, start: int) -> Found | None:
    match = _PGPASS.match(data, start)
    if match is None or _PGPASS_HOST.search(data, max(0, start - 120), start) is None:
        return None
    return Found("pgpass-password", *match.span(1), Rank.STRUCTURE) if _is_password(match[1]) else None


def xml_secret(data: bytes, start: int) -> Found | None:
    """`<password>…</password>`, `<property name="password">…`, `<add key="password" value="…"/>`, a property list."""
    match = _ELEMENT.match(data, start)
    low = max(0, start - 130)
    opening = _ELEMENT_START.search(data, low, start) if match else None
    if match is None or opening is None or not names_secret(data[opening.start() : match.end("name")]):
        return None
    return Found("xml-secret", *match.span("value"), Rank.STRUCTURE) if _is_password(match["value"]) else None


def _is_password(value: bytes) -> bool:
    return looks_secret(value, Form.ENV, is_password=True)


def phrases(data: bytes) -> Iterator[Found]:
    """Twelve or more neighbouring words of BIP 39, of which wallets make their keys."""
    seen_until = 0
    for _, (start, _), (last_start, last_end) in _PHRASE.find(data, 0, len(data)):
        # A phrase that begins among these twelve words reaches their last.
        if start < seen_until or data[last_start:last_end] not in _wallet_words():
            continue
        seen_until = end = _end_of_string(data, start)
        listed = b"".join(b"1" if word in _wallet_words() else b"0" for word in _WORD.findall(data, start, end))
        if (first := listed.find(b"1" * MIN_PHRASE_WORDS)) < 0:
            continue
        last = first + len(listed[first:].partition(b"0")[0]) - 1
        words = list(_WORD.finditer(data, start, end))[first : last + 1]
        if len({word[0] for word in words}) >= MIN_DISTINCT_WORDS:
            yield Found("wallet-phrase", words[0].start(), words[-1].end(), Rank.STRUCTURE)


def _end_of_string(data: bytes, start: int) -> int:
    match = _INSIDE_STRING.match(data, start, start + MAX_PHRASE_BYTES)
    return match.end() if match else start


@cache
def _wallet_words() -> frozenset[bytes]:
    text = files("composer_replication").joinpath("data", "redaction", "bip39_english.txt").read_bytes()
    return frozenset(text.split())


FINDERS = {
    shaped(_HASH, "password-hash"): (
        "$1$", "$5$", "$6$", "$y$", "$gy$", "$7$", "$apr1$", "$2a$", "$2b$", "$2x$", "$2y$", "$argon2", "$scrypt$",
        "$pbkdf2", "pbkdf2_sha", "pbkdf2:sha", "scrypt:", "{ssha", "{sha}", "{smd5}", "{md5}", "{crypt}",
    ),
    signature: ("x-amz-s", "x-amz-c", "x-goog-s", "x-goog-c", "signature=", "signature%3d", "x-hub-signature"),
    pgpass: (":5432:", ":5433:", ":6432:", ":6543:", ":*:"),
    xml_secret: ("passw", "passphrase", "secret", "token>", "apikey>", "api_key>", "api-key>", "credential"),
}  # fmt: skip
