"""The rules of gitleaks, read from `data/redaction/gitleaks.toml` and fitted to the text of agent sessions.

What differs from gitleaks: rules bound to file paths are left out; a secret may be followed by any punctuation and
preceded by an escape sequence; too common keywords are replaced by rarer literals; a keyword has to stand near its
secret; bare git hashes, checksums and UUIDs beside a vendor's name stay unless something there says "key" or "token".
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from .boundaries import LEFT_RE2, NAME_ENDS
from .engine import LinearPattern, Literals, Span
from .spans import Found, Rank
from .values import Form, entropy_bits, has_digit, is_uuid, looks_secret

GENERIC = "generic-api-key"
VAULT = "vault-service-token"
MAX_LINE_REACH = 1000
REPLACED_BY_OWN_RULES = frozenset({"private-key", "huggingface-access-token"})
# Their groups hold fragments of the secret.
SECRET_IS_WHOLE_MATCH = frozenset({"jwt-base64", "microsoft-teams-webhook"})
# Their allowlists would let go a secret that merely contains or begins like an example.
ALLOWED_ONLY_AS_A_WHOLE = frozenset({"curl-auth-user", VAULT})
RARER_LITERALS: dict[str, tuple[str, ...]] = {
    "1password-service-account-token": ("ops_eyj",),
    "authress-service-client-access-key": (".acc_", ".acc-"),
    "cloudflare-origin-ca-key": ("v1.0-",),
    GENERIC: (
        *(f"{word}{end}" for word in ("access", "api", "auth", "key", "token") for end in NAME_ENDS),
        "accessk",
        "accesst",
        "apik",
        "apit",
        "apis",
        "authk",
        "autht",
        "tokenv",
        "keyv",
        "keyi",
        "credential",
        "creds",
        "passwd",
        "password",
        "secret",
    ),
    "gocardless-api-token": ("gocardless",),
    "intra42-client-secret": ("s-s4t2",),
    "jwt": ("eyj",),
    "lob-api-key": ("live_", "test_"),
    "lob-pub-api-key": ("live_pub_", "test_pub_"),
    "sourcegraph-access-token": ("sgp_",),
    "twilio-api-key": tuple(f"sk{digit}" for digit in "0123456789abcdef"),
    VAULT: ("hvs.",),  # the older form begins with "s." and is looked for where `runs` says so
}
# Checked at the literal before RE2 is called: words like "task", "msg.", "test_" would open thousands of windows.
GATES: dict[str, re.Pattern[bytes]] = {
    "authress-service-client-access-key": re.compile(rb"\.acc[_-][a-zA-Z0-9-]{10}"),
    "aws-access-token": re.compile(rb"(?:A3T|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
    "curl-auth-header": re.compile(rb"curl\s"),
    "curl-auth-user": re.compile(rb"curl\s"),
    "harness-api-key": re.compile(rb"[ps]at\.[a-zA-Z0-9_-]{22}\."),
    "jwt": re.compile(rb"eyJ[a-zA-Z0-9]{16}"),
    "lob-api-key": re.compile(rb"(?:live|test)_[a-fA-F0-9]{35}"),
    "octopus-deploy-api-key": re.compile(rb"API-[A-Z0-9]{26}"),
    "sendgrid-api-token": re.compile(rb"SG\.[a-zA-Z0-9=_.-]{66}"),
    "square-access-token": re.compile(rb"(?:EAAA|sq0atp-)[\w-]{22}"),
    "twilio-api-key": re.compile(rb"SK[0-9a-fA-F]{32}"),
    VAULT: re.compile(rb"hvs\.[\w-]{90}"),
}

_ASSIGNS = r"""(?:[ \t\w.-]{0,20})[\s'"]{0,3}"""
_OPERATOR = rb"""(?:\\{0,3}["'`\s]){0,4}(?:=|>|:|\|\||\?=|,)"""
_NAME_AND_OPERATOR = rb"[\w.-]{1,60}+[ \t\w.-]{0,20}" + _OPERATOR + rb"[\\`'\"\s=>]{0,8}"
_ASSIGNMENT_GATE = re.compile(_NAME_AND_OPERATOR + rb"[\w%|+/.:=-]{8}")
# Upstream's allowlist drops values without a digit; to look for one first saves most calls of RE2.
_GENERIC_GATE = re.compile(_NAME_AND_OPERATOR + rb"(?=[A-Za-z_.=+/-]{0,150}[0-9])[\w.=+/-]{10}")
_TERMINATOR = r"""(?:[\x60'"\s;]|\\[nr]|$)"""
_ANY_TERMINATOR = r"(?:[^0-9A-Za-z_]|$)"
_VALUE_TERMINATOR = r"""(?:[\x60'"\s;,)}\]<>&|\\#]|\.(?:\s|$)|$)"""
_SAYS_SECRET = re.compile(rb"(?i)key|token|secret|passw|pwd|auth|cred|private|sign|\bpat\b|_pat\b")
_SECRET_NAME = re.compile(
    rb"(?i)(?:secret|passw(?:or)?d|credential|api[_.-]?key|access[_.-]?(?:key|token)|auth[_.-]?(?:key|token)|private[_.-]?key"
    rb"|client[_.-]?key|(?:^|[_.\s\"'-])token)[\w.-]{0,20}[\s\"']{0,3}(?::?=|:|=>)[`'\"\s=]{0,5}\Z"
)
_DIGEST_CHARS = frozenset({32, 40, 64, 96, 128})
_TOKEN_REST = re.compile(rb"[\w-]*+")
_HEX = re.compile(rb"[0-9a-fA-F]+\Z")


@dataclass(frozen=True)
class Allowlist:
    target: str
    regexes: tuple[LinearPattern, ...]
    stopwords: Literals | None

    def allows(self, data: bytes, match: Span, secret: bytes) -> bool:
        if self.stopwords and any(self.stopwords.find(secret.lower())):
            return True
        text = secret
        if self.target == "match":
            text = data[match[0] : match[1]]
        elif self.target == "line":
            text = _line_around(data, match)
        return any(regex.occurs_in(text) for regex in self.regexes)


@dataclass(frozen=True, eq=False)
class VendorRule:
    kind: str
    literals: tuple[str, ...]
    pattern: LinearPattern
    name_part: str | None
    """The part of an assignment's regex that matches the name; None where the secret's own shape is enough."""
    min_entropy_bits: float
    secret_group: int
    allowlists: tuple[Allowlist, ...]
    reach_before: int
    reach_after: int

    @property
    def is_assignment(self) -> bool:
        return self.name_part is not None

    def gate(self, literal: str) -> re.Pattern[bytes] | None:
        if self.kind == GENERIC:
            return _GENERIC_GATE
        # The gate expects the operator after the literal, so the literal has to be in the name, not in the value.
        is_in_name = self.name_part is not None and literal in self.name_part
        return GATES.get(self.kind) or (_ASSIGNMENT_GATE if is_in_name else None)

    def find(self, data: bytes, start: int, end: int) -> Iterator[tuple[Span, Span]]:
        """The whole match and the secret in it, in one window. A match cut by the window is found in a larger one."""
        for spans in self.pattern.find(data, start, end):
            if spans[0][1] == end < len(data):
                yield from self.find(data, spans[0][0], min(len(data), end + 4 * (end - spans[0][0])))
                return
            secret = self._secret(data, spans)
            if self._accepts(data, spans[0], secret):
                yield spans[0], secret

    def found(self, secret: Span) -> Found:
        return Found(self.kind, *secret, Rank.GENERIC if self.kind == GENERIC else Rank.VENDOR)

    def _secret(self, data: bytes, spans: list[Span]) -> Span:
        if self.secret_group:
            return spans[self.secret_group]
        if self.is_assignment:
            return next(span for span in spans[1:] if span[1] > span[0])
        groups = [] if self.kind in SECRET_IS_WHOLE_MATCH else spans[1:]
        start, end = next((span for span in groups if span[1] > span[0]), spans[0])
        end = start + len(data[start:end].rstrip(b" \t\r\n\"'`;,"))
        # Tokens grow with the years: the rest of a longer one goes too.
        rest = _TOKEN_REST.match(data, end)
        return start, rest.end() if rest else end

    def _accepts(self, data: bytes, match: Span, secret_span: Span) -> bool:
        secret = data[secret_span[0] : secret_span[1]]
        if self.min_entropy_bits and entropy_bits(secret) <= self.min_entropy_bits:
            return False
        if self.is_assignment and not self._is_said_to_be_secret(data[match[0] : secret_span[0]], secret):
            return False
        return not any(allowlist.allows(data, match, secret) for allowlist in self.allowlists)

    def _is_said_to_be_secret(self, before: bytes, secret: bytes) -> bool:
        if _SAYS_SECRET.search(before):
            return True
        is_digest = len(secret) in _DIGEST_CHARS and _HEX.match(secret) is not None
        return has_digit(secret) and not is_digest and not is_uuid(secret)


def is_certain(data: bytes, match: Span, secret: Span) -> bool:
    """Whether a match of the generic rule ("something called key, then something random") is to be rewritten.

    It is right about one time in ten here, so the name and the value must both say secret. The rest is counted.
    """
    before, value = data[match[0] : secret[0]], data[secret[0] : secret[1]]
    return _SECRET_NAME.search(before) is not None and looks_secret(value, Form.BARE, is_password=False)


def load_rules() -> list[VendorRule]:
    text = files("composer_replication").joinpath("data", "redaction", "gitleaks.toml").read_text(encoding="utf-8")
    config = tomllib.loads(text)
    everywhere = _allowlist(config["allowlist"])
    return [
        _rule(entry, everywhere)
        for entry in config["rules"]
        if "regex" in entry and "path" not in entry and entry["id"] not in REPLACED_BY_OWN_RULES
    ]


def _rule(entry: dict[str, Any], everywhere: Allowlist) -> VendorRule:
    kind: str = entry["id"]
    name_part = entry["regex"].split(_ASSIGNS)[0].lower() if _ASSIGNS in entry["regex"] else None
    # A list with a condition on paths cannot apply: a message has no path.
    listed = [allowed for allowed in entry.get("allowlists", []) if "paths" not in allowed]
    if kind in ALLOWED_ONLY_AS_A_WHOLE:
        listed = [
            {**allowed, "regexes": [f"^(?:{regex})['\"]?$" for regex in allowed["regexes"]]} for allowed in listed
        ]
    own = tuple(_allowlist(allowed) for allowed in listed)
    return VendorRule(
        kind=kind,
        literals=RARER_LITERALS.get(kind, tuple(keyword.lower() for keyword in entry["keywords"])),
        pattern=LinearPattern(_fitted(kind, entry["regex"], name_part is not None)),
        name_part=name_part,
        min_entropy_bits=entry.get("entropy", 0.0),
        secret_group=entry.get("secretGroup", 0),
        allowlists=(everywhere, *own),
        # Bytes around a literal that can hold a match; longer than the longest bounded one of each family.
        reach_before=128,
        reach_after=1600 if name_part is None else 400,
    )


def _allowlist(entry: dict[str, Any]) -> Allowlist:
    stopwords = [word.lower().encode() for word in entry.get("stopwords", [])]
    return Allowlist(
        target=entry.get("regexTarget", "secret"),
        regexes=tuple(LinearPattern(regex) for regex in entry.get("regexes", [])),
        stopwords=Literals(stopwords) if stopwords else None,
    )


def _fitted(kind: str, regex: str, is_assignment: bool) -> str:
    if kind == "sourcegraph-access-token":
        # Upstream also takes 40 bare hex digits: in a session that is a git hash.
        regex = regex.replace("|[a-fA-F0-9]{40})", ")")
    if kind == "aws-amazon-bedrock-api-key-short-lived":
        regex += r"[A-Za-z0-9+/=_-]*"
    if kind == "azure-ad-client-secret":
        regex = LEFT_RE2 + r"([a-zA-Z0-9_~.]{3}\dQ~[a-zA-Z0-9_~.-]{31,34})"
    if kind != GENERIC:
        regex = regex.replace(_TERMINATOR, _VALUE_TERMINATOR if is_assignment else _ANY_TERMINATOR)
    if regex.startswith((r"\b(", r"(?i)\b(")):
        return regex.replace(r"\b", LEFT_RE2, 1)
    if regex.startswith(r"\b"):
        return f"{LEFT_RE2}{regex[2:]}" if kind.startswith("curl-") else f"{LEFT_RE2}({regex[2:]})"
    return regex


def _line_around(data: bytes, span: Span) -> bytes:
    low, high = max(0, span[0] - MAX_LINE_REACH), min(len(data), span[1] + MAX_LINE_REACH)
    start = max(low, data.rfind(b"\n", low, span[0]) + 1)
    end = data.find(b"\n", span[1], high)
    return data[start : high if end < 0 else end]
