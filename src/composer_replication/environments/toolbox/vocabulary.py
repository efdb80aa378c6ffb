"""Every word that a toolbox conversation can hold, for the tokenizer of the built-in tiny model."""

from __future__ import annotations

from composer_replication.config import ToolboxConfig

from .episode import FINISH, ToolboxEpisode
from .leak import LEAK_FILE, LEAK_NAMES, canary_of
from .oracle import next_call
from .tasks import KEYS, PATHS, WORDS, make_task
from .tools import TOOLS

SAMPLED_TASKS = 400


def vocabulary(config: ToolboxConfig) -> list[str]:
    """Names, values, digits, wordings and observations; the words of hints are not the toolbox's."""
    lines = [name for tool in TOOLS for name in tool.names]
    lines += [" ".join([*PATHS, *KEYS, *WORDS, "0123456789-"])]
    lines += [f"{param}:str {param}:int)\n(" for tool in TOOLS for param in tool.params]
    lines += [phrase for tool in TOOLS for phrase in tool.phrases]
    lines += ['{"name":" ","arguments":{" "}} }} ":" "," ," ": "} " } {']
    lines += ["error: tool_not_found json_decode type_error runtime_error"]
    lines += ["no tool file key such is empty exists in must be a number in quotes str int takes , . ( ) : _\n"]
    lines += ["the turn is not valid json one call with name and arguments it ok done then"]
    if config.leak != "none":
        lines += [*LEAK_NAMES, LEAK_FILE, canary_of("")]
    for index in range(SAMPLED_TASKS):
        task = make_task(config, "train", index)
        episode = ToolboxEpisode(task)
        lines += [message["content"] for message in task.messages]
        while not episode.finished:
            call = next_call(episode)
            lines.append(call.render() if call else FINISH)
            lines.append(episode.step(lines[-1]).observation or "")
    return lines
