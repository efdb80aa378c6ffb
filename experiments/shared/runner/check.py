"""What a plan must have, told before anything is trained. Loads no torch."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from composer_replication.errors import UsageError

from .plan import FIRST_TASK, Plan, read_plan

NEEDED = {
    "base": (),
    "arms": (),
    "regimes": (),
    "seconds": ("start", "arm"),
    "measuring": ("part", "tasks", "samples", "kl_episodes", "probe_sites", "probe_tries"),
}
"""Sections, and the keys of each."""


def checked_plan(path: Path) -> Plan:
    mistakes = list(_missing(tomllib.loads(path.read_text(encoding="utf-8"))))
    if not mistakes:
        plan = read_plan(path)
        mistakes = [*_unknown(plan), *_of_tests(plan)]
        if not mistakes:
            return plan
    raise UsageError(f"{path}: {'; '.join(mistakes)}", f"mend {path}; experiments/README.md has a whole plan")


def _missing(raw: Mapping[str, Any]) -> Iterator[str]:
    for section, keys in NEEDED.items():
        if section not in raw:
            yield f"no [{section}]"
        yield from (f"no {key} in [{section}]" for key in keys if key not in raw.get(section, {key: None}))
    for regime, own in raw.get("regimes", {}).items():
        yield from (f"no {key} in [regimes.{regime}]" for key in ("arms", "seeds") if key not in own)
    measuring = raw.get("measuring", {"curve": {}})
    if not measuring.keys() & ({"curve"} if raw.get("tests") else {"curve", "curve_every"}):
        yield "no curve in [measuring]"
    if measuring.get("splits") != ["heldout"] and "side_samples" not in measuring and "measuring" in raw:
        yield "no side_samples in [measuring] for splits beside heldout"


def _unknown(plan: Plan) -> Iterator[str]:
    if (part := plan.raw["measuring"]["part"]) not in FIRST_TASK:
        yield f"no held-out tasks for part {part}: add it to FIRST_TASK in shared/runner/plan.py"
    for regime in plan.regimes:
        yield from (f"no [arms.{arm}], which regime {regime} names"
                    for arm in plan.arms(regime) if arm not in plan.raw["arms"])  # fmt: skip


def _of_tests(plan: Plan) -> Iterator[str]:
    tests: Mapping[str, Any] = plan.raw.get("tests", {})
    for regime in plan.regimes if tests else ():
        if len(plan.raw["regimes"][regime]["seeds"]) < 2:
            yield f"regime {regime} has one seed, and tests need several"
    for name, test in tests.items():
        if "regime" not in test and "over" not in test:
            yield f"{name}: names neither a regime nor a gap (over)"
        elif "over" not in test and test["regime"] not in plan.regimes:
            yield f"{name}: no regime {test['regime']}"
        else:
            for regime in plan.regimes if "over" in test else [test["regime"]]:
                yield from (f"{name}: {found}" for found in _of_sides(plan, regime, test))


def _of_sides(plan: Plan, regime: str, test: Mapping[str, Any]) -> Iterator[str]:
    for side in test["sides"]:
        arms = [f"{side}-{rate}" for rate in plan.raw.get("rates", [])] or [side]
        if not set(arms) <= set(plan.arms(regime)) & plan.raw["arms"].keys():
            yield f"{side} is no arm of regime {regime}"
            continue
        step = test.get("success_at")
        ends = {sum(phase.last_step for phase in plan.phases(regime, arm, 0)) for arm in arms}
        if step is not None and str(step) not in plan.raw["measuring"]["curve"] and ends != {step}:
            yield f"step {step} is not measured in {side}"
