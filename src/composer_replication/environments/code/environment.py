"""Code tasks as an `Environment`: made by `env make`, played in a sandbox each, graded with hidden tests.

Reads the folders of `[environment] tasks`. The policy answers with tools (`agent`) or with one code block
(`definition`). Tasks that cannot be asked are named in `left_out`, by reason.

Which side a task is on is decided by names alone, so that it never changes sides from run to run. With several
repositories, whole repositories are held out: the solution of one task may stand in the tree of another. With one
repository, functions and classes of modules are drawn, with all that is inside them. A task about drawn and undrawn
ones is on neither side, so that no symbol is ever on both.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from composer_replication.errors import UsageError
from composer_replication.records import Message, TraceState, canonical_json, content_id

from ..opening import tell_left_out
from ..protocol import FEWEST_TO_TELL, TRAIN, Environment, EpisodeLimits, Judged, Use
from .episodes.definition import CannotBeAnswered, DefinitionEpisode, question
from .episodes.session import SessionLimits
from .episodes.text_episode import AgentEpisode, TextEpisode
from .episodes.tools import opening
from .episodes.turns import as_text
from .episodes.visible_tests import MOST_CHARS, VisibleTestsOf
from .generators.difficulty import LEVELS, difficulty_score
from .grading.grader import GradingProcesses
from .harness.opening import open_harness
from .splits import HELDOUT, by_repository, by_symbol, roots, smallest_share
from .tasks.store import read_tasks
from .tasks.task import AskedTask, CodeTask, Grain, TaskFolder

if TYPE_CHECKING:
    from composer_replication.config import Config, EnvironmentConfig
    from composer_replication.environments.protocol import EnvironmentTask

    from .harness.episode import HarnessEpisode

GRAINS = get_args(Grain)
HARDNESS = ((5.0, "1 easy"), (6.5, "2 middle"), (8.5, "3 hard"))
"""Upper bounds of the static score; the labels sort."""
HARDEST = "4 very hard"
WALL_S = 1800.0
ANSWER_TOKENS = {"agent": 600, "definition": MOST_CHARS // 3}
"""Of one answer, for planning."""


def open_code(config: Config) -> CodeEnvironment:
    chosen = config.environment
    if not chosen.tasks:
        raise UsageError("[environment] names no tasks", 'recompose env make REPO -o DIR, then tasks = ["DIR"]')
    return CodeEnvironment([task for folder in chosen.tasks for task in read_tasks(Path(folder))], chosen)


class CodeEnvironment(Environment):
    name = "code"

    def __init__(self, folders: Sequence[TaskFolder], settings: EnvironmentConfig, wall_s: float = WALL_S) -> None:
        """`wall_s` is of one episode in its sandbox."""
        self.settings, self._wall_s = settings, wall_s
        self.limits = EpisodeLimits(
            turns=settings.tries if settings.answer == "definition" else settings.max_steps,
            observation_tokens=ANSWER_TOKENS[settings.answer],
            completion_tokens=settings.completion_tokens,
            concurrency=settings.concurrency,
            step_timeout_s=settings.step_timeout_s,
        )
        self._visible = VisibleTestsOf(settings.sandbox)
        self._graders = GradingProcesses(settings.concurrency)
        self._harness = open_harness(settings, wall_s) if settings.harness else None
        self._tasks: dict[str, AskedTask] = {}
        self._by_prompt: dict[str, AskedTask] = {}
        unique = {each.code_task.task.task_id: each for each in folders}
        self._repositories = {each.code_task.repository for each in unique.values()}
        self._check_names()
        self._several = several = len(self._repositories) > 1 or bool(settings.heldout_repositories)
        self.heldout = {HELDOUT: "unseen repositories" if several else "unseen functions"}
        self._splits: dict[str, list[AskedTask]] = {TRAIN: [], HELDOUT: []}
        for folder in sorted(unique.values(), key=lambda each: content_id("order", each.code_task.task.task_id)):
            self._take_in(folder)

    def tasks(self, split: str, use: Use = "training") -> Sequence[AskedTask]:
        """The same for every use: there are only so many. The order mixes repositories."""
        found = self._splits.get(split, [])
        if not found:
            raise self._nothing_in(split)
        return found

    def _nothing_in(self, split: str) -> UsageError:
        names, left_out = ", ".join(sorted(self._repositories)), tell_left_out(self) or "none left out"
        if not self._tasks:
            return UsageError(
                f'no task of {names} can be asked with answer = "{self.settings.answer}" ({left_out})',
                'recompose env make REPO -o DIR --mode stub --grain symbol, or set answer = "agent"',
            )
        enough = self.share_holding_out(FEWEST_TO_TELL)
        share = f"heldout_share = {enough}" if enough else "another heldout_share"
        more = f"recompose env make REPO -o DIR --seed 1 adds tasks to the folder; or set {share}"
        if len(self._repositories) > 1:
            more = f"choose heldout_repositories among {names}, or set {share}"
        train_only = ", 0 to train without measuring" if split != TRAIN else ""
        return UsageError(
            f"none of {len(self._tasks)} tasks of {names} is in {split} ({left_out})", f"{more}{train_only}"
        )

    def share_holding_out(self, number: int) -> float | None:
        if self.settings.heldout_repositories:
            return None
        return smallest_share([task.folder.code_task for task in self._tasks.values()], number, self._side)

    def _side(self, task: CodeTask, share: float) -> str | None:
        if self._several:
            return by_repository(task, share, self.settings.heldout_repositories)
        return by_symbol(task, share)

    def task(self, task_id: str) -> AskedTask:
        if task_id not in self._tasks:
            raise LookupError(f"there is no code task {task_id} in {', '.join(self.settings.tasks)}")
        return self._tasks[task_id]

    def covering(self, task: AskedTask) -> Sequence[str]:
        """Visible tests that run what a definition is asked for."""
        return self._visible(task.folder).covering

    def start(self, task: EnvironmentTask) -> TextEpisode | HarnessEpisode:
        asked = self.task(task.task_id)
        if self._harness:
            return self._harness.episode(asked, self._graders.grade)
        return self._episode(asked, self.settings.tries)

    def close(self) -> None:
        if self._harness:
            self._harness.close()

    def resume(self, task_id: str, history: Sequence[Message]) -> TextEpisode | None:
        """Plays the turns again in a new sandbox. A harness cannot be put back to where it was."""
        if self._harness:
            return None
        episode = self._episode(self.task(task_id), self.settings.tries)
        try:
            for message in history:
                if message["role"] == "assistant":
                    episode.step(as_text(message))
        except BaseException:
            episode.close()
            raise
        return episode

    def judge(self, state: TraceState, turn: str) -> Judged | None:
        """In `definition`: accepted where the block fits and its visible tests pass, right where the hidden ones pass.
        An agent's turn is right or wrong only where it ended the work."""
        messages = state["messages"]
        task = self._by_prompt.get(_prompt_key(messages))
        if task is None:
            return None
        one_try = self.settings.answer == "definition"
        episode = self._episode(task, tries=1) if one_try else self.resume(task.task_id, messages)
        if episode is None:
            return None
        try:
            answer = episode.step(turn)
            right = episode.reward >= 1 if episode.finished else None
            return Judged(not answer.failed, right)
        finally:
            episode.close()

    def _episode(self, task: AskedTask, tries: int) -> TextEpisode:
        chosen = self.settings
        if chosen.answer == "definition":
            return DefinitionEpisode(task, self._visible, chosen.sandbox, tries, self._graders.grade)
        limits = SessionLimits(steps=chosen.max_steps, wall_s=self._wall_s)
        return AgentEpisode(task, chosen.sandbox, limits, self._graders.grade)

    def _take_in(self, folder: TaskFolder) -> None:
        split = self._side(folder.code_task, self.settings.heldout_share)
        if self._harness and (leak := self._harness.leak(folder)):
            return self._leave_out(f"the harness's runtime tells the solution: {leak}", folder)
        try:
            messages = self._opening(folder)
        except CannotBeAnswered as reason:
            return self._leave_out(str(reason), folder)
        asked = AskedTask(folder, tuple(messages), labels_of(folder.code_task))
        key = _prompt_key(messages)
        if key in self._by_prompt:
            return self._leave_out("same prompt as another task", folder)
        self._by_prompt[key] = self._tasks[asked.task_id] = asked
        if split is None:
            return self._leave_out("symbols of both splits", folder)
        self._splits[split].append(asked)

    def _leave_out(self, reason: str, task: TaskFolder) -> None:
        self.left_out = {**self.left_out, reason: [*self.left_out.get(reason, ()), task.folder.name]}

    def _opening(self, folder: TaskFolder) -> list[Message]:
        if self.settings.answer == "definition":
            return question(folder, self.settings.tries)
        return opening(folder.code_task, calls_as_text=True)

    def _check_names(self) -> None:
        unknown = sorted(set(self.settings.heldout_repositories) - self._repositories)
        if unknown:
            known = ", ".join(sorted(self._repositories))
            raise UsageError(f"no task is of the repository {unknown[0]}", f"heldout_repositories are among {known}")


def labels_of(known: CodeTask) -> dict[str, str]:
    """`family` and `rung` are for the curriculum: rungs of a family sort as texts, the easiest first."""
    measured = {key: value for key, value in known.task.difficulty.items() if isinstance(value, int | float)}
    score = difficulty_score({"lines": measured.get("function_lines", 0.0), **measured}, known.level)
    return {
        "repository": known.repository,
        "difficulty": next((label for bound, label in HARDNESS if score < bound), HARDEST),
        "generator": known.generator,
        "mode": known.mode,
        "grain": known.grain,
        "level": known.level,
        "family": family(known),
        "rung": f"{GRAINS.index(known.grain)} {LEVELS.index(known.level)} {score:06.2f}",
    }


def _prompt_key(messages: Sequence[Message]) -> str:
    """Of the messages before the first turn."""
    before = takewhile(lambda message: message["role"] != "assistant", messages)
    return canonical_json([[message["role"], message["content"]] for message in before])


def family(task: CodeTask) -> str:
    """Tasks on the same code, whatever their level, mode and generator."""
    return f"{task.repository}/{'+'.join(sorted(roots(task)))}"
