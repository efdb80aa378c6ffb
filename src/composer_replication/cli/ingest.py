"""`recompose ingest PATH… --run DIR`"""

from __future__ import annotations

import json as json_module
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from composer_replication.config import IngestionConfig
from composer_replication.errors import PartialError, UsageError, quoted
from composer_replication.ingestion import TRACE_READERS, find_inputs
from composer_replication.ingestion.inputs import NEXT_COMMAND
from composer_replication.ingestion.reading import is_of_a_line
from composer_replication.ingestion.review import replaced_places
from composer_replication.pipeline import run_stage
from composer_replication.records import Trace
from composer_replication.runs import Run, StageFolder
from composer_replication.settings import load_settings, with_changes

from .common import Json, Set, Workers, begun, quiet_libraries, tell, working_on
from .examples import next_after

CLAUDE_CODE_FOLDER = "~/.claude/projects"
HUB_DATASETS = ("hf:", "datasets")


def ingest(
    *paths: Annotated[Path, Parameter(help="Session files or tables, folders to walk, or hf://datasets/OWNER/NAME.")],
    run: Annotated[Path, Parameter(name=["--run", "-o"], help="Run directory to create or resume.")],
    format: Annotated[str | None, Parameter(help="Format of all files, instead of finding it out from each.")] = None,
    claude_code: Annotated[bool, Parameter(negative="", help=f"Also read {CLAUDE_CODE_FOLDER}.")] = False,
    subagents: Annotated[bool, Parameter(negative="", help="Also read sessions of subagents.")] = False,
    allow_unredacted: Annotated[
        bool, Parameter(negative="", help="Keep secrets, home folders and e-mail addresses as they are.")
    ] = False,
    review: Annotated[
        bool,
        Parameter(negative="", help="List what was replaced, place by place. Without paths: in a run that is there."),
    ] = False,
    workers: Workers = None,
    launcher: Annotated[
        Literal["local", "monarch"],
        Parameter(help="Who plays [ingestion] rollouts: this process, or Monarch's actors."),
    ] = "local",
    config: Annotated[Path | None, Parameter(help="TOML file with settings for the whole run.")] = None,
    changes: Set = (),
    json: Json = False,
) -> None:
    """Read agent session files into a run. Secrets are replaced first. Nothing is written when nothing can be read.

    In a run that is there, only files that are new or have changed are read; those that are gone keep their traces.
    Its settings are then those that it has, and --config and paths may be left out.
    """
    if review and not (paths or claude_code or config or changes):
        _tell_places(Run.open(run), json)
        return
    is_new = not (run / "config.json").exists()
    settings = load_settings(config, changes) if config or is_new else with_changes(Run.open(run).config, changes)
    if not all(map(_is_utf8, paths)):
        raise UsageError("a path is not valid UTF-8", "rename it")
    given = [*(_local(path, run) for path in paths), *([Path(CLAUDE_CODE_FOLDER).expanduser()] if claude_code else [])]
    said = {
        "paths": tuple(str(path.resolve()) for path in given) or settings.ingestion.paths,
        "format": format or settings.ingestion.format,
        "redact": settings.ingestion.redact and not allow_unredacted,
        "subagents": settings.ingestion.subagents or subagents,
    }
    ingestion = IngestionConfig.model_validate({**settings.ingestion.model_dump(), **said})
    if not (ingestion.paths or ingestion.embedded_session or ingestion.rollouts):
        raise UsageError("nothing to ingest", NEXT_COMMAND)
    if ingestion.format and ingestion.format not in TRACE_READERS:
        raise UsageError(f"there is no format {ingestion.format}", f"one of {', '.join(TRACE_READERS)}")
    if ingestion.paths and not StageFolder(run / "ingestion").is_done:
        find_inputs([Path(path) for path in ingestion.paths], ingestion.format, ingestion.subagents, at_most=1)
    settings = settings.model_copy(update={"ingestion": ingestion})
    with begun(run, settings) as started, working_on(started) as progress:
        run_stage(started, "ingestion", progress, workers=workers, launcher=launcher)
    if review:
        _tell_places(started, json)
    else:
        if not json:
            _mention_model(started)
        tell("ingestion", started, json)
    _mention_quarantine(started)


def _mention_model(run: Run) -> None:
    """The model is settled from here on, and who forgot to choose one would hear of it when it is to be trained."""
    name, read = run.config.model.name, run.config.ingestion
    if name == "tiny" and not read.rollouts:
        change = f"recompose fork {quoted(run.path)} NEW --set model.name=MODEL"
        print(f"model: tiny, which has few words; another: {change}")
    if find_spec("torch"):  # who reads sessions alone needs none of it
        from composer_replication.training.models.presence import is_here
        from composer_replication.training.planning.missing import missing

        lacking = list(map(str, missing(run.config)))
        if not (lacking or is_here(name)):
            lacking = [f"{name} is not on this machine; next: recompose doctor {quoted(run.path)} asks the hub"]
        for told in lacking:
            print(f"before training: {told}")


def _tell_places(run: Run, as_json: bool) -> None:
    """What was replaced, by kind, and each place with the secret hidden."""
    stage = run.stage("ingestion")
    places = (place for trace in stage.stream(Trace) for place in replaced_places(trace))
    if as_json:
        result = {"run": str(run.path), "stage": "ingestion", "redactions": stage.counts["redactions"]}
        print(json_module.dumps({**result, "places": [place._asdict() for place in places]}))
        return
    listed = 0
    for place in places:
        listed += 1
        turn = "before turn 0" if place.turn is None else f"turn {place.turn}"
        print(f"{place.file}: {turn}, {place.where}, line {place.line}: {place.kind}\n    {place.shown}")
    by_kind = ", ".join(f"{kind} {count}" for kind, count in stage.counts["redactions"].items()) or "nothing"
    print(f"{listed} places. Replaced while reading: {by_kind}")


def _local(path: Path, run: Path) -> Path:
    """A dataset of the hub is fetched to a folder beside the run."""
    if path.parts[:2] != HUB_DATASETS:
        return path
    from composer_replication.stages.hub import fetch_dataset

    quiet_libraries()
    repository = "/".join(path.parts[2:])
    return fetch_dataset(repository, run.with_name(f"{run.name}-{repository.replace('/', '--')}"))


def _is_utf8(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _mention_quarantine(run: Run) -> None:
    """A file that is not in the run may be missed; a line among thousands is told and is no failure."""
    stage = run.stage("ingestion")
    quarantined: dict[str, int] = stage.counts["quarantined"]
    if not quarantined:
        return
    reasons = ", ".join(f"{count} × {reason}" for reason, count in quarantined.items())
    told = f"set aside: {reasons} (where: {stage.path / 'quarantine.jsonl'}); the rest is saved"
    if all(map(is_of_a_line, quarantined)):
        print(f"lines {told}", file=sys.stderr)
    else:
        raise PartialError(told, next_after(run, "ingestion") or f"recompose show {quoted(run.path)}")
