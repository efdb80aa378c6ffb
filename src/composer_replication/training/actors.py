"""Rollouts in Monarch's actor processes. A worker that dies is replaced, and what it had in hand is played again.

Reads the policy from its folder, once per worker; gives what `policy.recorded` gives. Tasks are dealt out in parts,
each with a seed of its own, so who plays a part, and how often it was begun, changes nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import monarch.actor  # pyright: ignore[reportMissingImports]
import torch
from monarch.actor import Actor, endpoint, this_host  # pyright: ignore[reportMissingImports]

from composer_replication.config import Config
from composer_replication.environments.evidence import TraceEvidence
from composer_replication.environments.opening import open_environment
from composer_replication.environments.protocol import EnvironmentTask
from composer_replication.errors import RecomposeError
from composer_replication.progress import Progress
from composer_replication.records import Trace

from .models.loading import load_saved_policy
from .policy import Played, recorded
from .stored.records import TokenizedTrace

PART = 16
"""Episodes that are sampled together."""
MOST_DEATHS = 3
"""Of workers over one part."""
KINDS = (Trace, TokenizedTrace, TraceEvidence)


class PlayingActor(Actor):  # pyright: ignore[reportUntypedBaseClass]
    def __init__(self, config: str, model: str) -> None:
        self._config = Config.model_validate_json(config)
        name, weights = self._config.model.name, self._config.hardware.weights
        self._policy = load_saved_policy(Path(model), name, weights, self._config.model.chat_template_kwargs)

    @endpoint  # pyright: ignore[reportUntypedFunctionDecorator]
    async def play(self, task_ids: list[str], first: int) -> list[list[str]]:
        """JSON of each kind. Rollouts may run an event loop of their own, so they get a thread."""
        return await asyncio.to_thread(self._play, task_ids, first)

    def _play(self, task_ids: list[str], first: int) -> list[list[str]]:
        generator = torch.Generator(device=self._policy.model.device).manual_seed(self._config.seed + first)
        with open_environment(self._config) as environment:
            tasks = [environment.task(task_id) for task_id in task_ids]
            played = recorded(self._policy, self._config, environment, tasks, first=first, generator=generator)
        return [[record.model_dump_json() for record in records] for records in played]


def play_in_actors(
    config: Config, model: Path, tasks: Sequence[EnvironmentTask], workers: int, progress: Progress
) -> Played:
    starts = range(0, len(tasks), PART)
    parts = {first: [task.task_id for task in tasks[first : first + PART]] for first in starts}
    # Monarch's own answer to a dead worker is to end this process too. News of a death may come after the last part, so
    # the hook stays.
    monarch.actor.unhandled_fault_hook = lambda failure: None
    done = _in_thread(_Crew(config, model, parts, progress).play(min(workers, len(parts))))
    traces, rows, evidence = (
        [kind.model_validate_json(text) for first in starts for text in done[first][place]]
        for place, kind in enumerate(KINDS)
    )
    return Played(traces, rows, evidence)  # pyright: ignore[reportArgumentType]


class _Crew:
    def __init__(self, config: Config, model: Path, parts: dict[int, list[str]], progress: Progress) -> None:
        self._given = config.model_dump_json(), str(model.resolve())
        self._parts, self._waiting, self._progress = parts, deque(parts), progress
        self._done: dict[int, list[list[str]]] = {}
        self._deaths = Counter[int]()

    async def play(self, workers: int) -> dict[int, list[list[str]]]:
        async with asyncio.TaskGroup() as group:
            for number in range(workers):
                group.create_task(self._work(number))
        return self._done

    async def _work(self, number: int) -> None:
        procs: Any = None
        worker: Any = None
        try:
            while self._waiting:
                if procs is None:
                    procs = this_host().spawn_procs(per_host={"procs": 1})
                    worker = procs.spawn(f"player_{number}", PlayingActor, *self._given)
                first = self._waiting.popleft()
                try:
                    self._done[first] = await worker.play.call_one(self._parts[first], first)
                except monarch.actor.ActorError as error:  # the actor lives, and tells of the environment or the policy
                    raise RecomposeError(
                        f"a rollout worker failed: {error}", "run it without --launcher monarch"
                    ) from error
                except RuntimeError as error:
                    procs = None
                    self._bury(first, error)
                self._progress.step(len(self._done), len(self._parts), "parts")
        finally:
            if procs is not None:
                await procs.stop()

    def _bury(self, first: int, error: RuntimeError) -> None:
        self._deaths[first] += 1
        task = self._parts[first][0]
        if self._deaths[first] >= MOST_DEATHS:
            raise RecomposeError(
                f"{MOST_DEATHS} workers died over the part of task {task}: {error}", "look at that task"
            )
        self._progress.note(f"a rollout worker died; the episodes from task {task} on are played again")
        self._waiting.appendleft(first)


def _in_thread(work: Any) -> Any:
    """Its own loop, whether or not the caller is in one."""
    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(asyncio.run, work).result()
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from several
