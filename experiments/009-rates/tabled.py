"""The numbers as a Markdown page. Pure text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from described import LEVELS, SHOWN_STEPS
from measured import HORIZON, ROLLOUTS_PER_STEP

from composer_replication.evaluation.stats import Estimate
from shared.analysis.registered import Tested
from shared.analysis.tabled import points, share, table


def page(tested: Sequence[Tested], described: Mapping[str, Any]) -> str:
    parts = [
        "# 009: the registered numbers",
        f"Written by `rebuild.py`. Intervals are 95 %, over {described['seeds']} seeds.",
        "## Tests",
        table(("", "difference", "number", "points", "two-way", "p", "Holm", "detectable, .05 / first", "told"),
              [_test_row(one) for one in tested]),
        "## Best rates",
        "\n".join(f"- `{kind}`: {_counted(rates)}" for kind, rates in described["best_rates"].items()),
        "## Arms",
        table(("", *(f"step {step}" for step in SHOWN_STEPS), "end", "speed", "pass@8", "errors per turn", "KL"),
               [_level_row(name, level) for name, level in described["levels"].items()]),
        f"## Rollouts to a level, at most {HORIZON * ROLLOUTS_PER_STEP:,}",
        table(("", *(f"{level:g}" for level in LEVELS)),
               [_times_row(name, found) for name, found in described["rollouts_to_level"].items()]),
        "Restricted means, with the seeds that do not get there counted at the horizon.",
        "grpo − sdpo at the best rates: " + ", ".join(
            f"to {level:g} {_rollouts(saved)}" for level, saved in described["rollouts_saved_at_best_rates"].items()
        ),
        "## Besides",
        "\n".join(f"- {line}" for line in _besides(described)),
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _test_row(one: Tested) -> Sequence[str]:
    found = one.difference
    return (
        one.name, found.sides, found.number, points(found.interval), points(found.two_way) if found.two_way else "",
        f"{found.p:.4f}", f"{one.p_holm:.4f}",
        f"{100 * found.detectable:.1f} / {100 * one.detectable_at_first_step:.1f}", one.told,
    )  # fmt: skip


def _level_row(name: str, level: Mapping[str, Any]) -> Sequence[str]:
    at = level["success"]
    return (
        f"`{name}`", *(share(at[step]) if step in at else "" for step in SHOWN_STEPS), share(level["success_at_end"]),
        share(level["speed"]) if level["speed"] else "", share(level["pass@8"]), share(level["errors_per_turn"]),
        share(level["kl_to_start"]),
    )  # fmt: skip


def _times_row(name: str, found: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    cells = [f"{_rollouts(one['restricted_mean'])}, {one['censored']} not there" for one in found]
    return (f"`{name}`", *cells)


def _besides(described: Mapping[str, Any]) -> list[str]:
    sham, starts = described["sham_share_of_h4"], described["starts"]
    ratio = _ratio(sham["share"], sham["interval"]) if sham["interval"] else sham["why"]
    stopped = {name: level["stopped"] for name, level in described["levels"].items() if level["stopped"]}
    return [
        f"Share of H4's difference that sham hints recover: {ratio}",
        *(
            f"{found['sides']}, step 20: {points(found['interval'])}, two-way {points(found['two_way'])}"
            for found in described["dynamic_against_grpo"].values()
        ),
        f"The untrained start: {share(starts['plain'])}",
        *(
            f"… reminded by `{name}`: {share(found['success'])}, {points(found['above_plain']['interval'])} points more"
            for name, found in starts.items()
            if name != "plain"
        ),
        f"Runs set aside, as their start could not be made again: {described['orphans']}",
        f"Runs ended early: {stopped or 'none'}",
    ]


def _rollouts(value: Estimate) -> str:
    return f"{value.mean:,.0f} [{value.lo:,.0f}, {value.hi:,.0f}]".replace("-", "−")


def _ratio(value: float, interval: Sequence[float]) -> str:
    return f"{value:.2f} [{interval[0]:.2f}, {interval[1]:.2f}]".replace("-", "−")


def _counted(rates: Mapping[int, str]) -> str:
    return ", ".join(f"{rate} for {count} of {len(rates)} seeds" for rate, count in Counter(rates.values()).items())
