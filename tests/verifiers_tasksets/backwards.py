"""A taskset as third parties write them: one answer, judged by a rubric of two rewards."""

import verifiers.v1 as vf

__all__ = ["BackwardsTaskset"]


class Data(vf.TaskData):
    word: str


class Task(vf.Task[Data, vf.State, vf.TaskConfig]):
    @vf.reward(weight=0.8)
    async def right(self, trace) -> float:
        return float(trace.last_reply.strip() == self.data.word[::-1])

    @vf.reward(weight=0.2)
    async def short(self, trace) -> float:
        return float(len(trace.last_reply) < 40)


class Config(vf.TasksetConfig):
    words: tuple[str, ...] = ("stone", "river", "cloud", "amber", "gravel", "meadow")


class BackwardsTaskset(vf.Taskset[Task, Config]):
    def load(self):
        for word in self.config.words:
            prompt = f"Write {word} backwards."
            yield Task(Data(id=f"word-{word}", name=word, word=word, prompt=prompt, system_prompt="Be brief."))
