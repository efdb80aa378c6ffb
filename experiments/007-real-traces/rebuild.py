"""The tables of this experiment from its raw files: `recompose experiment rebuild experiments/007-real-traces`."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import zstandard

RESULTS = Path(__file__).parent / "results"
FAULTS = ("policy", "user", "environment", "harness")
MADE_FOR_TESTS = "claude_code_mini"


def rebuild() -> str:
    stages = json.loads((RESULTS / "stages.json").read_text())
    sessions, sites, hints = (_lines(RESULTS / f"{name}.jsonl.zst") for name in ("sessions", "sites", "hints"))
    parts = [format_table(sessions, sites, hints), kind_table(sessions, sites, hints), stage_table(stages)]
    tables = "\n".join(parts)
    (RESULTS / "table.md").write_text(tables)
    return tables


def _lines(path: Path) -> list[dict[str, Any]]:
    with zstandard.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def format_table(sessions: list[dict[str, Any]], sites: list[dict[str, Any]], hints: list[dict[str, Any]]) -> str:
    lines = [
        f"| samples | sessions | turns | calls | error sites | at fault: {', '.join(FAULTS)} | hints | "
        "sites per 100 turns |",
        "|---|---|---|---|---|---|---|---|",
    ]
    hinted = {hint["site_id"] for hint in hints}
    groups = sorted({session["samples"] for session in sessions})
    for name in groups:
        lines.append(_format_line(name, [s for s in sessions if s["samples"] == name], sites, hinted))
    whole = [session for session in sessions if session["samples"] != MADE_FOR_TESTS]
    lines.append(_format_line(f"**all but {MADE_FOR_TESTS}**", whole, sites, hinted))
    lines.append(_format_line("all", sessions, sites, hinted))
    return "\n".join(lines) + "\n"


def _format_line(
    label: str, sessions: Sequence[dict[str, Any]], sites: Iterable[dict[str, Any]], hinted: set[str]
) -> str:
    own = {session["trace_id"] for session in sessions}
    found = [site for site in sites if site["trace_id"] in own]
    turns = sum(session["turns"] for session in sessions)
    faults = Counter(site["fault"] for site in found)
    with_hint = sum(site["site_id"] in hinted for site in found)
    calls = sum(session["calls"] for session in sessions)
    shares = ", ".join(str(faults[fault]) for fault in FAULTS)
    rate = 100 * len(found) / turns
    return f"| {label} | {len(sessions)} | {turns} | {calls} | {len(found)} | {shares} | {with_hint} | {rate:.1f} |"


def kind_table(sessions: list[dict[str, Any]], sites: list[dict[str, Any]], hints: list[dict[str, Any]]) -> str:
    """Without the sessions that were made to hold one error each."""
    made = {session["trace_id"] for session in sessions if session["samples"] == MADE_FOR_TESTS}
    real = [site for site in sites if site["trace_id"] not in made]
    written = {hint["site_id"]: hint for hint in hints}
    lines = [
        "| error kind | sites | the policy's fault | hints | by layer | by leak level | tokens, median |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind, number in Counter(site["error_kind"] for site in real).most_common():
        own = [site for site in real if site["error_kind"] == kind]
        found = [written[site["site_id"]] for site in own if site["site_id"] in written]
        tokens = sorted(hint["tokens"] for hint in found)
        median = tokens[len(tokens) // 2] if tokens else "–"
        lines.append(
            f"| {kind} | {number} | {sum(site['fault'] == 'policy' for site in own)} | {len(found)} | "
            f"{_listed(Counter(hint['layer'] for hint in found))} | "
            f"{_listed(Counter(hint['leak_level'] for hint in found))} | {median} |"
        )
    return "\n".join(lines) + "\n"


def stage_table(stages: dict[str, Any]) -> str:
    read, hinted = stages["ingestion"]["told"], stages["hints"]["told"]
    reasons = {name: count for name, count in hinted["dropped"].items() if not name.startswith("fault_")}
    rows = [
        ("files read; set aside", f"{read['files']}; {_listed(read['quarantined'])}"),
        ("redacted before anything was written", _listed(read["redactions"])),
        ("looked like a secret, left as it was", _listed(read["left_as_is"])),
        ("sites without a hint: somebody else's fault", _listed(_faults(hinted["dropped"]))),
        ("hints refused (over 96 tokens, or leaking)", _listed(reasons)),
    ]
    rows += [
        (f"… with a stricter limit: {name}", f"{told['hints']} hints; refused: {_listed(_refused(told['dropped']))}")
        for name, told in stages["stricter"].items()
    ]
    rows += [
        (f"processor seconds, {name}, start of Python included", f"{stages[name]['cpu_s']:.1f}")
        for name in ("ingestion", "sites", "hints")
    ]
    return "| | |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in rows)


def _faults(dropped: dict[str, int]) -> dict[str, int]:
    return {name.removeprefix("fault_"): count for name, count in dropped.items() if name.startswith("fault_")}


def _refused(dropped: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in dropped.items() if not name.startswith("fault_")}


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} × {name}" for name, number in counts.items()) or "none"


if __name__ == "__main__":
    print(rebuild())
