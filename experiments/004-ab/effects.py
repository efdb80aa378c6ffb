"""Differences between arms of one regime, seed by seed, with the plan's tests and intervals. Pure functions."""

from collections.abc import Mapping, Sequence
from statistics import stdev
from typing import NamedTuple

from reading import Finished, rollouts_to

from composer_replication.evaluation.clusters import two_way_interval
from composer_replication.evaluation.power import minimum_detectable_effect
from composer_replication.evaluation.resampling import bootstrap, hierarchical_bootstrap
from composer_replication.evaluation.stats import Estimate
from composer_replication.evaluation.tests_of_difference import holm, sign_flip

REGISTERED = (("sdpo", "grpo"), ("sdpo", "sham"), ("trdpo", "sft"), ("all", "grpo"))
Arms = Mapping[str, Mapping[int, Finished]]


class Effect(NamedTuple):
    """`arm` − `against` on the shared seeds."""

    arm: str
    against: str
    number: str
    by_seed: Mapping[int, float]
    interval: Estimate
    two_way: Estimate | None
    p: float
    smallest_p: float
    p_holm: float | None = None
    detectable: float | None = None


def by_arm(runs: Sequence[Finished]) -> Arms:
    arms: dict[str, dict[int, Finished]] = {}
    for run in runs:
        arms.setdefault(run.arm, {})[run.seed] = run
    return arms


def registered(arms: Arms) -> list[Effect]:
    """The four tests of the plan on held-out success, with Holm over the four."""
    found = [success_effect(arms, arm, against) for arm, against in REGISTERED]
    return [
        effect._replace(p_holm=p, detectable=_detectable(effect))
        for effect, p in zip(found, holm([effect.p for effect in found]), strict=True)
    ]


def success_effect(arms: Arms, arm: str, against: str) -> Effect:
    """On held-out success: whole tables of tasks are there, so that tasks are drawn again too."""
    seeds = sorted(arms[arm].keys() & arms[against].keys())
    tables = [
        [arms[arm][seed].tasks[task] - value for task, value in arms[against][seed].tasks.items()] for seed in seeds
    ]
    plain = effect(arms, arm, against, "success")
    return plain._replace(interval=hierarchical_bootstrap(tables), two_way=two_way_interval(tables).estimate)


def effect(arms: Arms, arm: str, against: str, number: str) -> Effect:
    seeds = sorted(arms[arm].keys() & arms[against].keys())
    differences = {seed: arms[arm][seed].numbers[number] - arms[against][seed].numbers[number] for seed in seeds}
    test = sign_flip(list(differences.values()))
    interval = bootstrap(list(differences.values()), expanded=True)
    return Effect(arm, against, number, differences, interval, None, test.p, test.floor)


def level(runs: Mapping[int, Finished], number: str) -> Estimate:
    return bootstrap([run.numbers[number] for run in runs.values()], expanded=True)


def rollouts_to_baseline(arms: Arms, arm: str, baseline: str = "grpo") -> list[float | None]:
    """Per seed: rollouts until the arm first succeeds as often as the baseline does in the end."""
    seeds = sorted(arms[arm].keys() & arms[baseline].keys())
    return [rollouts_to(arms[arm][seed].curve, arms[baseline][seed].numbers["success"]) for seed in seeds]


def _detectable(effect: Effect) -> float:
    values = list(effect.by_seed.values())
    return minimum_detectable_effect(stdev(values), len(values), 0.05 / len(REGISTERED))
