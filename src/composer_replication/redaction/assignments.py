"""Secrets that are given a telling name: `.env` lines, exports, YAML, JSON, TOML, query strings, command-line options.

The name decides what may pass as a value (see `values`): NAME=value of an environment file is trusted most, a bare
`name: value` least, since that is also how code reads.
"""

from __future__ import annotations

import re

from .boundaries import NAME_ENDS
from .spans import Found, Rank
from .values import Form, looks_secret

LITERALS = (
    "passw", "passphrase", "_pwd", "pwd=", 'pwd"', "pwd:", "secret", *(f"token{end}" for end in NAME_ENDS), "tokenv",
    "--token ", "credential", "api_key", "apikey",
    "api-key", "access_key", "accesskey", "access-key", "auth_key", "authkey", "private_key", "privatekey",
    "signing_key", "encryption_key", "master_key", "service_key", "session_key", "account_key", "license_key",
    "_key=", "_key:", '_key"', "_pass=", "_pass:", '_pass"', "_pat=", "_pat:", '_pat"', "_auth=", "_auth:", '_auth"',
)  # fmt: skip
MAX_NAME_CHARS = 60
MAX_BARE_CHARS = 200

_ASSIGNMENT = re.compile(
    rb"""
    (?P<rest_of_name>[\w.-]{1,60}+) (?:\\{0,3}["'`])? \]? (?P<space>[ \t]{0,12})
    (?P<operator>:=|=>|==?|\?=|:|,(?=[ ]?\\{0,3}["']))? (?P<gap>[ \t]{0,8}|[ \t]{0,8}\r?\n[ \t]{1,40})
    (?: (?P<escape>\\{0,3})(?P<quote>["'`]) (?P<quoted>[^"'`\r\n\\]{6,512}) (?P=escape)(?P=quote)
      | (?P<open>\\{0,3}["'])(?P<mixed>[^\s"\\]{6,200})
      | (?P<bare>(?![:*])[^\s"'`\\,;&|<>()\[\]{}\x00-\x1f\x7f\xe2]{6,200}) )
    """,
    re.VERBOSE,
)
_REST_OF_LONG_VALUE = re.compile(rb"[^\s\"'`\\,;&|<>()\[\]{}]*+")
_NAME_CHARS = re.compile(rb"[\w.-]*+")
_END_OF_ESCAPE = re.compile(rb"(?<=\\)[nrt]|(?<=[\[;])[0-9]{0,3}m")
_OPENS_CODE = (b"(", b"[", b"{")
_CONTINUES_CODE = (*_OPENS_CODE, b",", b")")
_ENDS_SETTING = (b"", b" ", b"\n", b"\r", b'"', b"'", b"`", b"\\", b"\x1b", b"\xe2")
_ENV_NAME = re.compile(rb"[A-Z][A-Z0-9_]*\Z")
_ENV_AFTER_FILE = re.compile(rb"[\w.-]*[a-z][\w.-]*-[A-Z][A-Z0-9_]*\Z")
"""Lines of context as `grep` prints them: the name of the file, a dash, perhaps a number and a dash, the line."""
_PASSWORD_NAME = re.compile(rb"(?i)passw|passphrase|pwd|_pass\b|secret")
_NAMES_SECRET = re.compile(rb"(?i)passw|secret|token|api[_-]?key|_auth\b|credential")
_HARMLESS_NAME = re.compile(
    rb"""(?ix)
      token(?:s\b|iz|[_-]?(?:type|count|limit|budget|ur[il]|endpoint|usage|len|size|expir|ttl|id|ids|index|address|name))
    | (?:^|[_-])(?:max|min|num|total|input|output|cached?|prompt|completion|n|per)[_-]?tokens?\b
    | (?:secret|password|credential|key)s?[_-]?(?:name|id|ref|arn|manager|version|len|count|type|field|input|label|hint|
        policy|strength|error|class|rule|provider|path|file|dir|ur[il]|prefix|suffix|pattern|regex|store|ring|board|word)
    | (?:^|[_.-])(?:public|primary|foreign|partition|sort|cache|query|object|index|group|row|idempotency|i18n)
        [_.-]?keys?\b | public[_-]?key[_-]?token
    | passwordless | [_-](?:file|path|dir|name|url|uri|type|len|length|size|count|prefix|suffix|regex|pattern|header|
        field|env|var|format|at|expires?|ttl|class|id|ids|ref|arn|version|enabled|required|hint|label|placeholder|hash)\b
    """
)


def names_secret(name: bytes) -> bool:
    """Whether a word is the name of a secret: `aws_secret_access_key`, `//registry/:_password`."""
    return _NAMES_SECRET.search(name) is not None and _HARMLESS_NAME.search(name) is None


def assigned_secret(data: bytes, start: int) -> Found | None:
    match = _ASSIGNMENT.match(data, start)
    if match is None:
        return None
    name_start = _name_start(data, start)
    name = data[name_start : match.end("rest_of_name")].strip(b".-")
    is_option = data[name_start : name_start + 2] == b"--"
    if match["operator"] is None and not (is_option and (match["gap"] or match["space"])):
        return None
    if _ENV_AFTER_FILE.match(name):
        name = name.rpartition(b"-")[2]
    if match["operator"] == b"," and not _ENV_NAME.match(name):
        return None
    if _HARMLESS_NAME.search(name):
        return None
    group, form = _form(match, name, data[match.end() : match.end() + 1])
    value = match[group]
    if group == "bare":
        is_call = form is Form.BARE and data[match.end() : match.end() + 1] in _OPENS_CODE
        if is_call or b"\n" in match["gap"]:
            return None
        value = value.rstrip(b".:!?*")
    repeats_name = value.lower().endswith(name.lower())
    if repeats_name or not looks_secret(value, form, _PASSWORD_NAME.search(name) is not None):
        return None
    rest = _REST_OF_LONG_VALUE.match(data, match.end()) if group != "quoted" and len(value) >= MAX_BARE_CHARS else None
    end = rest.end() if rest else match.start(group) + len(value)
    return Found("assigned-secret", match.start(group), end, Rank.ASSIGNED)


def _name_start(data: bytes, start: int) -> int:
    backwards = _NAME_CHARS.match(data[max(0, start - MAX_NAME_CHARS) : start][::-1])
    name_start = start - (backwards.end() if backwards else 0)
    escape = _END_OF_ESCAPE.match(data, name_start, start)
    return escape.end() if escape else name_start


def _form(match: re.Match[bytes], name: bytes, following: bytes) -> tuple[str, Form]:
    if match["quoted"] is not None:
        return "quoted", Form.QUOTED
    if match["mixed"] is not None:
        return "mixed", Form.BARE
    is_tight = match["operator"] == b"=" and not match["space"] and not match["gap"]
    if is_tight and _ENV_NAME.match(name):
        return "bare", Form.ENV
    if is_tight:
        return "bare", Form.BARE if following in _CONTINUES_CODE else Form.SETTING
    return "bare", Form.SETTING if match["operator"] == b":" and following in _ENDS_SETTING else Form.BARE
