"""When a failure is a repetition: the actor had seen the error and did the same again.

Calls of one turn run side by side, so they never repeat each other. Only the policy's own failures count.
"""

from __future__ import annotations

from collections.abc import Sequence

from composer_replication.records import ErrorKind

STREAK = 3


class Repeats:
    """Fed turn by turn. `max_streak` None switches the rule about failures of one kind off."""

    def __init__(self, max_streak: int | None = STREAK) -> None:
        self._max_streak = max_streak
        self._failed_calls: set[str] = set()
        self._streak_kind: ErrorKind | None = None
        self._streak = 0

    def reason(self, call: str | None, kind: ErrorKind) -> str | None:
        """Why a failure in the current turn is a repetition, judged by the turns before it."""
        if call is not None and call in self._failed_calls:
            return "same_call"
        if self._max_streak and kind == self._streak_kind and self._streak + 1 >= self._max_streak:
            return "streak"
        return None

    def end_turn(self, failures: Sequence[tuple[str | None, ErrorKind]], succeeded: bool) -> None:
        self._failed_calls.update(call for call, _ in failures if call is not None)
        if failures:
            kind = failures[-1][1]
            self._streak = self._streak + 1 if kind == self._streak_kind else 1
            self._streak_kind = kind
        elif succeeded:
            self._streak, self._streak_kind = 0, None
