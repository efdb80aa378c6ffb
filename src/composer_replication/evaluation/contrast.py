"""Arms against a baseline: the difference, its interval, whether it can be told from chance, and what was out of reach.

Reads `Arm`s, writes an `ArmComparison`, which is what `recompose evaluate --compare --json` prints. Holm corrects over
the comparisons of one call; it does not know of other metrics, splits or calls that were looked at.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from composer_replication.errors import UsageError
from composer_replication.records import Record

from .charts import EffectRow, effect_plot, standalone
from .findings import FEWEST_FOR_A_BOOTSTRAP, FoundDifference, Paired, TestOfDifference, Unit, find_difference
from .metrics import mean
from .outcomes import Arm
from .pairing import Pairing
from .power import detectable_effect, minimum_detectable_share
from .resampling import bootstrap, hierarchical_bootstrap
from .stats import Estimate, SaidOfFew, mean_interval
from .tests_of_difference import ALPHA, holm

ContrastVerdict = Literal["higher", "lower", "no clear difference", "cannot be tested"]


class ArmSummary(Record):
    name: str
    estimate: SaidOfFew
    seeds: tuple[str, ...]
    tasks: int
    by_seed: Mapping[str, float]


class Comparison(Record):
    """`difference` is arm − baseline; `n` of every estimate counts independent units: seeds, clusters or tasks."""

    arm: str
    baseline: str
    paired: Paired
    unit: Unit
    difference: SaidOfFew
    interval: str
    clustered: SaidOfFew | None
    clustered_by: str | None
    by_seed: Mapping[str, float]
    test: TestOfDifference
    other_tests: tuple[TestOfDifference, ...]
    p_holm: float
    minimum_detectable_effect: float | None
    """At 80 % power and Holm's first step; None where the test cannot reach that step, or nothing varies."""
    verdict: ContrastVerdict
    notes: tuple[str, ...]


class ArmComparison(Record):
    metric: str
    split: str | None
    baseline: str
    arms: tuple[ArmSummary, ...]
    comparisons: tuple[Comparison, ...]
    notes: tuple[str, ...]


def compare_arms(arms: Sequence[Arm], baseline: str, metric: str, paired: Pairing = "auto") -> ArmComparison:
    """Every other arm against the baseline."""
    first = next((arm for arm in arms if arm.name == baseline), None)
    if first is None:
        names = ", ".join(arm.name for arm in arms)
        raise UsageError(f"no arm is called {baseline} (there: {names})", "--baseline NAME")
    others = [arm for arm in arms if arm is not first]
    if not others:
        raise UsageError("a comparison needs at least two arms", "recompose evaluate --compare A B")
    findings = [find_difference(first, arm, paired) for arm in others]
    adjusted = holm([finding.tests[0].p for finding in findings])
    return ArmComparison(
        metric=metric,
        split=first.split,
        baseline=baseline,
        arms=tuple(_summary(arm) for arm in (first, *others)),
        comparisons=tuple(
            _comparison(first, arm, finding, p_holm, len(findings))
            for arm, finding, p_holm in zip(others, findings, adjusted, strict=True)
        ),
        notes=(*_other_splits(first), *(note for arm in arms for note in arm.notes), *_steps(arms)),
    )


def _summary(arm: Arm) -> ArmSummary:
    tables = [list(arm.values[seed].values()) for seed in arm.seeds]
    groups = len(set(arm.clusters.values()))
    if len(tables) > 1:
        estimate = hierarchical_bootstrap(tables)
    elif 1 < groups < FEWEST_FOR_A_BOOTSTRAP:
        middle = mean(tables[0])
        estimate = Estimate(mean=middle, lo=middle, hi=middle, n=groups)
    elif groups > 1:
        estimate = bootstrap(tables[0], [arm.clusters[task] for task in arm.values[arm.seeds[0]]], expanded=True)
    else:
        estimate = mean_interval(tables[0])
    return ArmSummary(name=arm.name, estimate=estimate, seeds=arm.seeds, tasks=len(arm.tasks), by_seed=arm.by_seed())


def _comparison(first: Arm, arm: Arm, found: FoundDifference, p_holm: float, family: int) -> Comparison:
    test, step = found.tests[0], ALPHA / family
    notes = [*found.notes, *_ties(found)]
    if test.floor > ALPHA:
        notes.append(_no_test(test, found.unit))
    elif test.floor > step:
        notes.append(
            f"The smallest p here, {test.floor:.3g}, is above {step:.3g}, where Holm starts with {family} arms."
        )
    wide = found.clustered.estimate if found.clustered else None
    if wide and found.clustered_by == "seed and task" and p_holm <= ALPHA and wide.lo <= 0 <= wide.hi:
        notes.append("The seeds agree on these tasks; counting the tasks as drawn too, 0 is inside the interval.")
    verdict = _verdict(test, p_holm, found.difference.mean)
    return Comparison(
        arm=arm.name,
        baseline=first.name,
        paired=found.paired,
        unit=found.unit,
        difference=found.difference,
        interval=found.interval,
        clustered=wide,
        clustered_by=found.clustered_by,
        by_seed=found.by_seed,
        test=test,
        other_tests=tuple(found.tests[1:]),
        p_holm=p_holm,
        minimum_detectable_effect=None if test.floor > step else _detectable(found, step),
        verdict=verdict,
        notes=(*notes, *_disagreement(found, verdict, p_holm, family)),
    )


def _detectable(found: FoundDifference, alpha: float) -> float | None:
    if found.discordance is not None:
        effect = minimum_detectable_share(found.discordance, found.difference.n, alpha)
    else:
        effect = detectable_effect(found.error, found.degrees, alpha)
    return effect if 0 < effect < math.inf else None


def _verdict(test: TestOfDifference, p_holm: float, difference: float) -> ContrastVerdict:
    if test.floor > ALPHA:
        return "cannot be tested"
    if p_holm > ALPHA:
        return "no clear difference"
    return "higher" if difference > 0 else "lower"


def _ties(found: FoundDifference) -> list[str]:
    """Seeds with a difference of 0, which the sign-flip test cannot use."""
    tied = sum(difference == 0 for difference in found.by_seed.values())
    if not tied or not found.tests[0].exact:
        return []
    n, says = len(found.by_seed), "is tied and says" if tied == 1 else "are tied and say"
    return [f"{tied} of {n} seeds {says} nothing: the smallest possible p is that of {n - tied} seeds."]


def _disagreement(found: FoundDifference, verdict: ContrastVerdict, p_holm: float, family: int) -> list[str]:
    """The interval is of one arm alone and by another method than the test: the two may differ."""
    estimate, p = found.difference, found.tests[0].p
    if verdict == "cannot be tested" or not estimate.has_width:
        return []
    leaves_out, clear = not estimate.lo <= 0 <= estimate.hi, verdict != "no clear difference"
    if leaves_out == clear:
        return []
    if clear:
        return [
            f"The interval holds 0, but the test tells the difference from 0: p = {p:.3g}. The verdict is the test's."
        ]
    if p > ALPHA:
        return [f"The interval leaves out 0, but the test does not: p = {p:.3g}. The verdict is the test's."]
    return [
        f"The interval leaves out 0, but is of this arm alone. The verdict counts all {family} arms: p = {p:.3g}, and "
        f"{p_holm:.3g} after Holm."
    ]


def _no_test(test: TestOfDifference, unit: str) -> str:
    if unit == "seed":
        return (
            f"{test.name} cannot come below p = {test.floor:.3g} with {test.n} seeds, whatever the effect: not a test. "
            "It takes 6 paired seeds that differ for 0.05."
        )
    return f"{test.name} cannot come below p = {test.floor:.3g}: too few {unit}s differ to test anything."


def _other_splits(arm: Arm) -> list[str]:
    others = [split for split in arm.splits if split != arm.split]
    return [f"Split {arm.split}; there are also {', '.join(others)} (--split)."] if others else []


def _steps(arms: Sequence[Arm]) -> list[str]:
    last = sorted({last for arm in arms for _, last in arm.steps.values()})
    return [f"The runs end at different steps: {', '.join(map(str, last))}."] if len(last) > 1 else []


SHARES = re.compile(r"success|pass@\d+|area|area:success")


def contrast_chart(result: ArmComparison) -> str:
    share = SHARES.fullmatch(result.metric) is not None
    where = f", {result.split}" if result.split else ""
    unit = f"{result.metric}{where}, %" if share else f"{result.metric}{where}"
    found = {row.arm: row for row in result.comparisons}
    rows: list[EffectRow] = []
    for arm in result.arms:
        detail = f"{len(arm.seeds)} runs · {arm.tasks} tasks" if len(arm.seeds) > 1 else f"one run · {arm.tasks} tasks"
        row = EffectRow(arm.name, detail, arm.estimate, tuple(arm.by_seed.values()))
        if arm.name in found:
            against = found[arm.name]
            row = row._replace(
                difference=against.difference,
                seed_differences=tuple(against.by_seed.values()),
                verdict=f"Holm p {against.p_holm:.2g} · {against.verdict}",
            )
        rows.append(row)
    return standalone(effect_plot(f"{result.metric} of {len(rows)} arms", unit, rows, 100 if share else 1))
