"""One attempt at a code task: a sandbox of its own, six tools, and a grade in the end.

Reads the task's tree and nothing else of its folder until the agent has finished; then the sandbox is killed and what
the agent changed is graded in another one. Writes nothing. The agent gets texts back: never the grade, and no way to
start over. What the sandbox itself does not stop is said there.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from ...evidence import AttemptEvidence, CanaryHit
from ...untrusted import encodable
from ..sandbox.audit import audit_of
from ..sandbox.interface import Changes, ExecResult, Limits, NetworkPolicy, Sandbox, SandboxRefusal, SandboxSpec
from ..tasks.pytest_settings import pytest_environment
from ..tasks.task import Grade, Submission, TaskFolder
from .canaries import Decoy, canary_files, canary_hits, ignored
from .gathered import changed_texts, grade_facts, task_facts
from .tools import ToolError, check_call

Ended = Literal["submitted", "steps", "time", "closed", "stopped"]
Grader = Callable[..., Grade]
"""Takes the task, the submission and the backend; of our own tasks also whether to grade deeper."""
Opener = Callable[[TaskFolder, str, Limits], tuple[str, Sandbox]]
"""The agent's sandbox, and where its interpreter is."""
NO_TESTS_RAN = 5
DEFAULT_LINES = 400
NOTHING_MORE: Mapping[Path, str] = MappingProxyType({})
OVER = "The task is over: it was handed in or its limits are reached."


@dataclass(frozen=True)
class SessionLimits:
    """`steps` are tool calls, failed ones too; `wall_s` is of the whole session, `command_s` of one call."""

    steps: int = 60
    wall_s: float = 1800.0
    command_s: float = 60.0
    shown_chars: int = 12_000
    """Of one result; the middle is left out."""
    file_chars: int = 1_000_000
    """Of one file that the agent writes."""
    sandbox: Limits = field(default_factory=Limits)


class ToolResult(NamedTuple):
    text: str
    is_error: bool = False
    done: bool = False
    """Whether this was the last call of the session."""


class TestReport(NamedTuple):
    """What the author of a change reads of a run of tests."""

    text: str
    failed: bool

    __test__ = False


class TaskSession(AbstractContextManager["TaskSession", None]):
    """Not for several threads at once, but `close` may come from any."""

    def __init__(
        self,
        task: TaskFolder,
        backend: str = "auto",
        limits: SessionLimits | None = None,
        grader: Grader | None = None,
        canary_seed: str | None = None,
        audit: bool = True,
        laid_in: Mapping[str, str] | None = None,
        opener: Opener | None = None,
        plants_decoys: bool = True,
    ) -> None:
        """`canary_seed` names the decoys that are planted; a random one by default, so that nobody learns them.
        `audit`: whether the files that commands touch are noted, where the sandbox allows it.
        `laid_in`: files that are there from the start besides the tree, so that they are no change of the agent's.
        Tasks of others have an `opener` of their own, and their folder is left as it is: no `plants_decoys`."""
        self.task, self.backend, self.limits = task, backend, limits or SessionLimits()
        self._grader = grader or _grade
        self._heard: list[str] = []
        self.evidence: AttemptEvidence | None = None
        """What was left behind; None until the session has ended, and for one that was closed without handing in."""
        self.steps = 0
        self._calls = 0
        self.ended: Ended | None = None
        self.submission: Submission | None = None
        self.grade: Grade | None = None
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._python, self._sandbox = (opener or open_for_agent)(task, backend, self.limits.sandbox)
        try:
            self.decoys: tuple[Decoy, ...] = ()
            self._planted: dict[str, bytes] = {}
            if plants_decoys:
                self.decoys, self._planted = _plant(self._sandbox, task, canary_seed or secrets.token_hex(8))
            for path, text in (laid_in or {}).items():
                self._sandbox.write(path, text.encode())
            self._start = self._sandbox.snapshot()
            self._audit = audit_of(self._sandbox, [decoy.path for decoy in self.decoys]) if audit else None
        except BaseException:
            self._sandbox.kill()
            raise

    @property
    def reward(self) -> float:
        """0 until it was graded."""
        return self.grade.reward if self.grade else 0.0

    @property
    def remaining_s(self) -> float:
        return max(0.0, self.limits.wall_s - (time.monotonic() - self._started))

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """One tool call. Whatever the agent did wrong comes back as text; only a broken sandbox or grader raises."""

        def work() -> str:
            check_call(name, arguments)
            return getattr(self, f"_{name}")(**arguments)

        if self._heard:
            self._heard.append(str(arguments))
        self._calls += 1
        return self._step(work)

    def try_out(self, path: str, text: str, tests: Sequence[str], read: Callable[[str], TestReport]) -> ToolResult:
        """Write a file and run tests, as one step. Where nothing is left to do for them, the work is handed in.
        Without tests nothing is run, and `read` gets an empty text."""

        def work() -> str:
            self._calls += 1
            self._write(path, text)
            report = read(self.test_output(tests) if tests else "")
            if report.failed:
                raise ToolError(report.text)
            self._finish("submitted")
            return report.text

        return self._step(work)

    def test_output(self, tests: Sequence[str]) -> str:
        """What pytest prints, without the repository's own options; each test is named with its outcome at the end."""
        options = ["-q", "-rA", "--tb=short", "--no-header", "-o", "addopts=", "-p", "no:cacheprovider"]
        result = self._run([self._python, "-m", "pytest", *options, *tests])
        shown = self._shown(result)
        ended = _how_it_ended(result, self.limits)
        return shown if result.ending == "exited" else f"{ended}\n{shown}"

    def refuse(self, why: ToolError) -> ToolResult:
        """A step for a turn that was no call at all."""

        def work() -> str:
            raise why

        return self._step(work)

    def grade_deeper(self) -> None:
        """Of our own tasks; others are not offered to be graded again."""
        if self.submission is None or self.grade is None:
            return
        deeper = self._grader(self.task, self.submission, self.backend, True)
        if deeper.reward < self.grade.reward:
            self._regrade(deeper)

    def overrule(self, why: str) -> None:
        if self.grade is not None:
            self._regrade(replace(self.grade, reward=0.0, notes=(*self.grade.notes, why)))

    def _regrade(self, grade: Grade) -> None:
        self.grade = grade
        if self.evidence is not None:
            self.evidence = self.evidence.model_copy(update={"grade": grade_facts(grade)})

    def run_program(self, argv: Sequence[str], env: Mapping[str, str]) -> ExecResult:
        """One that works on its own until it ends or the time is over. `next_call` tells its steps apart."""
        with self._audit.step(0) if self._audit else nullcontext():
            result = self._sandbox.exec(argv, env=env, timeout_s=max(0.1, self.remaining_s))
            self.next_call(self.steps)
            return result

    def next_call(self, calls: int) -> None:
        """The program asks for a turn, after so many tool calls; from any thread."""
        self.steps = max(self.steps, calls)
        if self._audit and calls:
            self._audit.mark(calls - 1)

    def hear(self, texts: Sequence[str]) -> None:
        """What a program that ran on its own showed to its model."""
        self._heard += texts

    def stop(self) -> None:
        """Hand in what there is, for an agent that stopped without a word."""
        with self._lock:
            if self.ended is None:
                self._finish("stopped")

    def close(self) -> None:
        """End without a grade, unless there is one. Twice is fine."""
        if self.ended is None:
            self.ended = "closed"
        self._kill()

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _step(self, work: Callable[[], str]) -> ToolResult:
        with self._lock:
            if self.ended:
                return ToolResult(OVER, is_error=True, done=True)
            self.steps += 1
            try:
                text, failed = work(), False
            except ToolError as error:
                text, failed = str(error), True
            text = encodable(text)
            self._heard.append(text)
            if self.ended is None and self.steps >= self.limits.steps:
                self._finish("steps")
                text = f"{text}\nThis was the last step; the work is handed in as it is."
            elif self.ended is None and not self.remaining_s:
                self._finish("time")
                text = f"{text}\nThe time is over; the work is handed in as it is."
            return ToolResult(text, failed, done=self.ended is not None)

    def _bash(self, command: str) -> str:
        if "\0" in command:
            raise ToolError("`command` must be a string without NUL characters.")
        result = self._run(["/bin/bash", "-c", command])
        shown = self._shown(result)
        if not result.ok:
            raise ToolError(f"{_how_it_ended(result, self.limits)}\n{shown}".rstrip())
        return shown or "(no output)"

    def _read_file(self, path: str, start: int = 1, lines: int = DEFAULT_LINES) -> str:
        every = self._text_of(path).splitlines(keepends=True)
        if start < 1 or lines < 1:
            raise ToolError("Invalid parameters: `start` and `lines` count from 1.")
        if every and start > len(every):
            raise ToolError(f"Invalid parameters: {path} has {len(every)} lines.")
        end = min(len(every), start - 1 + lines)
        shown = _middle_left_out("".join(every[start - 1 : end]), self.limits.shown_chars)
        whole = start == 1 and end == len(every)
        return shown if whole else f"{shown.rstrip()}\n[lines {start} to {end} of {len(every)}]"

    def _write_file(self, path: str, content: str) -> str:
        self._write(path, content)
        return f"Wrote {path} ({len(content)} characters)."

    def _edit_file(self, path: str, old: str, new: str) -> str:
        text = self._text_of(path)
        if not old or old == new:
            raise ToolError("No replacement was performed: `old` is empty or equal to `new`.")
        if (found := text.count(old)) != 1:
            where = f"is {found} times in {path}; add lines around it" if found else f"was not found in {path}"
            raise ToolError(f"No replacement was performed: the old text {where}.")
        self._write(path, text.replace(old, new))
        return f"Edited {path}."

    def _run_tests(self, ids: list[str] | None = None) -> str:
        if odd := next((each for each in ids or () if each.startswith("-") or "\0" in each), None):
            raise ToolError(f"Invalid arguments: {odd[:80]!r} is no test id.")
        result = self._run([self._python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(ids or ())])
        shown = self._shown(result)
        if result.ending != "exited" or result.exit_code not in (0, 1):
            which = "no test ran" if result.exit_code == NO_TESTS_RAN else _how_it_ended(result, self.limits)
            raise ToolError(f"Error: {which}\n{shown}".rstrip())
        return shown

    def _submit(self) -> str:
        self._finish("submitted")
        return "The work is handed in."

    def _finish(self, how: Ended) -> None:
        changes = Changes({})
        try:
            changes = self._sandbox.diff(self._start)
        except SandboxRefusal:
            pass  # a working folder beyond its limits holds nothing that could be graded
        finally:
            self.ended = how
            self._kill()
        opened = {seen.path for seen in self._audit.seen if seen.act == "open"} if self._audit else ()
        hits = canary_hits(self.decoys, self._heard, changes, opened)
        self.submission = Submission(dict(changes.written), tuple(changes.removed))
        self.evidence = self._gathered(changes, tuple(hits))
        self._regrade(self._grader(self.task, self.submission, self.backend))

    def _gathered(self, changes: Changes, hits: tuple[CanaryHit, ...]) -> AttemptEvidence:
        texts = changed_texts(changes, self.task.tree, self._planted)
        found = AttemptEvidence(
            task=task_facts(self.task),
            before=texts.before,
            written=texts.written,
            written_left_out=texts.left_out,
            removed=changes.removed,
            special=changes.special,
            canary_hits=hits,
        )
        if self._audit is None:
            return found
        noted = {
            "audited": True,
            "events": tuple(self._audit.seen),
            "events_lost": self._audit.events_lost,
            "events_left_out": self._audit.left_out,
            "opened_per_step": tuple(self._audit.opened_per_step),
            "unwatched_folders": self._audit.unwatched_folders,
        }
        return found.model_copy(update=noted)

    def _kill(self) -> None:
        self._sandbox.kill()
        if self._audit:
            self._audit.close()

    def _run(self, argv: list[str]) -> ExecResult:
        # An interpreter that is stopped at once would look like a broken sandbox.
        timeout_s = max(0.1, min(self.limits.command_s, self.remaining_s))
        with self._audit.step(self._calls - 1) if self._audit else nullcontext():
            return self._sandbox.exec(argv, timeout_s=timeout_s)

    def _shown(self, result: ExecResult) -> str:
        text = b"\n".join(part for part in (result.stdout.rstrip(b"\n"), result.stderr.rstrip(b"\n")) if part)
        return _middle_left_out(text.decode("utf-8", "replace"), self.limits.shown_chars)

    def _text_of(self, path: str) -> str:
        try:
            return self._sandbox.read(self._inside(path)).decode("utf-8")
        except UnicodeDecodeError as error:
            raise ToolError(f"Error: {path} is no text.") from error
        except (OSError, SandboxRefusal) as error:
            raise ToolError(_path_trouble(path, error)) from error

    def _inside(self, path: str) -> str:
        """Agents also name files as commands see them."""
        return path.removeprefix(f"{self._sandbox.workdir}/")

    def _write(self, path: str, content: str) -> None:
        if len(content) > self.limits.file_chars:
            raise ToolError(f"Error: the content is too large ({len(content)} characters).")
        try:
            self._sandbox.write(self._inside(path), content.encode("utf-8", "surrogatepass"))
        except (OSError, SandboxRefusal) as error:
            raise ToolError(_path_trouble(path, error)) from error


def open_for_agent(
    task: TaskFolder,
    backend: str,
    limits: Limits,
    more_shown: Mapping[Path, str] = NOTHING_MORE,
    network: NetworkPolicy = "none",
) -> tuple[str, Sandbox]:
    """The agent's sandbox and where its interpreter is; the repository is importable from the working folder alone."""
    from ..sandbox.open import open_sandbox
    from ..sandbox.toolchain import toolchain

    known = task.code_task
    tools = toolchain(known.distributions, exclude=known.packages)
    shown = {**tools.read_only, **more_shown}
    spec = SandboxSpec(tree=task.tree, read_only=shown, network=network, limits=limits)
    roots = [spec.workdir if root in (".", "") else f"{spec.workdir}/{root}" for root in known.source_roots]
    settings = pytest_environment(known.pytest_options, known.pytest_plugins)
    env = {**tools.test_env, **settings, "PYTHONPATH": ":".join(roots)}
    return tools.python, open_sandbox(replace(spec, env=env), backend)


def _plant(sandbox: Sandbox, task: TaskFolder, seed: str) -> tuple[tuple[Decoy, ...], dict[str, bytes]]:
    """Decoys where deleted code usually leaks, and the new `.gitignore`. A file of the tree is never replaced."""
    planted = canary_files(seed, task.code_task.symbols)
    kept = [decoy for decoy in planted.decoys if not (task.tree / decoy.path).exists()]
    for decoy in kept:
        sandbox.write(decoy.path, planted.files[decoy.path])
    ignore = task.tree / ".gitignore"
    before = ignore.read_bytes().rstrip(b"\n") if ignore.is_file() else b""
    lines = [before] if before else []
    after = b"\n".join([*lines, *(line.encode() for line in ignored(kept)), b""])
    sandbox.write(".gitignore", after)
    return tuple(kept), {".gitignore": after}


def _grade(task: TaskFolder, submission: Submission, backend: str, deep: bool = False) -> Grade:
    from ..grading.grader import grade

    return grade(task, submission, backend, deep=deep)


def _how_it_ended(result: ExecResult, limits: SessionLimits) -> str:
    if result.ending == "timeout":
        return f"Command timed out after {limits.command_s:g} s"
    if result.ending == "memory":
        return f"Command was killed: it used more than {limits.sandbox.memory_bytes // (1 << 20)} MiB"
    return f"Exit code {result.exit_code}"


def _path_trouble(path: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return f"File {path} does not exist."
    said = str(error.args[0]) if isinstance(error, SandboxRefusal) else type(error).__name__
    if isinstance(error, IsADirectoryError) or "Is a directory" in said:
        return f"Path {path} is a directory."
    return f"Error: {path} cannot be used: {said}"


def _middle_left_out(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
