"""The sentence: ingest → sites → hint → replay → pair → train → evaluate.

The list below is the only one. Each stage reads the records of earlier stages from the run directory and finishes its
own folder; nothing is handed over in memory, so any stage can be run, resumed, looked at or replaced alone. `policy`
comes first: it makes the model that plays, is trained and is measured. `samples` is done when `replay --policy` asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .config import Config
from .progress import Progress
from .runs import Run
from .stages.evaluation import evaluate
from .stages.hints import hint
from .stages.ingestion import ingest
from .stages.pairs import pair
from .stages.policy import prepare
from .stages.replay import replay
from .stages.samples import sample
from .stages.sessions import measure
from .stages.sites import locate
from .stages.training import train, trained_on
from .training.processes import all_or_none, is_main


class Stage(NamedTuple):
    noun: str
    what: str
    work: Callable[..., None]
    """Takes the run, its progress, and choices that are no settings of the run."""
    plays: Callable[[Config], bool] = lambda config: False
    """Whether it needs the policy, which is then made first."""
    check: Callable[[Run], object] = lambda run: None
    """What must be there, told before anything is made."""
    optional: bool = False
    compares_itself: tuple[str, ...] = ()
    """Earlier stages that it is not made from as a whole; samples may be of any policy, and know its weights."""


STAGES: tuple[Stage, ...] = (
    Stage("policy", "warm up the policy", prepare),
    Stage("ingestion", "collect traces", ingest, plays=lambda config: config.ingestion.rollouts > 0),
    Stage("sites", "find error sites", locate),
    Stage("hints", "write hints", hint),
    Stage("samples", "sample the policy", sample, optional=True, compares_itself=("policy",)),
    Stage("replay", "ask the teachers", replay),
    Stage("pairs", "vote on pairs", pair),
    Stage("training", "train with its channels", train, plays=lambda config: True, check=trained_on),
    Stage("evaluation", "measure held-out success", evaluate),
    Stage("sessions", "measure on held-out sessions", measure, optional=True, compares_itself=("evaluation",)),
)


def run_stage(run: Run, noun: str, progress: Progress, **choices: Any) -> None:
    """Do one stage unless it is done already. `choices` are further arguments of its function."""
    stage = next(stage for stage in STAGES if stage.noun == noun)
    if not run.stage(noun).is_done:
        stage.check(run)
        if stage.plays(run.config):
            ensure_policy(run, progress)
    refuse_stale(run, noun)
    if run.stage(noun).is_done:
        progress.note(f"{noun}: kept, finished earlier")
        return
    progress.stage(noun, stage.what)
    stage.work(run, progress, **choices)


def ensure_policy(run: Run, progress: Progress) -> None:
    """Made by one of several processes, while the others wait."""
    with all_or_none():
        if is_main() and not run.stage("policy").is_done:
            run_stage(run, "policy", progress)


def refuse_stale(run: Run, noun: str) -> None:
    """Neither a stage nor any before it may be left over from other inputs than those that are there now."""
    earlier: list[str] = []
    for stage in STAGES:
        # Beside the policy, what ingestion was made from are files, whatever they are called.
        if stage.noun != "ingestion" or run.config.ingestion.rollouts:
            run.stage(stage.noun).refuse_stale(noun for noun in earlier if noun not in stage.compares_itself)
        if stage.noun == noun:
            return
        earlier.append(stage.noun)


def run_pipeline(run: Run, progress: Progress) -> None:
    """Every stage in order, from the first one that is not finished."""
    if any(run.stage(stage.noun).is_done for stage in STAGES):
        progress.note(f"resuming {run.path}")
    for stage in STAGES:
        if not stage.optional:
            run_stage(run, stage.noun, progress)
