"""One self-contained page about one run. Reads `ReportData`, writes HTML text; no scripts, nothing is loaded.

All text from traces is untrusted: the template escapes it, and so do the charts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from composer_replication.records import Record

from .charts import (
    Bar,
    BarPair,
    Contrast,
    bar_chart,
    contrast_plot,
    line_chart,
    paired_bar_chart,
    percent,
    points,
    smoothing_window,
)
from .stats import Estimate

SIMULATED_NOTE = "Rows marked “simulated” come from built-in stand-ins, not from real teacher models."
LABELS = {"policy": "Channel 1 · GRPO", "sdpo": "Channel 2 · SDPO", "replay": "Channel 3 · TR-DPO"}
REWARD = "Reward · mean over rollouts"


class FunnelRow(Record):
    """How many records one stage made. `simulated` shows a mark beside the count."""

    label: str
    count: int
    note: str = ""
    simulated: bool = False


class LossPoint(Record):
    """Loss of each channel and mean reward at one training step; a channel that was off has none."""

    step: int
    losses: Mapping[str, float] = {}
    reward: float | None = None


class ComparisonRow(Record):
    """Success on one split, on the same tasks before and after."""

    split: str
    label: str
    before: Estimate
    after: Estimate
    difference: Estimate
    headline: bool = False


class Example(Record):
    """An error site: what was done, what came back, the hint spliced before the turn, the action the vote chose."""

    task: str
    turn_before: str
    error: str
    hint: str
    chosen: str


class ReportData(Record):
    title: str
    config_hash: str
    seed: int
    model_name: str
    funnel: Sequence[FunnelRow]
    losses: Sequence[LossPoint]
    error_kinds_before: Mapping[str, int]
    error_kinds_after: Mapping[str, int]
    turns_before: int
    turns_after: int
    comparisons: Sequence[ComparisonRow]
    examples: Sequence[Example]
    skipped: Mapping[str, int]
    """Records that a stage quarantined or left out, by reason."""
    spent_micros: int
    stage_seconds: Mapping[str, float]
    notes: Sequence[str]


def render_report(data: ReportData) -> str:
    """The whole page as text, ready to be written to one file."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(percent=percent, points=points)
    template = environment.from_string(
        files("composer_replication.evaluation").joinpath("report.html.jinja").read_text(encoding="utf-8")
    )
    headline = next((row for row in data.comparisons if row.headline), next(iter(data.comparisons), None))
    simulated = any(row.simulated for row in data.funnel)
    return template.render(
        data=data,
        headline=headline,
        verdict=verdict(headline.difference) if headline else None,
        dollars=dollars(data.spent_micros),
        total_time=duration(sum(data.stage_seconds.values())),
        notes=[*([SIMULATED_NOTE] if simulated else []), *data.notes],
        charts={name: Markup(svg) for name, svg in _charts(data).items()},
        simulated=simulated,
        window=smoothing_window(len(data.losses)),
        channels=[*((f"loss_{name}", label) for name, label in _channels(data).items()), ("reward", REWARD)],
    )


def verdict(difference: Estimate) -> str:
    """What the interval allows to say, in one word the reader cannot take for more."""
    if difference.lo > 0:
        return "better"
    return "worse" if difference.hi < 0 else "no clear change"


def dollars(micros: int) -> str:
    return f"${micros / 1e6:,.4f}" if 0 < micros < 10_000 else f"${micros / 1e6:,.2f}"


def duration(seconds: float) -> str:
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def _charts(data: ReportData) -> dict[str, str]:
    splits = [
        Contrast(row.label, f"{row.split} · n = {row.difference.n}", row.before, row.after, row.difference)
        for row in data.comparisons
    ]
    funnel = [
        Bar(row.label, row.count, f"{row.count:,}", row.note, "simulated" if row.simulated else "")
        for row in data.funnel
    ]
    seconds = [Bar(stage, value, duration(value)) for stage, value in data.stage_seconds.items()]
    charts = {
        "splits": contrast_plot("Success before and after training, per split", splits) if splits else "",
        "funnel": bar_chart("Records that each stage made", "Records", funnel),
        "errors": paired_bar_chart("Error kinds before and after training", "Per 100 turns", _error_rates(data)),
        "seconds": bar_chart("Time per stage", "Seconds", seconds),
    }
    for name, label in _channels(data).items():
        charts[f"loss_{name}"] = line_chart(label, [(p.step, p.losses.get(name)) for p in data.losses], _style(name))
    charts["reward"] = line_chart(REWARD, [(p.step, p.reward) for p in data.losses], "reward")
    return charts


def _style(channel: str) -> str:
    return channel if channel in LABELS else "own"


def _channels(data: ReportData) -> dict[str, str]:
    """The three of the recipe, whether they were on or off, and then any other by the name that it gives itself."""
    names = dict.fromkeys([*LABELS, *(name for point in data.losses for name in point.losses)])
    return {name: f"{LABELS.get(name, f'Channel {number} · {name}')} loss" for number, name in enumerate(names, 1)}


def _error_rates(data: ReportData) -> list[BarPair]:
    before, after = data.error_kinds_before, data.error_kinds_after
    kinds = sorted({*before, *after}, key=lambda kind: (-before.get(kind, 0), -after.get(kind, 0), kind))
    return [
        BarPair(
            kind,
            100 * before.get(kind, 0) / max(data.turns_before, 1),
            100 * after.get(kind, 0) / max(data.turns_after, 1),
        )
        for kind in kinds
    ]
