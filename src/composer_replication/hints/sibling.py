"""Implicit feedback for rollouts: another attempt at the same task succeeded.

SDPO puts the successful sibling's whole solution before the teacher's turn, which is the answer (L2). The default here
says only that it can be done, how far the sibling went and whether it took another tool (L1); `show_call` gives the
sibling's call at this point. Not part of the default layers: it needs several rollouts of one task.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from composer_replication.records import ToolCall, Trace, canonical_tool_call, content_id

from .templates import LeakLevel

SUCCESS = 1.0


class SiblingHintGenerator:
    """Tells that another attempt at the same task succeeded; with `show_call` also by which call.

    Reads `trace_id` and `turn` of the error and looks both up among `traces`.
    """

    def __init__(self, traces: Iterable[Trace], *, show_call: bool = False) -> None:
        self.show_call = show_call
        self.leak_level: LeakLevel = "L2" if show_call else "L1"
        self._traces: dict[str, Trace] = {}
        self._solved: defaultdict[str, list[Trace]] = defaultdict(list)
        for trace in traces:
            self._traces[trace.trace_id] = trace
            if trace.task_id and self.is_example(trace):
                self._solved[trace.task_id].append(trace)

    @staticmethod
    def is_example(trace: Trace) -> bool:
        """Whether it solved its task."""
        return trace.task_id is not None and trace.outcome is not None and trace.outcome >= SUCCESS

    def generate(self, error_kind: str, error_meta: dict[str, Any]) -> str | None:
        trace, turn = self._traces.get(error_meta.get("trace_id", "")), error_meta.get("turn", 0)
        sibling = self._sibling(trace, turn) if trace else None
        if trace is None or sibling is None:
            return None
        calls = list(_good_calls(sibling, len(sibling.turns)))
        done = {canonical_tool_call(call) for call in _good_calls(trace, turn)}
        ahead = next((call for call in calls if canonical_tool_call(call) not in done), None)
        if ahead is None or canonical_tool_call(ahead) in _calls_at(trace, turn):
            return None
        if self.show_call:
            return f"Reminder: another attempt at this task succeeded. At this point it called {_shown(ahead)}."
        same = ahead["function"]["name"] == error_meta.get("tool_name")
        number = f"{len(calls)} good call{'s' if len(calls) > 1 else ''}"
        choice = "uses the same tool, with other arguments" if same else "does not use this tool"
        return f"Reminder: another attempt at this task succeeded with {number}. At this point it {choice}."

    def _sibling(self, trace: Trace, turn: int) -> Trace | None:
        """Any other success, chosen by hash: always taking the shortest one is known to collapse the policy."""
        solved = self._solved.get(trace.task_id or "", [])
        others = [other for other in solved if other.trace_id != trace.trace_id]
        return min(others, key=lambda other: content_id(trace.trace_id, turn, other.trace_id), default=None)


def _good_calls(trace: Trace, before: int) -> Iterator[ToolCall]:
    """Calls of the turns before `before` that came back without an error."""
    for at in trace.turns[:before]:
        failed = {
            result.get("tool_call_id")
            for result in trace.messages[at.start + 1 : at.end]
            if result.get("is_error", False)
        }
        yield from (call for call in trace.messages[at.start].get("tool_calls", []) if call["id"] not in failed)


def _calls_at(trace: Trace, turn: int) -> set[str]:
    message = trace.messages[trace.turns[turn].start]
    return {canonical_tool_call(call) for call in message.get("tool_calls", [])}


def _shown(call: ToolCall) -> str:
    return f"{call['function']['name']} with {call['function']['arguments']}"
