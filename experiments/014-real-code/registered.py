"""The registered comparisons and what stands beside them, from the files of the whole queue. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

from composer_replication.errors import RecomposeError
from composer_replication.evaluation.clusters import two_way_interval
from composer_replication.evaluation.metrics import pass_at_k
from composer_replication.evaluation.power import minimum_detectable_effect
from composer_replication.evaluation.stats import Estimate, mean_interval
from composer_replication.evaluation.tests_of_difference import ALPHA, holm, sign_flip
from shared.code_runs.plan import BEFORE, MEMORY, Plan
from shared.result_lines import read_result

START = "the start"
HYPOTHESES = {"H1": ("grpo", START), "H2": ("sdpo", "grpo"), "H3": ("sdpo", "sham"), "H4": ("imitation", "grpo")}
REMEMBERED = 0.9
"""Likeness from which a completion without a statement counts as known by heart."""
Line = Mapping[str, Any]


class Measured(NamedTuple):
    """One policy on the test tasks: of each task how many of its attempts passed, and how many there were."""

    passed: Mapping[str, tuple[int, int]]

    def rates(self, tasks: Sequence[str], k: int = 1) -> list[float]:
        return [pass_at_k(*self.passed[task], k) for task in tasks]


class Results(NamedTuple):
    tasks: Mapping[str, Line]
    """Test tasks, with their labels."""
    open_tasks: Sequence[str]
    strata: Mapping[str, Sequence[str]]
    remembered: frozenset[str]
    start: Measured
    arms: Mapping[str, Mapping[int, Measured]]
    """By arm and seed, at the last step."""
    curves: Mapping[str, Mapping[int, Estimate]]
    """pass@1 by arm and step, over tasks, of the mean over seeds."""
    runs: Mapping[str, Mapping[str, float]]
    """Means over all steps of an arm's runs."""
    rates: Mapping[str, float]
    trained_on: Mapping[str, int]
    """Number of training tasks by difficulty: the band is `middle`, the others fill it up."""
    orphans: int


class Tested(NamedTuple):
    name: str
    sides: str
    by_repository: Mapping[str, float]
    two_way: Estimate
    p: float
    p_holm: float
    detectable: float
    """At 80 % power, 5 % and the spread of these repositories."""
    holds: bool


def read_results(plan: Plan) -> Results:
    missing = [job.name for job in plan.jobs() if not job.result.exists()]
    if missing:
        raise RecomposeError(
            f"incomplete: {len(missing)} jobs are missing ({', '.join(missing[:4])}, …), so that nothing was computed",
            "recompose experiment run experiments/014-real-code -- --processes 3",
        )
    before = _tasks(plan, BEFORE)
    rates = plan.start_rates()
    memory = _tasks(plan, MEMORY)
    arms: dict[str, dict[int, Measured]] = {arm: {} for arm in plan.raw["arms"]}
    way: dict[str, dict[int, list[Measured]]] = {arm: {} for arm in plan.raw["arms"]}
    steps: dict[str, list[Line]] = {arm: [] for arm in plan.raw["arms"]}
    for run in (run for run in plan.runs() if run.rate is None):
        for step in plan.steps_of(run):
            arms[run.arm][run.seed] = _measured(_tasks(plan, f"{run.name}@{step}"))
            way[run.arm].setdefault(step, []).append(arms[run.arm][run.seed])
        steps[run.arm] += plan.logged_steps(run)
    strata: dict[str, list[str]] = {"hard": [], "middle": [], "easy": []}
    for task in before:
        strata[rates[task].stratum(plan.raw["band"])].append(task)
    return Results(
        tasks=before,
        open_tasks=[task for task in plan.band("test") if task in before],
        strata=strata,
        remembered=frozenset(
            task for task, line in memory.items() if any(line["passed"]) or max(line["likeness"]) >= REMEMBERED
        ),
        start=_measured(before),
        arms=arms,
        curves={
            arm: {step: _passes(runs, list(before))["pass@1"] for step, runs in own.items()} for arm, own in way.items()
        },
        runs={arm: _means(lines) for arm, lines in steps.items()},
        rates={run.arm: plan.config(run).training.learning_rate for run in plan.runs() if run.rate is None},
        trained_on=Counter(rates[task].stratum(plan.raw["band"]) for task in plan.band("train")),
        orphans=len(list((plan.results / "orphans").glob("*"))),
    )


def registered(results: Results) -> list[Tested]:
    found = {name: _difference(results, *sides) for name, sides in HYPOTHESES.items()}
    adjusted = holm([test.p for test in found.values()])
    tested: list[Tested] = []
    for (name, test), p_holm in zip(found.items(), adjusted, strict=True):
        is_clear = p_holm < ALPHA and not test.two_way.lo <= 0 <= test.two_way.hi
        tested.append(test._replace(name=name, p_holm=p_holm, holds=is_clear))
    return tested


def described(results: Results) -> dict[str, dict[str, dict[str, Estimate]]]:
    """Group of test tasks -> who -> pass@1 and pass@8, with intervals over tasks of the mean over seeds."""
    groups: dict[str, Sequence[str]] = {
        "all": list(results.tasks),
        "open": results.open_tasks,
        **results.strata,
        "not remembered": [task for task in results.tasks if task not in results.remembered],
        "remembered": [task for task in results.tasks if task in results.remembered],
        **_by_label(results, "generator"),
    }
    return {
        group: {who: _passes(runs, tasks) for who, runs in _everyone(results).items()}
        for group, tasks in groups.items()
        if tasks
    }


def _everyone(results: Results) -> dict[str, list[Measured]]:
    return {START: [results.start], **{arm: list(seeds.values()) for arm, seeds in results.arms.items()}}


def _by_label(results: Results, label: str) -> dict[str, list[str]]:
    values = sorted({line[label] for line in results.tasks.values()})
    return {value: [task for task, line in results.tasks.items() if line[label] == value] for value in values}


def _passes(runs: Sequence[Measured], tasks: Sequence[str]) -> dict[str, Estimate]:
    def over_tasks(k: int) -> Estimate:
        return mean_interval([fmean(rates) for rates in zip(*(run.rates(tasks, k) for run in runs), strict=True)])

    fewest = min(run.passed[task][1] for run in runs for task in tasks)
    return {f"pass@{k}": over_tasks(k) for k in (1, 8) if k <= fewest}


def _difference(results: Results, first: str, second: str) -> Tested:
    seeds = list(next(iter(results.arms.values())))
    tasks = list(results.tasks)

    def side(name: str) -> Callable[[int], Measured]:
        return (lambda seed: results.start) if name == START else lambda seed: results.arms[name][seed]

    table = [
        [a - b for a, b in zip(side(first)(seed).rates(tasks), side(second)(seed).rates(tasks), strict=True)]
        for seed in seeds
    ]
    by_task = dict(zip(tasks, map(fmean, zip(*table, strict=True)), strict=True))
    grouped: dict[str, list[float]] = {}
    for task, value in by_task.items():
        grouped.setdefault(results.tasks[task]["repository"], []).append(value)
    by_repository = {name: fmean(values) for name, values in sorted(grouped.items())}
    values = list(by_repository.values())
    test = sign_flip(values)
    spread = minimum_detectable_effect(stdev(values), len(values), ALPHA)
    interval = two_way_interval(table).estimate
    return Tested("", f"{first} − {second}", by_repository, interval, test.p, 1.0, spread, holds=False)


def _tasks(plan: Plan, job: str) -> dict[str, Line]:
    return {line["task_id"]: line for line in read_result(plan.file(job)) if line["line"] == "task"}


def _measured(tasks: Mapping[str, Line]) -> Measured:
    return Measured({task: (sum(line["passed"]), len(line["passed"])) for task, line in tasks.items()})


def _means(steps: Sequence[Line]) -> dict[str, float]:
    names = ("reward", "step_time", "frac_reward_zero_std", "entropy", "grad_norm", "gradient/policy", "gradient/sdpo",
             "gradient/sdpo_factor", "sdpo/sites_per_rollout", "rollout/environment_share")  # fmt: skip
    return {name: fmean(values) for name in names if (values := [line[name] for line in steps if name in line])}
