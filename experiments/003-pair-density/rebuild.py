"""The tables of this experiment from its raw files: `recompose experiment rebuild experiments/003-pair-density`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from composer_replication.evaluation.resampling import bootstrap

RESULTS = Path(__file__).parent / "results"
QUICK, LONG = "quickstart", "three-calls"
SEEDS = (0, 1, 2)
THRESHOLD = 5.0
NUMBERS = ("turns", "families", "votable", "errors", "votable_errors")


def rebuild() -> str:
    tables = f"{toolbox_table()}\n{session_table(json.loads((RESULTS / 'sessions.json').read_text()))}"
    (RESULTS / "table.md").write_text(tables)
    return tables


def toolbox_table() -> str:
    lines = [
        "| toolbox | asked, rule | seed | turns per trace | pairs | pairs per trace | most in one trace | "
        "margin, nats | distance from random pairs, nats | ≥ 5 per trace |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in (QUICK, LONG):
        runs = {seed: RESULTS / f"{name}-{seed}.json" for seed in SEEDS}
        found = {seed: json.loads(path.read_text()) for seed, path in runs.items() if path.exists()}
        for way in next(iter(found.values()))["ways"]:
            lines += [_toolbox_line(name, way, seed, result) for seed, result in found.items()]
    return "\n".join(lines) + "\n"


def _toolbox_line(name: str, way: str, seed: int, result: dict[str, Any]) -> str:
    row = result["ways"][way]
    counts = row["pairs_of_each_trace"]
    each = bootstrap(counts)
    turns = sum(result["turns"]) / len(result["turns"])
    met = "yes" if each.lo >= THRESHOLD else "no"
    return (
        f"| {name} | {way} | {seed} | {turns:.2f} | {sum(counts)} | {each.mean:.2f} [{each.lo:.2f}, {each.hi:.2f}] | "
        f"{max(counts)} | {_nats(row['margin'])} | {_nats(row['distance'])} | {met} |"
    )


def session_table(stored: dict[str, Any]) -> str:
    lines = [
        "| sample sessions | sessions | states | enough families | and one call: votable | votable per session | "
        "error states | of them votable | per session |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows = stored["sessions"]
    whole = [row for row in rows if row["turns"] >= stored["least_turns"]]
    agents = sorted({row["agent"] for row in whole})
    lines += [_session_line(agent, [row for row in whole if row["agent"] == agent]) for agent in agents]
    lines += [_session_line(f"**all of ≥ {stored['least_turns']} turns**", whole), _session_line("all", rows)]
    return "\n".join(lines) + "\n"


def _session_line(label: str, rows: Sequence[dict[str, Any]]) -> str:
    total = {name: sum(row[name] for row in rows) for name in NUMBERS}
    return (
        f"| {label} | {len(rows)} | {total['turns']} | {total['families']} | {total['votable']} | "
        f"{_each([row['votable'] for row in rows])} | {total['errors']} | {total['votable_errors']} | "
        f"{_each([row['votable_errors'] for row in rows])} |"
    )


def _each(values: Sequence[int]) -> str:
    found = bootstrap(values)
    return f"{found.mean:.2f} [{found.lo:.2f}, {found.hi:.2f}]" if len(values) > 1 else f"{found.mean:.2f}"


def _nats(value: dict[str, float] | None) -> str:
    return f"{value['mean']:+.2f} [{value['lo']:+.2f}, {value['hi']:+.2f}]" if value else "–"


if __name__ == "__main__":
    print(rebuild())
