"""Results that a detector found to be errors, marked as such: most formats do not say so themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence, Set

from composer_replication.records import ErrorSite, Message, Trace


def failed_calls(sites: Iterable[ErrorSite]) -> dict[str, set[str]]:
    """Ids of tool calls, by trace."""
    found: dict[str, set[str]] = defaultdict(set)
    for site in sites:
        if site.call_id:
            found[site.trace_id].add(site.call_id)
    return found


def with_errors_marked(traces: Iterable[Trace], sites: Iterable[ErrorSite]) -> list[Trace]:
    failed = failed_calls(sites)
    return [
        trace.model_copy(update={"messages": marked(trace.messages, failed[trace.trace_id])})
        if trace.trace_id in failed
        else trace
        for trace in traces
    ]


def marked(messages: Sequence[Message], failed: Set[str]) -> tuple[Message, ...]:
    """With the results of these calls marked."""
    return tuple(
        {**message, "is_error": True} if message.get("tool_call_id") in failed else message for message in messages
    )
