"""Lists what users said in a folder of sessions, for labellers. Writes open.jsonl and blind.jsonl; no labels.

    python experiments/010-corrections/extract.py SESSIONS FOLDER

Sessions are read as `recompose ingest` reads them, so secrets are replaced first.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from composer_replication.records import Message, Trace
from composer_replication.runs import Run
from composer_replication.sites.spoken import Spoken, spoken

CONTEXT_CHARS = 800
MESSAGE_CHARS = 1_500
COPIED_CHARS = 40
PARTIAL = 4
"""Exit code of an ingest that set something aside and saved the rest."""
SHARE = (0.42, 0.58)
"""The blind half holds this share of the messages; the first seed from 0 that gives it is taken."""


def rows_of(traces: list[Trace]) -> list[dict[str, Any]]:
    return [
        {"id": name, "session": session_of(trace), **_shown(trace, said)} for name, trace, said in identified(traces)
    ]


def identified(traces: list[Trace]) -> Iterator[tuple[str, Trace, Spoken]]:
    """What users said, each with an id that holds while the text and the file's name do."""
    counts: Counter[str] = Counter()
    seen: set[str] = set()
    for trace in traces:
        for said in spoken(trace):
            # The same text in a second file is the same session, cut or copied.
            if len(said.text) > COPIED_CHARS and said.text in seen:
                continue
            seen.add(said.text)
            stem = f"{session_of(trace)}#{text_hash(said.text)}"
            counts[stem] += 1
            yield f"{stem}.{counts[stem]}", trace, said


def text_hash(text: str) -> str:
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:8]


def session_of(trace: Trace) -> str:
    """The file, as it is named before it is packed. All sessions of one file stay on one side."""
    return (trace.source.file or trace.trace_id).removesuffix(".zst")


def _shown(trace: Trace, said: Spoken) -> dict[str, Any]:
    after = next((m for m in trace.messages[said.message + 1 :] if m["role"] == "assistant"), None)
    return {
        "agent": trace.source.agent,
        "first": said.turn is None,
        "stopped": "rejected a call" if said.rejected else "interrupted" if said.interrupted else "",
        "before": _before(trace, said),
        "message": said.text[:MESSAGE_CHARS],
        "next": _line(after)[:300] if after else "",
    }


def _before(trace: Trace, said: Spoken) -> list[str]:
    """The two turns before, newest last, and the user's own message before them."""
    shown: list[str] = []
    turns = 0
    for message in reversed(trace.messages[: said.message]):
        if message["role"] == "system":
            continue
        shown.append(f"{message['role']}: {_cut(_line(message), 300 if message['role'] == 'tool' else CONTEXT_CHARS)}")
        turns += message["role"] == "assistant"
        if turns == 3 or (message["role"] == "user" and turns >= 1):
            break
    return shown[::-1] if said.turn is not None else []


def _line(message: Message) -> str:
    called = [call["function"] for call in message.get("tool_calls", [])]
    calls = [f"[call {call['name']} {_cut(call['arguments'], 200)}]" for call in called]
    return " ".join([" ".join(message["content"].split()), *calls]).strip()


def _cut(text: str, limit: int) -> str:
    """Both ends: what was asked or reported last stands at the end."""
    return text if len(text) <= limit else f"{text[: limit // 2]} […] {text[-limit // 2 :]}"


def halves(rows: list[dict[str, Any]]) -> tuple[int, list[dict[str, Any]], list[dict[str, Any]]]:
    """Open and blind rows. The seed depends on the number of messages alone."""
    for seed in range(1_000):
        blind = [row for row in rows if is_blind(row["session"], seed)]
        if SHARE[0] <= len(blind) / len(rows) <= SHARE[1]:
            return seed, [row for row in rows if row not in blind], blind
    raise SystemExit("error: no seed halves these sessions; next: give more sessions")


def is_blind(session: str, seed: int) -> bool:
    return hashlib.sha256(f"{seed}:{session}".encode()).digest()[0] % 2 == 1


def read_traces(sessions: Path) -> list[Trace]:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = [sys.executable, "-m", "composer_replication", "ingest", str(sessions), "--run", str(run), "--json"]
        done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        if done.returncode not in (0, PARTIAL):
            raise SystemExit(f"error: ingest ended with {done.returncode}; next: run {' '.join(words[1:])}")
        return Run.open(run).stage("ingestion").read(Trace)


def main(sessions: Path, folder: Path) -> None:
    rows = rows_of(read_traces(sessions))
    seed, open_rows, blind_rows = halves(rows)
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("open", open_rows), ("blind", blind_rows)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in part))
    print(f"messages {len(rows)}  open {len(open_rows)}  blind {len(blind_rows)}  seed {seed}")
    print("by agent", dict(Counter(row["agent"] for row in rows)), "first", sum(row["first"] for row in rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
