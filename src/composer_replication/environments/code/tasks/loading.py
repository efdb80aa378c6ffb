"""From a folder, a git checkout or an sdist to a clean `Repository`.

Reads the source, writes a copy without history, caches and build products, and says what in it is package, what is
test and which licence it names. Nothing of the repository is run here. Links, and of a checkout the files that git does
not know, are left out and named.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from composer_replication.errors import UsageError

from .pytest_settings import file_patterns, project_file, selection
from .repository import Repository
from .trees import files_of

JUNK_FOLDERS = {
    ".git", ".hg", ".svn", "__pycache__", "build", "dist", ".tox", ".nox", ".venv", "venv", ".eggs", "node_modules",
    ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".idea", ".vscode", "htmlcov",
}  # fmt: skip
JUNK_FILES = ("*.pyc", "*.pyo", "*.so", "*.pyd", "*.whl", "*.egg", ".coverage*", "*.orig", "*.rej", "PKG-INFO")
NOT_PACKAGES = {
    "tests", "test", "testing", "docs", "doc", "examples", "example", "samples", "scripts", "tools", "benchmarks",
    "bench", "ci", "tasks", "asv_bench", "src", "setup", "conftest", "noxfile", "fabfile", "build",
}  # fmt: skip
TEST_FOLDERS = {"tests", "test"}
TEST_PATTERNS = ("test_*.py", "*_test.py", "tests.py", "test.py")
NEEDED_BY_PYTEST = {"pytest", "_pytest", "pluggy", "packaging", "iniconfig", "pygments"}
UNKNOWN_TO_GIT = ("--others", "--exclude-standard")
MAX_TREE_BYTES = 128 * 1024 * 1024
LICENCE_SIGNS = {
    "Apache-2.0": r"Apache License,?\s+Version 2\.0|Apache Software License|Apache-2\.0",
    "MPL-2.0": r"Mozilla Public License",
    "AGPL": r"GNU AFFERO GENERAL PUBLIC|AGPL",
    "LGPL": r"GNU LESSER GENERAL PUBLIC|LGPL",
    "GPL": r"GNU GENERAL PUBLIC|GPL",
    "BSD": r"BSD License|BSD-[23]-Clause|Redistributions in binary form",
    "ISC": r"ISC License",
    "MIT": r"MIT License|OSI Approved :: MIT|Permission is hereby granted, free of charge|^License: MIT|\bMIT\b",
    "Unlicense": r"unlicense",
    "PSF": r"Python Software Foundation License",
}


def load_repository(source: Path, into: Path) -> Repository:
    """Copy what counts of `source` to `into`, which must be new or empty, and look at it."""
    if into.exists() and any(into.iterdir()):
        raise UsageError(f"{into} is not empty", "choose another folder")
    with tempfile.TemporaryDirectory() as scratch:
        folder = _as_folder(source, Path(scratch))
        listed = _listed_by_git(folder)
        found = [path for path in listed or _below(folder) if not _is_junk(path)]
        links = [path for path in found if (folder / path).is_symlink()]
        kept = [path for path in found if (folder / path).is_file() and path not in links]
        unknown = [path for path in _listed_by_git(folder, *UNKNOWN_TO_GIT) if not _is_junk(path)] if listed else []
        if sum((folder / path).stat().st_size for path in kept) > MAX_TREE_BYTES:
            raise UsageError(f"{source} holds more than {MAX_TREE_BYTES >> 20} MiB", "point at a smaller folder")
        for path in kept:
            (into / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / path, into / path)
        described = project_file(folder).get("project", {})
        about = _first_text(folder, ("PKG-INFO", "setup.cfg", "setup.py", "pyproject.toml"))
        name = described.get("name") or _header(about, "Name") or source.name.removesuffix(".tar.gz")
    checkout = source.absolute() if (source / ".git").exists() else None
    return replace(describe(into, str(name)), checkout=checkout, links=tuple(links), unknown_to_git=tuple(unknown))


def describe(tree: Path, name: str) -> Repository:
    """What a clean tree holds. Raises where there is no package, or no test."""
    paths = [path for path in files_of(tree) if path.endswith(".py")]
    roots = _source_roots(paths)
    packages = sorted({package for root in roots for package in _packages(paths, root)})
    if not packages:
        raise UsageError(f"{name} has no importable package", "point at a folder with a Python package or src/")
    needed = NEEDED_BY_PYTEST & set(packages)
    if needed:
        raise UsageError(f"the test runner itself needs {', '.join(sorted(needed))}", "choose another repository")
    patterns = (*TEST_PATTERNS, *file_patterns(tree))
    tests = [path for path in paths if is_test_path(path) and _matches(path, patterns)]
    if not tests:
        raise UsageError(f"{name} has no test files (sdists often leave them out)", "point at a git checkout")
    in_packages = [path for path in paths if _top(path, roots) in packages]
    return Repository(
        name=re.sub(r"[^A-Za-z0-9._-]", "-", name),
        tree=tree,
        packages=tuple(packages),
        source_roots=tuple(roots),
        source_files=tuple(path for path in in_packages if not is_test_path(path)),
        test_files=tuple(tests),
        licence=_licence(tree),
        selection=selection(tree),
    )


def is_test_path(path: str) -> bool:
    """Whether a file belongs to the tests: test modules, their helpers, data and configuration."""
    pure = PurePosixPath(path)
    return bool(TEST_FOLDERS & set(pure.parts[:-1])) or _matches(path, (*TEST_PATTERNS, "conftest.py"))


def _matches(path: str, patterns: Iterable[str]) -> bool:
    name = PurePosixPath(path).name
    return any(fnmatch(name, pattern) or fnmatch(path, pattern) for pattern in patterns)


def _as_folder(source: Path, scratch: Path) -> Path:
    if source.is_dir():
        return source
    if not source.exists():
        raise UsageError(f"{source} does not exist", "recompose env make FOLDER|SDIST -o DIR")
    try:
        if tarfile.is_tarfile(source):
            with tarfile.open(source) as archive:
                archive.extractall(scratch, filter="data")
        elif zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as archive:
                archive.extractall(scratch)  # noqa: S202 its members cannot leave the folder
        else:
            raise UsageError(f"{source} is no folder, tar or zip file", "recompose env make FOLDER|SDIST -o DIR")
    except (tarfile.TarError, zipfile.BadZipFile) as error:
        raise UsageError(f"{source} cannot be unpacked: {error}", "download it again") from error
    inside = [path for path in scratch.iterdir() if path.name != "pax_global_header"]
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else scratch


def _listed_by_git(folder: Path, *options: str) -> list[str]:
    """Empty where git does not know the folder."""
    git = shutil.which("git") if (folder / ".git").exists() else None
    if git is None:
        return []
    listed = subprocess.run(  # noqa: S603
        [git, "-C", str(folder), "ls-files", "-z", *options], capture_output=True, check=False
    )
    return [path for path in listed.stdout.decode(errors="surrogateescape").split("\0") if path]


def _below(folder: Path) -> list[str]:
    """All files, and links to anything."""
    found = (Path(at, name) for at, folders, names in os.walk(folder) for name in (*folders, *names))
    return sorted(path.relative_to(folder).as_posix() for path in found if path.is_symlink() or path.is_file())


def _is_junk(path: str) -> bool:
    pure = PurePosixPath(path)
    folders = pure.parts[:-1]
    return (
        any(part in JUNK_FOLDERS or part.endswith((".egg-info", ".dist-info")) for part in folders)
        or pure.name == ".git"  # a file where a submodule or a worktree was
        or any(fnmatch(pure.name, pattern) for pattern in JUNK_FILES)
        or not path.isprintable()
    )


def _source_roots(paths: list[str]) -> list[str]:
    under_src = [root for root in ("src", "lib") if _packages(paths, root)]
    return under_src[:1] or ["."]


def _packages(paths: list[str], root: str) -> set[str]:
    """Folders with an `__init__.py` right under the root, else single modules there."""
    inside = [path for path in paths if root == "." or path.startswith(f"{root}/")]
    parts = [PurePosixPath(path).parts[0 if root == "." else 1 :] for path in inside]
    folders = {part[0] for part in parts if len(part) > 1 and (part[1] == "__init__.py" or root != ".")}
    modules = {part[0].removesuffix(".py") for part in parts if len(part) == 1 and not is_test_path(part[0])}
    named = {name for name in folders - NOT_PACKAGES if name.isidentifier()}
    return named or {name for name in modules - NOT_PACKAGES if name.isidentifier()}


def _top(path: str, roots: list[str]) -> str:
    for root in roots:
        if root == ".":
            return PurePosixPath(path).parts[0].removesuffix(".py")
        if path.startswith(f"{root}/"):
            return PurePosixPath(path).parts[1].removesuffix(".py")
    return ""


def _first_text(folder: Path, names: Iterable[str]) -> str:
    return "\n".join(
        (folder / name).read_text(encoding="utf-8", errors="replace") for name in names if (folder / name).is_file()
    )


def _header(text: str, key: str) -> str:
    found = re.search(rf"^\s*{key}\s*[:=]\s*['\"]?([^'\"\n,]+)", text, re.MULTILINE | re.IGNORECASE)
    return found.group(1).strip() if found else ""


def _licence(tree: Path) -> str:
    named = [path.name for path in sorted(tree.iterdir()) if re.match(r"(?i)licen[cs]e|copying", path.name)]
    text = _first_text(tree, (*named, "pyproject.toml", "setup.cfg", "setup.py"))
    for name, sign in LICENCE_SIGNS.items():
        if re.search(sign, text, re.MULTILINE):
            return name
    return "unknown"
