"""One folder of Harbor's format: what it asks for, or why it cannot be played here.

Reads `instruction.md`, `task.toml`, `environment/` and `tests/test.sh`. Writes the working folder that the agent starts
from, in the layout of our code tasks, so that their session can play it.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from composer_replication.records import Task, content_id

from ..code.tasks.task import CodeTask, TaskFolder
from ..code.tasks.trees import tree_hash
from .dockerfile import Image, Refused, install, read_dockerfile

NEEDS_NETWORK = re.compile(r"(?<![\w/.-])(apt-get|apt|apk|curl|wget|uvx|uv|-m\s+pip|git\s+clone|npm|docker)\b")
PIP = re.compile(r"\bpip3?\s+install\s+([^|&;>\n]*?)\s*(?:[|&;\n]|\d?>|$)")
VERIFIER_S, AGENT_S = 600.0, 600.0
"""Harbor's own defaults."""


@dataclass(frozen=True)
class HarborFolder:
    task_id: str
    folder: Path
    instruction: str
    image: Image
    labels: Mapping[str, str]
    verifier_s: float
    verifier_env: Mapping[str, str]
    agent_s: float

    @property
    def tests(self) -> Path:
        return self.folder / "tests"

    @property
    def solution(self) -> Path:
        return self.folder / "solution"

    def write(self, target: Path) -> TaskFolder:
        """As one of our code tasks, graded by nobody but its own verifier."""
        places = TaskFolder(self._code_task("", ""), target)
        if not places.tree.exists():
            self.image.write(places.tree)
        return TaskFolder(self._code_task(tree_hash(places.tree), tree_hash(self.tests)), target)

    def _code_task(self, visible: str, hidden: str) -> CodeTask:
        known = Task(
            task_id=self.task_id, kind="harbor", statement=self.instruction, visible_hash=visible, hidden_hash=hidden
        )
        return CodeTask(
            task=known,
            repository=self.folder.name,
            generator="harbor",
            mode="harbor",
            level="L0",
            symbols=(),
            packages=(),
            source_roots=(),
            distributions=tuple(dict.fromkeys((*self.image.distributions, "pytest"))),
            test_files=(),
            hidden_tests=(),
            guard_tests=(),
            editable=("*",),
            seconds_per_run=0.0,
        )


def find_folders(folder: Path) -> list[Path]:
    """The task itself, or every task below it."""
    if (folder / "task.toml").is_file():
        return [folder]
    return sorted(found.parent for found in folder.rglob("task.toml"))


def read_folder(folder: Path) -> HarborFolder:
    """Raises `Refused`."""
    for name in ("instruction.md", "environment/Dockerfile", "tests/test.sh"):
        if not (folder / name).is_file():
            raise Refused(f"it has no {name}")
    if compose := next(folder.glob("environment/*compose*.y*ml"), None):
        raise Refused(f"it needs several containers ({compose.name})")
    try:
        told: dict[str, Any] = tomllib.loads((folder / "task.toml").read_text("utf-8"))
    except ValueError as error:
        raise Refused(f"its task.toml is damaged ({error})") from None
    machine, verifier, metadata = (told.get(part) or {} for part in ("environment", "verifier", "metadata"))
    for name in ("gpus", "mcp_servers", "tpu", "docker_image"):
        if machine.get(name):
            raise Refused(f"it needs {name} = {machine[name]}")
    if told.get("steps"):
        raise Refused("it has several steps")
    variables = {name: str(value) for name, value in (verifier.get("env") or {}).items()}
    if wanted := next((name for name, value in variables.items() if "$" in value), None):
        raise Refused(f"its verifier wants {wanted} from this machine")
    image = read_dockerfile(folder / "environment")
    _check_test_sh(folder / "tests" / "test.sh", image)
    instruction = (folder / "instruction.md").read_text("utf-8").strip()
    name = (told.get("task") or {}).get("name") or folder.name
    return HarborFolder(
        task_id=f"{name}-{content_id(instruction, tree_hash(folder / 'tests'))[:8]}",
        folder=folder,
        instruction=instruction,
        image=image,
        labels={key: str(metadata[key]) for key in ("difficulty", "category") if key in metadata},
        verifier_s=float(verifier.get("timeout_sec") or VERIFIER_S),
        verifier_env=variables,
        agent_s=float((told.get("agent") or {}).get("timeout_sec") or AGENT_S),
    )


def _check_test_sh(script: Path, image: Image) -> None:
    for line in script.read_text("utf-8").splitlines():
        if line.lstrip().startswith("#"):
            continue
        if found := NEEDS_NETWORK.search(line):
            raise Refused(f"its tests/test.sh runs {found.group(1)}, which needs the network")
        for asked in PIP.finditer(line):
            install(image, script.parent, shlex.split(asked.group(1)))
