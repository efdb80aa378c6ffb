"""`recompose env rollout TASKS -o RUN`"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from composer_replication.config import Config, ModelConfig, TrainingConfig, WarmupConfig, load_config
from composer_replication.environments.code.tasks.task import TaskFolder
from composer_replication.errors import UsageError
from composer_replication.stages.ingestion import ROLLOUT_TOKENS
from composer_replication.progress import Progress
from composer_replication.records import JsonObject, canonical_json
from composer_replication.runs import Run, StageFolder, write_records

from .common import Json, tell, working_on

if TYPE_CHECKING:
    from composer_replication.environments.code.episodes.endpoint import EndpointSettings
    from composer_replication.environments.code.episodes.loop import AgentLimits
    from composer_replication.environments.code.episodes.rollouts import MakeAttempt, Planned

ATTEMPTS = "attempts"
SETTINGS = "settings"


def rollout(
    tasks: Annotated[Path, Parameter(help="What `recompose env make` wrote, or one task.")],
    /,
    *,
    run: Annotated[Path, Parameter(name=["--run", "-o"], help="Run directory to create or resume.")],
    model: Annotated[str | None, Parameter(help="A local model: `smollm2`, a folder or a hub id.")] = None,
    endpoint: Annotated[str | None, Parameter(help="Base URL of an OpenAI-compatible server, as http://…/v1.")] = None,
    model_name: Annotated[str | None, Parameter(help="The model's name at that server.")] = None,
    scripted: Annotated[
        Literal["gold", "nop"] | None, Parameter(help="No model: solve everything, or nothing.")
    ] = None,
    rollouts: Annotated[int, Parameter(help="Attempts at each task.")] = 1,
    limit: Annotated[int | None, Parameter(help="Only the first so many tasks.")] = None,
    concurrency: Annotated[int, Parameter(help="Attempts at a time.")] = 2,
    steps: Annotated[int, Parameter(help="Tool calls of one attempt.")] = 60,
    wall_s: Annotated[float, Parameter(help="Seconds of one attempt.")] = 1800.0,
    max_turn_tokens: Annotated[int, Parameter(help="Of one turn of the model.")] = 1024,
    max_tokens: Annotated[
        int, Parameter(help="Of all turns of one attempt; of a local model, answers included.")
    ] = 6144,
    temperature: Annotated[float, Parameter(help="Of the model's sampling.")] = 1.0,
    key_variable: Annotated[str | None, Parameter(help="Environment variable that holds the server's key.")] = None,
    price: Annotated[str | None, Parameter(help="IN,OUT: dollars per million tokens; needed off loopback.")] = None,
    max_usd: Annotated[float | None, Parameter(help="Most that the whole run may spend on models.")] = None,
    backend: Annotated[str, Parameter(help="Which sandbox.")] = "auto",
    config: Annotated[Path | None, Parameter(help="TOML file with settings for the whole run.")] = None,
    json: Json = False,
) -> None:
    """Let a model try code tasks, and keep each attempt as a trace, so that `recompose sites RUN` goes on from there.

    Attempts are saved one by one: the same command goes on where it was stopped, and no answer is paid twice.
    """
    from composer_replication.environments.code.episodes.rollouts import (
        counts,
        planned,
        run_attempts,
        stored,
        stored_evidence,
    )
    from composer_replication.environments.code.tasks.store import read_tasks
    from composer_replication.environments.evidence import EVIDENCE

    who = _who(model, endpoint, model_name, scripted)
    if min(rollouts, concurrency, steps, max_turn_tokens, max_tokens, 1 if limit is None else limit) < 1 or wall_s <= 0:
        raise UsageError("numbers of attempts, steps, tokens and seconds are above 0", "recompose env rollout --help")
    found = read_tasks(tasks)[:limit]
    plan = planned(found, rollouts)
    settings: JsonObject = {
        **who,
        "rollouts": rollouts,
        "tasks": _hash_of(found),
        "steps": steps,
        "wall_s": wall_s,
        "max_turn_tokens": max_turn_tokens,
        "max_tokens": max_tokens,
        "temperature": temperature,
    }
    started_at, opened = time.monotonic(), Run.start(run, _config(config, model))
    stage = opened.stage("ingestion")
    if stage.is_done:
        _refuse_others(stage, settings)
        tell("ingestion", opened, json)
        return
    folder = stage.path / ATTEMPTS
    with working_on(opened) as progress:
        progress.stage("ingestion", f"{len(plan)} attempts at {len(found)} tasks")
        with ExitStack() as stack:
            limits = _agent_limits(settings)
            if model:
                _play_locally(model, plan, opened, settings, limits, concurrency, backend, progress)
            elif endpoint:
                asked = _endpoint_settings(endpoint, str(model_name), settings, price)
                attempt = _asking(asked, key_variable, max_usd, opened, limits, backend, stack)
                run_attempts(plan, attempt, folder, settings, progress, concurrency)
            else:
                run_attempts(plan, _scripted(str(scripted), limits, backend), folder, settings, progress, concurrency)
        attempts = list(stored(plan, folder))
        evidence = opened.path / EVIDENCE
        stage.finish(
            (each.trace for each in attempts),
            _told(attempts, counts(attempts), found),
            [],
            started_at,
            {"tasks": settings["tasks"], SETTINGS: _hash(settings)},
            {evidence.name: write_records(evidence, stored_evidence(attempts))},
        )
        shutil.rmtree(folder)
    tell("ingestion", opened, json)


def _told(attempts: Sequence[object], counted: JsonObject, tasks: Sequence[TaskFolder]) -> JsonObject:
    """Counts under the names that `recompose ingest` uses, and those of attempts."""
    return {"traces": len(attempts), "rollouts": len(attempts), "tasks": len(tasks), "quarantined": {}, **counted}


def _who(model: str | None, endpoint: str | None, model_name: str | None, scripted: str | None) -> JsonObject:
    if sum(given is not None for given in (model, endpoint, scripted)) != 1:
        raise UsageError("who is to play?", "give one of --model, --endpoint with --model-name, --scripted")
    if (endpoint is None) != (model_name is None):
        raise UsageError("an endpoint and the name of a model belong together", "give --endpoint and --model-name")
    return {"model": model, "endpoint": endpoint, "model_name": model_name, "scripted": scripted}


def _config(path: Path | None, model: str | None) -> Config:
    """Without a file: settings with which the later stages learn from these traces and do not play the toolbox."""
    if path:
        return load_config(path)
    chosen = ModelConfig(name=model) if model else ModelConfig()
    return Config(model=chosen, warmup=WarmupConfig(steps=0), training=TrainingConfig(rollouts=False))


def _hash_of(tasks: Sequence[TaskFolder]) -> str:
    known = [task.code_task.task for task in tasks]
    named = [[task.task_id, task.visible_hash, task.hidden_hash] for task in known]
    return _hash(named)


def _hash(value: object) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def _refuse_others(stage: StageFolder, settings: JsonObject) -> None:
    """A finished stage is the answer to its own settings only. Of one that noted none, nothing can be said."""
    before = stage.require()["inputs"]
    if before.get(SETTINGS, now := _hash(settings)) != now:
        other = "settings" if before["tasks"] == settings["tasks"] else "tasks"
        raise UsageError(f"{stage.path.parent} holds finished attempts with other {other}", "choose another -o RUN")


def _agent_limits(settings: JsonObject) -> AgentLimits:
    from composer_replication.environments.code.episodes.loop import AgentLimits
    from composer_replication.environments.code.episodes.session import SessionLimits

    session = SessionLimits(steps=settings["steps"], wall_s=settings["wall_s"])
    return AgentLimits(session, turns=settings["steps"], tokens=settings["max_tokens"])


def _scripted(name: str, limits: AgentLimits, backend: str) -> MakeAttempt:
    from composer_replication.environments.code.episodes.loop import attempt_task
    from composer_replication.environments.code.episodes.scripted import SCRIPTED

    return lambda each, stop: attempt_task(
        each.task, SCRIPTED[name](each.task), each.sample, limits, backend, stop=stop
    )


def _endpoint_settings(url: str, name: str, settings: JsonObject, price: str | None) -> EndpointSettings:
    from composer_replication.environments.code.episodes.endpoint import EndpointSettings
    from composer_replication.llm.pricing import Prices

    try:
        prices = Prices(*(round(float(part) * 1e6) for part in price.split(",", 1))) if price else None
        if prices and not all(0 <= micros <= 1e12 for micros in prices):
            raise ValueError
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"--price {price} is no pair of prices", "write it like --price 0.5,1.5") from error
    return EndpointSettings(
        url.rstrip("/"), name, settings["temperature"], settings["max_turn_tokens"], prices=prices
    )  # fmt: skip


def _asking(
    asked: EndpointSettings,
    key_variable: str | None,
    max_usd: float | None,
    run: Run,
    limits: AgentLimits,
    backend: str,
    stack: ExitStack,
) -> MakeAttempt:
    from composer_replication.environments.code.episodes.endpoint import EndpointModel
    from composer_replication.environments.code.episodes.loop import attempt_task
    from composer_replication.llm.client import Endpoint
    from composer_replication.llm.keys import key_from_environment
    from composer_replication.llm.ledger import Ledger

    if max_usd is not None and not 0 <= max_usd <= 1e9:
        raise UsageError(f"--max-usd {max_usd} is not an amount of dollars", "write it like --max-usd 5")
    asked.check(max_usd is not None)
    ledger = Ledger(run.path / "ledger.sqlite")
    stack.callback(ledger.close)
    if max_usd is not None:
        ledger.set_cap(int(max_usd * 1_000_000 + 1e-6))
    server = Endpoint(asked.model, asked.base_url, asked.prices, key_from_environment(key_variable))
    model = stack.enter_context(EndpointModel(asked, server, ledger))
    return lambda each, stop: attempt_task(each.task, model, each.sample, limits, backend, stop=stop)


def _play_locally(
    name: str,
    plan: Sequence[Planned],
    run: Run,
    settings: JsonObject,
    limits: AgentLimits,
    concurrency: int,
    backend: str,
    progress: Progress,
) -> None:
    from composer_replication.training.models.loading import load_policy
    from composer_replication.training.rollouts.code import CodeRolloutSettings
    from composer_replication.training.rollouts.code_attempts import kept_tokens, play_attempts

    chosen = CodeRolloutSettings(
        max_turn_tokens=settings["max_turn_tokens"],
        max_completion_tokens=settings["max_tokens"],
        temperature=settings["temperature"],
        concurrency=concurrency,
        backend=backend,
        session=limits.session,
    )
    folder = run.stage("ingestion").path / ATTEMPTS
    policy = load_policy(name, run.config.toolbox, run.config.seed)
    play_attempts(policy, plan, chosen, folder, settings, progress, run.config.seed)
    write_records(run.path / ROLLOUT_TOKENS, kept_tokens(plan, folder))
