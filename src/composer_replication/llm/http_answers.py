"""What an answer means for the next step. Statuses, errors inside HTTP 200 and bodies that make no sense become one of:

    done         the answer is usable, or it is final and was paid for
    retry_soon   the provider had trouble; the same request may work later
    retry_never  this request will not work
    stop_key     no request with this key will: no credit, or no valid key

and a ledger state. Poison, the fifth, is the same question answered uselessly in three ways; the ledger counts those.
`Retry-After` is read in the forms that servers use: seconds, a duration like 1m30s, or a date of HTTP or of ISO 8601,
which is a time on the server's clock and so is compared with its `Date`.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal, NamedTuple, cast

import orjson

from .anthropic import chat_completion
from .ledger import State
from .provider_words import ProviderWords, words_of, words_of_error
from .transport import Response

Action = Literal["done", "retry_soon", "retry_never", "stop_key"]
RETRY_SOON = frozenset({408, 409, 425, 429})
REFUSALS = frozenset({503, 529})
"""Of all 5xx, these say that the work was not begun; the others may come after it."""
OVERLOAD = frozenset({429, 503, 529})
MAX_WAIT_S = 86_400.0
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?")


class AnswerVerdict(NamedTuple):
    """`unusable`: it was answered, and the answer is of no use. `overload`: ask more slowly."""

    action: Action
    state: State
    reason: str | None = None
    retry_after_s: float | None = None
    overload: bool = False
    unusable: bool = False
    answer: dict[str, Any] | None = None
    words: str = ""
    """What the provider says about it."""
    no_credit: bool = False


def judge(response: Response) -> AnswerVerdict:
    if response.status == 200:
        return _judge_body(response.body)
    wait_s = retry_after_s(response.retry_after, _date(response.date or ""))
    status, reason = response.status, f"HTTP {response.status}"
    doubtful = status == 408 or (status >= 500 and status not in REFUSALS)
    said = words_of(status, response.body)
    return AnswerVerdict(
        _action(status, said),
        "in_doubt" if doubtful else "refused",
        reason,
        wait_s,
        overload=status in OVERLOAD and not said.no_credit,
        words=said.text,
        no_credit=said.no_credit,
    )


def _action(status: int, said: ProviderWords) -> Action:
    if said.no_credit or status == 401:
        return "stop_key"
    return "retry_soon" if status in RETRY_SOON or status >= 500 else "retry_never"


def _judge_body(body: bytes) -> AnswerVerdict:
    try:
        answer: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return AnswerVerdict("retry_soon", "in_doubt", "bad JSON", unusable=True)
    if not isinstance(answer, dict):
        return AnswerVerdict("retry_soon", "in_doubt", "not an object", unusable=True)
    fields = chat_completion(cast("dict[str, Any]", answer))
    choices = fields.get("choices")
    choice: Any = cast("list[Any]", choices)[0] if isinstance(choices, list) and choices else None
    error: Any = fields.get("error") or (
        cast("dict[str, Any]", choice).get("error") if isinstance(choice, dict) else None
    )
    if error:
        return _judge_error(error, fields)
    if choice is None:
        return AnswerVerdict("retry_soon", "failed", "empty choices", unusable=True, answer=fields)
    if not isinstance(choice, dict) or not isinstance(cast("dict[str, Any]", choice).get("message"), dict):
        return AnswerVerdict("retry_soon", "failed", "no message", unusable=True, answer=fields)
    return AnswerVerdict("done", "settled", answer=fields)


def _judge_error(error: Any, fields: dict[str, Any]) -> AnswerVerdict:
    """The provider had begun to answer, so a prompt may have been charged all the same."""
    code = cast("dict[str, Any]", error).get("code") if isinstance(error, dict) else None
    known = code if isinstance(code, int) and 400 <= code < 600 else 500
    reason = f"error {code} inside HTTP 200" if known == code else "error inside HTTP 200"
    said = words_of_error(known, error)
    overload = known in OVERLOAD and not said.no_credit
    return AnswerVerdict(
        _action(known, said),
        "failed",
        reason,
        overload=overload,
        unusable=not overload,
        answer=fields,
        words=said.text,
        no_credit=said.no_credit,
    )


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
