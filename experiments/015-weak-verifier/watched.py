"""What the monitor sees of answers that hold nothing but the examples of their tasks, and how often it is wrong.

    python experiments/015-weak-verifier/watched.py

Plays examples_only.toml in sandboxes, against the tasks of 014. Then looks, without a sandbox, at every solution of
these tasks and at every attempt of the untrained model that 014 has stored. About a minute on two cores.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from old_answers import examples_only, name_in  # noqa: E402
from weak import WeakEnvironment, WeakEpisode  # noqa: E402

from composer_replication.config import EnvironmentConfig  # noqa: E402
from composer_replication.environments.code.episodes.code_blocks import read_answer  # noqa: E402
from composer_replication.environments.code.episodes.definition import place_of  # noqa: E402
from composer_replication.environments.code.episodes.gathered import task_facts  # noqa: E402
from composer_replication.environments.code.episodes.splicing import splice  # noqa: E402
from composer_replication.environments.code.episodes.tools import ToolError  # noqa: E402
from composer_replication.environments.code.tasks.store import read_tasks  # noqa: E402
from composer_replication.environments.code.tasks.task import TaskFolder  # noqa: E402
from composer_replication.environments.evidence import AttemptEvidence  # noqa: E402
from composer_replication.monitor.conduct import Conduct  # noqa: E402
from composer_replication.monitor.diff.layer import diff_signs  # noqa: E402
from shared.result_lines import read_result  # noqa: E402

RULE = "answers_of_examples"
REAL_CODE = HERE.parent / "014-real-code"


def main() -> None:
    with tempfile.TemporaryDirectory() as place, tarfile.open(REAL_CODE / "tasks.tar.xz") as packed:
        packed.extractall(place, filter="data")
        folders = {manifest.parent for manifest in Path(place).glob("*/manifest.json")}
        tasks = [task for folder in sorted(folders) for task in read_tasks(folder)]
        for form, episodes in played(tasks).items():
            paid, solved = sum(each.paid for each in episodes), sum(each.solved >= 1 for each in episodes)
            seen = sum(each.has_sign for each in episodes)
            print(f"{form}: {len(episodes)} answers, paid {paid:.0f}, solved {solved}, with a sign {seen}")
        solutions = [signed for task in tasks for signed in of_solution(task)]
        print(f"solutions: {len(solutions)}, with a sign {sum(solutions)}")
        attempts = list(of_attempts({task.folder.name: task for task in tasks}))
        print(f"attempts of the start: {len(attempts)}, with a sign {sum(attempts)}")


def played(tasks: list[TaskFolder]) -> dict[str, list[WeakEpisode]]:
    answers = examples_only()
    own = [task for task in tasks if task.code_task.repository == "inflection"]
    settings = {"monitor": "off"}
    chosen = EnvironmentConfig(
        name="code", answer="definition", tries=1, heldout_share=0.0, concurrency=1, settings=settings
    )
    environment = WeakEnvironment(own, chosen)
    found: dict[str, list[WeakEpisode]] = {}
    for task in environment.tasks("train"):
        for form, answer in answers[name_in(task)].items():
            episode = environment.start(task)
            assert isinstance(episode, WeakEpisode)
            episode.step(answer)
            episode.close()
            found.setdefault(form, []).append(episode)
    return found


def of_solution(task: TaskFolder) -> Iterator[bool]:
    for path in sorted({symbol.file for symbol in task.code_task.symbols}):
        if (task.gold / path).is_file() and (task.tree / path).is_file():
            yield has_sign(task, path, (task.tree / path).read_text("utf-8"), (task.gold / path).read_text("utf-8"))


def of_attempts(tasks: dict[str, TaskFolder]) -> Iterator[bool]:
    for file in sorted((REAL_CODE / "results").glob("start-*")):
        for line in read_result(file):
            for said in line.get("said", ()):
                place = place_of(task := tasks[line["name"]])
                try:
                    text = splice(place.path, place.text, read_answer(said, place.names), place.names)
                except ToolError:
                    yield False
                else:
                    yield has_sign(task, place.path, place.text, text)


def has_sign(task: TaskFolder, path: str, before: str, written: str) -> bool:
    evidence = AttemptEvidence(task=task_facts(task), before={path: before}, written={path: written})
    return any(sign.rule == RULE for sign in diff_signs(Conduct("", (), evidence)))


if __name__ == "__main__":
    main()
