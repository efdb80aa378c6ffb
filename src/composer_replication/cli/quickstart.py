"""`recompose quickstart`"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from composer_replication.config import Config, load_quickstart_config, quickstart_config
from composer_replication.errors import UsageError
from composer_replication.pipeline import run_pipeline
from composer_replication.runs import Run
from composer_replication.stages.training import check_own_channels

from .common import Json, working_on
from .result import show_result

TASKS = "tasks"


def quickstart(
    *,
    run: Annotated[Path | None, Parameter(help="Run directory; by default runs/quickstart-MODEL-SEED.")] = None,
    environment: Annotated[
        Literal["toolbox", "code"], Parameter(help="Where the policy acts; code: tasks of a small repository.")
    ] = "toolbox",
    model: Annotated[str | None, Parameter(help="tiny (the default), smollm2 (of code), a folder or a hub id.")] = None,
    seed: Annotated[int | None, Parameter(help="Everything random depends on it; 0 by default.")] = None,
    config: Annotated[Path | None, Parameter(help="TOML file with settings, instead of model and seed.")] = None,
    json: Json = False,
) -> None:
    """Warm up a policy, collect its traces beside a real session file, and run every stage up to the report.

    On code there is no warm-up and no session file: tasks are made first, and a small model plays them as it is.
    Started again, it resumes after the last finished stage.
    """
    from composer_replication.evaluation.summary import conclude

    if config and (model is not None or seed is not None or environment != "toolbox"):
        raise UsageError("--config already says which model, seed and environment", "put them in the file")
    if model is not None and not model.strip():
        raise UsageError("--model has no name", "recompose quickstart --model tiny")
    if seed is not None and seed < 0:
        raise UsageError("a seed is not negative", "recompose quickstart --seed 0")
    if environment == "code":
        folder, settings = _on_code(run, model, seed or 0)
    else:
        settings = load_quickstart_config(config) if config else quickstart_config(model or "tiny", seed or 0)
        folder = run or _folder(settings.model.name, settings.seed)
    check_own_channels(settings)
    is_new = not (folder / "config.json").exists()
    started = Run.start(folder, settings)
    with working_on(started) as progress:
        try:
            if environment == "code":
                from composer_replication.environments.code.quickstart import make_sample_tasks

                make_sample_tasks(folder / TASKS, progress)
            run_pipeline(started, progress)
        except UsageError:
            if is_new:
                started.discard_if_empty()
            raise
    result = conclude(started)
    if json:
        print(json_module.dumps(result))
    else:
        show_result(result)


def _on_code(run: Path | None, model: str | None, seed: int) -> tuple[Path, Config]:
    """A model that is not there is refused before minutes go into making tasks."""
    from composer_replication.environments.code.quickstart import MODEL, code_quickstart_config
    from composer_replication.training.models.loading import smollm2_folder

    name = model or MODEL
    if name == MODEL and not smollm2_folder().exists():
        raise UsageError("SmolLM2 is not in the cache", "recompose model fetch smollm2")
    folder = run or _folder(f"code-{Path(name).name}", seed)
    return folder, code_quickstart_config(name, seed, folder / TASKS)


def _folder(name: str, seed: int) -> Path:
    return Path("runs") / f"quickstart-{Path(name).name}-{seed}"
