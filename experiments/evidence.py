"""docs/evidence.md, the short page, and its details, from the tables of the experiments. Trains nothing.

    python experiments/evidence.py

Reads what the rebuilds of 004-ab, 009-rates, 011-content, 012-competitors, 013-triples, 017-stored-teacher and
018-feedback-gap wrote (results/tables.json), the summary of 008-leak, and the held-out attempts of the model that was
trained on code. Each page has a template of its name here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jinja2

from composer_replication.errors import RecomposeError
from composer_replication.evaluation.contrast import ArmComparison, compare_arms
from composer_replication.evaluation.outcomes import OutcomeChoice, read_phases
from composer_replication.evaluation.stats import Estimate
from composer_replication.evaluation.tests_of_difference import ALPHA
from composer_replication.runs import write_atomically
from shared.prose import wrapped

HERE = Path(__file__).parent
CODE = HERE.parent / "benchmarks" / "results" / "code_training_heldout.jsonl"
DOCS = HERE.parent / "docs"
DETAILS = "evidence-details.md"
LEAK = HERE / "008-leak" / "results" / "smollm2" / "summary.json"
RATES, CONTENT, RIVALS, TEACHERS = "009-rates", "011-content", "012-competitors", "013-triples"
AB, STORED, FEEDBACK = "004-ab", "017-stored-teacher", "018-feedback-gap"
SAID = {
    RATES: {"H1": "unclear", "H2": "below", "H3": "unclear", "H4": "above", "H5": "above", "H6": "above"},
    CONTENT: {"H1": "above", "H2": "above", "H3": "unclear", "H4": "unclear", "H5": "below", "H6": "above by interval"},
    RIVALS: {
        "H1": "unclear",
        "H2": "unclear",
        "H3": "unclear",
        "H4": "below",
        "H5": "unclear",
        "H6": "below by interval",
    },
    TEACHERS: {"H1": "below", "H2": "unclear", "H3": "above", "H4": "above"},
    FEEDBACK: {"H1": "unclear", "H2": "below", "H3": "below"},
}
"""What the sentences of the page rest on: where the interval of each difference lies; "by interval" where p after Holm
is above .05."""
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
    drawn.filters |= {told.__name__: told for told in (points, nats, share, level, rollouts, power, unbroken)}
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
        "stored": tables[STORED]["success"],
        "code": code_facts(CODE),
        "feedback": tables[FEEDBACK],
        "feedback_tests": tests[FEEDBACK],
        "feedback_sham": sham_of(tables[FEEDBACK]),
        "tests_ran": tables[FEEDBACK]["subsets"]["attempts whose visible tests ran"],
        "both_ran": tables[FEEDBACK]["subsets"]["of these, shams of which tests ran too"],
    }
    for page in ("evidence.md", DETAILS):
        write_atomically(DOCS / page, wrapped(drawn.get_template(f"{page}.jinja").render(facts)))
        print(f"wrote {page}")


def check_prose(experiment: str, by_name: dict[str, Any]) -> None:
    """The figures are filled in, the sentences around them are not: refuse when they no longer fit."""
    for name, said in SAID[experiment].items():
        test = by_name[name]
        found = where(test["difference"]["interval"])
        if found != "unclear" and test["p_holm"] > ALPHA:
            found += " by interval"
        if found != said:
            raise RecomposeError(
                f"{name} of {experiment} is {found!r}, not {said!r}", "rewrite its sentences, then SAID"
            )


def where(bounds: dict[str, float]) -> str:
    return "above" if bounds["lo"] > 0 else "below" if bounds["hi"] < 0 else "unclear"


def sham_of(feedback: dict[str, Any]) -> dict[str, float]:
    """What another task's feedback changes, against none."""
    (sham,) = (one["difference"]["interval"] for one in feedback["also"] if one["sides"] == ["new", "sham", "plain"])
    if where(sham) != "below":
        raise RecomposeError("sham feedback no longer lies below none", "rewrite the sentences of 018, then this")
    return sham


def code_facts(path: Path) -> dict[str, Any]:
    """pass@1 and the mean reward of held-out tasks, before and after, as `recompose evaluate --compare` has them."""
    found = {name: compared(path, metric) for name, metric in (("pass", "success"), ("reward", "reward"))}
    changes = {
        name: {
            "before": one.arms[0].estimate.mean,
            "after": one.arms[1].estimate.mean,
            "difference": one.comparisons[0].difference,
        }
        for name, one in found.items()
    }
    return {
        "tasks": found["pass"].arms[0].tasks,
        "repositories": found["pass"].comparisons[0].difference.n,
        **changes,
    }


def compared(path: Path, metric: str) -> ArmComparison:
    arms = read_phases(str(path), OutcomeChoice(metric))
    return compare_arms(arms, arms[0].name, metric, "auto")


def points(value: dict[str, float] | Estimate) -> str:
    mean, lo, hi = _bounds(value)
    return f"{100 * mean:+.1f} [{100 * lo:+.1f}, {100 * hi:+.1f}]".replace("-", "−")


def nats(value: dict[str, float], digits: int = 2) -> str:
    mean, lo, hi = (f"{bound:+.{digits}f}".replace("-", "−") for bound in _bounds(value))
    return f"{mean} [{lo}, {hi}]"


def share(value: dict[str, float] | float) -> str:
    return f"{value['mean'] if isinstance(value, dict) else value:.3f}".removeprefix("0")


def level(value: dict[str, float]) -> str:
    return f"{share(value)} [{share(value['lo'])}, {share(value['hi'])}]"


def rollouts(value: dict[str, float]) -> str:
    return f"{value['mean']:,.0f} [{value['lo']:,.0f}, {value['hi']:,.0f}]".replace("-", "−")


def power(test: dict[str, Any]) -> str:
    return f"{share(test['p_holm'])}, detectable {100 * test['difference']['detectable']:.1f}"


def unbroken(told: str) -> str:
    """For a cell of a table, which would be broken at every space."""
    return told.replace(" ", "\N{NO-BREAK SPACE}")


def _bounds(value: dict[str, float] | Estimate) -> tuple[float, float, float]:
    found = value.model_dump() if isinstance(value, Estimate) else value
    return found["mean"], found["lo"], found["hi"]


if __name__ == "__main__":
    main()
