"""Which sessions are kept out of training: by how they open, so that it needs only that."""

from __future__ import annotations

from collections.abc import Mapping

from composer_replication.records import Trace, content_id

FEWEST = 5


def opening_of(trace: Trace) -> str:
    """A session that opens like another is often its continuation."""
    first = next((message["content"] for message in trace.messages if message["role"] == "user"), trace.trace_id)
    return content_id(first)


def held_out(openings: Mapping[str, str], share: float) -> set[str]:
    """Of sessions by id, with `opening_of` each. Of fewer than five that open differently none is held out."""
    if len(set(openings.values())) < FEWEST:
        return set()
    return {trace_id for trace_id, opening in openings.items() if int(opening, 16) / 16 ** len(opening) < share}
