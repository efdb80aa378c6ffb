"""The registered tests and README.md from the raw files. Needs no model.

recompose experiment rebuild experiments/018-feedback-gap
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import jinja2

from composer_replication.evaluation.power import minimum_detectable_effect
from composer_replication.evaluation.tests_of_difference import ALPHA, holm, sign_flip
from composer_replication.runs import write_atomically
from composer_replication.store import hash_of
from shared.analysis.registered import over_seeds
from shared.code_runs.plan import START, Plan, read_plan
from shared.prose import wrapped
from shared.result_lines import read_result

HERE = Path(__file__).parent
REAL_CODE = HERE.parent / "014-real-code"
CONTEXTS = ("plain", "feedback", "sham", "retry")
TESTS = {
    "H1": ("new", "feedback", "sham"),
    "H2": ("new", "feedback", "plain"),
    "H3": ("new", "retry", "plain"),
}
ALSO = [
    ("new", "sham", "plain"),
    ("solution", "feedback", "sham"),
    ("solution", "feedback", "plain"),
    ("solution", "retry", "plain"),
]
ALIKE = 0.9
"""Similarity from which a sham says nearly the same as the true feedback."""
TESTS_RAN = "The block was put in"
"""What the environment says before the output of visible tests; else it tells why there was nothing to run."""
Line = Mapping[str, Any]
Site = Mapping[str, Line]
"""Context -> the line of one site; `told` is what was told there."""


def main() -> None:
    plan = read_plan(REAL_CODE / "plan.toml", REAL_CODE / "results")
    sites = read_sites(HERE / "results")
    tables = tables_of(sites, subsets_of(sites, plan))
    write_atomically(HERE / "results" / "tables.json", json.dumps(tables, indent=1) + "\n")
    drawn = jinja2.Environment(loader=jinja2.FileSystemLoader(HERE), undefined=jinja2.StrictUndefined, trim_blocks=True)
    drawn.filters |= {"level": level, "change": change}
    drawn.globals["most_tokens"] = most_tokens(plan)
    told = wrapped(drawn.get_template("README.md.jinja").render(tables))
    write_atomically(HERE / "README.md", told)
    print(told)


def read_sites(results: Path) -> list[Site]:
    """In every context, or not at all: parts that are missing are named."""
    if not (results / "sites.jsonl.zst").exists():
        sys.exit("incomplete: no site was looked for, so that nothing was computed")
    wanted = [line for line in read_result(results / "sites.jsonl.zst") if line["line"] == "site"]
    sha256 = hash_of([results / "sites.jsonl.zst"])
    found: dict[tuple[str, str], dict[str, Line]] = defaultdict(dict)
    for part in results.glob("part-*.jsonl.zst"):
        for line in read_result(part):
            if line["line"] == "read":
                found[line["task_id"], line["said"]][line["context"]] = line
            elif line["sites_sha256"] != sha256:
                sys.exit(f"{part} was made of other sites than sites.jsonl.zst holds, so that nothing was computed")
    missing = [site["name"] for site in wanted if set(found[site["task_id"], site["said"]]) != set(CONTEXTS)]
    if missing:
        sys.exit(f"incomplete: {len(missing)} of {len(wanted)} sites are missing, so that nothing was computed")
    return [{"told": site, **found[site["task_id"], site["said"]]} for site in wanted]


def subsets_of(sites: Sequence[Site], plan: Plan) -> dict[str, list[Site]]:
    """Sites for which a registered difference is told again. The last two were asked for after the result."""
    parts = range(plan.raw["measuring"]["start_parts"])
    stored = [line for part in parts for line in read_result(plan.file(f"{START}-{part}")) if line["line"] == "task"]
    whole = {
        said
        for line in stored
        for said, tokens in zip(line["said"], line["tokens"], strict=True)
        if tokens < most_tokens(plan)
    }
    ran = [site for site in sites if TESTS_RAN in site["told"]["feedback"]]
    return {
        "attempts that were not cut off": [site for site in sites if site["told"]["said"] in whole],
        "shams that say something else": [site for site in sites if likeness(site["told"]) <= ALIKE],
        "the repositories that 014 trains on": [
            site for site in sites if plan.side(site["told"]["repository"]) == "train"
        ],
        "attempts whose visible tests ran": ran,
        "of these, shams of which tests ran too": [site for site in ran if TESTS_RAN in site["told"]["sham"]],
    }


def most_tokens(plan: Plan) -> int:
    """From so many on an attempt is cut off."""
    return plan.raw["base"]["training"]["max_turn_tokens"]


def likeness(told: Line) -> float:
    return SequenceMatcher(None, told["feedback"], told["sham"], autojunk=False).ratio()


def tables_of(sites: Sequence[Site], subsets: Mapping[str, Sequence[Site]]) -> dict[str, Any]:
    def differing(number: str, first: str, second: str) -> Callable[[Site], float]:
        return lambda site: site[first][number] - site[second][number]

    tests = [
        {"name": name, "sides": sides, "difference": difference(by_repository(sites, differing(*sides)))}
        for name, sides in TESTS.items()
    ]
    for test, p_holm in zip(tests, holm([test["difference"]["p"] for test in tests]), strict=True):
        test["p_holm"] = p_holm
    levels = {
        context: {
            number: interval(by_repository(sites, lambda site: site[context][number]))  # noqa: B023
            for number in ("new", "solution")
        }
        for context in CONTEXTS
    }
    lines = [site[context] for site in sites for context in CONTEXTS]
    return {
        "registered": tests,
        "verdict": verdict(tests),
        "also": [{"sides": sides, "difference": difference(by_repository(sites, differing(*sides)))} for sides in ALSO],
        "levels": levels,
        "subsets": {
            name: {"sites": len(own)}
            | {test: difference(by_repository(own, differing(*sides))) for test, sides in TESTS.items()}
            for name, own in subsets.items()
        },
        "sites": len(sites),
        "tasks": len({line["task_id"] for line in lines}),
        "repositories": len({line["repository"] for line in lines}),
    }


def verdict(tests: Sequence[Mapping[str, Any]]) -> str:
    """By "What counts as what" of the plan."""
    seen = {test["name"] for test in tests if test["p_holm"] < ALPHA and test["difference"]["interval"]["mean"] > 0}
    if "H1" not in seen:
        return "neither *the feedback informs* nor *the sham misleads* was seen"
    return "*the feedback informs*" if "H2" in seen else "*the sham misleads*, and no more"


def by_repository(sites: Sequence[Site], number: Callable[[Site], float]) -> dict[str, float]:
    """Mean over a task's sites, then over a repository's tasks."""
    by_task: dict[tuple[str, str], list[float]] = defaultdict(list)
    for site in sites:
        by_task[site["plain"]["repository"], site["plain"]["task_id"]].append(float(number(site)))
    grouped: dict[str, list[float]] = defaultdict(list)
    for (repository, _), values in sorted(by_task.items()):
        grouped[repository].append(fmean(values))
    return {repository: fmean(values) for repository, values in grouped.items()}


def difference(differences: Mapping[str, float]) -> dict[str, Any]:
    values = list(differences.values())
    flipped = sign_flip(values)
    return {
        "by_repository": differences,
        "interval": interval(differences),
        "p": flipped.p,
        "smallest_p": flipped.floor,
        "detectable": minimum_detectable_effect(stdev(values), len(values), ALPHA / len(TESTS)),
    }


def interval(values: Mapping[str, float]) -> dict[str, float]:
    return over_seeds(list(values.values())).model_dump(exclude={"schema_version"})


def level(value: Mapping[str, float]) -> str:
    return "{mean:.3f} [{lo:.3f}, {hi:.3f}]".format(**value).replace("-", "−")


def change(value: Mapping[str, float]) -> str:
    return "{mean:+.3f} [{lo:+.3f}, {hi:+.3f}]".format(**value).replace("-", "−")


if __name__ == "__main__":
    main()
