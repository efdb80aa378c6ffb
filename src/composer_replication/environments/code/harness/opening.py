"""The harness that an environment names: its command, its runtime, and the proxy that all its episodes share."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from composer_replication.errors import UsageError

from ..episodes.session import Grader
from ..tasks.task import AskedTask, TaskFolder
from .runtime import HARNESSES, INSIDE, Runtime, harness_of, open_runtime

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
        from .proxy import CaptureProxy

        chosen = self._settings
        assert chosen.harness is not None
        harness, proxy = harness_of(chosen.harness), CaptureProxy(MODEL)
        return HarnessSettings(harness, proxy, self._runtime, chosen.max_steps, self._wall_s)
