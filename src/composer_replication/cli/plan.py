"""`recompose plan --model NAME --gpus N --traces PATH`"""

from __future__ import annotations

import json as json_module
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from composer_replication.config import Config, load_config
from composer_replication.environments.opening import open_environment
from composer_replication.errors import UsageError
from composer_replication.pipeline import run_stage
from composer_replication.progress import Silent
from composer_replication.runs import Run
from composer_replication.stages.held_out import held_out_of
from composer_replication.stages.ingestion import rollout_tokens

from .common import Json, quiet_libraries
from .plan_report import show
from .replay import estimate_replay

if TYPE_CHECKING:
    from composer_replication.training.planning.layouts import Link
    from composer_replication.training.planning.plan import Machine


def plan(
    *,
    model: Annotated[str | None, Parameter(help="Hub id, folder or embedded model; else that of the settings.")] = None,
    config: Annotated[Path | None, Parameter(help="TOML file with settings, as of a recipe.")] = None,
    traces: Annotated[Path | None, Parameter(help="A run folder, or session files as `ingest` reads them.")] = None,
    gpus: Annotated[int, Parameter(help="Of each site; 0 plans for CPU cores.")] = 1,
    cpus: Annotated[int, Parameter(help="Processes of one core each, with --gpus 0.")] = 1,
    gpu: Annotated[str, Parameter(help="Whose measured costs are taken.")] = "h200",
    sites: Annotated[int, Parameter(help="Places with as many GPUs each, joined by a slow line.")] = 1,
    sync_every: Annotated[int, Parameter(help="DiLoCo: steps between two synchronisations.")] = 10,
    line_gbit: Annotated[float, Parameter(help="Gbit/s of that line, which is assumed and not measured.")] = 1.0,
    costs: Annotated[Path | None, Parameter(help="Costs of your own machine, by benchmarks/plan.py.")] = None,
    json: Json = False,
) -> None:
    """Foresee a training: memory per process, seconds per step, dollars of teachers, wall clock and bytes on the wire.

    Costs are fitted to runs that were measured. Layouts that were not run are labelled `modelled`. Nothing is loaded,
    asked or written; teachers are those of the settings, or the default roster where these are simulated.
    """
    if gpus < 0 or cpus < 1 or sites < 1 or sync_every < 1 or line_gbit <= 0:
        raise UsageError("a plan needs whole numbers above 0 (--gpus 0 means CPU cores)", "recompose plan --help")
    quiet_libraries()
    from composer_replication.training.planning.costs import costs_of

    known = costs_of(gpu if gpus else "cpu", costs)
    with _opened(traces, _settings(traces, config, model)) as run:
        found = _layouts(run, list(_machines(gpus, cpus, sites, sync_every, line_gbit)), known)
        teachers = _teachers(run) if run.stage("sites").is_done else None
    result = {
        "model": run.config.model.name,
        **found,
        "teachers": teachers,
        "costs": {"hardware": known.device, "date": known.date, "command": known.command, "held_out": known.held_out,
                  "fitted": known.fitted, "assumed": list(known.assumed)},
        "not_counted": ["loading", "slow environments", "ingest, evaluate and the other stages", "failures"],
    }  # fmt: skip
    if json:
        print(json_module.dumps(result))
    else:
        show(result)


def _settings(traces: Path | None, config: Path | None, model: str | None) -> Config:
    is_run = traces is not None and (traces / "config.json").exists()
    settings = load_config(config) if config else Run.open(traces).config if traces and is_run else Config()
    changes = {"name": model} if model else {}
    return settings.model_copy(update={"model": settings.model.model_copy(update=changes)})


@contextmanager
def _opened(traces: Path | None, settings: Config) -> Generator[Run]:
    """A run that is there, under these settings, or a passing one that has read the sessions and found their sites."""
    if traces and (traces / "config.json").exists():
        yield Run(traces, settings)
        return
    if traces and not traces.exists():
        raise UsageError(f"there is no {traces}", "give a run folder, a session file or a folder of them")
    reading = {"paths": (str(traces.resolve()),) if traces else (), "rollouts": 0, "embedded_session": False}
    passing = settings.model_copy(update={"ingestion": settings.ingestion.model_copy(update=reading)})
    with tempfile.TemporaryDirectory() as folder:
        run = Run.start(Path(folder) / "run", passing)
        for noun in ("ingestion", "sites") if traces else ():
            run_stage(run, noun, Silent())
        yield run


def _machines(gpus: int, cpus: int, sites: int, sync_every: int, line_gbit: float) -> Iterator[tuple[Machine, Link]]:
    """What these processes can do: one group over all sites, or with several sites also a replica in each."""
    from composer_replication.training.planning.layouts import LOCAL, Link
    from composer_replication.training.planning.plan import Machine

    each = gpus or cpus
    for is_sharded in (False, True):
        if each * sites > 1:
            yield Machine(each * sites, is_sharded, gpus > 0), Link(sites, 0, line_gbit) if sites > 1 else LOCAL
        elif not is_sharded:
            yield Machine(1, False, gpus > 0), LOCAL
        if sites > 1 and (each > 1 or not is_sharded):
            yield Machine(each, is_sharded, gpus > 0), Link(sites, sync_every, line_gbit)


def _layouts(run: Run, machines: list[tuple[Machine, Link]], known: Any) -> dict[str, Any]:
    from composer_replication.training.planning.plan import TrainingPlan

    with open_environment(run.config) as environment:
        planned = TrainingPlan(run, environment, rollout_tokens(run), held_out_of(run))
        if planned.shape is None:
            raise UsageError(
                f"the size of {run.config.model.name} is not known here",
                "give the folder of its config.json as --model",
            )
        layouts = [planned.layout(machine, known, link) for machine, link in machines]
    told = planned.rollouts()
    return {"parameters": planned.shape.parameters, "steps": run.config.training.steps, **told, "layouts": layouts}


def _teachers(run: Run) -> dict[str, Any]:
    replay = run.config.replay.model_copy(update={"simulated": False})
    try:
        found, expected = estimate_replay(
            Run(run.path, run.config.model_copy(update={"replay": replay})), (), False, False
        )
    except UsageError as error:
        return {"refused": str(error)}
    return {
        "teachers": [one.teacher for one in found],
        "calls": sum(one.calls for one in found),
        "expected_usd": round(sum(one.expected_micros for one in found) / 1e6, 4),
        "at_most_usd": round(sum(one.worst_micros for one in found) / 1e6, 4),
        "pairs": expected.pairs if expected else None,
    }
