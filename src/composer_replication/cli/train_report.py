"""The plan of a training, for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from composer_replication.environments.protocol import FEWEST_TO_TELL

from .plan_report import clock, rounded

NOUNS = ("states", "sites", "pairs")
TOLD_LENGTHS = (2048, 8192, 32768)


def show_plan(plan: dict[str, Any], habits: Sequence[str] = ()) -> None:
    """`habits` are sentences about degenerate data."""
    console = Console(highlight=False)
    own = plan["at_max_tokens"]
    console.print(f"{plan['run']}: {_steps(plan)}")
    if plan["funnel"]:
        console.print(_funnel(plan["funnel"], own))
    if plan["refused"]:
        console.print(f"`recompose train` refuses these settings: {plan['refused']}", markup=False)
    for sentence in habits:
        console.print(f"`recompose train` stops without --anyway: {sentence}", markup=False)
    settings = {**plan["settings"], **{f"channel {channel['name']}": channel for channel in plan["channels"]}}
    for section, values in settings.items():
        console.print(f"[{section}] " + "  ".join(f"{key}={value}" for key, value in values.items()), markup=False)
    _show_memory(console, plan["memory"])
    if plan["time"]:
        console.print(told_time(plan["time"], bool(plan["rollout_tokens"] and plan["rollout_tokens"]["at_most"])))
        if plan["load"]:
            console.print(told_load(**plan["load"]))
    if plan["measured_time"]:
        console.print(_told_measured(plan["measured_time"]))
    if plan.get("sessions_time"):
        console.print(told_sessions_time(**plan["sessions_time"]))
    console.print(f"Tokens of stored rollouts are measured; other traces: {plan['token_counts']}.")
    rows = sorted([*(row for row in plan["contexts"] if row["max_tokens"] != own["max_tokens"]), own], key=_length)
    console.print(_contexts(rows, own["max_tokens"], plan["finished"]))
    console.print(
        "fit: short enough. windowed: short enough in a window, with long results cut in the middle and the oldest "
        "turns dropped. use: what this training takes. *: training.max_tokens of this run."
    )
    console.print(_usable_sites(plan["contexts"]))
    unshown = own["states"]["tools_not_shown"]
    if unshown:
        console.print(f"The chat template does not write tools: at {unshown:,} states the policy would not see them.")
    console.print("Why the rest cannot be used:")
    for row in rows:
        console.print(f"  {_label(row, own['max_tokens']):>8}  {_reasons(row)}", soft_wrap=True)


def _funnel(counts: dict[str, int], own: dict[str, Any]) -> str:
    trained = counts["traces"] - counts["held_out"]
    too_few = (
        f" Below {FEWEST_TO_TELL} held-out sessions that measurement cannot tell anything: "
        "add sessions, or raise evaluation.held_out_sessions."
    )
    return (
        f"{counts['traces']:,} traces = {counts['held_out']:,} held out for `evaluate --on sessions` + {trained:,} for "
        f"training; {counts['with_sites']:,} of these {trained:,} have sites: {counts['sites']:,} sites → "
        f"{counts['hinted']:,} hinted → {own['sites']['trainable']:,} usable at {own['max_tokens']:,} tokens."
        + too_few
        * (counts["held_out"] < FEWEST_TO_TELL)
    )


def _usable_sites(rows: list[dict[str, Any]]) -> str:
    """Of the sites that have a hint."""
    found = {row["max_tokens"]: row["sites"] for row in rows if row["max_tokens"] in TOLD_LENGTHS}
    hinted = {length: sites["n"] - sites["why_not"].get("no_hint", 0) for length, sites in found.items()}
    if not all(hinted.values()):
        return "Usable sites: none has a hint yet."
    shares = ", ".join(f"{found[length]['trainable'] / hinted[length]:.0%} at {length:,}" for length in found)
    return f"Usable sites, of those with a hint: {shares} tokens."


def _steps(plan: dict[str, Any]) -> str:
    lengths = plan["rollout_tokens"]
    tokens = f"{'at most' if lengths and lengths['at_most'] else 'about'} {plan['tokens_per_step']:,} tokens each"
    if lengths is None:
        traces = plan["settings"]["training"]["traces_per_step"]
        return f"{plan['steps']} steps of up to {traces} stored traces, {tokens}; no rollouts"
    return (
        f"{plan['steps']} steps of {plan['rollouts_per_step']} rollouts, {tokens} (longest rollout "
        f"{lengths['longest']:,}; {lengths['source']}), {plan['processes']} process(es) in {plan['accumulation']} "
        "micro-step(s)"
    )


def told_time(layout: dict[str, Any], is_bound: bool) -> str:
    """In one line; `recompose plan` says more. `is_bound`: every turn is taken to be at its limit."""
    parts = " + ".join(rounded(layout[part]) for part in ("sampling_s", "training_s", "wire_s"))
    return (
        f"Time: {'at most ' * is_bound}about {rounded(layout['step_s']['mean'])} s a step on {layout['hardware']} "
        f"(sampling + training + wire: {parts}; {layout['status']}), {clock(layout['wall_clock_s'])} for all steps."
        + " That is with every turn at its limit; shorter ones take less, and the first step tells the time left."
        * is_bound
        + " What the environment itself takes is not counted."
    )


def told_sessions_time(turns: int, written: int, reading_s: float, writing_s: float, hardware: str) -> str:
    return (
        f"Time of `evaluate --on sessions`: about {clock(reading_s)} on {hardware} until {turns - written} turns are "
        f"read before and after training, then at most {clock(writing_s)} until {written} are written."
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


def _length(row: dict[str, Any]) -> int:
    return row["max_tokens"]


def _label(row: dict[str, Any], own: int) -> str:
    return f"{row['max_tokens']:,}{'*' if row['max_tokens'] == own else ' '}"


def _show_memory(console: Console, memory: dict[str, Any] | None) -> None:
    if memory is None:
        console.print("Memory: unknown, because the model's config is not on this machine.")
        return
    table = Table(title=f"memory per device, {memory['parameters'] / 1e6:,.1f} M parameters")
    for heading, side in (("part", "left"), ("MiB", "right"), ("when", "left"), ("", "left")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    for part in memory["parts"]:
        table.add_row(part["part"], f"{part['mib']:,.1f}", part["when"], "estimate" if part["estimate"] else "")
    table.add_row("peak: always + the largest phase", f"{memory['peak_mib']:,.1f}", "", "without the libraries")
    console.print(table)
    for name, stage in memory["stages"].items():
        if stage["rollouts_at_once"]:
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
        table.add_row(_label(row, own), *(_cell(row[noun], noun in finished) for noun in NOUNS))
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
