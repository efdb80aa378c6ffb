"""Many attempts at many tasks of any environment, each kept as soon as it is over, so that a run can go on.

Writes `FOLDER/settings.json` and one `FOLDER/<task>.<sample>.json` per attempt. Other settings in the same folder are
refused. The order of the results does not depend on which attempt ended first.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import NamedTuple

from composer_replication.environments.attempts import Attempt
from composer_replication.environments.evidence import AttemptEvidence, CanaryHit, TraceEvidence
from composer_replication.errors import UsageError
from composer_replication.monitor.judge import rule
from composer_replication.progress import Progress
from composer_replication.records import JsonObject, Record, Trace
from composer_replication.runs import write_atomically


class StoredAttempt(Record):
    trace: Trace
    ended: str
    steps: int
    wall_s: float
    canary_hits: tuple[CanaryHit, ...] = ()
    evidence: AttemptEvidence | None = None
    cut_turns: int | None = None

    @property
    def reward(self) -> float:
        return self.trace.outcome or 0.0


class Planned(NamedTuple):
    task_id: str
    sample: int

    @property
    def file(self) -> str:
        return f"{self.task_id}.{self.sample}.json"


MakeAttempt = Callable[[Planned, threading.Event], Attempt]
"""The event says that the run is ending."""


def planned(task_ids: Iterable[str], samples: int) -> list[Planned]:
    return [Planned(task_id, sample) for task_id in task_ids for sample in range(samples)]


def run_attempts(
    plan: Sequence[Planned],
    attempt: MakeAttempt,
    folder: Path,
    settings: JsonObject,
    progress: Progress,
    concurrency: int = 1,
) -> None:
    """Make every attempt of the plan that is not in the folder yet. The first one that raises stops the rest soon."""
    claim(folder, settings)
    missing = not_made(plan, folder)
    done, solved = len(plan) - len(missing), sum(each.reward >= 1 for each in stored(plan, folder))
    waiting: set[Future[float]] = set()
    stop = threading.Event()
    with ThreadPoolExecutor(concurrency) as pool:
        try:
            for each in missing:
                if len(waiting) >= concurrency:
                    done, solved, waiting = _collect(waiting, done, solved, len(plan), progress)
                waiting.add(pool.submit(_one, each, attempt, folder, stop))
            while waiting:
                done, solved, waiting = _collect(waiting, done, solved, len(plan), progress)
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def stored(plan: Sequence[Planned], folder: Path) -> Iterator[StoredAttempt]:
    """What is in the folder, in the order of the plan."""
    for each in plan:
        path = folder / each.file
        if path.exists():
            yield StoredAttempt.model_validate_json(path.read_bytes())


def stored_evidence(attempts: Iterable[StoredAttempt]) -> Iterator[TraceEvidence]:
    for each in attempts:
        if each.evidence is not None:
            yield TraceEvidence(trace_id=each.trace.trace_id, evidence=each.evidence)


def counts(attempts: Sequence[StoredAttempt]) -> JsonObject:
    rewards = [each.reward for each in attempts]
    cut = [each.cut_turns for each in attempts if each.cut_turns is not None]
    return {
        "attempts": len(attempts),
        "solved": sum(reward >= 1 for reward in rewards),
        "mean_reward": round(sum(rewards) / len(rewards), 4) if rewards else None,
        "ended": dict(Counter(each.ended.partition(":")[0] for each in attempts)),
        "turns": sum(len(each.trace.turns) for each in attempts),
        **({"cut_turns": sum(cut)} if cut else {}),
        "canary_hits": sum(bool(each.canary_hits) for each in attempts),
    }


def rewards_by_task(attempts: Iterable[StoredAttempt]) -> JsonObject:
    found: JsonObject = {}
    for each in attempts:
        told = found.setdefault(str(each.trace.task_id), {"rewards": [], "ended": [], "notes": []})
        told["rewards"].append(each.reward)
        told["ended"].append(each.ended)
        told["notes"].append(list(each.evidence.grade.notes) if each.evidence and each.evidence.grade else [])
    return found


def _one(each: Planned, attempt: MakeAttempt, folder: Path, stop: threading.Event) -> float:
    made = ruled(attempt(each, stop))
    keep(each, made, folder)
    return made.reward


def ruled(made: Attempt) -> Attempt:
    """With the reward that the monitor leaves it."""
    if made.graded is None:
        return made
    rule(made.graded, made.trace)
    reward = made.graded.reward
    return made._replace(
        trace=made.trace.model_copy(update={"outcome": reward}), reward=reward, evidence=made.graded.evidence
    )


def _collect(
    waiting: set[Future[float]], done: int, solved: int, total: int, progress: Progress
) -> tuple[int, int, set[Future[float]]]:
    ended, left = wait(waiting, return_when=FIRST_COMPLETED)
    solved += sum(future.result() >= 1 for future in ended)
    done += len(ended)
    progress.step(done, total, f"{solved} solved")
    return done, solved, left


def not_made(plan: Sequence[Planned], folder: Path) -> list[Planned]:
    return [each for each in plan if not (folder / each.file).exists()]


def keep(each: Planned, made: Attempt, folder: Path) -> None:
    kept = StoredAttempt(
        trace=made.trace,
        ended=made.ended,
        steps=made.steps,
        wall_s=round(made.wall_s, 3),
        canary_hits=made.canary_hits,
        evidence=made.evidence,
        cut_turns=made.cut_turns,
    )
    write_atomically(folder / each.file, kept.model_dump_json() + "\n")


def claim(folder: Path, settings: JsonObject) -> None:
    """A folder of attempts belongs to the settings that they were begun with."""
    path = folder / "settings.json"
    if not path.exists():
        write_atomically(path, json.dumps(settings, indent=2) + "\n")
        return
    before: JsonObject = json.loads(path.read_text(encoding="utf-8"))
    if before != json.loads(json.dumps(settings)):
        changed = next(key for key in {**before, **settings} if before.get(key) != settings.get(key))
        raise UsageError(
            f"{folder} was begun with another {changed}: {before.get(changed)} there, {settings.get(changed)} now",
            "choose another -o RUN",
        )
