"""`RUN/ingestion`: session files and the policy's own rollouts become traces."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from composer_replication.environments.evidence import EVIDENCE
from composer_replication.environments.opening import open_environment
from composer_replication.errors import UsageError
from composer_replication.ingestion import Ingestion, Inputs, find_inputs
from composer_replication.ingestion.ingest import FileRead, file_read
from composer_replication.ingestion.inputs import NEXT_COMMAND, embedded_session
from composer_replication.progress import Progress
from composer_replication.records import Trace
from composer_replication.runs import Run, encoded, read_records, write_atomically, write_records
from composer_replication.store import kept_shards, write_shard

from .policy import load_own, model_folder

if TYPE_CHECKING:
    from composer_replication.training.stored.records import TokenizedTrace

ROLLOUT_TOKENS = "ingestion/tokens.jsonl.zst"


def ingest(run: Run, progress: Progress, workers: int | None = None, launcher: str = "local") -> None:
    started, config, stage = time.monotonic(), run.config.ingestion, run.stage("ingestion")
    rollouts = _rollouts(run, progress, workers, launcher) if config.rollouts else []
    with ExitStack() as stack:
        inputs = _inputs(run) if config.paths else Inputs()
        if config.embedded_session:
            inputs.files.append(stack.enter_context(embedded_session()))
        reading, writer = Ingestion(inputs, config.redact, workers), stage.write_shards()
        reading.write(writer, progress)
    if rollouts:
        writer.add(write_shard(writer.scratch / "rollouts.shard", "", encoded(rollouts), None))
    if not reading.totals["traces"] and not rollouts:
        shutil.rmtree(writer.scratch if stage.is_done else stage.path)
        aside = "".join(f"; {item.file}: {item.reason}" for item in reading.quarantined[:3])
        where = ", ".join(config.paths)
        if left_out := reading.skipped["subagent"]:
            told = f"only sessions of subagents in {where} ({left_out}){aside}"
            raise UsageError(told, f"{NEXT_COMMAND} --subagents")
        raise UsageError(f"no turn of a main agent in {where}{aside}", NEXT_COMMAND)
    lines = (json.dumps(vars(item)) + "\n" for item in reading.quarantined)
    write_atomically(stage.path / "quarantine.jsonl", "".join(lines))
    counts = reading.counts()
    counts |= {
        "traces": counts["traces"] + len(rollouts),
        "rollouts": len(rollouts),
        "turns": counts["turns"] + sum(len(trace.turns) for trace in rollouts),
    }
    made_with = [run.stage("policy")] if rollouts else []
    stage.seal(writer.close(), counts, made_with, started, reading.hashes)


def has_grown(run: Run) -> bool:
    """Whether a session file is new, another than the one that was read, or was not read to its end. One that is gone
    changes nothing."""
    stage, config = run.stage("ingestion"), run.config.ingestion
    if stage.shape is None or not config.paths or config.rollouts:
        return False
    known = {(found.name, found.state) for found in _read_before(run)}
    try:
        return any((item.name, item.state) not in known for item in _inputs(run).files)
    except UsageError:
        return False


def _inputs(run: Run) -> Inputs:
    config = run.config.ingestion
    before = list(_read_before(run))
    formats = {(found.name, found.state): found.format for found in before}
    places = {found.name: found.place for found in before}
    paths = [Path(path) for path in config.paths]
    return find_inputs(paths, config.format, config.subagents, formats, places=places)


def _read_before(run: Run) -> Iterator[FileRead]:
    return map(file_read, kept_shards(run.stage("ingestion").path).values())


def rollout_tokens(run: Run) -> list[TokenizedTrace]:
    from composer_replication.training.stored.records import TokenizedTrace

    stored = run.path / ROLLOUT_TOKENS
    return list(read_records(stored, TokenizedTrace)) if stored.exists() else []


def _rollouts(run: Run, progress: Progress, workers: int | None, launcher: str) -> list[Trace]:
    from composer_replication.training.policy import play, tasks_to_play

    with open_environment(run.config) as environment:
        if launcher == "monarch":
            from composer_replication.training.actors import play_in_actors

            tasks, number = tasks_to_play(run.config, environment), workers or os.cpu_count() or 1
            traces, rows, evidence = play_in_actors(run.config, model_folder(run), tasks, number, progress)
        else:
            traces, rows, evidence = play(load_own(run), run.config, environment, progress)
    write_records(run.path / ROLLOUT_TOKENS, rows)
    if evidence:
        write_records(run.path / EVIDENCE, evidence)
    progress.note(f"{len(traces)} rollouts, {sum((trace.outcome or 0) >= 1 for trace in traces)} solved")
    return traces
