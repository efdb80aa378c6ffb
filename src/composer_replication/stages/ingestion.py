"""`RUN/ingestion`: session files and the policy's own rollouts become traces."""

from __future__ import annotations

import json
import shutil
import time
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from composer_replication.environments.evidence import EVIDENCE
from composer_replication.environments.opening import open_environment
from composer_replication.errors import UsageError
from composer_replication.ingestion import Ingestion, Inputs, find_inputs
from composer_replication.ingestion.inputs import NEXT_COMMAND, embedded_session
from composer_replication.progress import Progress
from composer_replication.records import Trace
from composer_replication.runs import Run, encoded, read_records, write_atomically, write_records

from .policy import load_own

if TYPE_CHECKING:
    from composer_replication.training.stored.records import TokenizedTrace

ROLLOUT_TOKENS = "ingestion/tokens.jsonl.zst"


def ingest(run: Run, progress: Progress) -> None:
    started, config, stage = time.monotonic(), run.config.ingestion, run.stage("ingestion")
    rollouts = _rollouts(run, progress) if config.rollouts else []
    with ExitStack() as stack:
        paths = [Path(path) for path in config.paths]
        inputs = find_inputs(paths, config.format, config.subagents) if paths else Inputs()
        if config.embedded_session:
            inputs.files.append(stack.enter_context(embedded_session()))
        reading = Ingestion(inputs, config.redact)
        sessions = reading.chunks(stage.path / "shards", progress)
        written = stage.write_lines(chain(sessions, encoded(rollouts)))
    if not written.records:
        shutil.rmtree(stage.path)
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
    stage.seal(written, counts, made_with, started, reading.hashes)


def rollout_tokens(run: Run) -> list[TokenizedTrace]:
    from composer_replication.training.stored.records import TokenizedTrace

    stored = run.path / ROLLOUT_TOKENS
    return list(read_records(stored, TokenizedTrace)) if stored.exists() else []


def _rollouts(run: Run, progress: Progress) -> list[Trace]:
    from composer_replication.training.policy import play

    with open_environment(run.config) as environment:
        traces, rows, evidence = play(load_own(run), run.config, environment, progress)
    write_records(run.path / ROLLOUT_TOKENS, rows)
    if evidence:
        write_records(run.path / EVIDENCE, evidence)
    progress.note(f"{len(traces)} rollouts, {sum((trace.outcome or 0) >= 1 for trace in traces)} solved")
    return traces
