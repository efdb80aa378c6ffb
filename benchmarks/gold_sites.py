"""Chooses turns for the gold set of error sites, shows them to the people who label, and packs their labels.

    python benchmarks/gold_sites.py pick WORK            items.jsonl and readable batches in WORK/batches
    python benchmarks/gold_sites.py pick WORK --fresh    another draw, of turns that are not in the gold set
    python benchmarks/gold_sites.py pack WORK [--fresh]  first*.jsonl and second*.jsonl into the package's data

Turns are drawn by a fixed seed from `tests/samples`: failed results, results that only look like failures, and plain
ones. What a rule would say about a turn plays no part.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

from composer_replication.ingestion import read_traces
from composer_replication.records import Message, Trace

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "tests" / "samples"
GOLD = ROOT / "src" / "composer_replication" / "data" / "gold_sites"
SEED = 3
WANTED = {
    "claude_code": (110, 45, 20), "codex_rollout": (45, 30, 10), "copilot_cli": (12, 10, 4), "gemini_cli": (3, 3, 2),
    "openhands_v0": (14, 12, 4), "openhands_v1": (6, 4, 2), "swe_agent": (8, 30, 4), "swe_smith": (8, 36, 6),
    "mini_swe_agent": (16, 10, 4), "atif": (6, 6, 2), "cline": (8, 8, 4), "adp": (4, 24, 4),
}  # fmt: skip
"""Per folder: turns with a failed result, turns with suspicious words, plain turns."""
WANTED_FRESH = dict.fromkeys(WANTED, (40, 12, 3))
SUSPICIOUS = re.compile(
    r"error|exception|traceback|fail|denied|not found|no such|cannot|invalid|timed out|interrupted|did not|unable|"
    r"missing",
    re.IGNORECASE,
)
NOT_SESSIONS = ("agent-", "base_state")
LONGEST_TEXT = 1_500
BATCH_ITEMS = 60
Item = dict[str, Any]


def load(folder: str) -> Iterator[tuple[str, Trace]]:
    folders = [folder, "claude_code_mini"] if folder == "claude_code" else [folder]
    for path in sorted(path for name in folders for path in SAMPLES.glob(f"{name}/*.zst")):
        if not any(mark in path.name for mark in NOT_SESSIONS):
            for trace in read_traces(path):
                yield f"{folder}/{path.name.removesuffix('.zst')}", trace


def results_of(trace: Trace, turn: int) -> list[Message]:
    at = trace.turns[turn]
    return [message for message in trace.messages[at.start + 1 : at.end] if message["role"] == "tool"]


def said_next(trace: Trace, turn: int) -> str:
    texts: list[str] = []
    for message in trace.messages[trace.turns[turn].end :][:4]:
        if message["role"] == "assistant":
            break
        texts.append(f"[{message['role']}] {message['content'][:500]}")
    return "\n".join(texts)


def stratum(trace: Trace, turn: int) -> int:
    results = results_of(trace, turn)
    if any(result.get("is_error") for result in results) or "[Request interrupted" in said_next(trace, turn):
        return 0
    return 1 if any(SUSPICIOUS.search(result["content"]) for result in results) else 2


def draw(
    folder: str, wanted: tuple[int, int, int], rng: random.Random, known: set[str]
) -> Iterator[tuple[str, Trace, int]]:
    strata: tuple[list[tuple[str, Trace, int]], ...] = ([], [], [])
    seen: set[str] = set()
    for file, trace in load(folder):
        for turn, at in enumerate(trace.turns):
            text = json.dumps(trace.messages[at.start : at.end])
            if text not in seen and f"{trace.trace_id}/{turn}" not in known:
                seen.add(text)
                strata[stratum(trace, turn)].append((file, trace, turn))
    for number, candidates in zip(wanted, strata, strict=True):
        yield from rng.sample(candidates, min(number, len(candidates)))


def pick(work: Path, fresh: bool) -> None:
    rng = random.Random(SEED + fresh)
    known = (
        {json.loads(line)["id"] for line in (GOLD / "labels.jsonl").read_text().splitlines()} if fresh else set[str]()
    )
    quotas = WANTED_FRESH if fresh else WANTED
    drawn = [chosen for folder, wanted in quotas.items() for chosen in draw(folder, wanted, rng, known)]
    rng.shuffle(drawn)
    traces = {trace.trace_id: trace for _, trace, _ in drawn}
    items: list[Item] = [
        {"id": f"{trace.trace_id}/{turn}", "file": file, "trace_id": trace.trace_id, "turn": turn}
        for file, trace, turn in drawn
    ]
    (work / "batches").mkdir(parents=True, exist_ok=True)
    (work / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    with zstandard.open(work / "traces.jsonl.zst", "wt", cctx=zstandard.ZstdCompressor(level=19)) as out:
        stored = {turn.split("/")[0] for turn in known}
        out.writelines(trace.model_dump_json() + "\n" for name, trace in sorted(traces.items()) if name not in stored)
    for number in range(0, len(items), BATCH_ITEMS):
        text = "\n".join(show(item, traces[item["trace_id"]]) for item in items[number : number + BATCH_ITEMS])
        (work / "batches" / f"{number // BATCH_ITEMS:02d}.txt").write_text(text)
    print(len(items), dict(Counter(item["file"].split("/")[0] for item in items)))


def show(item: Item, trace: Trace) -> str:
    turn, at = item["turn"], trace.turns[item["turn"]]
    message = trace.messages[at.start]
    before = [f"[{m['role']}] {shorten(m['content'], 300)}" for m in trace.history(turn)[-2:] if m["role"] != "system"]
    parts = [
        f"######## item {item['id']}   agent: {trace.source.agent}",
        "-- just before:",
        *before,
        "-- the turn says:",
    ]
    parts.append(shorten(message["content"] or at.thinking, LONGEST_TEXT))
    results = {result.get("tool_call_id"): result for result in results_of(trace, turn)}
    for position, call in enumerate(message.get("tool_calls", [])):
        result = results[call["id"]]
        flag = "flagged as failed" if result.get("is_error") else "not flagged"
        parts.append(f"-- call {position}: {call['function']['name']} {shorten(call['function']['arguments'], 900)}")
        parts.append(f"-- result {position} ({flag}):\n{shorten(result['content'], LONGEST_TEXT)}")
    return "\n".join([*parts, "-- said next:", said_next(trace, turn) or "(nothing before the next turn)", ""])


def shorten(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - limit} characters left out …]\n{text[-half:]}"


def pack(work: Path, fresh: bool) -> None:
    """The first reader's labels count; the second reader's stand beside them for kappa."""
    first, second = (read_labels(work, name) for name in ("first", "second"))
    rows: list[str] = []
    for item in map(json.loads, (work / "items.jsonl").read_text().splitlines()):
        label, other = first[item["id"]], second.get(item["id"])
        row = {**item, "sites": label["sites"], "why": label["why"]}
        if other:
            row["second"] = {"sites": other["sites"], "why": other["why"]}
        rows.append(json.dumps(row, ensure_ascii=False))
    name = "fresh_" if fresh else ""
    (GOLD / f"{name}labels.jsonl").write_text("\n".join(rows) + "\n")
    (GOLD / f"{name}traces.jsonl.zst").write_bytes((work / "traces.jsonl.zst").read_bytes())


def read_labels(work: Path, name: str) -> dict[str, Item]:
    rows = [json.loads(line) for file in sorted(work.glob(f"{name}*.jsonl")) for line in file.read_text().splitlines()]
    return {row["id"]: row for row in rows}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["pick", "pack"])
    parser.add_argument("work", type=Path)
    parser.add_argument("--fresh", action="store_true")
    given = parser.parse_args()
    {"pick": pick, "pack": pack}[given.step](given.work, given.fresh)
