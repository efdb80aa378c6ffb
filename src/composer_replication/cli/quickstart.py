"""`recompose quickstart`"""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from composer_replication.config import Config, load_config, quickstart_config
from composer_replication.pipeline import run_pipeline
from composer_replication.runs import Run

from .common import Json, working_on
from .result import show_result


def quickstart(
    *,
    run: Annotated[Path | None, Parameter(help="Run directory; by default runs/quickstart-MODEL-SEED.")] = None,
    model: Annotated[str, Parameter(help="tiny, smollm2, a folder or a hub id.")] = "tiny",
    seed: Annotated[int, Parameter(help="Everything random depends on it.")] = 0,
    config: Annotated[Path | None, Parameter(help="TOML file with settings, instead of model and seed.")] = None,
    json: Json = False,
) -> None:
    """Warm up a policy, collect its traces beside a real session file, and run every stage up to the report.

    Started again, it resumes after the last finished stage.
    """
    from composer_replication.evaluation.summary import summarise

    settings: Config = load_config(config) if config else quickstart_config(model, seed)
    name = Path(settings.model.name).name
    started = Run.start(run or Path("runs") / f"quickstart-{name}-{settings.seed}", settings)
    with working_on(started) as progress:
        run_pipeline(started, progress)
    result = summarise(started)
    if json:
        print(json_module.dumps(result))
    else:
        show_result(result)
