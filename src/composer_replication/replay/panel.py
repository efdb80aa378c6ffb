"""What a replay shows while it runs: spend, cap, projection, rate and errors, for all teachers and for each."""

from __future__ import annotations

import time

from composer_replication.llm.calls import Live
from composer_replication.llm.pricing import dollars
from composer_replication.progress import Progress

REFRESH_S = 0.25
MAX_WORDS = 120


class Panel:
    """`show` is called after every call, so its lines are written a few times a second only."""

    def __init__(self, progress: Progress, cached: int, total: int, cap_micros: int | None) -> None:
        self._progress = progress
        self._cached = cached
        self._total = total
        self._cap = "" if cap_micros is None else f" of {dollars(cap_micros)}"
        self._shown = 0.0

    def show(self, live: Live) -> None:
        now = time.monotonic()
        if now - self._shown >= REFRESH_S or live.ended == live.total:
            self._shown = now
            teachers = [f"{name}: {teacher_line(own)}" for name, own in live.teachers.items()]
            self._progress.figures([self._spend(live), *teachers])
        self._progress.step(self._cached + live.ended, self._total, f"{live.calls_per_s:.0f}/s")

    def _spend(self, live: Live) -> str:
        projected = f"about ${live.projected_micros / 1e6:.2f} in all"
        return f"spent ${live.charged_micros / 1e6:.4f}{self._cap}, {projected}{_errors(live)}"


def teacher_line(live: Live) -> str:
    money = f", ${live.charged_micros / 1e6:.4f} of about ${live.projected_micros / 1e6:.4f}"
    given_up = f", {live.failed} given up" if live.failed else ""
    return (
        f"{live.done}/{live.total} answered, {live.calls_per_s:.1f}/s"
        f"{money if live.charged_micros else ''}{given_up}{_errors(live)}"
    )


def _errors(live: Live) -> str:
    if not live.errors:
        return ""
    worst, count = live.errors.most_common(1)[0]
    words = live.words.get(worst, "")
    said = f": {words[:MAX_WORDS]}" if words else ""
    return f", {live.errors.total()} errors ({worst} × {count}{said})"
