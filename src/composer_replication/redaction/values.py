"""Does the value of something called "password" or "token" look like a secret, or like code, a path or a placeholder?

Not caught, on purpose: passphrases with spaces, numbers, weak words that every tutorial uses ("admin123", "changeme").
"""

from __future__ import annotations

import math
import re
from collections import Counter
from enum import Enum

from .engine import LinearPattern

MIN_PASSWORD_CHARS = 6
MIN_TOKEN_CHARS = 8
MIN_ENTROPY_BITS = 2.25
MIN_BARE_ENTROPY_BITS = 2.75
MIN_NOISE_CHARS = 10
LONGEST_WORD_CHARS = 18

_STAND_IN_WORDS = """
    a abc access account admin alice an and any api apikey app auth authtoken aws bar baz bearer bob cd change
    changed changeit changeme client code config correct cred credential credentials db default demo dev dummy e2e
    edit empty enter env example existing fake false file fixme foo fred generated github goes guest hash header
    here hidden hunter id in initial insert int integration invalid is it jane john jwt key letmein local login long
    machine me missing mock my mysql name new nil no none not null of old openai or pass passphrase passwd password
    passwort paste placeholder postgres prod production provided put pw pwd qwerty random real redacted redis remote
    replace required root sample secret secure set shared should sk some something staging string super svc temp
    test tester testing text the this to todo token tokens top true undefined unit unknown unset use user username
    valid value very welcome with wrong x xyz you your
""".split()
_STAND_IN = LinearPattern(
    r"(?i)^(?:" + "|".join(sorted(_STAND_IN_WORDS, key=len, reverse=True)) + r"|[-_. :/!]|[0-9]{1,6})+$"
)
_STAND_IN_SEGMENT = re.compile(
    rb"(?i)(?:^|[-_.:/])(?:placeholder|sample|dummy|fake|mock|test|testing|changeme|insecure|todo|not|key|token|secret|password)(?=[-_.:/]|\Z)"
)
_REPEATED = re.compile(rb"(.{1,3}?)\1{3,}.{0,3}", re.DOTALL)
_MASKED = LinearPattern(
    r"(?i)\*{3}|\.{3}|\xe2\x80[\xa2\xa6]|(?-i:x{4}|X{4})|redacted|example|your[-_ ]|12345678|abcdefgh|abcd1234|deadbeef"
)
_DIGIT = re.compile(rb"[0-9]")
_LETTER = re.compile(rb"[A-Za-z]")
_SYMBOL = re.compile(rb"[!@#$%^&*+=?~]")
_REFERENCE = re.compile(
    rb"""
      [$%@&!]?[({<\[] | \$\w | %\w+% | %[-\w.]{0,4}[a-z]$ | \\[$(]    # ${VAR}, <name>, %VAR%, %s
    | @[a-z][\w-]*/ | [!*&][a-z_]+$                                   # @scope/package, !tag, *anchor
    | (?:process|os|env|import|self|this|config|settings|secrets|args|options|params|req|request|ctx|vars?|data|local)
      \b[.\[]
    | (?:true|false|null|none|nil|undefined|yes|no|on|off|nan|inf|optional|required|string|str|bool(?:ean)?|bytes|any|
         object|number|int(?:eger)?|float|void|never|unknown|self|this|await|new|typeof|lambda|function|return)\b
    | (?:vault|secret|arn|ref|file|keyring|op|env|ssm|aws|gcp|https?|sha\d{1,3}|md5|workspace|npm|link|catalog)[:+]
    | (?-i:[A-Z][A-Z0-9_]{2,}=[^=])                               # another assignment
    | [+-]?[\d.,_:/-]+$ | 0x[0-9a-f]{1,8}$                        # numbers, dates, times
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CODE = re.compile(rb"[()\[\]{}<>`]|=>|->|::|\$\w|&&|\|\||\s")
_DOTTED_NAME = re.compile(rb"[A-Za-z_]\w*(?:\??\.[A-Za-z_]\w*)+[;,]?\Z")
_ABSOLUTE_PATH = re.compile(rb"[~.]{0,2}[/\\]|[A-Za-z]:[/\\]")
_PATH = re.compile(rb"[~.]{0,2}[/\\]|[A-Za-z]:[/\\]|[\w.@~-]+(?:/[\w.@ ~-]+)+/?\Z")
_LONG_SEGMENT = re.compile(rb"[A-Za-z0-9+]{16,}")
_SEGMENT = re.compile(rb"[A-Za-z0-9]+")
_COUNTER = re.compile(rb"\d{1,6}\Z")
_HUMP = re.compile(rb"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_WORDS = re.compile(rb"[A-Za-z]+(?:[-_.:/][A-Za-z]+)*[-_.:/]?\d{0,2}\Z")
_TYPE_NAME = re.compile(
    rb"[A-Za-z_]*(?i:u?int|float|str|utf|sha|md|base|aes|hmac|[reh]s|oauth|web|ed|x|v|p|i|s|k)\d{1,5}(?:[A-Z_-][A-Za-z_-]*)?\Z"
)
_CODE_NAME = re.compile(
    rb"(?:[A-Za-z]+(?:[_-][A-Za-z]+)*[_-]?\d{1,2}(?:[_-][A-Za-z]+)*|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z]+(?:[A-Z][a-z]+)+\d?)\Z"
)
_UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")


class Form(Enum):
    """How sure the place makes us: NAME=value, name: "value", `name: value` that ends like a line of configuration,
    and `name: value` that may as well be code."""

    ENV = "env"
    QUOTED = "quoted"
    SETTING = "setting"
    BARE = "bare"


_UNQUOTED = (Form.SETTING, Form.BARE)


def entropy_bits(value: bytes) -> float:
    """Shannon entropy per byte."""
    size = len(value)
    return -sum(count / size * math.log2(count / size) for count in Counter(value).values())


def is_stand_in(value: bytes) -> bool:
    """A word that stands where the secret would be: "changeme", "your-api-key-here", "xxxx", "test-token-123"."""
    return (
        _MASKED.occurs_in(value)
        or _REPEATED.fullmatch(value) is not None
        or _STAND_IN.occurs_in(value)
        or (_STAND_IN_SEGMENT.search(value) is not None and _is_made_of_words(value))
    )


def is_reference(value: bytes) -> bool:
    """A variable, a call, a type, a path, a number: it points at the secret or is none."""
    if _REFERENCE.match(value) or _is_path(value):
        return True
    return _DOTTED_NAME.match(value) is not None and (len(value) < 40 or entropy_bits(value) < 4.5)


def is_uuid(value: bytes) -> bool:
    return _UUID.match(value) is not None


def has_digit(value: bytes) -> bool:
    return _DIGIT.search(value) is not None


def has_letter(value: bytes) -> bool:
    return _LETTER.search(value) is not None


def looks_secret(value: bytes, form: Form, is_password: bool) -> bool:
    """Passwords may be short words; keys and tokens are long and mixed."""
    if len(value) < (MIN_PASSWORD_CHARS if is_password else MIN_TOKEN_CHARS):
        return False
    if is_reference(value) or is_stand_in(value) or entropy_bits(value) < MIN_ENTROPY_BITS:
        return False
    if form in _UNQUOTED and (_CODE.search(value) or _is_code_name(value, is_password and form is Form.SETTING)):
        return False
    if is_password and form is Form.ENV:
        return _CODE.search(value) is None
    if not is_password and (_WORDS.match(value) or (b"-" in value and _is_made_of_words(value))):
        return is_noise(value) and not _is_made_of_words(value)
    has_symbol = is_password and _SYMBOL.search(value) is not None
    strong = has_letter(value) and (has_digit(value) or has_symbol)
    if form in _UNQUOTED:
        return (strong or is_noise(value)) and entropy_bits(value) >= MIN_BARE_ENTROPY_BITS
    return (strong or is_noise(value)) and b" " not in value


def _is_code_name(value: bytes, is_configured_password: bool) -> bool:
    """A password in a configuration may look like a variable with a number, but not like the name of a type."""
    if _TYPE_NAME.match(value):
        return not is_noise(value)
    return not is_configured_password and _CODE_NAME.match(value) is not None and not is_noise(value)


def is_noise(value: bytes) -> bool:
    """No name in camelCase or snake_case: its humps are too short or too long to be words."""
    humps = _HUMP.findall(value)
    # Long names have long words on average, so a long value needs less proof.
    longest_mean = min(3.5, 2.4 + len(value) / 24)
    if len(value) < MIN_NOISE_CHARS or not humps:
        return False
    return sum(map(len, humps)) < longest_mean * len(humps) or max(map(len, humps)) > LONGEST_WORD_CHARS


def _is_made_of_words(value: bytes) -> bool:
    parts = _SEGMENT.findall(value)
    return not any(is_noise(part) or (len(part) > 4 and has_digit(part) and not _COUNTER.match(part)) for part in parts)


def _is_path(value: bytes) -> bool:
    """Base64 may begin with a slash too, but then has a long segment that is no name."""
    if _PATH.match(value) is None or any(is_noise(part) for part in _LONG_SEGMENT.findall(value)):
        return False
    return _ABSOLUTE_PATH.match(value) is not None or not is_noise(value)
