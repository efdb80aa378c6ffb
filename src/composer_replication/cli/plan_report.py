"""What `recompose plan` foresees, for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

COLUMNS = (
    "layout", "processes", "GiB each", "step, s", "sampling + training + wire", "all steps", "sent per step",
    "on the line", "per token", "",
)  # fmt: skip
"""What a process sends in a step, what a site sends over a slow line, and what that, or all without one, comes to for
each token that is trained on."""
UNBOUNDED = 1000
MARKS = ("B", "kB", "MB", "GB", "TB", "PB")


def show(plan: dict[str, Any]) -> None:
    console = Console(highlight=False)
    lengths = plan["rollout_tokens"]
    played = f"{plan['rollouts_per_step']} rollouts of {lengths['mean']:,} tokens" if lengths else "stored traces"
    console.print(f"{plan['model']}, {plan['parameters'] / 1e6:,.1f} M parameters: {plan['steps']} steps of {played}")
    if lengths:
        console.print(f"  lengths: {lengths['source']}")
    _show_layouts(console, [_cells(row) for row in plan["layouts"]])
    console.print(_balance(plan["layouts"]))
    console.print(_teachers(plan["teachers"]))
    costs = plan["costs"]
    unseen, seen = costs["held_out"], costs["fitted"]
    console.print(
        f"Costs: {costs['hardware']}, {costs['date']}, {costs['command']}; median error {unseen['median_error']:.0%} "
        f"over {unseen['n']} runs that the fit has not seen, largest {unseen['largest_error']:.0%}; largest "
        f"{seen['largest_error']:.0%} over the {seen['n']} that it was fitted to."
    )
    if costs["assumed"]:
        console.print(f"Assumed and not measured: {', '.join(costs['assumed'])}.")
    console.print(f"Not counted: {', '.join(plan['not_counted'])}.")


def _show_layouts(console: Console, layouts: list[list[str]]) -> None:
    """A table; line by line where it is wider than the terminal, since figures would be cut."""
    table = Table(*COLUMNS)
    for cells in layouts:
        table.add_row(*cells)
    if Measurement.get(console, console.options.update(width=UNBOUNDED), table).maximum <= console.width:
        console.print(table)
        return
    for layout, *cells in layouts:
        console.print(f"  {layout}")
        for title, cell in zip(COLUMNS[1:], cells, strict=True):
            if cell:
                console.print(f"    {title + ': ' if title else ''}{cell}")


def _cells(row: dict[str, Any]) -> list[str]:
    gib, step, wire = row["memory"]["peak_mib"] / 1024, row["step_s"], row["wire"]
    between = ""
    if step["lo"] is not None:
        between = f" ({rounded(step['lo'])} " + ("or more)" if step["hi"] is None else f"to {rounded(step['hi'])})")
    return [
        row["layout"] + (f", {row['sites']} sites" if row["sites"] > 1 else ""),
        str(row["processes"]),
        f"{gib:,.1f}" + ("" if row["memory"]["fits"] else ", too much"),
        f"{rounded(step['mean'])}{between}",
        " + ".join(rounded(row[part]) for part in ("sampling_s", "training_s", "wire_s")),
        clock(row["wall_clock_s"]),
        amount(wire["process_bytes"]),
        amount(wire["line_bytes"]) if row["sites"] > 1 else "",
        amount(wire["line_bytes_per_token" if row["sites"] > 1 else "bytes_per_token"] or 0),
        row["status"],
    ]


def _balance(layouts: list[dict[str, Any]]) -> str:
    first = layouts[0]
    told = f"Balance: {first['sampling_share']:.0%} of a step samples"
    busy = first["sampling_s"] + first["training_s"]
    apart = round(first["processes"] * first["sampling_s"] / busy) if busy else 0
    if first["processes"] > 1 and 0 < apart < first["processes"]:
        told += f"; with samplers of their own, {apart} of {first['processes']} would keep both sides busy (modelled)"
    return told + "."


def _teachers(found: dict[str, Any] | None) -> str:
    if found is None:
        return "Teachers: no --traces, so nobody to ask about."
    if "refused" in found:
        return f"Teachers: {found['refused']}."
    return (
        f"Teachers: {found['calls']:,} calls to {', '.join(found['teachers'])}: ${found['expected_usd']:,.2f} "
        f"expected, ${found['at_most_usd']:,.2f} at most."
    )


def rounded(number: float) -> str:
    """Three digits, and no exponent for a large number."""
    return f"{float(f'{number:.3g}'):,.0f}" if number >= 100 else f"{number:.3g}"


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def amount(size_bytes: float) -> str:
    thousands = 0
    while size_bytes >= 1000 and thousands < len(MARKS) - 1:
        size_bytes, thousands = size_bytes / 1000, thousands + 1
    return f"{size_bytes:.3g} {MARKS[thousands]}"
