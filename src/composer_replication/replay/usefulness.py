"""Which answers can vote at all, whatever they say: a teacher that gives none of these is not paid for long."""

from __future__ import annotations

import json
from collections.abc import Iterable

from composer_replication.errors import quoted
from composer_replication.llm.anthropic import chat_completion
from composer_replication.llm.lane import Lane
from composer_replication.llm.ledger import Ledger
from composer_replication.records import JsonObject

from .parse import parse_reply
from .requests import TeacherQuestion
from .teachers import Teacher

REFUSALS = ("content_filter", "refusal", "safety")
"""Reasons for which a provider ends an answer that it does not want to give."""


def why_useless(teacher: Teacher, max_tokens: int, answer: JsonObject) -> str | None:
    """Why an answer cannot vote, and what to do about it; None for one that may."""
    parsed = parse_reply(json.dumps(answer), teacher.model, None, teacher.served_as)
    if parsed.outcome == "truncated":
        return f"cut at max_tokens {max_tokens} (raise replay.max_tokens)"
    if parsed.outcome == "mismatched":
        served = parsed.served_model
        return f"of another model, {served} (if it is the same: --alias {quoted(f'{teacher.name}={served}')})"
    if parsed.finish_reason in REFUSALS:
        return f"refused ({parsed.finish_reason})"
    return "empty, without text and without a call" if parsed.outcome == "no_action" and _is_empty(answer) else None


def _is_empty(answer: JsonObject) -> bool:
    message = chat_completion(answer)["choices"][0]["message"]
    return not message.get("tool_calls") and not str(message.get("content") or "").strip()


def weigh_settled(lane: Lane, settled: Iterable[TeacherQuestion], ledger: Ledger) -> None:
    """What was answered before counts: a teacher that was left alone is not tried a few more times in each run."""
    for question in settled:
        if lane.is_useful or lane.parked:
            return
        if question.teacher.name == lane.endpoint.name and (found := ledger.settled(question.key)):
            lane.weigh(json.loads(found.body))
