"""Sandboxes that look like the container of a Harbor task: the agent's, and a fresh one for its verifier.

The working folder appears at the task's WORKDIR, `tests` at /tests, the logs at /logs. Not carried from the agent to
the verifier: what was left outside of the working folder, and modes but the right to execute a script. Nothing but the
task's own `test.sh` decides the reward; it runs next to the agent's files, as it does in Harbor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..code.sandbox.interface import Limits, Sandbox, SandboxSpec, SandboxUnavailable
from ..code.sandbox.open import open_sandbox
from ..code.sandbox.toolchain import toolchain
from ..code.tasks.task import Grade, Submission, TaskFolder
from ..untrusted import read_json
from .folder import HarborFolder

PROGRAMS = "/opt/recompose"
LOGS = "/tmp/logs"  # noqa: S108 - the sandbox's own
PYTEST = '#!/bin/sh\nexec python3 -m pytest "$@"\n'
PIP = "#!/bin/sh\n# What the task installs is here already: it was looked for when the task was read.\nexit 0\n"
CTRF = '''"""Stands in for pytest-json-ctrf: the option is taken, no report is written."""


def pytest_addoption(parser):
    parser.addoption("--ctrf", default=None)
'''


def write_programs(folder: Path) -> None:
    """What Harbor tasks expect besides Python."""
    for name, text in (("bin/pytest", PYTEST), ("bin/pip", PIP), ("bin/pip3", PIP), ("lib/recompose_ctrf.py", CTRF)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    (folder / "logs").mkdir()
    for name in ("verifier", "agent", "artifacts"):
        (folder / "logs" / name).symlink_to(f"{LOGS}/{name}")


class HarborSandboxes:
    def __init__(self, programs: Path, harbor: HarborFolder) -> None:
        self._programs, self._harbor = programs, harbor

    def for_agent(self, task: TaskFolder, backend: str, limits: Limits) -> tuple[str, Sandbox]:
        return self._open(task, backend, limits, {})

    def grade(self, task: TaskFolder, submission: Submission, backend: str) -> Grade:
        harbor = self._harbor
        limits = replace(Limits(), wall_s=harbor.verifier_s, cpu_s=int(harbor.verifier_s) + 1)
        _, sandbox = self._open(task, backend, limits, {harbor.tests: "/tests"})
        with sandbox:
            for path in submission.removed:
                sandbox.exec(["/bin/rm", "-rf", "--", path])
            for path, content in submission.written.items():
                sandbox.write(path, content)
            if scripts := [path for path, content in submission.written.items() if content.startswith(b"#!")]:
                sandbox.exec(["/bin/chmod", "755", "--", *scripts])
            result = sandbox.exec(["/bin/bash", "/tests/test.sh"], env=dict(harbor.verifier_env))
            reward = _reward(sandbox)
        said = (result.stdout + result.stderr).decode("utf-8", "replace")[-500:]
        notes = () if reward is not None else (f"the verifier wrote no reward ({result.ending}): {said}",)
        return Grade(reward or 0.0, (), (), (), notes=notes, wall_s=result.wall_s)

    def solve(self, task: TaskFolder, backend: str) -> Submission:
        """What the task's own solution changes."""
        limits = replace(Limits(), wall_s=self._harbor.agent_s, cpu_s=int(self._harbor.agent_s) + 1)
        _, sandbox = self._open(task, backend, limits, {self._harbor.solution: "/solution"})
        with sandbox:
            before = sandbox.snapshot()
            sandbox.exec(["/bin/bash", "/solution/solve.sh"])
            changes = sandbox.diff(before)
        return Submission(dict(changes.written), changes.removed)

    def _open(self, task: TaskFolder, backend: str, limits: Limits, shown: Mapping[Path, str]) -> tuple[str, Sandbox]:
        tools = toolchain(task.code_task.distributions)
        image = self._harbor.image
        programs = {self._programs / "bin": f"{PROGRAMS}/bin", self._programs / "lib": f"{PROGRAMS}/lib"}
        env = {
            **tools.env,
            "LANG": "C.UTF-8",
            "PYTEST_ADDOPTS": "-p recompose_ctrf -p no:cacheprovider",
            **image.env,
            "PATH": f"{PROGRAMS}/bin:{tools.python.rpartition('/')[0]}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": ":".join(filter(None, (image.env.get("PYTHONPATH"), f"{PROGRAMS}/lib"))),
        }
        spec = SandboxSpec(
            tree=task.tree,
            read_only={**tools.read_only, **programs, self._programs / "logs": "/logs", **shown},
            env=env,
            limits=limits,
            workdir=image.workdir,
        )
        sandbox = open_sandbox(spec, backend)
        if sandbox.workdir != image.workdir:
            sandbox.kill()
            raise SandboxUnavailable(
                f"the backend {sandbox.backend} cannot show {image.workdir}, where a Harbor task works",
                "use bubblewrap",
            )
        sandbox.exec(["/bin/mkdir", "-p", *(f"{LOGS}/{name}" for name in ("verifier", "agent", "artifacts"))])
        return tools.python, sandbox


def _reward(sandbox: Sandbox) -> float | None:
    """Harbor reads a number from `reward.txt`, or `reward` or the only number from `reward.json`."""
    text = sandbox.exec(["/bin/cat", f"{LOGS}/verifier/reward.txt"])
    try:
        if text.ok:
            reward = float(text.stdout)
        else:
            told = sandbox.exec(["/bin/cat", f"{LOGS}/verifier/reward.json"])
            rewards = dict(read_json(told.stdout))
            reward = float(rewards["reward"] if len(rewards) != 1 else next(iter(rewards.values())))
    except (ValueError, TypeError, KeyError):
        return None
    return reward if math.isfinite(reward) else None
