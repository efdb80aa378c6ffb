"""What a selfcheck found, as JSON and as a page that can be pasted into an issue or a recipe's README."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, NamedTuple

from .gap_probe import GapProbe


class Check(NamedTuple):
    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class ResultCard:
    model: str
    machine: dict[str, Any]
    rollouts_per_step: int
    seconds: float
    step_seconds: list[float]
    """The first one includes loading and compiling."""
    peak_mib: float
    estimate_mib: float | None
    steps: int
    rewards: list[float]
    is_finite: bool
    gap: GapProbe
    checks: list[Check]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def median_step_s(self) -> float:
        return median(self.step_seconds[1:] or self.step_seconds)

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "gap": self.gap._asdict(),
            "checks": [check._asdict() for check in self.checks],
            "median_step_s": self.median_step_s,
            "passed": self.passed,
        }

    def as_markdown(self) -> str:
        gap = self.gap
        estimate = f"{self.estimate_mib:,.0f} MiB" if self.estimate_mib else "unknown"
        rows = [
            ("model", self.model),
            *((name.replace("_", " "), str(value)) for name, value in self.machine.items()),
            ("rollouts per step", str(self.rollouts_per_step)),
            ("seconds per step", f"{self.median_step_s:.2f} (median), {self.step_seconds[0]:.2f} (first)"),
            ("peak memory", f"{self.peak_mib:,.0f} MiB; estimate {estimate}"),
            ("rewards", " ".join(f"{reward:.2f}" for reward in self.rewards) or "none: no rollouts"),
            ("error sites", f"{gap.sites} in {gap.rollouts} rollouts"),
            (
                "divergence with the hint",
                f"{gap.hinted_divergence:.4f} mean; without {gap.plain_divergence:.1e} at most",
            ),
            ("turns that the hint disfavours", f"{gap.disfavoured:.0%}"),
            ("nats per token", f"{gap.student_nll:.3f} plain, {gap.hinted_nll:.3f} with the hint"),
            ("seconds in all", f"{self.seconds:.0f}"),
        ]
        lines = ["| selfcheck | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)]
        lines += [
            f"| {'PASS' if check.passed else '**FAIL**'} | {check.name}: {check.detail} |" for check in self.checks
        ]
        return "\n".join(lines) + "\n"
