"""Results that a detector found to be errors, marked as such: most formats do not say so themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from composer_replication.records import ErrorSite, Message, Trace
from composer_replication.runs import StageFolder


def failed_calls(sites: Iterable[ErrorSite]) -> dict[str, set[str]]:
    """Ids of tool calls, by trace."""
    found: dict[str, set[str]] = defaultdict(set)
    for site in sites:
        if site.call_id:
            found[site.trace_id].add(site.call_id)
    return found


class StoredTraces:
    """The traces of a run, read again each time they are asked for: no more than those that are chosen are held."""

    def __init__(self, ingestion: StageFolder, sites: StageFolder) -> None:
        self._ingestion, self._sites = ingestion, sites

    def __iter__(self) -> Iterator[Trace]:
        """As they were read."""
        return self._ingestion.stream(Trace)

    def sites(self) -> Iterator[ErrorSite]:
        return self._sites.stream(ErrorSite)

    def chosen(self, last_turns: Mapping[str, int], marked: bool = False) -> Iterator[Trace]:
        """Those with the given ids, each up to its given turn; with errors marked, if so wanted."""
        found = (_up_to(trace, last_turns[trace.trace_id]) for trace in self._ingestion.stream(Trace, only=last_turns))
        known = (site for site in self.sites() if site.trace_id in last_turns) if marked else ()
        return with_errors_marked(found, known)


def _up_to(trace: Trace, turn: int) -> Trace:
    turns = trace.turns[: turn + 1]
    return trace.model_copy(update={"turns": turns, "messages": trace.messages[: turns[-1].end]})


def with_errors_marked(traces: Iterable[Trace], sites: Iterable[ErrorSite]) -> Iterator[Trace]:
    failed = failed_calls(sites)
    return (
        trace.model_copy(update={"messages": marked(trace.messages, failed[trace.trace_id])})
        if trace.trace_id in failed
        else trace
        for trace in traces
    )


def marked(messages: Sequence[Message], failed: Set[str]) -> tuple[Message, ...]:
    """With the results of these calls marked."""
    return tuple(
        {**message, "is_error": True} if message.get("tool_call_id") in failed else message for message in messages
    )
