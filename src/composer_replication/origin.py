"""With what a run was made: our version and commit, the libraries that are installed, the machine."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from . import __version__

LIBRARIES = ("torch", "trl", "transformers", "accelerate", "datasets")


def made_with() -> dict[str, object]:
    """Nothing is imported for it. A commit that is not known is None."""
    return {
        "version": __version__,
        "commit": _commit(Path(__file__).parents[2]),
        "python": platform.python_version(),
        "libraries": {name: found for name in LIBRARIES if (found := installed_version(name))},
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
    }


def installed_version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _commit(root: Path) -> str | None:
    """Of the checkout that we run from, with a mark where files were changed; else the one that pip installed."""
    git = shutil.which("git")
    if git and (root / ".git").exists() and (root / "pyproject.toml").exists():
        told = subprocess.run(  # noqa: S603, fixed arguments
            [git, "-C", str(root), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty"],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        return told.stdout.strip() or None
    try:
        direct = distribution("composer-replication").read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    return json.loads(direct or "{}").get("vcs_info", {}).get("commit_id")
