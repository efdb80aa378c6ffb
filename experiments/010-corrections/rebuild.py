"""The table of judged hints from its raw file: `recompose experiment rebuild experiments/010-corrections`."""

import json
from collections import Counter
from pathlib import Path

from score import kappa

RESULTS = Path(__file__).parent / "results"
LABELS = ("useful", "neutral", "harmful")


def rebuild() -> str:
    rows = [json.loads(line) for line in (RESULTS / "hints.jsonl").read_text().splitlines()]
    lines = ["| hints of | reader | judged | useful | neutral | harmful |", "|---|---|---|---|---|---|"]
    for name in dict.fromkeys(row["set"] for row in rows):
        judged = [row for row in rows if row["set"] == name]
        for number in (0, 1):
            counts = Counter(row["judged"][number] for row in judged)
            shown = " | ".join(str(counts[label]) for label in LABELS)
            lines.append(f"| {name} | {number + 1} | {len(judged)} | {shown} |")
    # A hint that the later code still writes keeps its judgement and counts once.
    once = {(row["site"], row["hint"], row["set"] == "before"): row["judged"] for row in rows}
    pairs = [(first, second) for first, second in once.values()]
    agreed = sum(first == second for first, second in pairs)
    lines += ["", f"Two readers agree on {agreed} of {len(pairs)} (kappa {kappa(pairs):.2f})."]
    table = "\n".join(lines) + "\n"
    (RESULTS / "table.md").write_text(table)
    return table


if __name__ == "__main__":
    print(rebuild())
