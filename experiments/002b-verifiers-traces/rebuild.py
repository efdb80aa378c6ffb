"""Checks, counts and the comparison with 002a: `recompose experiment rebuild experiments/002b-verifiers-traces`.

Reads results/{train,eval}.traces.jsonl.zst and results/{train,eval}.json.zst, and results/counts.json of 002a. Writes
results/counts.json and results/table.md. A saved rollout is a graph of messages; a path from its root to a leaf is
what PRIME-RL trains on as one sample.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import zstandard

RESULTS = Path(__file__).parent / "results"
TRL_COUNTS = Path(__file__).parents[1] / "002a-trl-traces" / "results" / "counts.json"
CLIENTS = ("train", "eval")
CALL_MARK = "tool_call>"


def rebuild() -> str:
    counts = {client: count(client) for client in CLIENTS}
    (RESULTS / "counts.json").write_text(json.dumps(counts, indent=1) + "\n")
    text = table(json.loads(TRL_COUNTS.read_text()), counts)
    (RESULTS / "table.md").write_text(text)
    return text


def count(client: str) -> dict[str, Any]:
    saved = zstandard.decompress((RESULTS / f"{client}.traces.jsonl.zst").read_bytes()).decode().splitlines()
    served = json.loads(zstandard.decompress((RESULTS / f"{client}.json.zst").read_bytes()))
    waiting = Counter((tuple(before), tuple(ids)) for before, ids in served["sampled"])
    texts = {tuple(ids): text for (_, ids), text in zip(served["sampled"], served["texts"], strict=True)}
    counts: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    for trace in (trace for line in saved for trace in json.loads(line)["traces"]):
        counts.update(_rollout(trace, waiting, texts))
        ended[trace["info"].get("ended") or trace["stop_condition"]] += 1
    return {
        **counts,
        "turns_served": len(served["sampled"]),
        "ended": dict(ended.most_common()),
        "bytes_per_rollout": sum(map(len, saved)) / counts["rollouts"],
        "seconds_per_rollout": served["seconds"] / counts["rollouts"],
    }


def _rollout(trace: dict[str, Any], waiting: Counter[Any], texts: dict[tuple[int, ...], str]) -> dict[str, int]:
    nodes = trace["nodes"]
    turns = [place for place, node in enumerate(nodes) if node["sampled"]]
    leaves = set(range(len(nodes))) - {node.get("parent") for node in nodes}
    paths = [sum(len(nodes[place]["token_ids"]) for place in _path(nodes, leaf)) for leaf in leaves]
    exact = malformed = with_text = went_on = 0
    for place in turns:
        node = nodes[place]
        sampled = [token for token, own in zip(node["token_ids"], node["mask"], strict=True) if own]
        seen = [token for step in _path(nodes, place) for token in nodes[step]["token_ids"]]
        key = tuple(seen[: len(seen) - len(sampled)]), tuple(sampled)
        if sampled and waiting[key]:
            waiting[key] -= 1
            exact += 1
        told = node["message"].get("content") or ""
        written = texts.get(tuple(sampled), told)
        if node["message"].get("tool_calls") or CALL_MARK not in written:
            continue
        malformed += 1
        with_text += bool(told)
        went_on += place != turns[-1]
    return {
        "rollouts": 1,
        "ok": int(trace["ok"] and not trace["errors"]),
        "with_reward": int("solved" in trace["rewards"]),
        "solved": int(trace["rewards"].get("solved", {}).get("score") == 1.0),
        "turns": len(turns),
        "turns_cut_off": sum(call["finish_reason"] == "length" for call in trace["calls"]),
        "turns_with_ids": sum(any(nodes[place]["mask"]) for place in turns),
        "turns_with_logprobs": sum(
            bool(nodes[place]["logprobs"]) and len(nodes[place]["logprobs"]) == sum(nodes[place]["mask"])
            for place in turns
        ),
        "turns_as_they_were_served": exact,
        "malformed_turns": malformed,
        "malformed_turns_with_their_text": with_text,
        "malformed_turns_after_which_it_went_on": went_on,
        "paths": len(leaves),
        "tokens_of_all_paths": sum(paths),
        "tokens_of_the_longest_path": max(paths),
    }


def _path(nodes: list[dict[str, Any]], place: int | None) -> list[int]:
    path: list[int] = []
    while place is not None:
        path.append(place)
        place = nodes[place].get("parent")
    return path[::-1]


def table(trl: dict[str, Any], counts: dict[str, dict[str, Any]]) -> str:
    train, relay = counts["train"], counts["eval"]
    every = (train, relay)
    more = train["tokens_of_all_paths"] / train["tokens_of_the_longest_path"]
    sizes = [trl["json_bytes_per_rollout"], *_pair("bytes_per_rollout", every)]
    rows: list[tuple[Any, ...]] = [
        ("rollouts", trl["rollouts"], train["rollouts"], relay["rollouts"]),
        ("… with a reward", trl["rollouts"], train["with_reward"], relay["with_reward"]),
        ("turns", trl["turns"], train["turns"], relay["turns"]),
        ("turns cut off", trl["turns_cut_off"], train["turns_cut_off"], relay["turns_cut_off"]),
        ("turns with token ids", trl["turns_with_ids"], train["turns_with_ids"], relay["turns_with_ids"]),
        ("… exactly as sampled", trl["turns_equal_to_what_was_sampled"], *_pair("turns_as_they_were_served", every)),
        ("turns with log-probabilities", 0, *_pair("turns_with_logprobs", every)),
        ("turns with a call that could not be read", trl["malformed_turns"], *_pair("malformed_turns", every)),
        ("… after which the rollout went on", 0, *_pair("malformed_turns_after_which_it_went_on", every)),
        ("… whose text is in the message", trl["malformed_turns"], *_pair("malformed_turns_with_their_text", every)),
        ("training samples (paths) per rollout", "1.00", *(f"{one['paths'] / one['rollouts']:.2f}" for one in every)),
        ("… tokens to train on, against one path", "1.00", f"{more:.2f}", "–"),
        ("solved", trl["solved"], train["solved"], relay["solved"]),
        ("bytes per rollout, JSON lines, not compressed", *(round(size) for size in sizes)),
        ("seconds per rollout, grading included", *(f"{one['seconds_per_rollout']:.2f}" for one in (trl, *every))),
    ]  # fmt: skip
    lines = [
        "| | TRL (002a) | verifiers, client for training | verifiers, client for evaluation |",
        "|---|---|---|---|",
    ]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    reasons = [", ".join(f"{number} × {name}" for name, number in one["ended"].items()) for one in every]
    return "\n".join([*lines, f"| why it ended | not recorded | {reasons[0]} | {reasons[1]} |"]) + "\n"


def _pair(name: str, every: tuple[dict[str, Any], ...]) -> list[Any]:
    return [one[name] for one in every]


if __name__ == "__main__":
    print(rebuild())
