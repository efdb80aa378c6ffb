"""One attempt of a harness at a code task: it works in a sandbox of its own, and every turn that it asks for is sampled
from the policy.

The sandbox has no network but its own loopback, where a relay carries connections to the capture proxy; there is no
other way out. When the harness has ended, the sandbox is killed and what it changed is graded elsewhere, as always.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace

from composer_replication.errors import RecomposeError, UsageError
from composer_replication.records import JsonObject, Segment, Source, Trace, content_id, family_of

from ...protocol import PlainAnswer
from ...self_played import ContextFull, NoTurn, TokenSegment, Writer
from ..episodes.session import Grader, SessionLimits, TaskSession, open_for_agent
from ..episodes.text_episode import SessionEpisode
from ..sandbox.interface import MIB, ExecResult, Limits, Sandbox
from ..sandbox.local import LocalSandbox
from ..tasks.task import AskedTask, TaskFolder
from . import relay
from .proxy import MOST_STOPS, SOCKET, Capture, CaptureProxy
from .runtime import INSIDE, Harness, Runtime
from .segments import Arranged, arranged

PORT = 41999
CAPTURE = "/capture"
LIMITS = Limits(memory_bytes=2048 * MIB, processes=256, open_files=1024)
TOLD_CHARS = 300
NOT_FOUND = (126, 127)
NOTHING = Arranged((), (), (), (), [])


@dataclass(frozen=True)
class HarnessSettings:
    harness: Harness
    proxy: CaptureProxy
    runtime: Runtime | None
    max_calls: int
    wall_s: float


class HarnessEpisode(SessionEpisode):
    """Plays itself: a turn cannot be put in from outside."""

    tools: Sequence[JsonObject] = ()

    def __init__(self, task: AskedTask, backend: str, settings: HarnessSettings, grader: Grader) -> None:
        self.task, self.messages = task, task.messages
        self.finished = False
        self.ended: str | None = None
        self._backend, self._settings, self._grader = backend, settings, grader
        self._sandbox: Sandbox | None = None
        self._loops = False
        self._arranged = NOTHING

    @property
    def steps(self) -> int:
        """Model calls."""
        return len(self._arranged.turns)

    @property
    def segments(self) -> Sequence[TokenSegment]:
        return self._arranged.tokens

    def step(self, turn: str) -> PlainAnswer:
        raise RecomposeError("a harness asks for its turns itself", "leave out what puts turns in from outside")

    def play(self, write: Writer) -> None:
        chosen = self._settings
        sandbox = replace(LIMITS, wall_s=chosen.wall_s, cpu_s=int(chosen.wall_s) + 1)
        limits = SessionLimits(steps=chosen.max_calls, wall_s=chosen.wall_s, sandbox=sandbox)
        folder = self.task.folder
        self.session = TaskSession(folder, self._backend, limits, self._grader, opener=self._open)
        with chosen.proxy.session(write, chosen.max_calls, self._on_call, self._end_loop) as capture:
            self._capture = capture
            result = self.session.run_program(self._command(), self._environment(capture.key))
        if capture.failure:
            raise capture.failure
        self._arranged = arranged(capture.session.graph.nodes())
        self.session.hear(self._arranged.heard)
        self.finished, self.ended = True, self._how_it_ended(result, capture)

    def trace(self, source_model: str, sample: int) -> Trace:
        known, made = self.task.folder.code_task, self._arranged
        licence = known.provenance.get("licence")
        agent = self._settings.harness.agent
        whose = {"source_model": source_model, "family": family_of(source_model)}
        turns = (turn.model_copy(update=whose) for turn in made.turns)
        return Trace(
            trace_id=content_id(agent, self.task.task_id, source_model, sample, list(made.messages)),
            source=Source(agent=agent, licence=licence if isinstance(licence, str) else None),
            task_id=self.task.task_id,
            messages=made.messages or tuple(self.messages),
            turns=tuple(turns),
            segments=made.segments or (Segment(start=0),),
            tools=made.tools,
            outcome=self.reward,
        )

    def _open(self, task: TaskFolder, backend: str, limits: Limits) -> tuple[str, Sandbox]:
        shown = {self._settings.proxy.folder: CAPTURE}
        if runtime := self._settings.runtime:
            shown[runtime.folder] = INSIDE
        self._python, self._sandbox = open_for_agent(task, backend, limits, shown, "loopback")
        return self._python, self._sandbox

    def _command(self) -> list[str]:
        source = inspect.getsource(relay)
        inside = [self._python, "-I", "-c", source, str(PORT), f"{CAPTURE}/{SOCKET}"]
        variables = self._settings.runtime.variables if self._settings.runtime else ""
        return [*inside, "/bin/bash", "-c", variables + self._settings.harness.command]

    def _environment(self, key: str) -> dict[str, str]:
        address = f"http://127.0.0.1:{PORT}"
        return {
            "TASK": self.task.folder.code_task.task.statement,
            "MODEL": self._settings.proxy.model,
            "OPENAI_BASE_URL": f"{address}/v1",
            "OPENAI_API_BASE": f"{address}/v1",
            "OPENAI_API_KEY": key,
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": key,
        }

    def _on_call(self) -> None:
        assert self.session is not None
        nodes = self._capture.session.graph.nodes()
        self.session.next_call(sum(len(node.response_message.get("tool_calls") or ()) for node in nodes))

    def _end_loop(self) -> None:
        self._loops = True
        if isinstance(self._sandbox, LocalSandbox):
            self._sandbox.end_commands()

    def _how_it_ended(self, result: ExecResult, capture: Capture) -> str:
        told = (result.stderr or result.stdout).decode("utf-8", "replace").strip()[-TOLD_CHARS:]
        if not self._arranged.turns:
            raise _without_a_turn(result, capture, told)
        if self._loops:
            return f"loop: it asked on after {MOST_STOPS} words that its budget is used up"
        if result.ending != "exited":
            return {"timeout": "time"}.get(result.ending, result.ending)
        if result.exit_code:
            return f"exit_{result.exit_code}: {told.rpartition(chr(10))[2]}"
        return "calls" if capture.session.budget_stop_count else "finished"


def _without_a_turn(result: ExecResult, capture: Capture, told: str) -> Exception:
    if capture.refusal:
        return NoTurn(f"the harness got no turn: {capture.refusal}")
    if capture.session.budget_stop_count:
        return ContextFull("the harness's first prompt leaves no room for a turn: raise completion_tokens")
    if result.ending == "exited" and result.exit_code in NOT_FOUND:
        return UsageError(
            f"the harness is not in the sandbox: {told}", "name the folder that it is installed in as its runtime"
        )
    ended = f"with exit code {result.exit_code}" if result.ending == "exited" else f"by {result.ending}"
    return NoTurn(f"the harness ended {ended} and never called the model: {told or 'it said nothing'}")
