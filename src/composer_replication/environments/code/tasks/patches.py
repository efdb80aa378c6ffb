"""A submission as a patch in git's format, and back. Needs the program git; no repository of anybody is touched.

Reads a task's tree, writes only below the system's temporary folder. Files that are no text travel as git's binary
patches; links are left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from composer_replication.errors import UsageError, quoted

from .task import Submission, TaskFolder
from .trees import files_of, write_files


def read_patch(task: TaskFolder, patch: Path) -> Submission:
    """What a patch changes in the agent's tree."""
    try:
        content = patch.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{patch} cannot be read ({error.strerror})", "give a patch as `git diff` writes it"
        ) from error
    with tempfile.TemporaryDirectory(prefix="patch-") as scratch:
        changed = Path(scratch) / "tree"
        shutil.copytree(task.tree, changed, symlinks=True)
        if content.strip():
            said = _git(changed, "apply", "--whitespace=nowarn", "-", stdin=content)
            if said.returncode:
                reason = said.stderr.decode(errors="replace").strip().partition("\n")[0]
                raise UsageError(
                    f"{patch} does not apply to the tree of the task ({reason})",
                    f"make it with recompose env shell {quoted(task.folder)} --patch FILE",
                )
        before, after = set(files_of(task.tree)), set(files_of(changed))
        written = {path: (changed / path).read_bytes() for path in after}
    kept = {path for path in before & after if written[path] == (task.tree / path).read_bytes()}
    return Submission(
        {path: content for path, content in written.items() if path not in kept}, tuple(sorted(before - after))
    )


def as_patch(task: TaskFolder, submission: Submission) -> bytes:
    """Applies to the agent's tree with `git apply`."""
    with tempfile.TemporaryDirectory(prefix="patch-") as scratch:
        # Their names stand in the patch in place of git's own prefixes.
        old, new = Path(scratch, "a"), Path(scratch, "b")
        changed = [path for path in (*submission.written, *submission.removed) if (task.tree / path).is_file()]
        write_files(old, {path: (task.tree / path).read_bytes() for path in changed})
        write_files(new, submission.written)
        return _git(Path(scratch), "diff", "--no-index", "--no-prefix", "--no-renames", "--binary", "a", "b").stdout


def _git(folder: Path, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("git")
    if program is None:
        raise UsageError("patches need the program git", "install git")
    env = {"PATH": os.environ.get("PATH", ""), "GIT_CEILING_DIRECTORIES": str(folder.parent), "LC_ALL": "C"}
    env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    return subprocess.run([program, *words], cwd=folder, env=env, input=stdin, capture_output=True, check=False)  # noqa: S603
