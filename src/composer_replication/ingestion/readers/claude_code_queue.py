"""What the user types, and what the harness reports, while Claude Code works: it waits in a queue.

Reads queue operations and records of deliveries. An operation that takes a text out of the queue does not say which,
and the queue is not first in, first out: typed texts overtake notices about background tasks. So the record of the
delivery decides what the model got and where: a user row after `dequeue`, a `queued_command` attachment after `remove`,
which may come after another answer of the model. Where there is no such record, as in older versions, the text is put
where something left the queue.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import NamedTuple

from ..conversation import Conversation
from ..reading import ReadingReport
from ..session import Said

TASK_EVENT = '{"task_id"'
NOTICE = "<"
COMMAND_LINE = "/"


class Departure(NamedTuple):
    """Something left the queue: one of the texts numbered below `before`."""

    place: Said
    before: int
    answer: int
    """How many answers the model had begun."""


class MessageQueue:
    def __init__(self, conversation: Conversation, report: ReadingReport) -> None:
        self._conversation = conversation
        self._report = report
        self._typed: OrderedDict[int, str] = OrderedDict()
        self._notices: OrderedDict[int, str] = OrderedDict()
        self._numbers: dict[str, deque[int]] = {}
        self._count = self._answers = 0
        self._dequeued: list[Departure] = []
        self._removed: list[Departure] = []
        self._attached: dict[str, Said] = {}

    def operate(self, operation: str | None, text: str) -> None:
        match operation:
            case "enqueue":
                self._enqueue(text)
            case "dequeue" | "remove":
                departures = self._dequeued if operation == "dequeue" else self._removed
                departures.append(Departure(self._conversation.keep_place(), self._count, self._answers))
            case "popAll":
                self._settle()
                self._report.skipped["queued_and_recalled"] += self._length
                self._typed.clear()
                self._notices.clear()
            case kind:
                self._report.skip("queue-operation", kind)

    def begin_answer(self) -> None:
        """The same text in a later user row was typed again."""
        self._answers += 1
        self._attached.clear()

    def attached(self, text: str) -> Said | None:
        """A `queued_command` attachment: what the model got in the middle of its work."""
        self._take(self._number_of(text))
        if departures := self._removed or self._dequeued:
            departures.pop()
        if text.startswith(COMMAND_LINE):
            self._report.skipped["queued_command_line"] += 1
        elif text.strip():
            said = self._attached[text.strip()] = self._conversation.say(text)
            return said
        return None

    def said(self, text: str, is_typed: bool) -> None:
        """A user row that is about to be added."""
        if earlier := self._attached.pop(text.strip(), None):
            earlier.dropped = True
            return
        number = self._number_of(text)
        if number is None and is_typed:
            # Several texts as one, or with pastes written out: it stands for all that was dequeued since the answer.
            while self._dequeued and self._is_fresh(self._dequeued[-1]):
                taken = self._take(self._oldest(self._dequeued.pop().before))
                self._report.skipped["queued_command_line"] += taken.startswith(COMMAND_LINE)
        elif number is not None and (self._dequeued or not self._removed or self._is_fresh(self._removed[-1])):
            self._take(number)
            if departures := self._dequeued or self._removed:
                departures.pop()

    def close(self) -> None:
        self._settle()
        self._report.skipped["queued_and_never_sent"] += self._length

    def _enqueue(self, text: str) -> None:
        if text.startswith(TASK_EVENT):
            self._report.skipped["queued_task_event"] += 1
        elif text.strip():
            (self._notices if text.startswith(NOTICE) else self._typed)[self._count] = text
            self._numbers.setdefault(text.strip(), deque()).append(self._count)
            self._count += 1

    def _settle(self) -> None:
        """Departures that no record explains."""
        for departure in sorted((*self._dequeued, *self._removed), key=lambda departure: departure.before):
            text = self._take(self._oldest(departure.before))
            if text.startswith(COMMAND_LINE):
                self._report.skipped["queued_command_line"] += 1
            elif text:
                self._conversation.fill(departure.place, text)
                self._attached[text.strip()] = departure.place
        self._dequeued.clear()
        self._removed.clear()

    @property
    def _length(self) -> int:
        return len(self._typed) + len(self._notices)

    def _is_fresh(self, departure: Departure) -> bool:
        return departure.answer == self._answers

    def _oldest(self, before: int) -> int | None:
        firsts = (next(iter(texts), before) for texts in (self._typed, self._notices))
        return next((number for number in firsts if number < before), None)

    def _number_of(self, text: str) -> int | None:
        numbers = self._numbers.get(text.strip())
        while numbers and numbers[0] not in self._typed and numbers[0] not in self._notices:
            numbers.popleft()
        return numbers[0] if numbers else None

    def _take(self, number: int | None) -> str:
        if number is None:
            return ""
        return self._typed.pop(number, "") or self._notices.pop(number, "")
