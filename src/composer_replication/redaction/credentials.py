"""Secrets that are known by where they stand: headers, URLs, files of credentials. Our own rules, beside gitleaks.

Each finder is called at an occurrence of one of its literals (lower-case) and answers with the secret or None. The
patterns are anchored there and bounded, so that a finder costs constant time per occurrence.

Not caught: secrets in prose ("the password is ..."), a name and its value in separate list items, URL passwords with a
raw slash or hash, anything split over several strings.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .boundaries import LEFT
from .spans import Found, Rank
from .values import Form, entropy_bits, has_digit, has_letter, is_noise, is_reference, is_stand_in, looks_secret

Finder = Callable[[bytes, int], Found | None]

_QUOTE = rb"""\\{0,3}["'`]"""
_HEADER_SEPARATOR = rb"(?:" + _QUOTE + rb")?\s{0,3}[:=,]\s{0,3}(?:" + _QUOTE + rb")?"

_BEARER = re.compile(rb"(?i:bearer)(?:[ \t]{1,3}|%20|\+)(?:" + _QUOTE + rb")?([A-Za-z0-9._~+/=|:-]{12,8192})")
_AUTHORIZATION = re.compile(
    rb"(?i:authorization)"
    + _HEADER_SEPARATOR
    + rb"(?i:(?:basic|bearer|token|apikey|api-key|digest|bot|key|negotiate|hmac)(?:[ \t]{1,3}|%20))?"
    + rb"((?!(?i:basic|bearer)\b)[^\s\"'`\\<>{}()\[\]$,;]{8,8192})"
)
_COOKIE = re.compile(
    rb"(?i:cookies?)(?:" + _QUOTE + rb")?[ \t]{0,3}[:=]?[ \t]{0,3}(?:" + _QUOTE + rb")?"
    rb"((?:[\w.-]{1,80}=[^\s;,\"'`\\<>]{0,4096}(?:;[ \t]{0,3})?){1,60})"
)
_URL = re.compile(rb"://([^\s/?#:@\"'`<>\\|,]{0,256})(?::([^\s/?#\"'`<>\\]{1,512}))?@[A-Za-z0-9\[$%{(<]")
_NETRC_GAP = rb"(?:\s|\\{1,4}[nrt]|[+>|-]|\d{1,6}(?:\xe2\x86\x92|\t)|(?<=\n)[\w./-]{1,120}[:-](?:\d{1,6}[:-])?){1,24}"
_NETRC = re.compile(
    rb"(?i:login)" + _NETRC_GAP + rb"[^\s\\]{1,200}" + _NETRC_GAP + rb"passw(?:or)?d\s{1,8}([^\s\"'`\\]{4,200})"
)
_DOCKER_AUTH = re.compile(
    _QUOTE + rb"auth" + _QUOTE + rb"\s{0,8}:\s{0,8}" + _QUOTE + rb"([A-Za-z0-9+/]{12,4096}={0,2})"
)
_CLIENT_KEY = re.compile(rb"client-key-data" + _HEADER_SEPARATOR + rb"([A-Za-z0-9+/]{40,65536}={0,2})")
_CONNECTION_KEY = re.compile(
    rb"(?i:accountkey|sharedaccesskey|sharedaccesssignature|sharedsecret)=(?:sv=)?([A-Za-z0-9+/%&=_.:-]{16,1024})"
)
_SAS_SIGNATURE = re.compile(rb"[?&;]sig=([A-Za-z0-9%+/=_-]{30,200})")
_JWT = re.compile(LEFT + rb"eyJ[A-Za-z0-9_=-]{8,8192}+\.eyJ[A-Za-z0-9_=-]{8,65536}+(?:\.[A-Za-z0-9_=+/-]{0,8192})?")
_SK_KEY = re.compile(LEFT + rb"sk-(?:[a-z]{2,10}(?:-[a-z]{0,5}\d{1,2})?-)?[A-Za-z0-9_-]{20,512}")
_SERVICE_KEY = re.compile(
    LEFT + rb"(?:(?:csk-|gsk_|xai-|tvly-(?:dev-|prod-)?|r8_|sbp_|e2b_|jina_|lsv2_[ps][tk]_)[A-Za-z0-9]{32}"
    rb"|nvapi-[A-Za-z0-9_-]{60}|tgp_v1_[A-Za-z0-9_-]{40})[A-Za-z0-9_-]{0,200}"
)
_HUGGINGFACE = re.compile(LEFT + rb"hf_[A-Za-z0-9]{30,60}")
_TELEGRAM = re.compile(rb":AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])")
_DISCORD_WEBHOOK = re.compile(rb"discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{15,21}/([A-Za-z0-9_-]{40,100})")


def shaped(
    pattern: re.Pattern[bytes],
    kind: str,
    group: int = 0,
    rank: Rank = Rank.STRUCTURE,
    accepts: Callable[[bytes], bool] | None = None,
) -> Finder:
    """The secret is a group of the pattern, or all; `accepts` looks at it where the shape alone is not proof enough."""

    def find(data: bytes, start: int) -> Found | None:
        match = pattern.match(data, start)
        if match is None or (accepts and not accepts(match[group])):
            return None
        return Found(kind, *match.span(group), rank)

    return find


def is_opaque(value: bytes) -> bool:
    """What stands in the place of a secret looks like one."""
    return looks_secret(value, Form.QUOTED, is_password=False)


def is_own(value: bytes) -> bool:
    """A value, not what points at one or stands for one."""
    return not is_stand_in(value) and not is_reference(value)


def _is_docker_auth(value: bytes) -> bool:
    return (has_digit(value) or is_noise(value)) and not is_stand_in(value)


def _is_prefixed(value: bytes) -> bool:
    """A prefix is short enough to be one of a name: what follows must look drawn by chance."""
    return has_digit(value[3:]) and entropy_bits(value) >= 3.3 and not is_stand_in(value)


def cookie(data: bytes, start: int) -> Found | None:
    """All pairs of a cookie header, when one of them holds an opaque value."""
    match = _COOKIE.match(data, start)
    if match is None:
        return None
    values = [pair.partition(b"=")[2].strip() for pair in match[1].split(b";")]
    if not any(len(value) >= 8 and is_opaque(value) for value in values):
        return None
    return Found("cookie", *match.span(1), Rank.STRUCTURE)


def url_credentials(data: bytes, start: int) -> Found | None:
    """The password of `scheme://user:password@host`, or a token in the place of the user."""
    match = _URL.match(data, start)
    if match is None:
        return None
    user, password = match[1], match[2]
    if password is not None:
        if len(password) < 3 or password == user or not is_own(password):
            return None
        return Found("url-password", *match.span(2), Rank.STRUCTURE)
    if len(user) >= 20 and has_digit(user) and has_letter(user) and not is_reference(user):
        return Found("url-token", *match.span(1), Rank.STRUCTURE)
    return None


def telegram(data: bytes, start: int) -> Found | None:
    match = _TELEGRAM.match(data, start)
    if match is None:
        return None
    number_start = start
    while number_start > max(0, start - 12) and data[number_start - 1 : number_start].isdigit():
        number_start -= 1
    return (
        Found("telegram-bot-api-token", number_start, match.end(), Rank.VENDOR) if start - number_start >= 8 else None
    )


FINDERS: dict[Finder, tuple[str, ...]] = {
    shaped(_BEARER, "bearer-token", 1, accepts=is_opaque): ("bearer",),
    shaped(_AUTHORIZATION, "authorization", 1, accepts=is_opaque): ("authorization",),
    cookie: ("cookie",),
    url_credentials: ("://",),
    shaped(_NETRC, "netrc-password", 1, accepts=is_own): ("login",),
    shaped(_DOCKER_AUTH, "docker-auth", 1, accepts=_is_docker_auth): ('"auth\\', '"auth"', "'auth'"),
    shaped(_CLIENT_KEY, "client-key-data", 1): ("client-key-data",),
    shaped(_CONNECTION_KEY, "connection-string", 1, accepts=is_opaque): (
        "accountkey=", "sharedaccesskey=", "sharedaccesssignature=", "sharedsecret=",
    ),
    shaped(_SAS_SIGNATURE, "azure-sas-signature", 1, accepts=is_opaque): ("?sig=", "&sig=", ";sig="),
    shaped(_JWT, "jwt", rank=Rank.VENDOR): ("eyj",),
    # Of OpenAI, Anthropic, OpenRouter and the many that copy them.
    shaped(_SK_KEY, "sk-api-key", accepts=_is_prefixed): ("sk-",),
    shaped(_SERVICE_KEY, "service-api-key", accepts=_is_prefixed): (
        "csk-", "gsk_", "xai-", "tvly-", "r8_", "sbp_", "e2b_", "jina_", "lsv2_", "nvapi-", "tgp_v1_",
    ),
    shaped(_HUGGINGFACE, "huggingface-access-token", rank=Rank.VENDOR): ("hf_",),
    telegram: (":aa",),
    shaped(_DISCORD_WEBHOOK, "discord-webhook", 1, Rank.VENDOR): ("discord.com/api/", "discordapp.com/api/"),
}  # fmt: skip
