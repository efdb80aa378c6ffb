"""Failed attempts of the start, played again, and what was said of each: true feedback, and that of another task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from composer_replication.environments.code.environment import CodeEnvironment
from composer_replication.environments.code.tasks.task import AskedTask
from composer_replication.records import Trace
from composer_replication.training.lessons.feedback import FeedbackHinter
from shared.result_lines import read_result

SITES_PER_TASK = 4
MOST_PLAYED = 12


class Failed(NamedTuple):
    """One attempt that the environment called an error."""

    task: AskedTask
    said: str
    observation: str
    trace: Trace


def failed_attempts(environment: CodeEnvironment, task: AskedTask, attempts: Sequence[str]) -> list[Failed]:
    """The first few that fail again, all different."""
    found: list[Failed] = []
    for number, said in enumerate(dict.fromkeys(attempts)):
        if number == MOST_PLAYED or len(found) == SITES_PER_TASK:
            break
        episode = environment.start(task)
        try:
            answer = episode.step(said)
            if answer.failed:
                found.append(Failed(task, said, answer.observation or "", episode.trace("policy", number)))
        finally:
            episode.close()
    return found


def told(failed: Sequence[Failed], max_tokens: int) -> Iterator[dict[str, Any]]:
    """A line for each attempt that has both kinds of feedback."""
    traces = [one.trace for one in failed]
    hints = zip(*(FeedbackHinter(max_tokens, sham=sham)(traces) for sham in (False, True)), strict=True)
    for one, (true, sham) in zip(failed, hints, strict=True):
        if true and sham:
            yield {
                "line": "site",
                "task_id": one.task.task_id,
                "name": one.task.folder.folder.name,
                "repository": one.task.labels["repository"],
                "kind": true[0].kind,
                "said": one.said,
                "observation": one.observation,
                "feedback": true[0].hint,
                "sham": sham[0].hint,
            }


def stored_attempts(results: Path, parts: int) -> Mapping[str, list[str]]:
    """Task -> what the start said: the first attempt of each part, then the second, and so on."""
    by_part = [
        {line["task_id"]: line["said"] for line in read_result(results / f"start-{part}.jsonl.zst") if "said" in line}
        for part in range(parts)
    ]
    rows = {task: zip(*(own[task] for own in by_part), strict=True) for task in by_part[0]}
    return {task: [said for row in own for said in row] for task, own in rows.items()}
