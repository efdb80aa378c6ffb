"""What the ledger says: attempts and money by teacher and state, and how long answers took."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from .ledger import Ledger

STATES: tuple[str, ...] = ("settled", "failed", "refused", "in_doubt", "reserved", "inherited")
PERCENTILES = (50, 95, 99)


class TeacherBill(NamedTuple):
    """`micros` by state; a settled answer that did not tell its cost is charged at worst case and counted in doubt."""

    teacher: str
    attempts: dict[str, int]
    micros: dict[str, int]
    reasons: dict[str, int]
    latency_s: dict[str, float]
    prompt_tokens: int
    completion_tokens: int
    words: dict[str, str]
    """What the provider said last, by reason."""

    @property
    def spent_micros(self) -> int:
        return sum(self.micros.values())


def bills(ledger: Ledger, teachers: Collection[str] | None = None) -> list[TeacherBill]:
    names = [name for (name,) in ledger.rows("SELECT DISTINCT teacher FROM attempts ORDER BY teacher")]
    return [_bill(ledger, name) for name in names if teachers is None or name in teachers]


def _bill(ledger: Ledger, teacher: str) -> TeacherBill:
    attempts, micros = dict.fromkeys(STATES, 0), dict.fromkeys(STATES, 0)
    grouped = (
        "SELECT CASE owner WHEN 'inherited' THEN owner ELSE state END, exact, COUNT(*), SUM(cost_micros), "
        "SUM(prompt_tokens), SUM(completion_tokens) "
        "FROM attempts WHERE teacher = ? GROUP BY 1, exact"
    )
    prompt_tokens = completion_tokens = 0
    for state, exact, count, cost, prompt, completion in ledger.rows(grouped, teacher):
        attempts[state] += count
        micros[state if exact else "in_doubt"] += cost
        prompt_tokens, completion_tokens = prompt_tokens + prompt, completion_tokens + completion
    failing = (
        "SELECT reason, COUNT(*) FROM attempts WHERE teacher = ? AND owner != 'inherited' AND reason IS NOT NULL "
        "GROUP BY 1 ORDER BY 2 DESC"
    )
    times = (
        "SELECT latency_s FROM attempts WHERE teacher = ? AND owner != 'inherited' AND state = 'settled' "
        "AND latency_s > 0 ORDER BY 1"
    )
    sorted_s = [latency_s for (latency_s,) in ledger.rows(times, teacher)]
    latency_s = {f"p{percent}": _percentile(sorted_s, percent) for percent in PERCENTILES} if sorted_s else {}
    # Of the rows of a group SQLite shows the one with the highest number.
    said = "SELECT reason, words, MAX(id) FROM attempts WHERE teacher = ? AND words IS NOT NULL GROUP BY reason"
    words = {reason: text for reason, text, _ in ledger.rows(said, teacher)}
    reasons = dict(ledger.rows(failing, teacher))
    return TeacherBill(teacher, attempts, micros, reasons, latency_s, prompt_tokens, completion_tokens, words)


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that is not below `percent` of all."""
    return round(ordered[max(0, -(-len(ordered) * percent // 100) - 1)], 4)


def last_words(ledger: Ledger, teachers: Collection[str]) -> str:
    """What providers said about calls that failed, the latest of each teacher."""
    said = [f"{bill.teacher}: {next(reversed(bill.words.values()))}" for bill in bills(ledger, teachers) if bill.words]
    return "; ".join(said)


def summary(ledger: Ledger, teachers: Collection[str]) -> dict[str, int]:
    """The counts that a replay prints. `failed` holds refusals too: the first number is the sum of the next four."""
    own = bills(ledger, teachers)
    counts = {state: sum(bill.attempts[state] for bill in own) for state in STATES}
    return {
        "calls": sum(counts.values()),
        "settled": counts["settled"],
        "inherited": counts["inherited"],
        "in_doubt": counts["in_doubt"] + counts["reserved"],
        "failed": counts["failed"] + counts["refused"],
        "spent_micros": sum(bill.spent_micros for bill in own),
        "in_doubt_micros": sum(bill.micros["in_doubt"] for bill in own),
    }
