"""Outcomes of arms that are to be compared. Reads run folders, JSON lines (also .zst) and folders of either.

One line is one episode: `task_id`, `reward`, and optionally `seed`, `split`, `phase`, `step`, `repository` and any
number that a metric may name. A line without `task_id` is a number of a whole run. A torn last line is left out, any
other bad line is refused. It cannot know what is missing: a crashed episode that was not written is no failure here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import zstandard

from composer_replication.config import Config
from composer_replication.errors import UsageError
from composer_replication.ingestion.reading import InputFile, ReadingReport
from composer_replication.runs import Run

from .compare import PHASES, REPOSITORY, TaskOutcome
from .metrics import Row, mean, task_of, values_by_task

FORMAT = (
    "recompose evaluate --compare A.jsonl B.jsonl with lines such as " + '{"task_id": "t1", "seed": 0, "reward": 1.0}'
)
NO_CLUSTER = "none"
Values = dict[str, dict[str, float]]
Span = tuple[float, float]


class OutcomeChoice(NamedTuple):
    """Which rows count, and what of them. Without a `split`, the first of the first arm; rows may lack a `phase`."""

    metric: str = "success"
    split: str | None = None
    phase: str = "after"
    cluster: str = REPOSITORY


class Arm(NamedTuple):
    """One value per seed and task; tries at one task are averaged, or joined into pass@k."""

    name: str
    values: Values
    clusters: Mapping[str, str]
    split: str | None = None
    splits: tuple[str, ...] = ()
    steps: Mapping[str, Span] = {}
    """First and last step of each seed, where the rows have steps."""
    notes: tuple[str, ...] = ()

    @property
    def seeds(self) -> tuple[str, ...]:
        return tuple(sorted(self.values, key=_natural))

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks of any seed, in order of name."""
        return tuple(sorted({task for tasks in self.values.values() for task in tasks}, key=_natural))

    def by_seed(self) -> dict[str, float]:
        return {seed: mean(list(self.values[seed].values())) for seed in self.seeds}

    def by_task(self) -> dict[str, float]:
        """Each task's mean over the seeds that have it."""
        return {task: mean([tasks[task] for tasks in self.values.values() if task in tasks]) for task in self.tasks}


def read_arms(arguments: Sequence[str], choice: OutcomeChoice) -> list[Arm]:
    """Each argument is PATH or NAME=PATH. Without a name, the arm is called after its file or folder."""
    named = [_named(argument) for argument in arguments]
    labels = _labels(named)
    if len(set(labels)) < len(labels):
        raise UsageError("two arms have the same name", "name them: --compare first=PATH second=PATH")
    runs = [source for _, path in named for source in _sources(path) if source.is_dir()]
    _require_same_tasks(runs)
    arms: list[Arm] = []
    for label, (_, path) in zip(labels, named, strict=True):
        arms.append(read_arm(path, label, choice))
        choice = choice._replace(split=choice.split or arms[0].split)
    _require_same_steps(arms, choice.metric)
    _require_cluster(arms, choice.cluster)
    if told := _played_otherwise(runs):
        arms[0] = arms[0]._replace(notes=(*arms[0].notes, told))
    return arms


def read_phases(argument: str, choice: OutcomeChoice) -> list[Arm]:
    """One arm as two: before and after training, paired as any others."""
    named = _named(argument)
    (label,), path = _labels([named]), named[1]
    if any(row.get("phase") not in PHASES for found in _one_file_per_seed(path, []).values() for row in found):
        raise UsageError(
            f"alone, {label} needs a phase, before or after, in every line, as runs have it",
            "recompose evaluate --compare A B",
        )
    arms = [read_arm(path, f"{label} {phase}", choice._replace(phase=phase)) for phase in PHASES]
    _require_cluster(arms, choice.cluster)
    return arms


def read_arm(path: Path, name: str, choice: OutcomeChoice) -> Arm:
    notes: list[str] = []
    rows = _one_file_per_seed(path, notes)
    splits = tuple(dict.fromkeys(str(row["split"]) for found in rows.values() for row in found if "split" in row))
    split = choice.split or next(iter(splits), None)
    if split is not None and split not in splits:
        there = ", ".join(splits) or "none"
        raise UsageError(f"{path} has no split {split} (there: {there})", "choose a --split that all arms have")
    values: Values = {}
    clusters: dict[str, str] = {}
    steps: dict[str, Span] = {}
    for seed, found in rows.items():
        kept = [row for row in found if _counts(row, split, choice.phase)]
        if not kept:
            wanted = f"of phase {choice.phase}" + (f" in split {split}" if split else "")
            raise UsageError(f"{path}: seed {seed} has no outcomes {wanted}", "choose another --split or --phase")
        span = _span(kept, path)
        values[seed] = values_by_task(kept, choice.metric, path)
        named = ((task_of(row), _cluster(row, choice.cluster)) for row in kept)
        clusters |= {task: str(cluster) for task, cluster in named if cluster is not None}
        if span:
            steps[seed] = span
    if clusters and set(clusters) != {task for tasks in values.values() for task in tasks}:
        way_out = f"write it in every line, or --cluster {NO_CLUSTER}"
        raise UsageError(f"{path}: some tasks have no {choice.cluster}", way_out)
    return Arm(name, values, clusters, split, splits, steps, tuple(notes))


def _cluster(row: Row, field: str) -> Any:
    """Runs have it among the labels of their tasks."""
    labels = row.get("labels")
    return row.get(field, labels.get(field) if isinstance(labels, dict) else None)


def _span(rows: Sequence[Row], path: Path) -> Span | None:
    steps = [row["step"] for row in rows if "step" in row]
    if not steps:
        return None
    if len(steps) < len(rows) or not all(isinstance(step, int | float) for step in steps):
        raise UsageError(f"{path}: some lines have a step that is a number, others do not", "write it in every line")
    return min(steps), max(steps)


def _require_cluster(arms: Sequence[Arm], field: str) -> None:
    """A misspelt one would count tasks that hang together as independent."""
    if field not in (REPOSITORY, NO_CLUSTER) and not any(arm.clusters for arm in arms):
        reason = f"no line has a {field}, so nothing says which tasks hang together"
        raise UsageError(reason, f"choose another --cluster, or --cluster {NO_CLUSTER}")


def _require_same_steps(arms: Sequence[Arm], metric: str) -> None:
    spans = {span for arm in arms for span in arm.steps.values()}
    if metric.startswith("area") and len(spans) > 1:
        ranges = ", ".join(f"{first}–{last}" for first, last in sorted(spans))
        raise UsageError(
            f"the runs cover different steps ({ranges}), so their areas do not compare", "evaluate all alike"
        )


def _require_same_tasks(runs: Sequence[Path]) -> None:
    """An id says nothing of the settings that its task was made with."""
    if other := _first_other(runs, _world):
        run, values = other
        raise UsageError(
            f"{runs[0]} and {run} have other tasks under the same ids ({values})",
            "measure both policies in one environment, see Two checkpoints of your own in docs/comparing.md",
        )


def _played_otherwise(runs: Sequence[Path]) -> str | None:
    other = _first_other(runs, _way_of_playing)
    return other and f"{runs[0]} and {other[0]} play the tasks in two ways ({other[1]}), not only by two policies."


def _first_other(
    runs: Sequence[Path], settings_of: Callable[[Config], Mapping[str, object]]
) -> tuple[Path, str] | None:
    """The first run whose settings are not those of the first run, and a setting that differs."""
    found = [settings_of(Run.open(run).config) for run in runs]
    for run, other in zip(runs[1:], found[1:], strict=True):
        for key in {**found[0], **other}:
            if found[0].get(key) != other.get(key):
                return run, f"{key} {found[0].get(key)} and {other.get(key)}"
    return None


def _world(config: Config) -> dict[str, object]:
    found: dict[str, object] = {"environment.name": config.environment.name}
    if config.environment.name == "toolbox":
        return found | {f"toolbox.{key}": value for key, value in config.toolbox.model_dump(mode="json").items()}
    return found | {"environment.settings": config.environment.settings}


def _way_of_playing(config: Config) -> dict[str, object]:
    """Where the tasks stay the same."""
    chosen = config.environment
    found: dict[str, object] = {
        "training.max_turn_tokens": config.training.max_turn_tokens,
        "model.chat_template_kwargs": config.model.chat_template_kwargs,
    }
    if chosen.name != "code":
        return found
    own = ("tries",) if chosen.answer == "definition" else ("harness", "max_steps")
    return found | {f"environment.{key}": getattr(chosen, key) for key in ("answer", *own, "completion_tokens")}


def _named(argument: str) -> tuple[str | None, Path]:
    name, sign, path = argument.partition("=")
    return (name, Path(path)) if sign and not Path(argument).exists() else (None, Path(argument))


def _labels(named: Sequence[tuple[str | None, Path]]) -> list[str]:
    """As many of the last parts of the paths as it takes to tell them apart."""
    longest = max(len(path.parts) for _, path in named)
    labels: list[str] = []
    for parts in range(1, longest + 1):
        labels = [name or _without_suffix("/".join(path.parts[-parts:]) or str(path)) for name, path in named]
        if len(set(labels)) == len(labels):
            break
    return labels


def _without_suffix(name: str) -> str:
    return re.sub(r"\.jsonl(\.zst)?$", "", name)


def _one_file_per_seed(path: Path, notes: list[str]) -> dict[str, list[Row]]:
    """Rows by seed. A seed that two files of an arm both hold is refused: one of them would count twice."""
    rows: dict[str, list[Row]] = {}
    origin: dict[str, Path] = {}
    for source in _sources(path):
        found: defaultdict[str, list[Row]] = defaultdict(list)
        default = _seed_of(source)
        for row in _rows(source, notes):
            found[default if row.get("seed") is None else str(row["seed"])].append(row)
        for seed, seed_rows in found.items():
            if seed in origin:
                raise UsageError(f"seed {seed} is in {origin[seed]} and in {source}", "keep one file per seed")
            origin[seed], rows[seed] = source, seed_rows
    if not rows:
        raise UsageError(f"no outcomes in {path}", FORMAT)
    return rows


def _sources(path: Path) -> list[Path]:
    if not path.exists():
        raise UsageError(f"{path} does not exist", FORMAT)
    if path.is_file() or (path / "config.json").exists():
        return [path]
    inside = sorted(path.iterdir(), key=lambda item: _natural(item.name))
    return [item for item in inside if (item / "config.json").exists() or re.search(r"\.jsonl(\.zst)?$", item.name)]


def _seed_of(source: Path) -> str:
    """The run's own seed, else the number after `seed` in the file name, else the name."""
    if source.is_dir():
        return str(Run.open(source).config.seed)
    numbered = re.search(r"seed[-_ ]?(\d+)", source.name)
    return str(int(numbered[1])) if numbered else _without_suffix(source.name)


def _rows(source: Path, notes: list[str]) -> Iterator[Row]:
    if source.is_dir():
        for outcome in Run.open(source).stage("evaluation").read(TaskOutcome):
            yield outcome.model_dump()
        return
    lines = _lines(source)
    for number, line in enumerate(lines, start=1):
        try:
            row = orjson.loads(line)
        except ValueError as error:
            if number == len(lines) and not line.endswith(b"\n"):
                notes.append(f"{source}: the torn last line is left out")
                return
            raise UsageError(f"{source}, line {number}, is not JSON", FORMAT) from error
        if not isinstance(row, dict):
            raise UsageError(f"{source}, line {number}, is not an object", FORMAT)
        yield row


def _lines(source: Path) -> list[bytes]:
    try:
        with InputFile(source, ReadingReport()).open() as plain:
            return plain.readlines()
    except zstandard.ZstdError as error:
        raise UsageError(f"{source} is not readable as zstd", FORMAT) from error


def _counts(row: Row, split: str | None, phase: str) -> bool:
    return str(row.get("split", split)) == str(split) and row.get("phase", phase) == phase


def _natural(text: str) -> list[tuple[int, int, str]]:
    """seed 10 after seed 9."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]
