"""What a training would miss on this machine, told before any work. Nothing heavy is imported, nothing downloaded."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from composer_replication.config import Config
from composer_replication.errors import UsageError

from ..models.presence import refuse_missing_model
from .refusals import tell_missing_vllm


def refuse_missing(config: Config, has_model: bool = False) -> None:
    """`has_model`: the run has its starting policy already."""
    for error in missing(config, has_model):
        raise error


def missing(config: Config, has_model: bool = False) -> Iterator[UsageError]:
    """The model, the logger, and libraries that only some settings need."""
    for check in (_logger, _adapters, tell_missing_vllm, *(() if has_model else (_model,))):
        try:
            check(config)
        except UsageError as error:
            yield error


def refuse_missing_logger(name: str) -> None:
    if name != "none" and importlib.util.find_spec(name) is None:
        raise UsageError(
            f'report_to = "{name}" needs the package {name}, which is missing',
            f"pip install 'composer-replication[{name}]'",
        )


def _model(config: Config) -> None:
    refuse_missing_model(config.model.name)


def _logger(config: Config) -> None:
    refuse_missing_logger(config.training.report_to)


def _adapters(config: Config) -> None:
    if config.hardware.lora_rank is not None and importlib.util.find_spec("peft") is None:
        raise UsageError("hardware.lora_rank needs peft", "pip install 'composer-replication[lora]'")
