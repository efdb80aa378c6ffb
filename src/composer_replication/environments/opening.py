"""The environment that a config names. The dict is the whole list; anything else is `package.module:factory`."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from composer_replication.errors import UsageError

from .protocol import Environment, Factory

if TYPE_CHECKING:
    from composer_replication.config import Config

ENVIRONMENTS = {
    "toolbox": "composer_replication.environments.toolbox.environment:open_toolbox",
    "code": "composer_replication.environments.code.environment:open_code",
    "openenv": "composer_replication.environments.openenv.environment:OpenEnvEnvironment",
    "verifiers": "composer_replication.environments.verifiers.environment:VerifiersEnvironment",
    "harbor": "composer_replication.environments.harbor.environment:HarborEnvironment",
}


@contextmanager
def open_environment(config: Config) -> Generator[Environment]:
    environment = find_factory(config.environment.name)(config)
    try:
        yield environment
    finally:
        environment.close()


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
