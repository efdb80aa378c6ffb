"""The registered tests and README.md from results/seed-*.json, and the alarms from results/alarm.json.

recompose experiment rebuild experiments/017-stored-teacher
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import jinja2
from run import LENGTHS, RESULTS, SEEDS, TEACHERS

from composer_replication.evaluation.power import minimum_detectable_effect
from composer_replication.evaluation.tests_of_difference import ALPHA, holm, sign_flip
from composer_replication.runs import write_atomically
from shared.analysis.registered import over_seeds
from shared.prose import wrapped

HERE = Path(__file__).parent
TESTS = {"H1": ("ema-60", "live-60"), "H2": ("frozen-60", "live-60"), "H3": ("ema-60", "start")}


def main() -> None:
    missing = [seed for seed in SEEDS if not (RESULTS / f"seed-{seed}.json").exists()]
    if missing:
        sys.exit(f"incomplete: seeds {', '.join(map(str, missing))} are missing, so that nothing was computed")
    solved = [json.loads((RESULTS / f"seed-{seed}.json").read_text())["solved"] for seed in SEEDS]
    success = {name: [fmean(one[name]) for one in solved] for name in solved[0]}
    differences = {
        name: [a - b for a, b in zip(success[first], success[second], strict=True)]
        for name, (first, second) in TESTS.items()
    }
    adjusted = holm([sign_flip(values).p for values in differences.values()])
    tests = {
        name: {
            "sides": " − ".join(TESTS[name]),
            "by_seed": values,
            "interval": over_seeds(values).model_dump(exclude={"schema_version"}),
            "p_holm": p_holm,
            "detectable": minimum_detectable_effect(stdev(values), len(values), ALPHA),
        }
        for (name, values), p_holm in zip(differences.items(), adjusted, strict=True)
    }
    falls = {
        teacher: over_seeds(
            [late - early for late, early in zip(success[f"{teacher}-60"], success[f"{teacher}-20"], strict=True)]
        ).model_dump()
        for teacher in TEACHERS
    }
    levels = {name: over_seeds(values).model_dump(exclude={"schema_version"}) for name, values in success.items()}
    lost = sum(live < start for live, start in zip(success["live-60"], success["start"], strict=True))
    tables = {"registered": tests, "success": levels, "by_seed": success}
    write_atomically(RESULTS / "tables.json", json.dumps(tables, indent=1) + "\n")
    alarms = raised(success["start"])
    drawn = jinja2.Environment(loader=jinja2.FileSystemLoader(HERE), undefined=jinja2.StrictUndefined, trim_blocks=True)
    drawn.filters |= {"level": level, "points": points}
    told = drawn.get_template("README.md.jinja").render(
        tests=tests,
        success=levels,
        falls=falls,
        lost=lost,
        teachers=TEACHERS,
        lengths=LENGTHS,
        seeds=len(SEEDS),
        alarms=alarms,
    )
    write_atomically(HERE / "README.md", wrapped(told))
    print(told)


def raised(start: Sequence[float]) -> dict[str, dict[str, Any]]:
    """By teacher: how many runs there are, at which steps an alarm came, and what was solved then."""
    found = json.loads((RESULTS / "alarm.json").read_text()) if (RESULTS / "alarm.json").exists() else {}
    if any(list(found.get(teacher, ())) != list(map(str, SEEDS)) for teacher in TEACHERS):
        sys.exit("incomplete: results/alarm.json lacks seeds or teachers; next: python alarm.py")
    told: dict[str, dict[str, Any]] = {}
    for teacher, of_seeds in found.items():
        runs = [(one, before) for one, before in zip(of_seeds.values(), start, strict=True) if one["alarm_at"]]
        solved = [one["solved_then"] for one, _ in runs]
        told[teacher] = {
            "runs": len(of_seeds),
            "steps": sorted(one["alarm_at"] for one, _ in runs),
            "solved": over_seeds(solved).model_dump() if solved else None,
            "below_start": sum(one["solved_then"] < before for one, before in runs),
            "lowest": min(min(one["shifts"].values()) for one in of_seeds.values()),
        }
    return told


def level(value: dict[str, float]) -> str:
    return "{mean:.3f} [{lo:.3f}, {hi:.3f}]".format(**value)


def points(value: dict[str, float]) -> str:
    return "{mean:+.1f} [{lo:+.1f}, {hi:+.1f}]".format(
        **{name: 100 * value[name] for name in ("mean", "lo", "hi")}
    ).replace("-", "−")


if __name__ == "__main__":
    main()
