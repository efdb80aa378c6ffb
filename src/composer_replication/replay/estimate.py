"""What a replay would cost, before a cent is spent: calls, cached answers, tokens, expected and worst-case dollars.

The worst case is the sum that the ledger would hold if all calls were in flight at once, without retries. What is
expected follows the teacher's earlier answers in this run, where there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from composer_replication.llm.ledger import Ledger
from composer_replication.llm.pricing import FREE, TOKENS_PER_BYTE, cost_micros, worst_micros

from .askable import Asking
from .requests import TeacherQuestion, questions
from .runner import price_of
from .teachers import Teacher

COMPLETION_SHARE = 0.125
"""Of `max_tokens`, where a teacher has not answered yet: turns of real sessions have 255 tokens on average."""
_Ratio = tuple[float, float]


class CostEstimate(NamedTuple):
    """`prices_known` is False for a loopback server without a price: its calls count as free."""

    teacher: str
    calls: int
    cached: int
    prompt_tokens: int
    completion_tokens: int
    expected_micros: int
    worst_micros: int
    prices_known: bool
    own_family: int
    """States of its own family, where it is not asked."""
    too_long: int
    """States beyond its context, where it is not asked."""
    windowed: int
    """States where it is shown a window of the history."""


def estimate(asking: Asking, teachers: Sequence[Teacher], max_tokens: int, ledger_path: Path) -> list[CostEstimate]:
    """One line per teacher, in their order, as if every tier were asked. Raises where a price is not known."""
    settled: set[str] = set()
    ratios: dict[str, _Ratio] = {}
    if ledger_path.exists():
        with closing(Ledger(ledger_path, read_only=True)) as ledger:
            settled, ratios = ledger.settled_keys(), _ratios(ledger)
    by_teacher: dict[str, list[TeacherQuestion]] = {}
    for question in {question.key: question for question in questions(asking.teachers, max_tokens)}.values():
        by_teacher.setdefault(question.teacher.name, []).append(question)
    return [_estimate(one, by_teacher.get(one.name, []), settled, ratios.get(one.name), asking) for one in teachers]


def _estimate(
    teacher: Teacher, own: Sequence[TeacherQuestion], settled: set[str], ratio: _Ratio | None, asking: Asking
) -> CostEstimate:
    known = price_of(teacher)
    prices = known or FREE
    left = [question for question in own if question.key not in settled]
    per_byte, completion = ratio or (TOKENS_PER_BYTE, 0.0)
    prompts = [question.prompt_bytes * per_byte for question in left]
    answers = [completion or question.max_tokens * COMPLETION_SHARE for question in left]
    return CostEstimate(
        teacher=teacher.name,
        calls=len(left),
        cached=len(own) - len(left),
        prompt_tokens=round(sum(prompts)),
        completion_tokens=round(sum(answers)),
        expected_micros=sum(cost_micros(prices, *tokens) for tokens in zip(prompts, answers, strict=True)),
        worst_micros=sum(worst_micros(prices, question.prompt_bytes, question.max_tokens) for question in left),
        prices_known=known is not None,
        own_family=asking.own_family[teacher.name],
        too_long=asking.too_long[teacher.name],
        windowed=asking.windowed[teacher.name],
    )


def _ratios(ledger: Ledger) -> dict[str, _Ratio]:
    """Prompt tokens per byte and completion tokens per answer, of teachers that told them."""
    query = (
        "SELECT teacher, 1.0 * SUM(prompt_tokens) / SUM(prompt_bytes), 1.0 * SUM(completion_tokens) / COUNT(*) "
        "FROM attempts WHERE state = 'settled' AND prompt_tokens > 0 AND prompt_bytes > 0 GROUP BY teacher"
    )
    return {teacher: (per_byte, completion) for teacher, per_byte, completion in ledger.rows(query)}
