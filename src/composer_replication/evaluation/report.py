"""One self-contained page about one run. Reads `ReportData`, writes HTML text; no scripts, nothing is loaded.

All text from traces is untrusted: the template escapes it, and so do the charts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from composer_replication.records import Record

from .charts import line_chart, percent, points, smoothing_window, ticks
from .stats import Estimate, Said, no_interval

SIMULATED_NOTE = "Rows marked “simulated” come from built-in stand-ins, not from real teacher models."
LABELS = {"policy": "Channel 1 · GRPO", "sdpo": "Channel 2 · SDPO", "replay": "Channel 3 · TR-DPO"}
FEWEST_TURNS = 30
"""Before and after: rates per 100 turns of fewer would look like a change."""
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
    before: Said
    after: Said
    difference: Said
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
    environment: str
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
    environment.filters.update(percent=percent, points=points, duration=duration)
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
        charts=_charts(data),
        place=_place,
        percent=percent,
        points=points,
        no_interval=no_interval,
        gains=_gains(data.comparisons),
        errors=_error_rates(data),
        simulated=simulated,
        window=smoothing_window(len(data.losses)),
        channels=_panels(data),
        fewest_turns=FEWEST_TURNS,
    )


def verdict(difference: Estimate) -> str:
    """What the interval allows to say, in one word the reader cannot take for more."""
    if difference.is_too_few:
        return no_interval(difference.n)
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


def _place(value: float, lo: float, hi: float) -> str:
    """Where a value stands between two others, in percent."""
    return f"{100 * (value - lo) / (hi - lo):.2f}"


def _gains(rows: Sequence[ComparisonRow]) -> tuple[float, float]:
    """Ends of the scale of differences: round, and with 0 between them."""
    lows, highs = ([getattr(row.difference, end) for row in rows] for end in ("lo", "hi"))
    marks = ticks(min([0.0, *lows]), max([0.0, *highs]), 4)
    return marks[0], marks[-1]


def _charts(data: ReportData) -> dict[str, Markup]:
    drawn = {
        f"loss_{name}": line_chart(label, [(p.step, p.losses.get(name)) for p in data.losses], _style(name))
        for name, label in _channels(data).items()
    }
    drawn["reward"] = line_chart(REWARD, [(p.step, p.reward) for p in data.losses], "reward")
    return {name: Markup(svg) for name, svg in drawn.items()}


def _style(channel: str) -> str:
    return channel if channel in LABELS else "own"


def _panels(data: ReportData) -> list[tuple[str, str]]:
    rewarded = any(point.reward is not None for point in data.losses)
    return [*((f"loss_{name}", label) for name, label in _channels(data).items()), *[("reward", REWARD)] * rewarded]


def _channels(data: ReportData) -> dict[str, str]:
    """Those that had a loss: of the three of the recipe, and then any other by the name that it gives itself."""
    had = {name for point in data.losses for name in point.losses}
    names = dict.fromkeys([*LABELS, *(name for point in data.losses for name in point.losses)])
    labels = {name: LABELS.get(name, f"Channel {number} · {name}") for number, name in enumerate(names, 1)}
    return {name: f"{label} loss" for name, label in labels.items() if name in had}


def _error_rates(data: ReportData) -> list[tuple[str, float, float]]:
    """Kind, and how often per 100 turns before and after; the commonest first."""
    before, after = data.error_kinds_before, data.error_kinds_after
    kinds = sorted({*before, *after}, key=lambda kind: (-before.get(kind, 0), -after.get(kind, 0), kind))
    turns = max(data.turns_before, 1), max(data.turns_after, 1)
    return [(kind, 100 * before.get(kind, 0) / turns[0], 100 * after.get(kind, 0) / turns[1]) for kind in kinds]
