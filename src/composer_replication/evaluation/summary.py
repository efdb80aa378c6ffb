"""A finished run in one JSON object and one page."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from composer_replication import __version__
from composer_replication.environments.protocol import FEWEST_TO_TELL
from composer_replication.objective import GrpoSettings
from composer_replication.records import ErrorSite, Hint, PreferencePair, Trace, render_action
from composer_replication.runs import Run, write_atomically
from composer_replication.training.stored.records import (
    Alarm,
    TrainingStep,
    steps_without_advantage,
    told_without_advantage,
)

from .compare import TaskOutcome, compare, error_kinds, repositories_of, rows_left_out
from .model_card import SEEDS_DIFFER
from .report import Example, FunnelRow, LossPoint, ReportData, render_report
from .stats import said

EXAMPLES = 4


def summarise(run: Run) -> dict[str, Any]:
    """What `--json` prints. Estimates are {mean, lo, hi, n}, the ends null where too few tasks were measured; losses
    are means over the last quarter of the steps."""
    counts = defaultdict(dict[str, Any], {stage.noun: stage.counts for stage in run.done_stages()})
    outcomes = run.stage("evaluation").read(TaskOutcome)
    comparisons = compare(outcomes, counts["evaluation"].get("labels", {}))
    steps = run.stage("training").read(TrainingStep)
    headline = comparisons[0]
    return {
        "environment": _environment(run),
        "traces": counts["ingestion"].get("traces", 0),
        "sites": counts["sites"].get("sites", 0),
        "hints": counts["hints"].get("hints", 0),
        "replies": counts["replay"].get("replies", 0),
        "simulated_teachers": counts["replay"].get("simulated", False),
        "pairs": counts["pairs"].get("pairs", 0),
        "steps": counts["training"]["steps"],
        "steps_without_advantage": steps_without_advantage(steps, run.config.channel(GrpoSettings)),
        "split": headline.split,
        "split_names": {row.split: row.label for row in comparisons},
        "success_before": said(headline.before),
        "success_after": said(headline.after),
        "difference": said(headline.difference),
        "other_splits": {c.split: c.model_dump(include={"before", "after", "difference"}) for c in comparisons[1:]},
        "rows_left_out": rows_left_out(outcomes),
        "repositories": repositories_of(outcomes),
        "losses": {name: late_mean(steps, name) for name in ("policy", *channel_names(steps))},
        "spent_micros": counts["replay"].get("spent_micros", 0),
        "seconds": round(sum(_seconds(run).values()), 1),
        "config_hash": run.config.hash,
        "version": __version__,
        "seed": run.config.seed,
        "model": run.config.model.name,
        "run": str(run.path),
        "report": str(run.path / "report.html"),
    }


def told_rows_left_out(rows: int) -> list[str]:
    """One sentence, where there are any."""
    few = f"fewer than {FEWEST_TO_TELL} tasks, or the same tasks as another row"
    return [f"Labels of tasks without a row of their own: {rows} ({few})."] if rows else []


def told_repositories(number: int) -> list[str]:
    """What the interval of the headline is about, where its tasks are of several repositories."""
    if number < 2:
        return []
    if number < FEWEST_TO_TELL:
        return [f"Tasks of {number} repositories, too few to draw: the difference's interval is about these alone."]
    return [f"Tasks of one repository are alike: whole ones of the {number} are drawn for the difference's interval."]


def conclude(run: Run) -> dict[str, Any]:
    """The summary of a finished run, whose report exists afterwards even if it was lost."""
    if not (run.path / "report.html").exists():
        write_report(run)
    return summarise(run)


def write_report(run: Run) -> None:
    """`report.html` and the numbers behind it in `report.json`, in the run directory."""
    write_atomically(run.path / "report.html", render_report(report_data(run)))
    write_atomically(run.path / "report.json", json.dumps(summarise(run), indent=2) + "\n")


def late_mean(steps: Sequence[TrainingStep], channel: str) -> float | None:
    late = steps[-max(1, len(steps) // 4) :]
    values = [value for value in (losses_of(step).get(channel) for step in late) if value is not None]
    return sum(values) / len(values) if values else None


def losses_of(step: TrainingStep) -> dict[str, float]:
    return {"policy": step.policy, **step.channels}


def channel_names(steps: Sequence[TrainingStep]) -> list[str]:
    """Of the added channels, in the order in which they first had a loss."""
    return list(dict.fromkeys(name for step in steps for name in step.channels))


def report_data(run: Run) -> ReportData:
    config = run.config
    outcomes = run.stage("evaluation").read(TaskOutcome)
    headline = outcomes[0].split
    before, turns_before = error_kinds(outcomes, headline, "before")
    after, turns_after = error_kinds(outcomes, headline, "after")
    return ReportData(
        title="From agent traces to a trained, measured policy",
        environment=_environment(run),
        config_hash=config.hash,
        seed=config.seed,
        model_name=config.model.name,
        funnel=_funnel(run),
        losses=[
            LossPoint(step=s.step, losses=losses_of(s), reward=s.reward)
            for s in run.stage("training").read(TrainingStep)
        ],
        error_kinds_before=before,
        error_kinds_after=after,
        turns_before=turns_before,
        turns_after=turns_after,
        comparisons=compare(outcomes, run.stage("evaluation").counts.get("labels", {})),
        examples=_examples(run),
        skipped=_skipped(run),
        spent_micros=_counts(run, "replay").get("spent_micros", 0),
        stage_seconds=_seconds(run),
        notes=[
            *_notes(run),
            *told_repositories(repositories_of(outcomes)),
            *told_rows_left_out(rows_left_out(outcomes)),
        ],
    )


def _counts(run: Run, noun: str) -> dict[str, Any]:
    """Empty for a stage that this run did without."""
    stage = run.stage(noun)
    return stage.counts if stage.is_done else {}


def _funnel(run: Run) -> list[FunnelRow]:
    ingestion, sites, hints, replay, pairs, training = (
        _counts(run, noun) for noun in ("ingestion", "sites", "hints", "replay", "pairs", "training")
    )
    simulated = replay.get("simulated", False)
    rows = [
        FunnelRow(
            label="traces",
            count=ingestion.get("traces", 0),
            note=f"{ingestion.get('rollouts', 0)} rollouts of the policy, {ingestion.get('files', 0)} session files",
        ),
        FunnelRow(label="error sites", count=sites.get("sites", 0), note=_listed(sites.get("kinds", {}))),
        FunnelRow(label="hints", count=hints.get("hints", 0), note=_listed(hints.get("layers", {}))),
        FunnelRow(
            label="replies",
            count=replay.get("replies", 0),
            note=f"at {replay.get('states', 0)} states; {_listed(replay.get('outcomes', {}))}",
            simulated=simulated,
        ),
        FunnelRow(
            label="pairs", count=pairs.get("pairs", 0), note=_listed(pairs.get("verdicts", {})), simulated=simulated
        ),
        FunnelRow(
            label="steps",
            count=training["steps"],
            note=f"with {training.get('rollout_sites', 0)} hinted turns of rollouts, and {training['hinted_sites']} "
            f"hinted turns and {training['pairs']} pairs of stored traces",
        ),
    ]
    return rows if ingestion.get("traces") else rows[-1:]


def _examples(run: Run) -> list[Example]:
    """Sites that got both a hint and a pair, one per error kind."""
    if not run.stage("pairs").is_done:
        return []
    traces = {trace.trace_id: trace for trace in run.stage("ingestion").read(Trace)}
    hints = {hint.site_id: hint for hint in run.stage("hints").read(Hint)}
    pairs = {(pair.trace_id, pair.turn): pair for pair in run.stage("pairs").read(PreferencePair)}
    examples: dict[str, Example] = {}
    for site in run.stage("sites").read(ErrorSite):
        pair, hint = pairs.get((site.trace_id, site.turn)), hints.get(site.site_id)
        if pair and hint and site.error_kind not in examples:
            state = traces[site.trace_id].state(site.turn)
            request = next((m["content"] for m in state["messages"] if m["role"] == "user"), "")
            examples[site.error_kind] = Example(
                task=request,
                turn_before=state["student_action"],
                error=f"{site.error_kind}: {site.error_message}",
                hint=hint.text,
                chosen=render_action(pair.chosen),
            )
    return list(examples.values())[:EXAMPLES]


def _skipped(run: Run) -> dict[str, int]:
    ingestion = _counts(run, "ingestion")
    skipped: dict[str, int] = {f"ingestion: {name}": count for name, count in ingestion.get("skipped", {}).items()}
    skipped["ingestion: quarantined"] = sum(ingestion.get("quarantined", {}).values())
    skipped |= {f"hints: {name}": count for name, count in _counts(run, "hints").get("dropped", {}).items()}
    skipped |= {f"training: {name}": count for name, count in _counts(run, "training").get("skipped", {}).items()}
    return {name.replace("_", " "): count for name, count in skipped.items() if count}


def _seconds(run: Run) -> dict[str, float]:
    return {stage.noun: stage.require().get("seconds", 0.0) for stage in run.done_stages()}


def _listed(counts: dict[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in ordered)


def _environment(run: Run) -> str:
    """That it was measured in."""
    return run.stage("evaluation").counts.get("environment") or run.config.environment.name


def _notes(run: Run) -> list[str]:
    notes = [f"Measured in the environment {_environment(run)}, on tasks that no training saw."]
    trained = run.stage("training").counts
    if planned := trained.get("checkpoint_of_steps"):
        notes.append(f"Measured after step {trained['steps']} of {planned}, at a checkpoint.")
    notes += [f"Trained anyway on degenerate data: {habit['sentence']}." for habit in trained.get("degenerate", ())]
    if idle := told_without_advantage(run.stage("training").read(TrainingStep), run.config.channel(GrpoSettings)):
        notes.append(idle)
    alarms = run.path / "training" / "alarms.jsonl"
    told = alarms.read_text(encoding="utf-8").splitlines() if alarms.exists() else []
    notes += [f"Alarm in step {one.step} of training: {one.sentence}." for one in map(Alarm.model_validate_json, told)]
    if machine := trained.get("machine"):
        notes.append(f"Seed {run.config.seed} on {machine['device']}, torch {machine['torch']}. {SEEDS_DIFFER}")
    if _counts(run, "replay").get("simulated"):
        notes.append("Teachers are simulated: noisy oracles of the environment behind a loopback server.")
    if _counts(run, "policy").get("warmup_steps"):
        notes += [
            "“Before” is the warmed-up policy: what the warm-up taught is not counted as gain.",
            "The warm-up imitates noisy old logs (stale tool names, quoted integers, missing braces), and one turn in "
            "five follows a hint. Training removes some of these habits: the error chart shows which, the harder "
            "splits show what it does not teach.",
        ]
    return [
        *notes,
        "Errors are counted per turn. A policy whose episodes last longer has more turns in which to repeat an error.",
    ]
