"""Runs inside the grading sandbox: what a lowered test calls instead of asserting; see `grading/lowering`.

    with _observe(3) as _seen:      # sends what _seen got, or the exception that came out
        _seen(f(x))
    _known(3, 1, y)                 # only beside the solution: what check 3 expects as its operand 1

Nothing is compared here. What is sent is claimed by the submission, and judged outside by its value alone.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from _pytest.outcomes import OutcomeException

from .plain_form import MAX_CHARACTERS, OBSERVE, Encoder, instance_names

MAX_SENT = 5_000


class Observer:
    """What the running test has sent so far."""

    def __init__(self) -> None:
        self._encoder = Encoder()
        self._sent: list[Any] = []

    def take(self) -> list[Any]:
        sent, self._sent = self._sent, []
        return sent

    def names(self) -> dict[str, Any]:
        """For the namespaces of the lowered modules."""
        return {OBSERVE: lambda check: Observation(self, check), "_known": self._known}

    def _known(self, check: int, operand: int, value: Any) -> None:
        self._send({"known": check, "operand": operand, "form": self._encoder.form(value)})

    def returned(self, check: int, operands: tuple[Any, ...]) -> None:
        first = {id(value): index for index, value in reversed(list(enumerate(operands)))}
        same = [first[id(value)] for value in operands]
        self._send({"seen": check, "operands": [self._encoder.operand(value) for value in operands], "same": same})

    def raised(self, check: int, error: BaseException) -> None:
        try:
            text = str(error)[:MAX_CHARACTERS].encode(errors="replace").decode()
        except Exception:
            text = ""
        self._send({"seen": check, "raised": instance_names(error), "text": text})

    def _send(self, entry: dict[str, Any]) -> None:
        if len(self._sent) <= MAX_SENT:
            self._sent.append(entry)


class Observation:
    """The block of one check. It swallows whatever is raised, so that its look does not tell what is expected."""

    def __init__(self, observer: Observer, check: int) -> None:
        self._observer, self._check = observer, check
        self._operands: tuple[Any, ...] = ()
        self.value: Any = None

    def __enter__(self) -> Observation:
        return self

    def __call__(self, *operands: Any) -> None:
        self._operands = operands

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> bool:
        if error is None:
            self._observer.returned(self._check, self._operands)
            return False
        if isinstance(error, OutcomeException):
            return False
        self.value = error
        self._observer.raised(self._check, error)
        return True

    @property
    def type(self) -> Any:
        return type(self.value)

    @property
    def exception(self) -> Any:
        return self.value
