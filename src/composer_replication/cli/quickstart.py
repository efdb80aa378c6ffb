"""`recompose quickstart`"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from composer_replication.config import Config, load_quickstart_config, quickstart_config
from composer_replication.errors import UsageError
from composer_replication.pipeline import run_pipeline
from composer_replication.runs import Run
from composer_replication.stages.training import check_own_channels

from .common import Json, working_on
from .result import show_result


def quickstart(
    *,
    run: Annotated[Path | None, Parameter(help="Run directory; by default runs/quickstart-MODEL-SEED.")] = None,
    model: Annotated[str | None, Parameter(help="tiny (the default), smollm2, a folder or a hub id.")] = None,
    seed: Annotated[int | None, Parameter(help="Everything random depends on it; 0 by default.")] = None,
    config: Annotated[Path | None, Parameter(help="TOML file with settings, instead of model and seed.")] = None,
    json: Json = False,
) -> None:
    """Warm up a policy, collect its traces beside a real session file, and run every stage up to the report.

    Started again, it resumes after the last finished stage.
    """
    from composer_replication.evaluation.summary import conclude

    if config and (model is not None or seed is not None):
        raise UsageError("--config already says which model and seed", "put both in the file")
    if model is not None and not model.strip():
        raise UsageError("--model has no name", "recompose quickstart --model tiny")
    if seed is not None and seed < 0:
        raise UsageError("a seed is not negative", "recompose quickstart --seed 0")
    settings: Config = load_quickstart_config(config) if config else quickstart_config(model or "tiny", seed or 0)
    check_own_channels(settings)
    name = Path(settings.model.name).name
    folder = run or Path("runs") / f"quickstart-{name}-{settings.seed}"
    is_new = not (folder / "config.json").exists()
    started = Run.start(folder, settings)
    with working_on(started) as progress:
        try:
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
