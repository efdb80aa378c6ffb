"""A game without end of tasks: the environment plays the user and rewards outside of [0, 1]."""

import itertools

import verifiers.v1 as vf

__all__ = ["GameEnv", "GameTaskset"]


class Data(vf.TaskData):
    number: int


class Task(vf.Task[Data, vf.State, vf.TaskConfig]):
    pass


class GameConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()


class GameEnv(vf.Env[GameConfig]):
    async def run(self, task, agents):
        won = False
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn(f"Game {task.data.number}: guess.")
            while not segment.terminated:
                won = segment.last_reply.strip() == str(task.data.number)
                if won:
                    break
                segment = await interaction.turn("No.")
        interaction.trace.record_reward("won", 5.0 if won else -5.0, 1.0)


class GameTaskset(vf.Taskset[Task, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        for number in itertools.count():
            yield Task(Data(id=f"game-{number}", number=number))
