"""The model card of a trained policy: what happened, by the records of the run, not what was planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from composer_replication import __version__
from composer_replication.config import Config
from composer_replication.objective import ChannelSettings, GrpoSettings, SdpoSettings, TrdpoSettings
from composer_replication.records import TeacherReply
from composer_replication.runs import Run, write_atomically
from composer_replication.training.backends import lost_by
from composer_replication.training.stored.records import TrainingStep, told_without_advantage

from .compare import TaskOutcome, compare
from .sessions import TurnMeasure, changes, conclusion
from .stats import Estimate

DILOCO_LOST = (
    "each replica trained alone between two meetings, and the optimiser's state was never averaged",
    "a window whose meeting failed is thrown away; `lost` counts those that this replica saw",
)
LICENCES = {"tiny": "mit", "smollm2": "apache-2.0", "qwen2.5-coder-1.5b": "apache-2.0"}
SEEDS_DIFFER = (
    "The same seed gives other numbers on another kind of machine or with other versions, "
    "because floating-point sums are added in another order."
)
COLUMNS = ("", "before", "after", "difference [95 %]", "n")


def write_card(run: Run) -> None:
    """Beside the weights; again whenever more was measured."""
    write_atomically(run.path / "training" / "model" / "README.md", model_card(run))


def model_card(run: Run) -> str:
    trained, steps = run.stage("training").counts, run.stage("training").read(TrainingStep)
    config, name = run.config, _shown(run.config.model.name)
    on_hub = name == config.model.name and "/" in name
    sections = [
        f"Starting model: {_start(run, name)}.",
        _training(config, trained, steps),
        f"Learnt from: {_data(trained)}.",
        f"Teachers: {_teachers(run)}.",
        *_habits(trained),
        *_machine(run, trained),
        f"## Measured\n\n{_measured(run)}",
        *_limits(f"--backend {trained['backend']}", lost_by(trained["backend"])),
        *_limits("--diloco", DILOCO_LOST if "diloco" in trained else ()),
        f"Config hash: `{config.hash}`. The raw records of every stage lie in the run directory.",
        "The model is a demonstration of the method, not an assistant.",
    ]
    return f"""---
library_name: transformers
tags: [grpo, sdpo, dpo, tool-calling, composer-replication]
license: {LICENCES.get(config.model.name, "other")}
{f"base_model: {name}" if on_hub else "# no base_model: the start is no model of the hub"}
---
# A policy trained with composer-replication {__version__}

{chr(10).join(f"{section}{chr(10)}" for section in sections)}"""


def _shown(model: str) -> str:
    """A hub id or a short name as it is; of a folder its last part, because the rest is about one machine."""
    return Path(model).name if Path(model).is_absolute() or Path(model).exists() else model


def _start(run: Run, name: str) -> str:
    start = run.stage("policy").counts if run.stage("policy").is_done else {}
    if not start:
        return f"`{name}`"
    warmed = f", after {start['warmup_steps']} steps of warm-up" if start.get("warmup_steps") else ""
    return f"`{name}`, {start['parameters']:,} parameters{warmed} (weights sha256 `{start['weights_sha256'][:16]}…`)"


def _training(config: Config, trained: Mapping[str, Any], steps: Sequence[TrainingStep]) -> str:
    active = [entry for entry in config.channels if entry.weight and not _is_idle(entry, trained, steps)]
    terms = [entry.label if entry.weight == 1 else f"{entry.weight} · {entry.label}" for entry in active]
    planned = config.training.steps
    done = f"{len(steps)} steps" if len(steps) >= planned else f"{len(steps)} of {planned} planned steps"
    played = any(step.reward is not None for step in steps)
    where = f"in the {trained.get('environment') or config.environment.name} environment" if played else (
        "on stored traces alone"
    )  # fmt: skip
    idle = told_without_advantage(steps, config.channel(GrpoSettings))
    return f"Trained for {done} with {' + '.join(terms)} {where}, seed {config.seed}.{f' {idle}' if idle else ''}"


def _is_idle(entry: ChannelSettings, trained: Mapping[str, Any], steps: Sequence[TrainingStep]) -> bool:
    """It had nothing to learn from, in any step."""
    if isinstance(entry, SdpoSettings):
        return not any(step.channels.get("sdpo") for step in steps)
    return isinstance(entry, TrdpoSettings) and not trained["pairs"]


def _data(trained: Mapping[str, Any]) -> str:
    sources = ", ".join(f"{number} of {agent}" for agent, number in sorted(trained.get("sources", {}).items()))
    held_out = trained.get("held_out_sessions", 0)
    return (
        f"{trained['stored_traces']} stored traces{f' ({sources})' if sources else ''} with {trained['hinted_sites']} "
        f"hinted turns and {trained['pairs']} pairs" + (f"; {held_out} sessions were held out" if held_out else "")
    )


def _teachers(run: Run) -> str:
    answered: Counter[tuple[str, bool]] = Counter()
    if run.stage("replay").is_done:
        replies = run.stage("replay").stream(TeacherReply)
        answered.update((reply.teacher, reply.simulated) for reply in replies if reply.outcome == "answered")
    if not answered:
        return "none answered"
    listed = ", ".join(f"`{name}` {number} answers" for (name, _), number in sorted(answered.items()))
    simulated = all(simulated for _, simulated in answered)
    return f"*simulated teachers*, noisy oracles of the environment: {listed}" if simulated else listed


def _habits(trained: Mapping[str, Any]) -> Iterator[str]:
    if found := trained.get("degenerate"):
        yield _listed("Trained with `--anyway` on degenerate data:", (habit["sentence"] for habit in found))


def _machine(run: Run, trained: Mapping[str, Any]) -> Iterator[str]:
    if machine := trained.get("machine"):
        versions = ", ".join(f"{name} {machine[name]}" for name in ("torch", "transformers", "trl") if name in machine)
        commit = run.origin.get("commit")
        ours = f"commit `{commit}`, " if commit else ""
        yield f"Made on {machine['device']}, {machine['system']}, with {ours}{versions}. {SEEDS_DIFFER}"


def _measured(run: Run) -> str:
    found: list[str] = []
    if run.stage("evaluation").is_done:
        counts = run.stage("evaluation").counts
        rows = compare(run.stage("evaluation").read(TaskOutcome), counts.get("labels", {}))
        place = counts.get("environment") or run.config.environment.name
        table = _table((row.label, row.before, row.after, row.difference) for row in rows)
        found.append(f"Held-out success in the {place} environment, on tasks that no training saw:\n\n{table}")
    if run.stage("sessions").is_done:
        rows, _ = changes(run.stage("sessions").read(TurnMeasure))
        table = _table((row.measure, row.before, row.after, row.difference) for row in rows)
        number = run.stage("sessions").counts["sessions"]
        found.append(f"On turns of {number} held-out sessions, n of them in a row ({conclusion(rows)}):\n\n{table}")
    return "\n\n".join(found) or "Nothing yet: `recompose evaluate RUN` writes its numbers here."


def _table(rows: Iterable[tuple[str, Estimate, Estimate, Estimate]]) -> str:
    lines = [COLUMNS, ("---",) * len(COLUMNS)] + [
        (label, f"{before.mean:.3f}", f"{after.mean:.3f}", by.told(), str(by.n)) for label, before, after, by in rows
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _limits(option: str, lost: Sequence[str]) -> Iterator[str]:
    if lost:
        yield _listed(f"What `{option}` cannot do:", lost)


def _listed(title: str, sentences: Iterable[str]) -> str:
    return f"{title}\n\n" + "\n".join(f"- {sentence}" for sentence in sentences)
