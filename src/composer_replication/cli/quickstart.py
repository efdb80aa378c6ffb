"""`recompose quickstart`"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from composer_replication.config import load_quickstart_config, quickstart_config
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
    them, once `recompose model fetch smollm2` has fetched it. Started again, it resumes after the last finished stage.
    """
    from composer_replication.evaluation.summary import conclude

    if config and not (model is seed is environment is None):
        raise UsageError("--config already says which model, seed and environment", "put them in the file")
    if model is not None and not model.strip():
        raise UsageError("--model has no name", "recompose quickstart --model tiny")
    if seed is not None and seed < 0:
        raise UsageError("a seed is not negative", "recompose quickstart --seed 0")
    tasks = None
    if environment == "code":
        from composer_replication.environments.code.quickstart import code_quickstart_config

        if model == "tiny":
            raise UsageError("the tiny model has no words for code", "choose a model: smollm2, a folder or a hub id")
        folder = run or Path("runs") / f"quickstart-code-{Path(model or CODE_MODEL).name}-{seed or 0}"
        tasks = folder.with_name(f"{folder.name}-tasks")
        settings = code_quickstart_config(model or CODE_MODEL, seed or 0, tasks)
    else:
        settings = load_quickstart_config(config) if config else quickstart_config(model or "tiny", seed or 0)
        folder = run or Path("runs") / f"quickstart-{Path(settings.model.name).name}-{settings.seed}"
    settings = with_changes(settings, changes)
    check_own_channels(settings)
    refuse_missing(settings)
    if tasks:
        _make_tasks(tasks)
    with begun(folder, settings) as started, working_on(started) as progress:
        run_pipeline(started, progress)
    show_result(conclude(started), json)


def _make_tasks(folder: Path) -> None:
    """They lie beside the run; those that are there are not made again."""
    from composer_replication.environments.code.quickstart import make_sample_tasks

    with closing(open_progress()) as progress:
        progress.stage("tasks", "make certified tasks from the repository that ships with the package")
        make_sample_tasks(folder, progress)
