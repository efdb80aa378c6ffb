"""The environment that a config names. The dict is the whole list; anything else is `package.module:factory`."""

from __future__ import annotations

import importlib
from collections.abc import Generator, Sequence, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from composer_replication.errors import UsageError

from .protocol import FEWEST_TO_TELL, TRAIN, Environment, Factory

if TYPE_CHECKING:
    from composer_replication.config import Config

ENVIRONMENTS = {
    "toolbox": "composer_replication.environments.toolbox.environment:open_toolbox",
    "code": "composer_replication.environments.code.environment:open_code",
    "openenv": "composer_replication.environments.openenv.environment:OpenEnvEnvironment",
    "verifiers": "composer_replication.environments.verifiers.environment:VerifiersEnvironment",
    "harbor": "composer_replication.environments.harbor.environment:HarborEnvironment",
}
MOST_NAMED = 3


@contextmanager
def open_environment(config: Config) -> Generator[Environment]:
    environment = find_factory(config.environment.name)(config)
    try:
        yield environment
    finally:
        environment.close()


class ToldTasks(NamedTuple):
    counts: str
    doubt: str = ""

    def __str__(self) -> str:
        return ". ".join(filter(None, self))


def tell_tasks(environment: Environment, config: Config) -> ToldTasks | None:
    """How many tasks of the settings' folders are on which side, and which are not asked. Raises where there is nothing
    to train on or, unless nothing is to be held out, to measure on. None without folders or rollouts."""
    chosen = config.environment
    if not (chosen.tasks and config.training.rollouts):
        return None
    is_measured = chosen.heldout_share or chosen.heldout_repositories
    held_out = (config.evaluation.splits or tuple(environment.heldout)) if is_measured else ()
    told: list[str] = []
    few: list[str] = []
    for split in (TRAIN, *held_out):
        found = environment.tasks(split)
        if isinstance(found, Sized):
            if not found:
                raise UsageError(f"no task of {', '.join(chosen.tasks)} is in {split}", "set another heldout_share")
            told.append(f"{len(found)} in {split}")
            if split != TRAIN and len(found) < FEWEST_TO_TELL:
                few.append(f"{len(found)} in {split}")
    if held_out and not few and config.evaluation.tasks < FEWEST_TO_TELL:
        few.append(f"the {config.evaluation.tasks} tasks that evaluation.tasks allows")
    left_out = tell_left_out(environment)
    counts = ", ".join(told) + (f"; not asked: {left_out}" if left_out else "")
    return ToldTasks(counts, _doubt(environment, config, few) if few else "")


def _doubt(environment: Environment, config: Config, few: Sequence[str]) -> str:
    cure = "make more tasks, or set another environment.heldout_share"
    if config.evaluation.tasks < FEWEST_TO_TELL:
        cure = f"set evaluation.tasks to {FEWEST_TO_TELL} or more"
    elif share := environment.share_holding_out(FEWEST_TO_TELL):
        cure = f"make more tasks, or set environment.heldout_share = {share}, the smallest that holds out as many"
    return f"What is measured on {', '.join(few)} can tell nothing, below {FEWEST_TO_TELL}: {cure}"


def tell_left_out(environment: Environment) -> str:
    """Each reason with the number of its tasks and the first names."""
    return ", ".join(
        f"{reason}: {len(names)} ({', '.join(names[:MOST_NAMED])}{', …' if len(names) > MOST_NAMED else ''})"
        for reason, names in environment.left_out.items()
    )


def find_factory(name: str) -> Factory:
    where = ENVIRONMENTS.get(name, name)
    module, colon, factory = where.partition(":")
    known = f"choose one of {', '.join(ENVIRONMENTS)}, or package.module:factory"
    if not colon:
        raise UsageError(f"there is no environment {name}", known)
    try:
        return getattr(importlib.import_module(module), factory)
    except ModuleNotFoundError as error:
        raise UsageError(f"environment {name}: no module {error.name}", known) from error
    except AttributeError as error:
        raise UsageError(f"environment {name}: {module} has no {factory}", known) from error
