"""Losses and data composed into training. Importing this package does not import torch; its classes do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backends.trl.trainer import ComposerReplicationTrainer
    from .stored.collator import ComposerDataCollator

__all__ = ["ComposerDataCollator", "ComposerReplicationTrainer"]


def __getattr__(name: str) -> Any:
    if name == "ComposerDataCollator":
        from .stored.collator import ComposerDataCollator

        return ComposerDataCollator
    if name == "ComposerReplicationTrainer":
        from .backends.trl.trainer import ComposerReplicationTrainer

        return ComposerReplicationTrainer
    raise AttributeError(name)
