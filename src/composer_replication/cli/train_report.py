"""The plan of a training, for people."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from rich.console import Console
from rich.table import Table

from composer_replication.environments.protocol import FEWEST_TO_TELL
from composer_replication.stages.session_turns import TimeForeseen

from .plan_report import clock, rounded

NOUNS = ("states", "sites", "pairs")
TOLD_LENGTHS = (2048, 8192, 32768)


def show_plan(plan: dict[str, Any], habits: Sequence[str] = ()) -> None:
    """What is trained, time, memory, doubts, and what fits. `habits` are sentences about degenerate data."""
    console = Console(highlight=False, soft_wrap=True)
    own = plan["at_max_tokens"]
    console.print(f"{plan['run']}: {_steps(plan)}", markup=False)
    if plan["funnel"]:
        console.print(_funnel(plan["funnel"], own), markup=False)
    if said := [f"{section}.{key}={value}" for section, values in plan["set"].items() for key, value in values.items()]:
        console.print(f"Set: {', '.join(said)}", markup=False)
    if plan["time"]:
        is_bound = bool(plan["rollout_tokens"] and plan["rollout_tokens"]["at_most"])
        console.print(told_time(plan["time"], is_bound, plan["threads"]))
        if plan["load"]:
            console.print(told_load(**plan["load"]))
    if plan["measured_time"]:
        console.print(_told_measured(plan["measured_time"]))
    if plan.get("sessions_time"):
        console.print(told_sessions_time(plan["sessions_time"]), markup=False)
    _show_memory(console, plan["memory"], plays=plan["rollout_tokens"] is not None)
    if plan["refused"]:
        console.print(f"`recompose train` refuses these settings: {plan['refused']}", markup=False)
    for sentence in habits:
        console.print(f"`recompose train` stops without --anyway: {sentence}", markup=False)
    for sentence in plan["doubts"]:
        console.print(f"Doubtful: {sentence}.", markup=False)
    most = plan["max_positions"] or max(row["max_tokens"] for row in plan["contexts"])
    lengths = {row["max_tokens"]: row for row in plan["contexts"] if row["max_tokens"] <= most}
    rows = sorted({**lengths, own["max_tokens"]: own}.values(), key=itemgetter("max_tokens"))
    console.print(_contexts(rows, own["max_tokens"], plan["finished"]))
    console.print(
        "fit: short enough. windowed: short enough in a window, with long results cut in the middle and the oldest "
        "turns dropped. use: what this training takes. *: training.max_tokens of this run. Tokens of stored rollouts "
        f"are measured; other traces: {plan['token_counts']}."
    )
    console.print(_usable_sites(rows, own["max_tokens"]))
    console.print(f"Why the rest cannot be used at {own['max_tokens']:,} tokens: {_reasons(own)}.")


def _funnel(counts: dict[str, Any], own: dict[str, Any]) -> str:
    held_out, trained = counts["held_out"], counts["traces"] - counts["held_out"]
    too_few = (
        f" Below {FEWEST_TO_TELL} held-out sessions that measurement cannot tell anything: "
        "add sessions, or raise evaluation.held_out_sessions."
    )
    share = f"{held_out / counts['traces']:.0%}, drawn one by one at {counts['held_out_share']:g}" if held_out else "0%"
    return (
        f"{counts['traces']:,} traces = {held_out:,} held out for `evaluate --on sessions` ({share}) + {trained:,} for "
        f"training; {counts['with_sites']:,} of these {trained:,} have sites: {counts['sites']:,} sites → "
        f"{counts['hinted']:,} hinted → {own['sites']['trainable']:,} usable at {own['max_tokens']:,} tokens."
        + too_few
        * (held_out < FEWEST_TO_TELL)
    )


def _usable_sites(rows: list[dict[str, Any]], own: int) -> str:
    """Of the sites that have a hint."""
    found = {row["max_tokens"]: row["sites"] for row in rows if row["max_tokens"] in (*TOLD_LENGTHS, own)}
    hinted = {length: sites["n"] - sites["why_not"].get("no_hint", 0) for length, sites in found.items()}
    if not all(hinted.values()):
        return "Usable sites: none has a hint yet."
    shares = ", ".join(f"{found[length]['trainable'] / hinted[length]:.0%} at {length:,}" for length in found)
    return f"Usable sites, of those with a hint: {shares} tokens."


def _steps(plan: dict[str, Any]) -> str:
    lengths = plan["rollout_tokens"]
    tokens = f"{'at most' if lengths and lengths['at_most'] else 'about'} {plan['tokens_per_step']:,} tokens per step"
    if lengths is None:
        traces = plan["settings"]["training"]["traces_per_step"]
        return f"{plan['steps']} steps of up to {traces} stored traces, {tokens}; no rollouts"
    return (
        f"{plan['steps']} steps of {plan['rollouts_per_step']} rollouts, {tokens} (longest rollout "
        f"{lengths['longest']:,}; {lengths['source']}), {plan['processes']} process(es) in {plan['accumulation']} "
        "micro-step(s)"
    )


def told_time(layout: dict[str, Any], is_bound: bool, threads: int | None) -> str:
    """In one line; `recompose plan` says more. `is_bound`: every turn is taken to be at its limit. `threads`: of a
    training on a CPU."""
    parts = " + ".join(rounded(layout[part]) for part in ("sampling_s", "training_s", "wire_s"))
    return (
        f"Time: {'at most ' * is_bound}about {rounded(layout['step_s']['mean'])} s a step on {layout['hardware']} "
        f"(sampling + training + wire: {parts}; {layout['status']}), {clock(layout['wall_clock_s'])} for all steps."
        + " That is with every turn at its limit; shorter ones take less, and the first step tells the time left."
        * is_bound
        + " What the environment itself takes is not counted." * bool(layout["sampling_s"])
        + f" Here training runs on {threads} threads, and its first step tells the pace of this machine."
        * bool(threads)
    )


def told_sessions_time(foreseen: TimeForeseen) -> str:
    turns, written, kept = foreseen["turns"], foreseen["written"], foreseen["passes_kept"]
    return (
        f"Time of `evaluate --on sessions`: about {clock(foreseen['reading_s'])} on {foreseen['hardware']} until "
        f"{turns - written} turns are read before and after training, then at most {clock(foreseen['writing_s'])} "
        f"until {written} are written."
        + f" {kept} of {2 * turns} passes are kept, and not counted in this." * bool(kept)
        + f"\n{foreseen['too_few']}" * bool(foreseen["too_few"])
    )


def told_load(processes: float, cores: int, times_as_long: float, what: str = "a step") -> str:
    return (
        f"This machine is busy: {processes} processes on {cores} cores. "
        f"Beside them {what} may take about {times_as_long} times as long."
    )


def _told_measured(measured: dict[str, Any]) -> str:
    return (
        f"Measured in this run: {rounded(measured['step_s'])} s a step over {measured['steps']} steps, all in; "
        f"{clock(measured['left_s'])} left at that pace."
    )


def _show_memory(console: Console, memory: dict[str, Any] | None, plays: bool) -> None:
    if memory is None:
        console.print("Memory: unknown, because the model's config is not on this machine.")
        return
    by_phase: dict[str, list[str]] = {}
    for part in memory["parts"]:
        by_phase.setdefault(part["when"], []).append(f"{part['part']} {part['mib']:,.0f}")
    console.print(
        f"Memory: peak {memory['peak_mib']:,.1f} MiB on each device, without the libraries, for "
        f"{memory['parameters'] / 1e6:,.1f} M parameters: "
        + "; ".join(f"{phase}: {', '.join(parts)}" for phase, parts in by_phase.items())
        + ". Activations are estimates."
    )
    for name, stage in memory["stages"].items():
        if plays and stage["rollouts_at_once"]:
            console.print(
                f"{name}: {stage['peak_mib']:,.1f} MiB with {stage['rollouts_at_once']:,} rollouts at once; where half "
                "of the free memory does not hold their keys and values, fewer are played at a time."
            )
    activations = memory["activations_mib"]
    console.print(
        f"Activations: {activations['plain']:,.1f} MiB without checkpointing, {activations['checkpointed']:,.1f} with."
    )


def _contexts(rows: list[dict[str, Any]], own: int, finished: list[str]) -> Table:
    table = Table(title="what fits, by context length")
    table.add_column("tokens", justify="right")
    for noun in NOUNS:
        table.add_column(f"{noun}: fit / windowed / use")
    for row in rows:
        tokens = f"{row['max_tokens']:,}{'*' if row['max_tokens'] == own else ' '}"
        table.add_row(tokens, *(_cell(row[noun], noun in finished) for noun in NOUNS))
    return table


def _cell(shares: dict[str, Any], is_finished: bool) -> str:
    if not shares["n"]:
        return "none" if is_finished else "none yet"
    return " / ".join(f"{shares[key] / shares['n']:.0%}" for key in ("fit", "fit_windowed", "trainable"))


def _reasons(row: dict[str, Any]) -> str:
    said = "; ".join(
        f"{noun}: " + ", ".join(f"{reason} {count:,}" for reason, count in row[noun]["why_not"].items())
        for noun in NOUNS
        if row[noun]["why_not"]
    )
    return said or "all can"
