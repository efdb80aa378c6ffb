"""The registered tests and README.md from the raw files. Needs no model.

recompose experiment rebuild experiments/018-feedback-gap
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import jinja2

from composer_replication.evaluation.power import minimum_detectable_effect
from composer_replication.evaluation.tests_of_difference import ALPHA, holm, sign_flip
from composer_replication.runs import write_atomically
from shared.analysis.registered import over_seeds
from shared.prose import wrapped
from shared.result_lines import read_result

HERE = Path(__file__).parent
CONTEXTS = ("plain", "feedback", "sham", "retry")
TESTS = {
    "H1": ("solution", "feedback", "sham"),
    "H2": ("reward", "feedback", "plain"),
    "H3": ("reward", "feedback", "sham"),
    "H4": ("reward", "retry", "plain"),
}
ALSO = [
    *(("solution", context, "plain") for context in CONTEXTS[1:]),
    *(("attempt", context, "plain") for context in CONTEXTS[1:]),
    *(("passed", *sides) for sides in (("feedback", "plain"), ("feedback", "sham"), ("retry", "plain"))),
]
Line = Mapping[str, Any]
Site = Mapping[str, Line]
"""Context -> the line of one site."""


def main() -> None:
    sites = read_sites(HERE / "results")
    tables = tables_of(sites)
    write_atomically(HERE / "results" / "tables.json", json.dumps(tables, indent=1) + "\n")
    drawn = jinja2.Environment(loader=jinja2.FileSystemLoader(HERE), undefined=jinja2.StrictUndefined, trim_blocks=True)
    drawn.filters |= {"level": level, "change": change}
    told = wrapped(drawn.get_template("README.md.jinja").render(tables))
    write_atomically(HERE / "README.md", told)
    print(told)


def read_sites(results: Path) -> list[Site]:
    """In every context, or not at all: parts that are missing are named."""
    if not (results / "sites.jsonl.zst").exists():
        sys.exit("incomplete: no site was looked for, so that nothing was computed")
    wanted = [line for line in read_result(results / "sites.jsonl.zst") if line["line"] == "site"]
    found: dict[tuple[str, str], dict[str, Line]] = defaultdict(dict)
    for part in results.glob("part-*.jsonl.zst"):
        for line in read_result(part):
            if line["line"] == "attempt":
                measured = line | {"passed": float(line["reward"] >= 1), "again": same(line)}
                found[line["task_id"], line["said_before"]][line["context"]] = measured
    missing = [site["name"] for site in wanted if set(found[site["task_id"], site["said"]]) != set(CONTEXTS)]
    if missing:
        sys.exit(f"incomplete: {len(missing)} of {len(wanted)} sites are missing, so that nothing was computed")
    return [found[site["task_id"], site["said"]] for site in wanted]


def same(line: Line) -> float:
    return float(line["said"].split() == line["said_before"].split())


def tables_of(sites: Sequence[Site]) -> dict[str, Any]:
    def differing(number: str, first: str, second: str) -> Callable[[Site], float]:
        return lambda site: site[first][number] - site[second][number]

    tests = {name: tested(by_repository(sites, differing(*sides))) for name, sides in TESTS.items()}
    for test, p_holm in zip(tests.values(), holm([test["p"] for test in tests.values()]), strict=True):
        test["p_holm"] = p_holm
    levels = {
        context: {
            number: interval(by_repository(sites, lambda site: site[context][number]))  # noqa: B023
            for number in ("solution", "attempt", "reward", "passed", "again")
        }
        for context in CONTEXTS
    }
    lines = [line for site in sites for line in site.values()]
    return {
        "registered": {name: test | {"sides": TESTS[name]} for name, test in tests.items()},
        "also": [{"sides": sides, "interval": interval(by_repository(sites, differing(*sides)))} for sides in ALSO],
        "levels": levels,
        "kept_by_g3": {
            context: interval(by_repository(sites, lambda site: site[context]["attempt"] < site["plain"]["attempt"]))  # noqa: B023
            for context in ("feedback", "sham")
        },
        "sites": len(sites),
        "tasks": len({line["task_id"] for line in lines}),
        "repositories": len({line["repository"] for line in lines}),
        "broken": sum(line["broken"] is not None for line in lines),
    }


def by_repository(sites: Sequence[Site], number: Callable[[Site], float]) -> dict[str, float]:
    """Mean over a task's sites, then over a repository's tasks."""
    by_task: dict[tuple[str, str], list[float]] = defaultdict(list)
    for site in sites:
        by_task[site["plain"]["repository"], site["plain"]["task_id"]].append(float(number(site)))
    grouped: dict[str, list[float]] = defaultdict(list)
    for (repository, _), values in sorted(by_task.items()):
        grouped[repository].append(fmean(values))
    return {repository: fmean(values) for repository, values in grouped.items()}


def tested(differences: Mapping[str, float]) -> dict[str, Any]:
    values = list(differences.values())
    detectable = minimum_detectable_effect(stdev(values), len(values), ALPHA)
    p = sign_flip(values).p
    return {"by_repository": differences, "interval": interval(differences), "p": p, "detectable": detectable}


def interval(values: Mapping[str, float]) -> dict[str, float]:
    return over_seeds(list(values.values())).model_dump(exclude={"schema_version"})


def level(value: Mapping[str, float]) -> str:
    return "{mean:.3f} [{lo:.3f}, {hi:.3f}]".format(**value).replace("-", "−")


def change(value: Mapping[str, float]) -> str:
    return "{mean:+.3f} [{lo:+.3f}, {hi:+.3f}]".format(**value).replace("-", "−")


if __name__ == "__main__":
    main()
