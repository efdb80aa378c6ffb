"""A taskset that runs what the model wrote, in whatever runtime it is given."""

import verifiers.v1 as vf

__all__ = ["ShellTaskset"]


class Task(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    @vf.reward
    async def ran(self, trace, runtime) -> float:
        return float((await runtime.run(["sh", "-c", trace.last_reply], {})).exit_code == 0)


class ShellTaskset(vf.Taskset[Task, vf.TasksetConfig]):
    def load(self):
        yield Task(vf.TaskData(id="one", prompt="Write a command that succeeds."))
