"""What every verb shares: working on a stage of a run under its lock, and telling the result."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from composer_replication.config import Config
from composer_replication.errors import UsageError, quoted
from composer_replication.pipeline import run_stage
from composer_replication.progress import Progress
from composer_replication.runs import NEW_RUN, Run

from .arguments import Json, RunFolder, Set, Workers
from .examples import ending
from .progress import open_progress

__all__ = [
    "Json", "RunFolder", "Set", "Workers", "begun", "micros_of_cap", "quiet_libraries", "refuse_missing_run",
    "run_one_stage", "say_at_once", "tell", "working_on",
]  # fmt: skip
MOST_KINDS = 5


def refuse_missing_run(run: Path) -> None:
    """For verbs that a run without any session has, too."""
    if not run.exists():
        raise UsageError(f"{run} does not exist", f"recompose train {quoted(run)} --config FILE, or {NEW_RUN}")


@contextmanager
def begun(folder: Path, settings: Config, is_dry: bool = False) -> Generator[Run]:
    """A new run that cannot begin leaves nothing behind, so that mended settings are not another config."""
    is_new = not is_dry and not (folder / "config.json").exists()
    run = Run.start(folder, settings, is_dry=is_dry)
    try:
        yield run
    except UsageError:
        if is_new:
            run.discard_if_empty()
        raise


@contextmanager
def working_on(run: Run) -> Generator[Progress]:
    """The run's lock and a progress display, with the libraries' own chatter turned off."""
    quiet_libraries()
    with run.lock(), closing(open_progress()) as progress:
        yield progress


def run_one_stage(path: Path, noun: str, as_json: bool, **choices: Any) -> None:
    run = Run.open(path)
    with working_on(run) as progress:
        run_stage(run, noun, progress, **choices)
    tell(noun, run, as_json)


def tell(noun: str, run: Run, as_json: bool, more: Mapping[str, Any] | None = None) -> None:
    counts = {**run.stage(noun).counts, **(more or {})}
    if as_json:
        print(json.dumps({"run": str(run.path), "stage": noun, **counts}))
        return
    print(f"{noun} of {run.path}")
    for name, value in counts.items():
        if name == "skipped" and noun == "ingestion":
            _tell_skipped(value)
        elif value is not None:
            print(f"  {name:<14} {_plain(value)}")
    print("\n".join(ending(run, noun)))


def micros_of_cap(max_usd: float | None) -> int | None:
    if max_usd is not None and not 0 <= max_usd <= 1e9:
        raise UsageError(f"--max-usd {max_usd} is not an amount of dollars", "write it like --max-usd 5")
    return None if max_usd is None else int(max_usd * 1_000_000 + 1e-6)


def say_at_once(what: str, as_json: bool) -> None:
    """Before seconds of imports and of counting."""
    if not as_json:
        print(what, file=sys.stderr, flush=True)


def quiet_libraries() -> None:
    """Progress bars and advice of the libraries would tear our own display."""
    defaults = {
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "TRL_EXPERIMENTAL_SILENCE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    warnings.filterwarnings("ignore", module=r"(torch|transformers|trl|accelerate|datasets)\b")


def _tell_skipped(counts: Mapping[str, int]) -> None:
    """Files and sessions, which explain the number of traces, apart from lines within them."""
    from composer_replication.ingestion.inputs import is_whole_file

    without_trace = {reason: count for reason, count in counts.items() if is_whole_file(reason)}
    if without_trace:
        print(f"  {'left_out':<14} {_plain(without_trace)} (files and sessions that gave no trace)")
    lines = {reason: count for reason, count in counts.items() if reason not in without_trace}
    print(f"  {'skipped':<14} {_largest(lines)}")


def _largest(counts: Mapping[str, int]) -> str:
    """Sessions of several agents hold dozens of kinds of lines that are no turns."""
    shown = dict(Counter(counts).most_common(MOST_KINDS))
    if len(shown) == len(counts):
        return _plain(counts)
    rest = f"{len(counts) - len(shown)} more kinds, {sum(counts.values()) - sum(shown.values())} in all"
    return f"{_plain(shown)} and {rest}: --json lists them"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {number}" for key, number in value.items()) or "none"
    if isinstance(value, list):
        return str(len(value))
    return str(value)
