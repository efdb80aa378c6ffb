"""Checks and counts from the stored rollouts: `recompose experiment rebuild experiments/002a-trl-traces`.

Reads results/{traces,tokens}.jsonl.zst and results/trl.json as plain JSON, writes results/counts.json and
results/table.md. A turn is a tuple (state, action, reward): the reward of the rollout belongs to its last turn.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

from composer_replication.records import Trace
from composer_replication.sites import find_sites
from composer_replication.training.lessons.online_sites import turn_spans

RESULTS = Path(__file__).parent / "results"
FILES = ("traces.jsonl.zst", "tokens.jsonl.zst")


def rebuild() -> str:
    counts = count(RESULTS)
    (RESULTS / "counts.json").write_text(json.dumps(counts, indent=1) + "\n")
    (RESULTS / "table.md").write_text(table(counts))
    return table(counts)


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with zstandard.open(path, "rt", encoding="utf-8") as file:
        yield from (json.loads(line) for line in file)


def count(results: Path) -> dict[str, Any]:
    logged = json.loads((results / "trl.json").read_text())
    traces = [Trace.model_validate(line) for line in lines(results / "traces.jsonl.zst")]
    rollouts = list(lines(results / "tokens.jsonl.zst"))
    end_id = rollouts[0]["end_of_turn_id"]
    counts: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    per_rollout: list[int] = []
    for trace, rollout in zip(traces, rollouts, strict=True):
        states = list(trace.states())
        tuples = [(s["messages"], s["student_action"], trace.outcome) for s in states]
        per_rollout.append(len(tuples))
        spans = turn_spans(rollout["sampled_mask"])
        sampled = [rollout["completion_ids"][start:end] for start, end in spans]
        unread = [
            looks and not calls
            for looks, calls in zip(rollout["looks_like_a_call"], rollout["parsed_calls"], strict=True)
        ]
        answered = sum(message["role"] == "tool" for message in trace.messages)
        counts.update(
            {
                "rollouts": 1,
                "turns": len(tuples),
                "tuples_complete": sum(bool(seen) and bool(act) and reward is not None for seen, act, reward in tuples),
                "rollouts_with_the_statement_in_the_prompt": int("Mend `" in trace.messages[1]["content"]),
                "turns_equal_to_what_was_sampled": sum(map(list.__eq__, sampled, rollout["sampled_turns"])),
                "turns_with_ids": len(sampled),
                "turns_cut_off": sum(ids[-1] != end_id for ids in sampled),
                "rollouts_cut_off": int(bool(sampled) and sampled[-1][-1] != end_id),
                "calls": sum(rollout["parsed_calls"]),
                "calls_answered": answered,
                "calls_left_unanswered": sum(rollout["parsed_calls"]) - answered,
                "malformed_turns": sum(unread),
                "rollouts_ended_by_a_malformed_call": int(bool(unread) and unread[-1]),
                "submitted": int(any(_calls(message, "submit") for message in trace.messages)),
                "solved": int(trace.outcome == 1.0),
                "tokens_sampled": sum(map(len, sampled)),
            }
        )
        sites = find_sites(trace)
        kinds.update(site.error_kind for site in sites)
        counts["sites_at_malformed_turns"] += sum(unread[site.turn] for site in sites)
    return {
        **counts,
        "schema": {"Trace": len(traces), "unique_ids": len({trace.trace_id for trace in traces})},
        "turns_per_rollout": dict(sorted(Counter(per_rollout).items())),
        "error_kinds": dict(kinds.most_common()),
        "seconds": logged["seconds"],
        "seconds_per_rollout": logged["seconds"] / counts["rollouts"],
        "json_bytes_per_rollout": sum(map(_size, FILES)) / counts["rollouts"],
        "parquet_bytes_per_rollout": logged["saved_bytes"] / counts["rollouts"],
        "trl": {key: logged[key] for key in ("gave_logprobs", "saved_files", "saved_columns")}
        | {"failure_frequency": [entry.get("tools/failure_frequency") for entry in logged["log_history"]]},
    }


def _size(name: str) -> int:
    return len(zstandard.decompress((RESULTS / name).read_bytes(), max_output_size=1 << 28))


def _calls(message: Any, name: str) -> bool:
    return any(call["function"]["name"] == name for call in message.get("tool_calls", []))


def table(counts: dict[str, Any]) -> str:
    turns = counts["turns"]
    rows = [
        ("rollouts", counts["rollouts"]),
        ("records that validate as `Trace`", f"{counts['schema']['Trace']} of {counts['rollouts']}"),
        ("distinct trace ids: equal words give equal ids", counts["schema"]["unique_ids"]),
        ("turns", f"{turns} ({_listed(counts['turns_per_rollout'])} by turns per rollout)"),
        ("complete (state, action, reward) tuples", f"{counts['tuples_complete']} of {turns}"),
        ("turns whose ids are those that were sampled", f"{counts['turns_equal_to_what_was_sampled']} of {turns}"),
        ("rollouts whose prompt holds the task", counts["rollouts_with_the_statement_in_the_prompt"]),
        ("turns cut off at a token limit", counts["turns_cut_off"]),
        ("calls, answered", f"{counts['calls']}, {counts['calls_answered']}"),
        ("turns with a call that TRL could not read", counts["malformed_turns"]),
        ("rollouts that ended there, with no error shown", counts["rollouts_ended_by_a_malformed_call"]),
        ("… of which our detectors see", counts["sites_at_malformed_turns"]),
        ("error sites, by kind", _listed(counts["error_kinds"])),
        ("handed in; solved", f"{counts['submitted']}; {counts['solved']}"),
        ("sampled tokens", counts["tokens_sampled"]),
        ("seconds per rollout, grading included", f"{counts['seconds_per_rollout']:.2f}"),
        ("bytes per rollout: JSON lines, not compressed", f"{counts['json_bytes_per_rollout']:.0f}"),
        ("bytes per rollout: TRL's own Parquet", f"{counts['parquet_bytes_per_rollout']:.0f}"),
        ("what TRL saves of itself: a Parquet file per step with", ", ".join(counts["trl"]["saved_columns"])),
        ("log-probabilities from sampling", "yes" if counts["trl"]["gave_logprobs"] else "no"),
    ]  # fmt: skip
    return "| | |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in rows)


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} × {name}" for name, number in counts.items()) or "none"


if __name__ == "__main__":
    print(rebuild())
