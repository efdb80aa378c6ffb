"""`Retry-After` in the forms that servers use: seconds, a date of HTTP or of ISO 8601, a duration like 1m30s."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_WAIT_S = 86_400.0
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


def retry_after_s(value: str | None, now: datetime | None = None) -> float | None:
    """Seconds to wait, between 0 and a day; None where the value says nothing. A time that is past means now."""
    text = (value or "").strip()
    if not text or len(text) > 64:
        return None
    seconds = _number(text)
    if seconds is None:
        seconds = _duration(text)
    if seconds is None:
        when = _date(text)
        if when is None:
            return None
        seconds = (when - (now or datetime.now(UTC))).total_seconds()
    return min(max(seconds, 0.0), MAX_WAIT_S)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _duration(text: str) -> float | None:
    found = _DURATION.fullmatch(text)
    if not found or not any(found.groups()):
        return None
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def _date(text: str) -> datetime | None:
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            when = parse(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
        return when if when.tzinfo else when.replace(tzinfo=UTC)
    return None
