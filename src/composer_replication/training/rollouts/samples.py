"""A few rollouts every few steps, kept for people to read.

Writes `RUN/training/samples/step_<number>.jsonl.zst`, one `RolloutSample` per line. Number and bytes are bounded: over
the bound, the file whose neighbours lie nearest to each other goes, so that what is left still spans the whole run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from composer_replication.records import Message, render_action
from composer_replication.runs import write_records
from composer_replication.sites import find_sites

from ..lessons.online_sites import Rolled
from ..stored.records import RolloutSample, TurnSample

SUFFIX = ".jsonl.zst"


class RolloutSamples(TrainerCallback):
    """As a callback it only forgets what a resumed run will sample again; the trainer hands rollouts to `keep`."""

    def __init__(
        self,
        folder: Path,
        every_steps: int = 10,
        rollouts_per_step: int = 4,
        max_files: int = 200,
        max_bytes: int = 64 * 2**20,
        max_text_chars: int = 4000,
    ) -> None:
        if every_steps < 1 or rollouts_per_step < 1 or max_files < 1:
            raise ValueError("every_steps, rollouts_per_step and max_files must be positive")
        self.folder, self.every_steps, self.rollouts_per_step = folder, every_steps, rollouts_per_step
        self.max_files, self.max_bytes, self.max_text_chars = max_files, max_bytes, max_text_chars

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            for path in self.files():
                if step_of(path) > state.global_step:
                    path.unlink()

    def wants(self, step: int) -> bool:
        """Whether rollouts of this step, the first being 1, are kept."""
        return step == 1 or step % self.every_steps == 0

    def keep(
        self, step: int, rollouts: Sequence[Rolled], rewards: Sequence[float], hints: Sequence[Mapping[int, str]]
    ) -> None:
        """Write some rollouts from the worst to the best; `hints` are those used, by turn. Call on one process."""
        if not self.wants(step) or not rollouts:
            return
        samples = [self._sample(step, rollouts[row], rewards[row], hints[row]) for row in self.chosen(rewards, hints)]
        write_records(self.folder / f"step_{step:07d}{SUFFIX}", samples)
        self._thin()

    def chosen(self, rewards: Sequence[float], hints: Sequence[Mapping[int, str]]) -> list[int]:
        """The rows of a step that are kept."""
        order = sorted(range(len(rewards)), key=lambda row: (rewards[row], -len(hints[row])))
        return _spread(order, self.rollouts_per_step)

    def files(self) -> list[Path]:
        """In the order of their steps."""
        return sorted(self.folder.glob(f"step_*{SUFFIX}"), key=step_of)

    def _sample(self, step: int, rolled: Rolled, reward: float, hints: Mapping[int, str]) -> RolloutSample:
        trace = rolled.trace
        kinds: dict[int, list[str]] = {}
        for site in find_sites(trace):
            kinds.setdefault(site.turn, []).append(site.error_kind)
        first = trace.turns[0].start if trace.turns else len(trace.messages)
        return RolloutSample(
            step=step,
            trace_id=trace.trace_id,
            task_id=trace.task_id,
            reward=reward,
            prompt=tuple(self._cut_message(message) for message in trace.messages[:first]),
            turns=tuple(
                TurnSample(
                    action=self._cut(render_action(trace.messages[turn.start], turn.thinking)),
                    observations=tuple(
                        self._cut(message["content"]) for message in trace.messages[turn.start + 1 : turn.end]
                    ),
                    error_kinds=tuple(kinds.get(number, ())),
                    hint=hints.get(number),
                )
                for number, turn in enumerate(trace.turns)
            ),
            sampled_tokens=sum(rolled.sampled_mask),
            model_versions=rolled.model_versions,
        )

    def _cut_message(self, message: Message) -> Message:
        return {"role": message["role"], "content": self._cut(render_action(message))}

    def _cut(self, text: str) -> str:
        left_out = len(text) - self.max_text_chars
        if left_out <= 0:
            return text
        half = self.max_text_chars // 2
        return f"{text[:half]} … {left_out} characters left out … {text[len(text) - half :]}"

    def _thin(self) -> None:
        files = self.files()
        sizes = {path: path.stat().st_size for path in files}
        while len(files) > 1 and (len(files) > self.max_files or sum(sizes[path] for path in files) > self.max_bytes):
            files.pop(_most_crowded([step_of(path) for path in files])).unlink()


def step_of(path: Path) -> int:
    return int(path.name.removesuffix(SUFFIX).removeprefix("step_"))


def _spread(order: Sequence[int], number: int) -> list[int]:
    """At most `number` entries at even distances, the first and the last among them."""
    if number >= len(order):
        return list(order)
    if number == 1:
        return [order[0]]
    return [order[round(place * (len(order) - 1) / (number - 1))] for place in range(number)]


def _most_crowded(steps: Sequence[int]) -> int:
    """The place, neither first nor last where that is possible, whose neighbours are nearest to each other."""
    inner = range(1, len(steps) - 1)
    return min(inner, key=lambda place: steps[place + 1] - steps[place - 1], default=0)
