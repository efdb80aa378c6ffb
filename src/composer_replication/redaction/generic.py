"""The generic rule of gitleaks ("something called key, then something random") is right about one time in ten here.

It rewrites only where the name and the value both say secret. The rest is counted, not changed.
"""

from __future__ import annotations

import re

from .engine import Span
from .values import Form, looks_secret

_SECRET_NAME = re.compile(
    rb"(?i)(?:secret|passw(?:or)?d|credential|api[_.-]?key|access[_.-]?(?:key|token)|auth[_.-]?(?:key|token)|private[_.-]?key"
    rb"|client[_.-]?key|(?:^|[_.\s\"'-])token)[\w.-]{0,20}[\s\"']{0,3}(?::?=|:|=>)[`'\"\s=]{0,5}\Z"
)


def is_certain(data: bytes, match: Span, secret: Span) -> bool:
    before, value = data[match[0] : secret[0]], data[secret[0] : secret[1]]
    return _SECRET_NAME.search(before) is not None and looks_secret(value, Form.BARE, is_password=False)
