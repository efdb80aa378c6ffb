"""A code task as it is put to a policy: the conversation that it begins with, and what results are told apart by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from composer_replication.records import Message

from .task import TaskFolder


@dataclass(frozen=True)
class AskedTask:
    folder: TaskFolder
    messages: tuple[Message, ...]
    labels: Mapping[str, str]

    @property
    def task_id(self) -> str:
        return self.folder.code_task.task.task_id
