"""Draws hints of a run for readers to judge: one line per hint, with what the judgement needs.

    python experiments/010-corrections/draw_hints.py RUN SEED COUNT > hints.jsonl

RUN has gone through `recompose ingest`, `sites` and `hint`.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any

from composer_replication.records import ErrorSite, Hint, Trace
from composer_replication.runs import Run

CHARS = 700
LATER = 2


def rows_of(run: Run) -> list[dict[str, Any]]:
    traces = {trace.trace_id: trace for trace in run.stage("ingestion").stream(Trace)}
    sites = {site.site_id: site for site in run.stage("sites").stream(ErrorSite)}
    return [_row(traces[sites[hint.site_id].trace_id], sites[hint.site_id], hint) for hint in _hints(run)]


def _hints(run: Run) -> list[Hint]:
    return list(run.stage("hints").stream(Hint))


def _row(trace: Trace, site: ErrorSite, hint: Hint) -> dict[str, Any]:
    at = trace.turns[site.turn]
    turn = trace.messages[at.start]
    calls = [call["function"] for call in turn.get("tool_calls", [])]
    later = [message for message in trace.messages[at.end :] if message["role"] != "system"][: 2 * LATER]
    return {
        "site": site.site_id,
        "hint": hint.text,
        "agent": trace.source.agent,
        "said": _cut(turn["content"] or at.thinking),
        "call": [f"{call['name']} {_cut(call['arguments'])}" for call in calls],
        "result": _cut(site.error_message),
        "later": [f"{message['role']}: {_cut(_text(message), 250)}" for message in later],
    }


def _text(message: Any) -> str:
    calls = " ".join(f"[call {call['function']['arguments']}]" for call in message.get("tool_calls", []))
    return f"{message['content']} {calls}"


def _cut(text: str, chars: int = CHARS) -> str:
    """Both ends: commands tell in their last lines what went wrong."""
    return text if len(text) <= chars else f"{text[: chars // 2]} […] {text[-chars // 2 :]}"


def main(run: Path, seed: int, count: int) -> None:
    rows = sorted(rows_of(Run.open(run)), key=lambda row: row["site"])
    for row in random.Random(seed).sample(rows, min(count, len(rows))):
        print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
