"""The card of an exported dataset: where it comes from, what was removed, who voted, what it cost, how sides differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from composer_replication import __version__
from composer_replication.records import Message, PreferencePair, TeacherReply, Trace

from .export import Exported

SHAPES = {
    "trl": "`prompt`, `chosen`, `rejected` as messages with tool calls, `tools` as JSON: TRL's preference format.",
    "kto": "`prompt`, `completion`, `label`, `tools`: TRL's unpaired preference format, two rows per pair.",
    "sft": "`prompt`, `completion` (the chosen turn), `tools`: TRL's prompt-completion format, which trains on the "
    "completion alone.",
    "verl": "`data_source`, `prompt`, `ability`, `reward_model`, `extra_info`: verl's columns. "
    "`ground_truth` is the chosen call in canonical JSON; a reward function has to compare calls with it.",
}

STYLES: dict[str, Callable[[Message], bool]] = {
    "text": lambda side: bool(side["content"].strip()),
    "text_beside_a_call": lambda side: bool(side["content"].strip() and side.get("tool_calls")),
    "no_call": lambda side: not side.get("tool_calls"),
    "several_calls": lambda side: len(side.get("tool_calls", [])) > 1,
}


def dataset_card(
    format: str,
    pairs: Sequence[PreferencePair],
    traces: Iterable[Trace],
    replies: Sequence[TeacherReply],
    verdicts: Mapping[str, int],
    redactions: Mapping[str, int],
    exported: Exported,
) -> str:
    """`redactions` are replacements by kind, as the ingestion stage counted them."""
    used = {pair.trace_id for pair in pairs}
    sources = Counter(
        (trace.source.agent, trace.source.licence or "not stated") for trace in traces if trace.trace_id in used
    )
    licences = {licence for _, licence in sources}
    simulated = any(pair.simulated for pair in pairs)
    teachers = Counter((reply.teacher, reply.family) for reply in replies)
    spent = sum({reply.key: reply.cost_micros for reply in replies}.values())
    off_policy = sum(pair.off_policy for pair in pairs)
    smoothed = sum(pair.precision is not None for pair in pairs)
    per_pair = f"${spent / 1e6 / len(pairs):.6f} per pair" if pairs else "no pair"
    return f"""---
license: {next(iter(licences)).lower() if len(licences) == 1 and "not stated" not in licences else "other"}
tags: [preference, dpo, tool-calling, composer-replication{", simulated" if simulated else ""}]
configs:
- config_name: default
  data_files: train.parquet
---
# Preference pairs from teacher replay

{exported.rows} rows from {len(exported.tokens)} of {len(pairs)} pairs, made by composer-replication {__version__}.
{SHAPES[format]}
Load it with `datasets` 4.7 or newer: messages are stored in its `Json` type.

**Simulated teachers: {"yes: no external model was asked" if simulated else "no"}.**

## Sources

{_table(("agent", "licence", "traces"), [(*source, count) for source, count in sorted(sources.items())])}

## Redaction

{_table(("replaced", "times"), sorted(redactions.items())) if redactions else "Nothing was replaced."}

## Teachers

{_table(("model", "family", "replies"), [(*teacher, count) for teacher, count in sorted(teachers.items())])}

Cost of all replies: ${spent / 1e6:.6f}, {per_pair}.

## Filters

What became of the states that teachers were asked about:

{_table(("outcome", "states"), sorted(verdicts.items()))}

{off_policy} pairs reject a turn of another model than the one in training. {smoothed} carry a measured precision.

{_windows(exported.windowed)}{_malformed(exported.malformed_histories)}
{_table(("left out", "pairs"), sorted(exported.left_out.items())) if exported.left_out else "Every pair was exported."}

## Style

Share of pairs in which a side is of a kind. Where the two differ, a model can learn the kind in place of the action.

{_table(("", "chosen", "rejected"), [_shares(*measured) for measured in style_gap(pairs).items()])}
"""


def style_gap(pairs: Sequence[PreferencePair]) -> dict[str, dict[str, float]]:
    """Share of chosen and of rejected sides of each kind; empty without pairs."""
    if not pairs:
        return {}
    return {
        name: {
            "chosen": sum(is_so(pair.chosen) for pair in pairs) / len(pairs),
            "rejected": sum(is_so(pair.rejected) for pair in pairs) / len(pairs),
        }
        for name, is_so in STYLES.items()
    }


def _shares(name: str, sides: Mapping[str, float]) -> tuple[str, str, str]:
    return name.replace("_", " "), f"{sides['chosen']:.1%}", f"{sides['rejected']:.1%}"


def _malformed(pairs: int) -> str:
    return f"{pairs} prompts show a call as text: its arguments are no JSON object.\n" if pairs else ""


def _windows(pairs: int) -> str:
    if not pairs:
        return "Every prompt is the whole history.\n"
    return f"{pairs} prompts are windows: long results lost their middle, with a mark, or the oldest turns are gone.\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
