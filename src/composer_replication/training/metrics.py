"""What a training run was like, step by step: every log entry on disk, and behaviour counted from its rollouts.

Writes one JSON line per log entry. A run that goes on from a checkpoint forgets the lines after it, so that every step
stands there once. NaN and infinity are strings, because JSON has no number for them.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from transformers import TrainerCallback

from composer_replication.records import ERROR_KINDS, Trace, canonical_json, render_action
from composer_replication.runs import write_atomically
from composer_replication.sites import find_sites

from .lessons.online_sites import Rolled, turn_spans
from .planning.missing import refuse_missing_logger
from .stored.batches import StoredBatches

ReportTo = Literal["none", "trackio", "wandb"]
PROJECT = "composer-replication"
"""How trackers call what all runs are of; a run is called by its folder."""
SUMMARY_KEY = "train_runtime"
"""Only the entry that sums up a whole call of `train` has it."""
ALWAYS_LOGGED_KINDS = ERROR_KINDS[:5]
UNPARSABLE = {"json_decode", "no_action"}
MAX_TOOLS_LOGGED = 12
GRAM_TOKENS = 4


def report_to(where: ReportTo) -> list[str]:
    """The value of `TrainingArguments.report_to`."""
    if where == "none":
        return []
    refuse_missing_logger(where)
    # transformers takes wandb's project from here, that of trackio from its arguments.
    os.environ.setdefault("WANDB_PROJECT", PROJECT)
    return [where]


class StepLines:
    """A file of JSON objects, each with its `step`, that outlives crashes and resumed runs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, step: int) -> list[dict[str, Any]]:
        """Keep what a run that goes on from `step` will not do again: whole lines up to there; none at step 0."""
        kept = [line for line in self.read() if step and line["step"] <= step and SUMMARY_KEY not in line]
        write_atomically(self.path, "".join(map(_json_line, kept)))
        return kept

    def append(self, line: Mapping[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as out:
            out.write(_json_line(line))

    def read(self) -> list[dict[str, Any]]:
        """Every whole line; one that a crash tore is left out."""
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        return [value for value in map(_parsed, lines) if value is not None]


class MetricsFile(TrainerCallback):
    """Appends each log entry of the trainer, with the seconds trained so far and the tokens seen."""

    def __init__(self, path: Path) -> None:
        self._lines = StepLines(path)
        self._started = time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            kept = self._lines.begin(state.global_step)
            self._started = time.monotonic() - (kept[-1]["wall_s"] if kept else 0.0)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if logs and state.is_world_process_zero:
            wall_s = round(time.monotonic() - self._started, 3)
            own = {"step": state.global_step, "wall_s": wall_s, "tokens": state.num_input_tokens_seen}
            self._lines.append({**logs, **own})


class ReadFile(TrainerCallback):
    """Appends which stored traces the added channels read in each step; of several processes, the main one's."""

    def __init__(self, path: Path, batches: StoredBatches) -> None:
        self._lines, self._batches = StepLines(path), batches

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self._lines.begin(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        traces = self._batches.take_traces()
        if state.is_world_process_zero:
            self._lines.append({"step": state.global_step, "traces": traces})


def count_rollouts(rollouts: Sequence[Rolled], end_ids: Collection[int]) -> Counter[str]:
    """Sums that `rollout_metrics` turns into rates; those of several processes may be added first.

    `end_ids` are the tokens that end a turn. Only errors that are the policy's own fault count.
    """
    counts: Counter[str] = Counter(rollouts=len(rollouts))
    actions: set[tuple[tuple[int, ...], str]] = set()
    for rolled in rollouts:
        counts += _behaviour(rolled.trace)
        counts += _token_counts(rolled, end_ids)
        prompt = tuple(rolled.prompt_ids)
        actions |= {(prompt, render_action(rolled.trace.messages[turn.start])) for turn in rolled.trace.turns}
    counts["distinct_actions"] = len(actions)
    return counts


def rollout_metrics(counts: Mapping[str, int]) -> dict[str, float]:
    """Rates of one generation, under `rollout/`. A further error kind or tool that is not there did not occur."""

    def per(part: str, whole: str) -> float:
        return counts.get(part, 0) / max(1, counts.get(whole, 0))

    if not counts.get("rollouts"):
        return {}
    metrics = {
        "turns": per("turns", "rollouts"),
        "tool_calls_per_turn": per("calls", "turns"),
        "clean_calls": per("clean_calls", "rollouts"),
        "error_turns_per_turn": per("error_turns", "turns"),
        "unparsable_share": per("unparsable", "turns"),
        "truncation_rate": per("truncated", "rollouts"),
        "repetition_rate": per("repeated_grams", "grams"),
        "sampled_tokens": per("sampled_tokens", "rollouts"),
        "distinct_action_share": per("distinct_actions", "turns"),
    }
    if counts.get("error_turns"):
        metrics["recovery_rate"] = per("recovered", "error_turns")
    kinds = {*ALWAYS_LOGGED_KINDS, *_names(counts, "error:")}
    metrics |= {f"error_turns_per_turn/{kind}": per(f"error:{kind}", "turns") for kind in kinds}
    tools = _names(counts, "tool:")
    shown = sorted(tools, key=lambda name: (-counts[f"tool:{name}"], name))[:MAX_TOOLS_LOGGED]
    metrics |= {f"tool_share/{name}": per(f"tool:{name}", "calls") for name in shown}
    if len(tools) > len(shown):
        metrics["tool_share/other"] = 1.0 - sum(per(f"tool:{name}", "calls") for name in shown)
    return {f"rollout/{name}": value for name, value in sorted(metrics.items())}


def _behaviour(trace: Trace) -> Counter[str]:
    counts: Counter[str] = Counter(turns=len(trace.turns))
    listed = {tool["function"]["name"] for tool in trace.tools}
    sites = find_sites(trace)
    failed_calls = {(site.turn, site.call_id) for site in sites}
    kinds: dict[int, set[str]] = {}
    for site in sites:
        if site.fault == "policy":
            kinds.setdefault(site.turn, set()).add(site.error_kind)
    counts["unparsable"] = len({site.turn for site in sites if UNPARSABLE & {site.error_kind, site.secondary_kind}})
    for number, turn in enumerate(trace.turns):
        answered = {
            message.get("tool_call_id")
            for message in trace.messages[turn.start : turn.end]
            if message["role"] == "tool"
        }
        for call in trace.messages[turn.start].get("tool_calls", []):
            name = call["function"]["name"]
            counts["calls"] += 1
            counts[f"tool:{name if name in listed or not listed else 'unlisted'}"] += 1
            counts["clean_calls"] += call["id"] in answered and (number, call["id"]) not in failed_calls
        counts["error_turns"] += number in kinds
        counts["recovered"] += number in kinds and number + 1 < len(trace.turns) and number + 1 not in kinds
        counts.update(f"error:{kind}" for kind in kinds.get(number, ()))
    return counts


def _token_counts(rolled: Rolled, end_ids: Collection[int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for start, end in turn_spans(rolled.sampled_mask):
        ids = rolled.completion_ids[start:end]
        grams = list(zip(*(ids[shift:] for shift in range(GRAM_TOKENS)), strict=False))
        counts["grams"] += len(grams)
        counts["repeated_grams"] += len(grams) - len(set(grams))
        counts["sampled_tokens"] += len(ids)
        counts["truncated"] |= ids[-1] not in end_ids
    return counts


def _names(counts: Mapping[str, int], prefix: str) -> list[str]:
    return [key.removeprefix(prefix) for key in counts if key.startswith(prefix)]


def _json_line(line: Mapping[str, Any]) -> str:
    return canonical_json({key: _plain(value) for key, value in line.items()}) + "\n"


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    number = float(value)
    return number if math.isfinite(number) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(number, "NaN")


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "step" in value else None
