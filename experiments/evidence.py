"""docs/evidence.md, the page of two screens, and its details, from the tables of the experiments. Trains nothing.

    python experiments/evidence.py

Reads what the rebuilds of 004-ab, 009-rates, 011-content, 012-competitors, 013-triples and 017-stored-teacher wrote
(results/tables.json), the summary of 008-leak, and the held-out attempts of the model that was trained on code. Each
page has a template of its name here.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import jinja2

from composer_replication.errors import RecomposeError
from composer_replication.evaluation.stats import Estimate, paired_difference
from composer_replication.runs import write_atomically
from shared.prose import wrapped

HERE = Path(__file__).parent
CODE = HERE.parent / "benchmarks" / "results" / "code_training_heldout.jsonl"
DOCS = HERE.parent / "docs"
DETAILS = "evidence-details.md"
LEAK = HERE / "008-leak" / "results" / "smollm2" / "summary.json"
RATES, CONTENT, RIVALS, TEACHERS = "009-rates", "011-content", "012-competitors", "013-triples"
AB, STORED = "004-ab", "017-stored-teacher"
SAID = {
    RATES: {"H1": "unclear", "H2": "below", "H3": "unclear", "H4": "above", "H5": "above", "H6": "above"},
    CONTENT: {"H1": "above", "H2": "above", "H3": "unclear", "H4": "unclear", "H5": "below", "H6": "above"},
    RIVALS: {"H1": "unclear", "H2": "unclear", "H3": "unclear", "H4": "below", "H5": "unclear", "H6": "below"},
    TEACHERS: {"H1": "below", "H2": "unclear", "H3": "above", "H4": "above"},
}
"""What the sentences of the page rest on: where the interval of each difference lies."""
SAID_OF_LEAK = {
    "open": "learns the leak",
    "scrubbed": "stopped",
    "soft": "hides",
    "hard": "hides",
    "hard_both": "stopped",
}


def main() -> None:
    tables = {name: json.loads((HERE / name / "results" / "tables.json").read_text()) for name in (AB, *SAID, STORED)}
    tests = {name: {one["name"]: one for one in tables[name]["registered"]} for name in SAID}
    for name, registered in tests.items():
        check_prose(name, registered)
    leak = json.loads(LEAK.read_text())
    if (found := {arm: leak[arm]["verdict"] for arm in SAID_OF_LEAK}) != SAID_OF_LEAK:
        raise RecomposeError(f"008-leak has {found}", "rewrite the sentences of the pages, then SAID_OF_LEAK")
    ab, rates, content, rivals, teachers = (tables[name] for name in (AB, RATES, CONTENT, RIVALS, TEACHERS))
    differences = {(one["sides"], one["number"]): one["interval"] for one in content["differences"]}
    drawn = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    drawn.filters |= {told.__name__: told for told in (points, nats, share, level, rollouts, power)}
    facts = {
        "details": DETAILS,
        "ab": {(one["arm"], one["against"]): one for one in ab["regimes"]["main"]["registered"]},
        "rates": rates,
        "by_name": tests[RATES],
        "content": content,
        "content_tests": tests[CONTENT],
        "content_differences": differences,
        "content_ends": [differences[f"sdpo − grpo, {regime}", "success at step 20"] for regime in content["regimes"]],
        "rivals": rivals["regimes"]["half"]["arms"],
        "rival_tests": tests[RIVALS],
        "rival_seeds": {name: list(one["difference"]["by_seed"].values()) for name, one in tests[RIVALS].items()},
        "teachers": teachers,
        "teacher_arms": teachers["regimes"]["own-teachers"]["arms"],
        "teacher_tests": tests[TEACHERS],
        "teacher_ends": {
            one["sides"].partition(",")[0]: one["interval"]
            for one in teachers["differences"]
            if one["number"] == "success at step 20"
        },
        "leak": leak,
        "read_unwatched": [one["open"]["hit_file"] for one in leak["open"]["by_seed"].values()],
        "stored": tables[STORED]["success"],
        "code": code_facts(CODE),
    }
    for page in ("evidence.md", DETAILS):
        write_atomically(DOCS / page, wrapped(drawn.get_template(f"{page}.jinja").render(facts)))
        print(f"wrote {page}")


def check_prose(experiment: str, by_name: dict[str, Any]) -> None:
    """The figures are filled in, the sentences around them are not: refuse when they no longer fit."""
    for name, said in SAID[experiment].items():
        bounds = by_name[name]["difference"]["interval"]
        found = "above" if bounds["lo"] > 0 else "below" if bounds["hi"] < 0 else "unclear"
        if found != said:
            raise RecomposeError(
                f"{name} of {experiment} is {found} 0 and the pages say {said}",
                "rewrite its sentences, then SAID",
            )


def code_facts(path: Path) -> dict[str, Any]:
    """pass@1 and the mean reward of held-out tasks, before and after, with intervals over tasks."""
    rewards: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    repositories: set[str] = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        attempt = json.loads(line)
        rewards[attempt["task_id"]][attempt["phase"]].append(attempt["reward"])
        repositories.add(attempt["repository"])

    def change(value: Any) -> dict[str, Any]:
        before, after = (
            [sum(map(value, own[phase])) / len(own[phase]) for own in rewards.values()] for phase in ("before", "after")
        )
        return {
            "before": sum(before) / len(before),
            "after": sum(after) / len(after),
            "difference": paired_difference(before, after),
        }

    return {
        "tasks": len(rewards),
        "repositories": len(repositories),
        "pass": change(lambda reward: float(reward == 1)),
        "reward": change(float),
    }


def points(value: dict[str, float] | Estimate) -> str:
    mean, lo, hi = _bounds(value)
    return f"{100 * mean:+.1f} [{100 * lo:+.1f}, {100 * hi:+.1f}]".replace("-", "−")


def nats(value: dict[str, float]) -> str:
    return f"{value['mean']:+.2f} [{value['lo']:+.2f}, {value['hi']:+.2f}]".replace("-", "−")


def share(value: dict[str, float] | float) -> str:
    return f"{value['mean'] if isinstance(value, dict) else value:.3f}".removeprefix("0")


def level(value: dict[str, float]) -> str:
    return f"{share(value)} [{share(value['lo'])}, {share(value['hi'])}]"


def rollouts(value: dict[str, float]) -> str:
    return f"{value['mean']:,.0f} [{value['lo']:,.0f}, {value['hi']:,.0f}]".replace("-", "−")


def power(test: dict[str, Any]) -> str:
    return f"{share(test['p_holm'])}, detectable {100 * test['difference']['detectable']:.1f}"


def _bounds(value: dict[str, float] | Estimate) -> tuple[float, float, float]:
    found = value.model_dump() if isinstance(value, Estimate) else value
    return found["mean"], found["lo"], found["hi"]


if __name__ == "__main__":
    main()
