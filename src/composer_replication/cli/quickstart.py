"""`recompose quickstart`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from composer_replication.config import Config, load_quickstart_config, quickstart_config
from composer_replication.errors import UsageError
from composer_replication.pipeline import run_pipeline
from composer_replication.settings import with_changes
from composer_replication.stages.training import check_own_channels
from composer_replication.training.planning.missing import refuse_missing

from .common import Json, Set, begun, working_on
from .progress import open_progress
from .result import show_result

CODE_MODEL = "smollm2"


def quickstart(
    *,
    run: Annotated[Path | None, Parameter(help="Run directory; by default runs/quickstart-MODEL-SEED.")] = None,
    model: Annotated[str | None, Parameter(help="tiny (the default), smollm2, a folder or a hub id.")] = None,
    seed: Annotated[int | None, Parameter(help="Everything random depends on it; 0 by default.")] = None,
    environment: Annotated[
        Literal["toolbox", "code"] | None,
        Parameter(help="toolbox (default), or code: tasks of a small repository."),
    ] = None,
    config: Annotated[Path | None, Parameter(help="TOML file with settings, instead of these.")] = None,
    changes: Set = (),
    json: Json = False,
) -> None:
    """Warm up a policy, collect its traces beside a real session file, and run every stage up to the report.

    With --environment code, make certified tasks from a repository that ships with the package, and let SmolLM2 answer
    them. Started again, it resumes after the last finished stage.
    """
    from composer_replication.evaluation.summary import conclude

    if config and not (model is seed is environment is None):
        raise UsageError("--config already says which model, seed and environment", "put them in the file")
    if model is not None and not model.strip():
        raise UsageError("--model has no name", "recompose quickstart --model tiny")
    if seed is not None and seed < 0:
        raise UsageError("a seed is not negative", "recompose quickstart --seed 0")
    if environment == "code":
        folder = run or Path("runs") / f"quickstart-code-{Path(model or CODE_MODEL).name}-{seed or 0}"
        settings = _code_settings(folder, model or CODE_MODEL, seed or 0)
    else:
        settings = load_quickstart_config(config) if config else quickstart_config(model or "tiny", seed or 0)
        folder = run or Path("runs") / f"quickstart-{Path(settings.model.name).name}-{settings.seed}"
    settings = with_changes(settings, changes)
    check_own_channels(settings)
    refuse_missing(settings)
    with begun(folder, settings) as started, working_on(started) as progress:
        run_pipeline(started, progress)
    show_result(conclude(started), json)


def _code_settings(folder: Path, model: str, seed: int) -> Config:
    """Of a run whose tasks lie beside it, made here if they are missing; so is SmolLM2."""
    from composer_replication.environments.code.quickstart import code_quickstart_config, make_sample_tasks
    from composer_replication.training.models.embedded import fetch_model

    if model == "tiny":
        raise UsageError("the tiny model has no words for code", "choose a model: smollm2, a folder or a hub id")
    tasks, progress = folder.with_name(f"{folder.name}-tasks"), open_progress()
    try:
        progress.stage("tasks", "make certified tasks from the repository that ships with the package")
        make_sample_tasks(tasks, progress)
        if model == CODE_MODEL:
            fetch_model(CODE_MODEL, progress.note)
    finally:
        progress.close()
    return code_quickstart_config(model, seed, tasks)
