"""What a replay would cost, before a cent is spent: calls, cached answers, tokens, expected and worst-case dollars.

The worst case is the sum that the ledger would hold if all calls were in flight at once, without retries. What is
expected follows the teacher's earlier answers in this run, where there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from composer_replication.llm.ledger import Ledger
from composer_replication.llm.pricing import TOKENS_PER_BYTE, Prices, cost_micros, worst_micros

from .requests import Question
from .runner import price_of

COMPLETION_SHARE = 0.5
"""Of `max_tokens`, where a teacher has not answered yet."""


class Estimate(NamedTuple):
    """`prices_known` is False for a loopback server without a price: its calls count as free."""

    teacher: str
    calls: int
    cached: int
    prompt_tokens: int
    completion_tokens: int
    expected_micros: int
    worst_micros: int
    prices_known: bool


def estimate(asked: Sequence[Question], ledger_path: Path) -> list[Estimate]:
    """One line per teacher, in their order. Raises where a price is not known."""
    settled: set[str] = set()
    ratios: dict[str, tuple[float, float]] = {}
    if ledger_path.exists():
        ledger = Ledger(ledger_path)
        settled, ratios = ledger.settled_keys(), _ratios(ledger)
        ledger.close()
    by_teacher: dict[str, list[Question]] = {}
    for question in {question.key: question for question in asked}.values():
        by_teacher.setdefault(question.teacher.name, []).append(question)
    return [_estimate(name, own, settled, ratios.get(name)) for name, own in by_teacher.items()]


def _estimate(name: str, own: Sequence[Question], settled: set[str], ratio: tuple[float, float] | None) -> Estimate:
    known = price_of(own[0].teacher)
    prices = known or Prices(0, 0)
    left = [question for question in own if question.key not in settled]
    per_byte, completion = ratio or (TOKENS_PER_BYTE, 0.0)
    prompts = [question.prompt_bytes * per_byte for question in left]
    answers = [completion or question.max_tokens * COMPLETION_SHARE for question in left]
    return Estimate(
        teacher=name,
        calls=len(left),
        cached=len(own) - len(left),
        prompt_tokens=round(sum(prompts)),
        completion_tokens=round(sum(answers)),
        expected_micros=sum(cost_micros(prices, *tokens) for tokens in zip(prompts, answers, strict=True)),
        worst_micros=sum(worst_micros(prices, question.prompt_bytes, question.max_tokens) for question in left),
        prices_known=known is not None,
    )


def _ratios(ledger: Ledger) -> dict[str, tuple[float, float]]:
    """Prompt tokens per byte and completion tokens per answer, of teachers that told them."""
    query = (
        "SELECT teacher, 1.0 * SUM(prompt_tokens) / SUM(prompt_bytes), 1.0 * SUM(completion_tokens) / COUNT(*) "
        "FROM attempts WHERE state = 'settled' AND prompt_tokens > 0 AND prompt_bytes > 0 GROUP BY teacher"
    )
    return {teacher: (per_byte, completion) for teacher, per_byte, completion in ledger.rows(query)}
