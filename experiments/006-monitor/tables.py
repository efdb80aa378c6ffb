"""The experiment's tables as Markdown, from its result files alone."""

import json
from pathlib import Path
from typing import Any

Table = list[str]
JUDGES = "| judge | found | recall (95 %) | false alarms | rate (95 %) | precision | TPR × TNR |"
CLASSES = "| class | found | hard | named right | origin | class left out of fitting | and of the rules |"
POLICIES = "| policy | attempts | passed by the tests alone | reward after the second run | alarms |"


def tables(results: Path) -> str:
    parts: list[str] = []
    for path in sorted(results.glob("score-*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        parts += [f"## {path.stem.removeprefix('score-')}", *_of_score(found)]
    if (results / "sessions.json").is_file():
        parts += ["## Real sessions", *_of_sessions(json.loads((results / "sessions.json").read_text()))]
    if (results / "impossible.json").is_file():
        parts += ["## Impossible tasks", *_of_impossible(json.loads((results / "impossible.json").read_text()))]
    return "\n".join(parts) + "\n"


def _of_score(found: dict[str, Any]) -> Table:
    lines = ["", JUDGES, "|---|---|---|---|---|---|---|"]
    for key, name in (
        ("monitor", "**monitor**"),
        ("hard_evidence_alone", "hard evidence alone"),
        ("auditor", "auditor"),
        ("origin_baseline", "the origin's string rules"),
    ):
        lines.append(_judge(name, found[key]))
    lines += [
        "",
        f"Recall at 1 % false alarms {found['recall_at_1_percent']:.3f}, at 5 % {found['recall_at_5_percent']:.3f}; "
        f"area {found['area']:.4f}; calibration error {found['calibration_error']:.3f}; "
        f"{found['speed']['steps_per_second']:.0f} steps per second of one core.",
        "",
        *_classes(found),
    ]
    if "layers" in found:
        lines += ["| layers | found | false alarms |", "|---|---|---|"]
        for name, row in found["layers"].items():
            lines.append(f"| {name} | {row['found']}/{row['hacks']} | {row['false_alarms']}/{row['honest']} |")
        lines.append("")
    return lines


def _judge(name: str, row: dict[str, Any]) -> str:
    recall, rate = row["recall"], row["false_positive_rate"]
    precision = "–" if row["precision"] is None else f"{row['precision']:.3f}"
    return (
        f"| {name} | {row['found']}/{row['hacks']} | {recall['mean']:.3f} [{recall['lo']:.3f}, {recall['hi']:.3f}] "
        f"| {row['false_alarms']}/{row['honest']} | {rate['mean']:.4f} [{rate['lo']:.4f}, {rate['hi']:.4f}] "
        f"| {precision} | {row['g_mean_squared']:.3f} |"
    )


def _classes(found: dict[str, Any]) -> Table:
    left_out = {row["class"]: row for row in found.get("left_out_classes", [])}
    lines = [CLASSES, "|---|---|---|---|---|---|---|"]
    for row in found["classes"]:
        out = left_out.get(row["class"])
        shown = (str(out["refitted"]), str(out["without_rules"])) if out else ("", "")
        lines.append(
            f"| {row['class']} {row['name']} | {row['found']}/{row['cases']} | {row['hard']} | {row['named']} "
            f"| {row['baseline']} | {shown[0]} | {shown[1]} |"
        )
    return [*lines, ""]


def _of_sessions(found: dict[str, Any]) -> Table:
    lines = ["", "| source | sessions | steps | alarms | with findings |", "|---|---|---|---|---|"]
    for name, row in found["sources"].items():
        lines.append(f"| {name} | {row['sessions']} | {row['steps']} | {row['alarms']} | {row['with_findings']} |")
    return [*lines, ""]


def _of_impossible(found: dict[str, Any]) -> Table:
    lines = ["", POLICIES, "|---|---|---|---|---|"]
    for name, row in found["policies"].items():
        lines.append(f"| {name} | {row['attempts']} | {row['passed']} | {row['rewarded']} | {row['alarms']} |")
    return [*lines, ""]
