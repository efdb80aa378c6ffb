"""The harness that an environment names: its command, its runtime, and the proxy that all its episodes share.

A command is run by bash in the repository. It finds `$TASK` (the statement), `$MODEL`, `$OPENAI_BASE_URL`,
`$OPENAI_API_KEY`, `$ANTHROPIC_BASE_URL` and `$ANTHROPIC_API_KEY`, and its runtime's programs on the PATH.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from composer_replication.errors import UsageError

from ..episodes.session import Grader
from ..tasks.task import AskedTask, TaskFolder
from .runtime import INSIDE, Runtime, open_runtime

if TYPE_CHECKING:
    from composer_replication.config import EnvironmentConfig

    from .episode import HarnessEpisode, HarnessSettings

BACKEND = "bubblewrap"
"""The only sandbox with a loopback of its own and folders of ours that was tried."""
MODEL = "policy"


def open_harness(settings: EnvironmentConfig, wall_s: float) -> OpenHarness:
    assert settings.harness is not None
    if settings.answer != "agent":
        raise UsageError("a harness works as an agent", 'leave out answer = "definition"')
    if settings.sandbox not in ("auto", BACKEND):
        raise UsageError(f"a harness needs the sandbox {BACKEND}, not {settings.sandbox}", 'set sandbox = "auto"')
    if settings.harness in HARNESSES and not settings.harness_runtime:
        raise UsageError(
            f"where is {settings.harness} installed?", "name that folder, such as a virtual environment, as its runtime"
        )
    runtime = open_runtime(Path(settings.harness_runtime)) if settings.harness_runtime else None
    return OpenHarness(settings, runtime, wall_s)


class OpenHarness:
    """The proxy is started by the first episode, in whichever thread that is."""

    def __init__(self, settings: EnvironmentConfig, runtime: Runtime | None, wall_s: float) -> None:
        self._settings, self._runtime, self._wall_s = settings, runtime, wall_s
        self._opened: HarnessSettings | None = None
        self._opening = threading.Lock()

    def episode(self, task: AskedTask, grader: Grader) -> HarnessEpisode:
        from .episode import HarnessEpisode

        with self._opening:
            self._opened = self._opened or self._open()
        return HarnessEpisode(task, BACKEND, self._opened, grader)

    def leak(self, task: TaskFolder) -> str:
        """What the runtime tells of a task's solution; empty where it tells nothing."""
        if self._runtime is None:
            return ""
        from ..certificates.certify import recertify_leaks
        from ..certificates.world_index import ShownFolder

        shown = ShownFolder(self._runtime.folder, INSIDE, self._runtime.key)
        found = recertify_leaks(task, BACKEND, shown).hard()
        return f"{found[0].path} {found[0].detail}" if found else ""

    def close(self) -> None:
        if self._opened:
            self._opened.proxy.close()
            self._opened = None

    def _open(self) -> HarnessSettings:
        from .episode import HarnessSettings
        from .proxy import CallLimits, CaptureProxy

        chosen = self._settings
        limits = CallLimits(calls=chosen.max_steps)
        assert chosen.harness is not None
        return HarnessSettings(harness_of(chosen.harness), CaptureProxy(MODEL), self._runtime, limits, self._wall_s)


class Harness(NamedTuple):
    command: str
    agent: str
    """Whose rules find error sites in its traces."""


HARNESSES = {
    "mini-swe-agent": Harness(
        "MSWEA_CONFIGURED=true MSWEA_COST_TRACKING=ignore_errors LITELLM_LOCAL_MODEL_COST_MAP=True"
        ' mini --yolo --exit-immediately --cost-limit 0 --model "openai/$MODEL" --task "$TASK"',
        "mini_swe_agent",
    ),
    "claude-code": Harness(
        'DISABLE_TELEMETRY=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 claude --model "$MODEL"'
        ' --dangerously-skip-permissions --print "$TASK"',
        "claude_code",
    ),
    "codex": Harness(
        'codex exec --model "$MODEL" --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check "$TASK"', "codex"
    ),
    "openhands": Harness(
        'LLM_MODEL="openai/$MODEL" LLM_BASE_URL="$OPENAI_BASE_URL" LLM_API_KEY="$OPENAI_API_KEY"'
        ' openhands --headless --task "$TASK"',
        "openhands",
    ),
}
PROGRAMS = {"mini": "mini_swe_agent", "claude": "claude_code", "codex": "codex", "openhands": "openhands"}
UNKNOWN = "harness"


def harness_of(said: str) -> Harness:
    """By its name, or a command of one's own; one that names a known program is taken for that agent's."""
    words = said.replace("/", " ").split()
    agent = next((agent for program, agent in PROGRAMS.items() if program in words), UNKNOWN)
    return HARNESSES.get(said, Harness(said, agent))
