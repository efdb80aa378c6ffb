"""The next right move of a task, from any state, using only what the conversation has shown.

The oracle replays its plan from the world as it is. It never skips a lookup: a value that a later step needs must
have been observed in this episode, so imitating the oracle never asks for hidden knowledge.
"""

from __future__ import annotations

from .episode import Call, ToolboxEpisode
from .tasks import Step, ToolboxTask
from .tools import BY_NAME


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
