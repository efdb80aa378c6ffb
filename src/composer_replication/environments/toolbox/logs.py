"""Noisy old logs of the toolbox, for a warm-up that leaves habits worth unlearning.

The logs were written against an older tool API: some tools are called by their base name whatever the episode lists,
some integers are quoted, some calls lack their last brace. How often depends on the tool. One turn in five is preceded
by a hint and then better: the policy learns that hints are worth following, which channel 2 needs. Where the toolbox
leaks, some logs may look at the leak and copy what it says.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

from composer_replication.config import ToolboxConfig, WarmupConfig
from composer_replication.errors import UsageError

from ..protocol import Log, LoggedHint, LoggedTurn
from .episode import FINISH, Call, ToolboxEpisode
from .leak import LEAK_FILE, LEAK_TOOL, READ_TOOL, Way, leaked_call
from .oracle import next_call
from .tasks import ToolboxTask, make_task
from .tools import TOOLS

HINTED_KINDS = {
    "everything": ("tool_not_found", "json_decode", "type_error", "repeated_failure"),
    "their_kind": ("tool_not_found", "json_decode", "type_error"),
}
_ORDER = {tool.name: position for position, tool in enumerate(TOOLS)}


def old_logs(toolbox: ToolboxConfig, config: WarmupConfig, seed: int) -> Iterator[Log]:
    """Without end; each seed has tasks of its own."""
    if (config.leak_tool_rate or config.leak_file_rate) and toolbox.leak != "open":
        raise UsageError("logs that look at the leak need a toolbox that leaks", 'set toolbox.leak = "open"')
    rng = random.Random(f"warmup:{seed}")
    first = seed * config.steps * config.batch_size
    return (log_of(make_task(toolbox, "train", index), config, rng) for index in count(first))


def log_of(task: ToolboxTask, config: WarmupConfig, rng: random.Random) -> Log:
    """Of a solved task. The old API took the old spelling, so what it answered is what the right call gives."""
    way = _drawn_way(config, rng)
    if way:
        return _leaked_log(task, way)
    episode = ToolboxEpisode(task)
    turns: list[LoggedTurn] = []
    while not episode.finished:
        call = next_call(episode)
        text = call.render() if call else FINISH
        hint, written = None, text
        if call and rng.random() < config.hint_rate:
            cure = config.hints_cure
            kind = rng.choice(HINTED_KINDS["everything" if cure == "everything" else "their_kind"])
            hint = _hint_for(task, call, kind)
            if cure == "their_kind" or (isinstance(cure, float) and rng.random() < cure):
                written = _as_old_log(task, call, config, rng, cured=kind)
        elif call:
            written = _as_old_log(task, call, config, rng)
        turns.append(LoggedTurn(hint, written, _answer(episode, text)))
    return Log(task.messages, turns)


def _leaked_log(task: ToolboxTask, way: Way) -> Log:
    """Look, copy, done. Nothing is misspelt: whoever copies writes what stands there."""
    look = (
        Call(task.listing_of(LEAK_TOOL).name, {})
        if way == "tool"
        else Call(task.listing_of(READ_TOOL).name, {"path": LEAK_FILE})
    )
    episode = ToolboxEpisode(task)
    texts = (look.render(), leaked_call(task.start.files[LEAK_FILE]), FINISH)
    return Log(task.messages, [LoggedTurn(None, text, _answer(episode, text)) for text in texts])


def _answer(episode: ToolboxEpisode, text: str) -> str | None:
    """What the agent reads next; nothing after its last turn."""
    observation = episode.step(text).observation
    return None if episode.finished else observation


def _drawn_way(config: WarmupConfig, rng: random.Random) -> Way | None:
    if not config.leak_tool_rate + config.leak_file_rate:
        return None
    drawn = rng.random()
    if drawn < config.leak_tool_rate:
        return "tool"
    return "file" if drawn < config.leak_tool_rate + config.leak_file_rate else None


def _as_old_log(
    task: ToolboxTask, call: Call, config: WarmupConfig, rng: random.Random, cured: str | None = None
) -> str:
    tool = next(entry.tool for entry in task.listings if entry.name == call.name)
    position = _ORDER[tool]
    name, arguments = call.name, dict(call.arguments)
    if rng.random() < config.stale_name_rates[position % 2] and cured != "tool_not_found":
        name = tool
    if rng.random() < config.quoted_int_rates[position // 2 % 2] and cured != "type_error":
        arguments = {param: str(value) for param, value in arguments.items()}
    text = Call(name, arguments).render()
    return (
        text[:-1] if rng.random() < config.missing_brace_rates[position // 4 % 2] and cured != "json_decode" else text
    )


def _hint_for(task: ToolboxTask, call: Call, kind: str) -> LoggedHint:
    listing = next(entry for entry in task.listings if entry.name == call.name)
    return LoggedHint(
        kind,
        {
            "available_tools": [entry.name for entry in task.listings],
            "tool_name": call.name,
            "tool_schema": listing.schema["function"]["parameters"],
        },
    )
