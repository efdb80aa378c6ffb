"""Toolbox episodes played by hand, or by the oracle."""

from __future__ import annotations

from composer_replication.environments.toolbox import FINISH, ToolboxEpisode, next_call


def play(task, *turns) -> ToolboxEpisode:
    episode = ToolboxEpisode(task)
    for turn in turns:
        episode.step(turn if isinstance(turn, str) else turn.render())
    return episode


def solve(task) -> ToolboxEpisode:
    episode = ToolboxEpisode(task)
    while not episode.finished:
        call = next_call(episode)
        episode.step(call.render() if call else FINISH)
    return episode
