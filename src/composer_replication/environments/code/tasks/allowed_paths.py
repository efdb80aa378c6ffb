"""Which paths a solution may change: those of the task's patterns, and new files inside the package.

A new file of a folder of tests is never a part of a solution, nor is what steers the interpreter or pytest.
`harbor_verify.py` has the same rules for trees without a record of their changes.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from .loading import is_test_path
from .task import CodeTask, TaskFolder

STEERING_NAMES = frozenset(
    "conftest.py pytest.ini .pytest.ini pytest.toml .pytest.toml tox.ini setup.cfg pyproject.toml setup.py"
    " sitecustomize.py usercustomize.py noxfile.py .coveragerc .env".split()
)
STEERING_SUFFIXES = (".pth", ".pyc", ".pyo", ".pyd", ".so", ".egg", ".whl", ".zip", ".egg-link")
STEERING_FOLDERS = frozenset(
    "__pycache__ .git __pypackages__ .pytest_cache .mypy_cache .ruff_cache .hypothesis".split()
)


def is_allowed(task: TaskFolder, path: str) -> bool:
    code_task = task.code_task
    named = any(fnmatchcase(path, pattern) for pattern in code_task.editable)
    if code_task.grader == "mutants" or (task.tree / path).exists() or (task.gold / path).exists():
        return named
    return (named or path.startswith(package_folders(code_task))) and not is_test_path(path)


def steers(path: str) -> bool:
    """Whether the file could change how the interpreter or pytest starts, whatever its folder."""
    *folders, name = path.casefold().split("/")
    return (
        name in STEERING_NAMES
        or name.endswith(STEERING_SUFFIXES)
        or any(folder in STEERING_FOLDERS or folder.endswith((".dist-info", ".egg-info")) for folder in folders)
    )


def package_folders(code_task: CodeTask) -> tuple[str, ...]:
    """Where packages may lie; for a package of a single module there is no such folder."""
    roots = ["" if root in ("", ".") else f"{root.strip('/')}/" for root in code_task.source_roots]
    return tuple(f"{root}{package}/" for root in roots for package in code_task.packages)


def told_paths(code_task: CodeTask, tree: Path) -> str:
    """A sentence for the statement."""
    named = ", ".join(f"`{pattern}`" for pattern in code_task.editable)
    folders = [folder for folder in package_folders(code_task) if (tree / folder).is_dir()]
    if code_task.grader == "mutants" or not folders:
        return f"You may change {named}; other changes are not graded."
    below = ", ".join(f"`{folder}`" for folder in folders)
    return f"You may change {named} and add files below {below}; other changes are not graded."
