"""Harnesses that go by a name, and what one needs to run: a folder, shown read-only beside the task's own toolchain.

A command is run by bash in the repository. It finds `$TASK` (the statement), `$MODEL`, `$OPENAI_BASE_URL`,
`$OPENAI_API_KEY`, `$ANTHROPIC_BASE_URL` and `$ANTHROPIC_API_KEY`, and its runtime's programs on the PATH.

A virtual environment is copied to the cache once, with its interpreter, so that nothing else of the host is shown; its
programs run isolated (`-I`), so that variables for the task's tests do not reach them. Any other folder, such as one
with a single binary, is shown as it is. All of it is searched for the solution of a task before that task is played.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from composer_replication.errors import UsageError

from ..sandbox.cache import cache_folder, made_once
from ..sandbox.toolchain import Interpreter, copy_interpreter, copy_libraries

INSIDE = "/harness"
LAYOUT = 1
ASK = """
import json, os, sys, sysconfig
name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
stdlib = sysconfig.get_path("stdlib")
told = [os.path.realpath(sys.executable), sys.base_prefix, stdlib, name, sys.implementation.cache_tag]
print(json.dumps([*told, sysconfig.get_path("purelib")]))
"""
PROGRAMS = {"mini": "mini_swe_agent", "claude": "claude_code", "codex": "codex", "openhands": "openhands"}
UNKNOWN = "harness"


class Runtime(NamedTuple):
    folder: Path
    key: str
    """Changes with what is in it."""

    @property
    def variables(self) -> str:
        """As bash sets them: what the task's toolchain has is found before what this has."""
        path = f'PATH="$PATH:{INSIDE}/bin:{INSIDE}"'
        if not any((self.folder / "lib").glob("*.so*")):
            return f"export {path}; "
        return f'export {path} LD_LIBRARY_PATH="${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}{INSIDE}/lib"; '


def open_runtime(folder: Path) -> Runtime:
    if not folder.is_dir():
        raise UsageError(f"the harness's runtime {folder} is no folder", "name the folder that it is installed in")
    folder = folder.resolve()
    key = _key(folder)
    if not (folder / "pyvenv.cfg").is_file():
        return Runtime(folder, key)
    target = cache_folder() / f"harness-{key}"
    return Runtime(made_once(target, lambda building: _copy_environment(folder, building)), key)


@lru_cache
def _key(folder: Path) -> str:
    """Of names, sizes and times: to read every byte of a large environment would take longer than to copy it."""
    digest = sha256(f"{LAYOUT} {folder}".encode())
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            told = os.lstat(os.path.join(place, name))
            digest.update(f"{place}/{name} {told.st_size} {told.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _copy_environment(folder: Path, building: Path) -> None:
    python = folder / "bin" / "python"
    try:
        told = subprocess.run([python, "-I", "-c", ASK], capture_output=True, check=True)  # noqa: S603 - the user's own
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(f"{python} does not run: {error}", "make the harness's environment anew") from error
    executable, base, stdlib, name, cache_tag, packages = json.loads(told.stdout)
    copy_interpreter(building, Interpreter(Path(executable), Path(base), Path(stdlib), name, cache_tag))
    site = building / "lib" / name / "site-packages"
    shutil.copytree(packages, site, symlinks=True, dirs_exist_ok=True)
    copy_libraries(building, site)
    for program in sorted((folder / "bin").iterdir()):
        if program.is_file() and not program.is_symlink():
            _copy_program(program, building / "bin" / program.name)


def _copy_program(program: Path, copy: Path) -> None:
    """One that an installer wrote begins with the path of its interpreter."""
    content = program.read_bytes()
    first, _, rest = content.partition(b"\n")
    if first.startswith(b"#!") and b"python" in first:
        content = f"#!{INSIDE}/bin/python3 -I\n".encode() + rest
    copy.write_bytes(content)
    copy.chmod(0o755)


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


def harness_of(said: str) -> Harness:
    """By its name, or a command of one's own; one that names a known program is taken for that agent's."""
    words = said.replace("/", " ").split()
    agent = next((agent for program, agent in PROGRAMS.items() if program in words), UNKNOWN)
    return HARNESSES.get(said, Harness(said, agent))
