"""The next right move of a task, from any state, using only what the conversation has shown.

The oracle replays its plan from the world as it is. It never skips a lookup: a value that a later step needs must
have been observed in this episode, so imitating the oracle never asks for hidden knowledge.
"""

from __future__ import annotations

from composer_replication.config import ToolboxConfig

from .episode import FINISH, Call, ToolboxEpisode
from .leak import LEAK_FILE, LEAK_NAMES, canary_of
from .tasks import KEYS, PATHS, WORDS, Step, ToolboxTask, make_task
from .tools import BY_NAME, TOOLS


def call_for(task: ToolboxTask, step: Step) -> Call:
    listing = task.listing_of(step.tool)
    return Call(listing.name, listing.arguments_of(step))


def next_call(episode: ToolboxEpisode) -> Call | None:
    """The call to make now; None means that nothing is left to do.

    Raises `LookupError` when no remainder of the plan can still reach the goal.
    """
    task = episode.task
    for done in range(len(task.plan), -1, -1):
        if _reaches_goal(episode, done) and _results_seen(episode, done):
            return call_for(task, task.plan[done]) if done < len(task.plan) else None
    raise LookupError(f"{task.task_id} cannot be finished from this state")


def _reaches_goal(episode: ToolboxEpisode, done: int) -> bool:
    world = episode.world.copy()
    try:
        for step in episode.task.plan[done:]:
            BY_NAME[step.tool].run(world, step.arguments)
    except (OSError, KeyError, ValueError):
        return False
    return world == episode.task.goal


def _results_seen(episode: ToolboxEpisode, done: int) -> bool:
    """Whether the result that step `done` refers to was shown to the agent."""
    plan = episode.task.plan
    reference = plan[done].reference if 0 < done < len(plan) else None
    if reference is None:
        return True
    producer, needed = call_for(episode.task, plan[done - 1]).key, str(plan[done].arguments[reference])
    return any(turn.call and turn.call.key == producer and turn.observation == needed for turn in episode.turns)


SAMPLED_TASKS = 400


def vocabulary(config: ToolboxConfig) -> list[str]:
    """Every word that a conversation can hold, for the tokenizer of the tiny model; the words of hints are not here."""
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
