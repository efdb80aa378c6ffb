"""A deterministic tool-calling world for CPU: 24 tools, per-episode names, typed JSON arguments, exact splits."""

from .episode import (
    FINISH,
    MAX_TURNS,
    Call,
    ToolboxEpisode,
    TurnError,
    TurnResult,
    parse_call,
    replay_history,
    trace_of,
)
from .leak import WAYS, Way
from .oracle import next_call
from .tasks import SPLITS, Split, ToolboxTask, make_task, task_by_id, task_stream
from .tools import TOOLS, World

__all__ = [
    "FINISH",
    "MAX_TURNS",
    "SPLITS",
    "TOOLS",
    "WAYS",
    "Call",
    "Split",
    "ToolboxEpisode",
    "ToolboxTask",
    "TurnError",
    "TurnResult",
    "Way",
    "World",
    "make_task",
    "next_call",
    "parse_call",
    "replay_history",
    "task_by_id",
    "task_stream",
    "trace_of",
]  # fmt: skip
