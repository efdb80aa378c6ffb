"""What the environment answered to a failed turn, word for word, as the hint for that very turn.

Self-distillation from execution feedback: the teacher reads what the policy got to read afterwards, such as the output
of visible tests, and nothing that only a grader knows. The sham is an answer to a failed turn of another task.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from composer_replication.hints.wording import clip
from composer_replication.records import ErrorSite, Trace, content_id
from composer_replication.sites import find_sites

from .online_sites import HintedTurn

TOLD = "An answer to this got the following feedback:\n{feedback}\nWrite one that it would not apply to."


class _Failure(NamedTuple):
    task_id: str | None
    site: ErrorSite


class FeedbackHinter:
    """A `Hinter`. Turns whose failure is not the policy's fault have no hint, and no sham where no other task failed in
    another way."""

    def __init__(self, max_tokens: int, sham: bool = False) -> None:
        self._max_tokens, self._sham = max_tokens, sham
        self.follows = {"hint": "feedback", "sham": sham}

    def __call__(self, traces: Sequence[Trace]) -> list[list[HintedTurn]]:
        failures = [
            [_Failure(trace.task_id, site) for site in find_sites(trace) if site.fault == "policy"] for trace in traces
        ]
        every = [failure for found in failures for failure in found]
        return [[turn for failure in found if (turn := self._hinted(failure, every))] for found in failures]

    def _hinted(self, failure: _Failure, every: Sequence[_Failure]) -> HintedTurn | None:
        told = _of_another_task(failure, every) if self._sham else failure
        if told is None or not told.site.error_message.strip():
            return None
        feedback = clip(told.site.error_message.strip(), self._max_tokens)
        return HintedTurn(failure.site.turn, failure.site.error_kind, TOLD.format(feedback=feedback))


def _of_another_task(failure: _Failure, every: Sequence[_Failure]) -> _Failure | None:
    """Of those that are nearest in length, so that true and sham feedback are alike in size. The same words of another
    task, as of two answers without any code, would be the true feedback."""
    said = failure.site.error_message
    others = [each for each in every if each.task_id != failure.task_id and each.site.error_message != said]
    nearest = sorted(others, key=lambda each: abs(len(each.site.error_message) - len(said)))[:4]
    return min(nearest, key=lambda each: content_id(failure.site.site_id, each.site.site_id), default=None)
