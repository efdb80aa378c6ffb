"""A taskset with a tool server of its own, and without ids."""

import verifiers.v1 as vf

__all__ = ["SumTaskset"]


class Calculator(vf.Toolset[vf.ToolsetConfig]):
    @vf.tool
    async def add(self, a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @vf.tool
    async def divide(self, a: int, b: int) -> float:
        """Divide a by b."""
        return a / b


class Data(vf.TaskData):
    total: int


class Task(vf.Task[Data, vf.State, vf.TaskConfig]):
    @classmethod
    def toolsets(cls, config):
        return [Calculator(vf.ToolsetConfig())]

    @vf.reward
    async def right(self, trace) -> float:
        return float(trace.last_reply.strip() == str(self.data.total))


class SumTaskset(vf.Taskset[Task, vf.TasksetConfig]):
    def load(self):
        yield Task(Data(total=468, prompt="What is 12 + 456? Use the tool, then say the number alone."))


if __name__ == "__main__":
    Calculator.run()
