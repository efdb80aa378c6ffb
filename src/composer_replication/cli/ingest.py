"""`recompose ingest PATH… --run DIR`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from composer_replication.config import Config, IngestionConfig, load_config
from composer_replication.errors import PartialError, UsageError
from composer_replication.ingestion import ingest_paths
from composer_replication.pipeline import run_stage
from composer_replication.runs import Run, StageFolder

from .common import Json, tell, working_on


def ingest(
    *paths: Annotated[Path, Parameter(help="Session files, or folders to walk.")],
    run: Annotated[Path, Parameter(help="Run directory to create or resume.")],
    config: Annotated[Path | None, Parameter(help="TOML file with settings for the whole run.")] = None,
    json: Json = False,
) -> None:
    """Read agent session files into a run. Nothing is written when nothing can be read."""
    settings = load_config(config) if config else Config()
    files = tuple(str(path.resolve()) for path in paths) or settings.ingestion.paths
    settings = settings.model_copy(
        update={"ingestion": IngestionConfig.model_validate({**settings.ingestion.model_dump(), "paths": files})}
    )
    if files and not StageFolder(run / "ingestion").is_done:
        ingest_paths([Path(file) for file in files])
    if not (files or settings.ingestion.embedded_session or settings.ingestion.rollouts):
        raise UsageError("nothing to ingest", "recompose ingest FILE.jsonl --run DIR")
    started = Run.start(run, settings)
    with working_on(started) as progress:
        run_stage(started, "ingestion", progress)
    tell("ingestion", started, json)
    quarantined = started.stage("ingestion").counts["quarantined"]
    if quarantined:
        first = quarantined[0]
        raise PartialError(
            f"{len(quarantined)} items set aside, the first: {first['file']} at byte {first['byte_offset']}, "
            f"{first['reason']}; the rest is saved",
            f"recompose sites {run}",
        )
