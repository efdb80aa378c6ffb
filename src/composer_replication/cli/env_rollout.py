"""`recompose env rollout TASKS --run RUN`"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from composer_replication.config import (
    Config,
    EnvironmentConfig,
    ModelConfig,
    TrainingConfig,
    WarmupConfig,
    load_config,
)
from composer_replication.errors import UsageError
from composer_replication.records import JsonObject, digest_of
from composer_replication.runs import Run

from .common import Json, begun, micros_of_cap, tell, working_on

if TYPE_CHECKING:
    from composer_replication.environments.code.environment import CodeEnvironment
    from composer_replication.environments.code.episodes.endpoint import EndpointModel, EndpointSettings
    from composer_replication.environments.code.episodes.loop import AgentLimits
    from composer_replication.environments.code.tasks.task import TaskFolder
    from composer_replication.stages.attempts import Planned
    from composer_replication.stages.rollouts import Player


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
    answer: Annotated[
        Literal["agent", "definition"], Parameter(help="Work with tools, or write one code block.")
    ] = "agent",
    harness: Annotated[
        str | None,
        Parameter(help="An agent that plays with the --model: mini-swe-agent, another name, or a command."),
    ] = None,
    harness_runtime: Annotated[
        Path | None, Parameter(help="Folder that it is installed in, such as a virtual environment.")
    ] = None,
    rollouts: Annotated[int, Parameter(help="Attempts at each task.")] = 1,
    limit: Annotated[int | None, Parameter(help="Only the first so many tasks.")] = None,
    concurrency: Annotated[int, Parameter(help="Attempts that act at a time; a GPU writes for more.")] = 2,
    steps: Annotated[int, Parameter(help="Tool calls of one attempt.")] = 60,
    tries: Annotated[int, Parameter(help="Code blocks of one attempt, with --answer definition.")] = 3,
    wall_s: Annotated[float, Parameter(help="Seconds of one attempt.")] = 1800.0,
    max_turn_tokens: Annotated[
        int | None, Parameter(help="Of one turn of the model; 1024, or 4096 of an endpoint.")
    ] = None,
    max_tokens: Annotated[
        int | None,
        Parameter(help="Of all turns of one attempt: 6144, answers included, or 200000 of an endpoint, without them."),
    ] = None,
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
    from composer_replication.environments.code.environment import CodeEnvironment
    from composer_replication.environments.code.episodes.loop import AgentLimits
    from composer_replication.environments.code.tasks.store import read_tasks
    from composer_replication.environments.opening import tell_left_out
    from composer_replication.stages.attempts import planned
    from composer_replication.stages.rollouts import collect, refuse_others

    who = _who(model, endpoint, model_name, scripted)
    if harness and not model:
        raise UsageError("a harness needs a model whose tokens are known", "give --model with --harness")
    max_turn_tokens = max_turn_tokens or (1024 if endpoint is None else 4096)
    max_tokens = max_tokens or (6144 if endpoint is None else AgentLimits().tokens)
    numbers = (rollouts, concurrency, steps, tries, max_turn_tokens, max_tokens, 1 if limit is None else limit)
    if min(numbers) < 1 or wall_s <= 0:
        raise UsageError("numbers of attempts, steps, tokens and seconds are above 0", "recompose env rollout --help")
    found = read_tasks(tasks)[:limit]
    settings: JsonObject = {
        **who,
        "rollouts": rollouts,
        "tasks": _hash_of(found),
        "steps": steps,
        "wall_s": wall_s,
        "max_turn_tokens": max_turn_tokens,
        "max_tokens": max_tokens,
        "temperature": temperature,
        **({"answer": answer, "tries": tries} if answer == "definition" else {}),
        **({"harness": harness} if harness else {}),
    }
    known = EnvironmentConfig(
        name="code",
        tasks=(str(tasks.resolve()),),
        answer=answer,
        harness=harness,
        harness_runtime=str(harness_runtime.resolve()) if harness_runtime else None,
    )
    with begun(run, _config(config, model, known)) as opened:
        stage = opened.stage("ingestion")
        if stage.is_done:
            refuse_others(stage, settings)
            tell("ingestion", opened, json)
            return
        played = {
            "heldout_share": 0.0,
            "tries": tries,
            "max_steps": steps,
            "completion_tokens": max_tokens,
            "concurrency": concurrency,
            "sandbox": backend,
        }
        environment = CodeEnvironment(found, known.model_copy(update=played), wall_s)
        plan = planned([task.task_id for task in environment.tasks("train")], rollouts)
    with working_on(opened) as progress, ExitStack() as stack:
        stack.callback(environment.close)
        if environment.left_out:
            progress.note(f"not asked: {tell_left_out(environment)}")
        limits = _agent_limits(settings)
        if model:
            play = _local(model, environment, plan, opened, settings)
        elif endpoint:
            asked = _endpoint_settings(endpoint, str(model_name), settings, price)
            server = _server(asked, key_variable, max_usd, opened, stack)
            play = _asking(environment, plan, settings, limits, server)
        else:
            play = _asking(environment, plan, settings, limits, str(scripted))
        collect(opened, plan, settings, play, progress)
    tell("ingestion", opened, json)


def _who(model: str | None, endpoint: str | None, model_name: str | None, scripted: str | None) -> JsonObject:
    if sum(given is not None for given in (model, endpoint, scripted)) != 1:
        raise UsageError("who is to play?", "give one of --model, --endpoint with --model-name, --scripted")
    if (endpoint is None) != (model_name is None):
        raise UsageError("an endpoint and the name of a model belong together", "give --endpoint and --model-name")
    return {"model": model, "endpoint": endpoint, "model_name": model_name, "scripted": scripted}


def _config(path: Path | None, model: str | None, environment: EnvironmentConfig) -> Config:
    """Without a file: settings with which the later stages learn from these traces and play nothing new."""
    if path:
        return load_config(path)
    chosen = ModelConfig(name=model) if model else ModelConfig()
    return Config(
        model=chosen, environment=environment, warmup=WarmupConfig(steps=0), training=TrainingConfig(rollouts=False)
    )


def _hash_of(tasks: Sequence[TaskFolder]) -> str:
    known = [task.code_task.task for task in tasks]
    return digest_of([[task.task_id, task.visible_hash, task.hidden_hash] for task in known])


def _agent_limits(settings: JsonObject) -> AgentLimits:
    from composer_replication.environments.code.episodes.loop import AgentLimits
    from composer_replication.environments.code.episodes.session import SessionLimits

    session = SessionLimits(steps=settings["steps"], wall_s=settings["wall_s"])
    return AgentLimits(session, turns=settings["steps"], tokens=settings["max_tokens"])


def _asking(
    environment: CodeEnvironment,
    plan: Sequence[Planned],
    settings: JsonObject,
    limits: AgentLimits,
    who: EndpointModel | str,
) -> Player:
    """A model behind a server, or the script of that name."""
    from composer_replication.environments.code.players import player, scripted_player
    from composer_replication.stages.attempts import run_attempts

    if isinstance(who, str):
        play = scripted_player(environment, who, limits)
    else:
        play = player(environment, lambda _: who, limits)
    concurrency = environment.settings.concurrency
    return lambda folder, progress: run_attempts(
        plan, lambda each, stop: play(each.task_id, each.sample, stop), folder, settings, progress, concurrency
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


def _server(
    asked: EndpointSettings, key_variable: str | None, max_usd: float | None, run: Run, stack: ExitStack
) -> EndpointModel:
    from composer_replication.environments.code.episodes.endpoint import EndpointModel
    from composer_replication.llm.client import Endpoint
    from composer_replication.llm.keys import key_from_environment
    from composer_replication.llm.ledger import Ledger

    cap_micros = micros_of_cap(max_usd)
    asked.check(cap_micros is not None)
    ledger = Ledger(run.path / "ledger.sqlite")
    stack.callback(ledger.close)
    if cap_micros is not None:
        ledger.set_cap(cap_micros)
    server = Endpoint(asked.model, asked.base_url, asked.prices, key_from_environment(key_variable))
    return stack.enter_context(EndpointModel(asked, server, ledger))


def _local(name: str, environment: CodeEnvironment, plan: Sequence[Planned], run: Run, settings: JsonObject) -> Player:
    from composer_replication.stages.rollouts import play_locally
    from composer_replication.training.models.loading import load_policy

    config = run.config
    policy = load_policy(name, environment, config.seed, config.hardware.weights, config.model.chat_template_kwargs)
    return lambda folder, progress: play_locally(run, policy, environment, plan, settings, folder, progress)
