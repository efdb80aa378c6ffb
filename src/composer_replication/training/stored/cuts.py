"""What windows took from examples, for the manifest and for `RUN/training/windows.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterable

from .examples import NOTHING, TraceExample


def summarise_cuts(examples: Iterable[TraceExample]) -> dict[str, int]:
    """What windows took from all examples together."""
    cuts = [example.cut for example in examples if example.cut != NOTHING]
    return {
        "examples": len(cuts),
        "dropped_turns": sum(cut.turns for cut in cuts),
        "elided_messages": sum(cut.elided_messages for cut in cuts),
        "tokens": sum(cut.tokens for cut in cuts),
    }


def window_lines(examples: Iterable[TraceExample]) -> str:
    """A JSON line for every example that lost something."""
    cut = (example for example in examples if example.cut != NOTHING)
    return "".join(json.dumps({"trace_id": one.trace_id, **one.cut._asdict()}) + "\n" for one in cut)
