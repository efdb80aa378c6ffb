"""The sentence: ingest → sites → hint → replay → pair → train → evaluate.

The list below is the only one. Each stage reads the records of earlier stages from the run directory and finishes its
own folder; nothing is handed over in memory, so any stage can be run, resumed, looked at or replaced alone. `policy`
comes first: it makes the model that plays, is trained and is measured. `samples` is done when `replay --policy` asks.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, NamedTuple

from .config import Config
from .errors import UsageError, quoted
from .progress import Progress
from .runs import NEXT_COMMAND, Run
from .training.processes import all_or_none, is_main


def _later(where: str) -> Callable[..., Any]:
    """A function of `stages` that is loaded when it is called: no verb waits for the libraries of others."""
    module, name = where.split(":")

    def call(*given: Any, **named: Any) -> Any:
        return getattr(import_module(f".stages.{module}", __package__), name)(*given, **named)

    return call


WORLD = (
    "seed",
    "environment",
    "toolbox",
    *(f"training.leak_{key}" for key in ("penalty", "penalty_weight", "ways_known")),
)
MODEL = ("model", "hardware.weights")
TURN = "training.max_turn_tokens"
PLAYING = (*WORLD, *MODEL, "training.temperature", TURN, "training.max_tokens", "hardware")
NOT_TRAINED_ON = ("ingestion", "sites", "replay", "pairs", "evaluation")
"""Of what these sections change, training hears through the records of earlier stages."""


class Stage(NamedTuple):
    noun: str
    what: str
    work: Callable[..., None]
    """Takes the run, its progress, and choices that are no settings of the run."""
    reads: tuple[str, ...]
    """Sections and keys of the config that its records depend on, next to the stages that it was made from."""
    plays: Callable[[Config], bool] = lambda config: False
    """Whether it needs the policy, which is then made first."""
    check: Callable[..., object] = lambda run, **choices: None
    """What must be there and what must not, told before anything is made. Takes the choices too."""
    renews: bool = False
    """Whether it is made again when what it was made from has changed; it then does only what is new."""
    grown: Callable[[Run], bool] = lambda run: False
    """Whether it is done and there is more outside of the run."""
    optional: bool = False
    compares_itself: tuple[str, ...] = ()
    """Earlier stages that it is not made from as a whole; samples may be of any policy, and know its weights."""


STAGES: tuple[Stage, ...] = (
    Stage("policy", "make the starting policy", _later("policy:prepare"), reads=(*WORLD, *MODEL, "warmup")),
    Stage(
        "ingestion",
        "collect traces",
        _later("ingestion:ingest"),
        reads=("ingestion",),
        plays=lambda config: config.ingestion.rollouts > 0,
        grown=_later("ingestion:has_grown"),
    ),
    Stage("sites", "find error sites", _later("sites:locate"), reads=("sites",), renews=True),
    Stage("hints", "write hints", _later("hints:hint"), reads=("hints",), renews=True),
    Stage(
        "samples",
        "sample the policy",
        _later("samples:sample"),
        reads=(*PLAYING, "replay.gate"),
        optional=True,
        compares_itself=("policy",),
    ),
    Stage("replay", "ask the teachers", _later("replay:replay"), reads=(*WORLD, "replay", "pairs.rule"), renews=True),
    Stage("pairs", "vote on pairs", _later("pairs:pair"), reads=(*WORLD, "model.name", "pairs"), renews=True),
    Stage(
        "training",
        "train with its channels",
        _later("training:train"),
        reads=(*(key for key in Config.model_fields if key not in NOT_TRAINED_ON), "evaluation.held_out_sessions"),
        plays=lambda config: True,
        check=_later("training:check"),
    ),
    Stage("evaluation", "measure held-out success", _later("evaluation:evaluate"), reads=(*PLAYING, "evaluation")),
    Stage(
        "sessions",
        "measure on held-out sessions",
        _later("sessions:measure"),
        reads=(*PLAYING, "evaluation"),
        optional=True,
        compares_itself=("evaluation",),
    ),
)


def run_stage(run: Run, noun: str, progress: Progress, **choices: Any) -> None:
    """Do one stage unless it is done already. `choices` are further arguments of its function."""
    stage = next(stage for stage in STAGES if stage.noun == noun)
    if not run.stage(noun).is_done:
        stage.check(run, **choices)
        if stage.plays(run.config):
            ensure_policy(run, progress)
    is_done = refuse_stale(run, noun)
    if is_done and not stage.grown(run):
        progress.note(f"{noun}: kept, finished earlier")
        return
    if not os.access(run.path, os.W_OK):  # its lock was not taken, and hours of work could not be kept
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(run.path))
    progress.stage(noun, stage.what)
    stage.work(run, progress, **choices)


def ensure_policy(run: Run, progress: Progress) -> None:
    """Made by one of several processes, while the others wait."""
    with all_or_none():
        if is_main() and not run.stage("policy").is_done:
            run_stage(run, "policy", progress)


def refuse_stale(run: Run, noun: str, renewing: bool = True) -> bool:
    """Neither a stage nor any before it may be left over from other inputs than those that are there now, unless it is
    the one to be made, which renews itself. Tells whether it is done."""
    earlier: list[str] = []
    for stage in STAGES:
        folder, other = run.stage(stage.noun), None
        # Beside the policy, what ingestion was made from are files, whatever they are called.
        if stage.noun != "ingestion" or run.config.ingestion.rollouts:
            other = folder.made_from_another(each for each in earlier if each not in stage.compares_itself)
        if other and not (renewing and stage.renews and stage.noun == noun):
            again = f"delete {quoted(folder.path)} and what comes after, then run the same command"
            remedy = NEXT_COMMAND[stage.noun].replace("RUN", quoted(run.path)) if stage.renews else again
            raise UsageError(f"{folder.path} was made from another {other}", remedy)
        if stage.noun == noun:
            return folder.is_done and other is None
        earlier.append(stage.noun)
    raise AssertionError(f"there is no stage {noun}")


def touched(run: Run, keys: Iterable[str]) -> dict[str, str]:
    """Of the finished stages those that would be others if these settings were, each with the setting or the earlier
    stage that touches it."""
    found: dict[str, str] = {}
    keys = list(keys)
    for stage in STAGES:
        folder = run.stage(stage.noun)
        if not folder.is_done:
            continue
        reads, read = stage.reads, run.config.ingestion
        if stage.noun == "ingestion" and (read.rollouts or not (read.paths or read.embedded_session)):
            reads += PLAYING
        # Without rollouts it is evaluation alone that lets the policy write turns.
        other = TURN if stage.noun == "training" and not run.config.training.rollouts else ""
        read = (key for key in keys if key != other and any(key == one or key.startswith(f"{one}.") for one in reads))
        why = next(read, None)
        why = why or next((noun for noun in found if noun in folder.require()["inputs"]), None)
        if why:
            found[stage.noun] = why
    return found


def run_pipeline(run: Run, progress: Progress) -> None:
    """Every stage in order, from the first one that is not finished."""
    if any(run.stage(stage.noun).is_done for stage in STAGES):
        progress.note(f"resuming {run.path}")
    for stage in STAGES:
        if not stage.optional:
            run_stage(run, stage.noun, progress)
