"""A Python to show inside a sandbox: this interpreter and only the named packages, copied once to a cache folder.

Reads the running interpreter's standard library and the installed packages' own lists of files. Writes one folder per
content to the cache, with the libraries that its compiled modules need; the folder can be moved, so that it works
wherever a sandbox shows it. Nothing else of the interpreter's site-packages is in it: a package under
test, or anything that could hold a copy of it, stays out.

Not stopped: a copy of the excluded code that another package ships under another name.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import ClassVar, NamedTuple

from composer_replication.errors import UsageError

from .cache import cache_folder, made_once
from .system_root import holds, needed_libraries

INSIDE = "/toolchain"
LAYOUT = 2
"""Of the folder; a higher number makes all of them anew."""
NOT_COPIED = frozenset("site-packages dist-packages test tests idlelib turtledemo lib2to3 ensurepip tkinter".split())


class ToolchainError(UsageError):
    """The packages asked for cannot be put together."""


class Interpreter(NamedTuple):
    executable: Path
    base: Path
    stdlib: Path
    name: str
    """As `python3.11`."""
    cache_tag: str


@dataclass(frozen=True)
class Toolchain:
    """The interpreter and packages that sandboxes show."""

    python: ClassVar[str] = f"{INSIDE}/bin/python3"
    """As the sandbox sees it."""
    folder: Path
    """On the host."""
    distributions: tuple[str, ...] = ()
    """Names of the packages."""

    @property
    def env(self) -> dict[str, str]:
        """Variables that commands need."""
        env = {"PATH": f"{INSIDE}/bin:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"}
        if any((self.folder / "lib").glob("*.so*")):
            env["LD_LIBRARY_PATH"] = f"{INSIDE}/lib"
        return env

    @property
    def read_only(self) -> Mapping[Path, str]:
        return {self.folder: INSIDE}

    @property
    def test_env(self) -> dict[str, str]:
        """Of every run of tests, by the agent or by the grader, so that no variable tells one from the other."""
        return {**self.env, "PYTHONHASHSEED": "0", "LANG": "C.UTF-8"}


def toolchain(distributions: Sequence[str], exclude: Sequence[str] = ()) -> Toolchain:
    """The named distributions and what they need. One that needs an excluded package is an error.

    `exclude` holds names of distributions or of importable packages.
    """
    wanted, key = _planned(tuple(distributions))
    excluded = {_normal(name) for name in exclude}
    if clash := sorted(excluded & wanted.keys()):
        raise ToolchainError(
            f"{', '.join(clash)} is part of what runs the tests, and so cannot be what they test",
            "choose another repository",
        )
    target = cache_folder() / f"python-{key}"
    made_once(target, lambda building: _build(building, wanted))
    for name in exclude:
        for found in (target / "lib" / _library() / "site-packages").glob(f"{name.replace('-', '_')}*"):
            if found.name.split(".")[0].lower() == name.replace("-", "_").lower():
                raise ToolchainError(f"another package brings {found.name} along", "choose another repository")
    return Toolchain(target, tuple(sorted(wanted)))


@lru_cache
def _planned(names: tuple[str, ...]) -> tuple[Mapping[str, Distribution], str]:
    """What is installed does not change while this program runs."""
    wanted = _closure(names)
    return wanted, _key(wanted)


def _closure(names: Sequence[str]) -> dict[str, Distribution]:
    from packaging.requirements import Requirement

    found: dict[str, Distribution] = {}
    waiting = [Requirement(name) for name in names]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        step = (_normal(requirement.name), frozenset(requirement.extras))
        if step in seen:
            continue
        seen.add(step)
        try:
            package = found.setdefault(step[0], distribution(requirement.name))
        except PackageNotFoundError:
            raise ToolchainError(
                f"{requirement.name} is not installed next to this program", f"pip install {requirement.name}"
            ) from None
        for line in package.requires or []:
            needed = Requirement(line)
            extras = requirement.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(needed)
    return found


def _key(wanted: Mapping[str, Distribution]) -> str:
    digest = hashlib.sha256(f"{LAYOUT} {sys.version} {sys.executable} {sysconfig.get_platform()}".encode())
    for name in sorted(wanted):
        digest.update(f"{name} {wanted[name].version} {wanted[name].read_text('RECORD')}".encode())
    return digest.hexdigest()[:16]


def _build(building: Path, wanted: Mapping[str, Distribution]) -> None:
    copy_interpreter(building, _this_interpreter())
    site = building / "lib" / _library() / "site-packages"
    site.mkdir()
    for name in sorted(wanted):
        _copy_distribution(wanted[name], site)
    copy_libraries(building, site)
    (building / "lib" / "python3").mkdir()
    as_debian_names_it = building / "lib" / "python3" / "dist-packages"
    as_debian_names_it.symlink_to(f"../{_library()}/site-packages")
    _compile(building)


def _this_interpreter() -> Interpreter:
    executable, stdlib = Path(os.path.realpath(sys.executable)), Path(sysconfig.get_path("stdlib"))
    return Interpreter(executable, Path(sys.base_prefix), stdlib, _library(), str(sys.implementation.cache_tag))


def _library() -> str:
    return f"python{sys.version_info[0]}.{sys.version_info[1]}"


def copy_interpreter(building: Path, one: Interpreter) -> None:
    """With its standard library, and without any package."""
    (building / "bin").mkdir(parents=True)
    shutil.copy2(one.executable, building / "bin" / one.name)

    def left_out(folder: str, names: list[str]) -> set[str]:
        if folder.endswith("__pycache__"):
            return {name for name in names if f".{one.cache_tag}.pyc" not in name}
        return {name for name in names if name in NOT_COPIED or name.startswith(("config-", "_tkinter"))}

    shutil.copytree(one.stdlib, building / "lib" / one.name, symlinks=True, ignore=left_out)
    for library in (one.base / "lib").glob("libpython*.so*"):
        shutil.copy2(library, building / "lib" / library.name, follow_symlinks=False)
    for alias in {one.name.partition(".")[0], "python3", "python"}:
        (building / "bin" / alias).symlink_to(one.name)


def copy_libraries(building: Path, site: Path) -> None:
    """What compiled modules need and neither the system's root nor a package brings along."""
    modules = [*site.parent.glob("lib-dynload/*.so"), *site.rglob("*.so")]
    for path, file in needed_libraries(modules).items():
        copy = building / "lib" / Path(path).name
        if not file.is_relative_to(building.resolve()) and not holds(path) and not copy.exists():
            shutil.copy2(file, copy)


def _copy_distribution(package: Distribution, site: Path) -> None:
    for relative, source in _files(package):
        copy = site / relative
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, copy)


def _files(package: Distribution) -> Iterator[tuple[str, Path]]:
    """Those in site-packages; programs with the host's paths in their first line are left out."""
    for file in package.files or []:
        source = Path(str(file.locate()))
        if ".." not in file.parts and not file.is_absolute() and source.is_file() and file.suffix != ".pth":
            yield str(file), source


def _compile(building: Path) -> None:
    """What the host had not compiled yet; commands inside cannot keep what they compile."""
    environment = {"LD_LIBRARY_PATH": str(building / "lib"), "PYTHONHASHSEED": "0"}
    command = [str(building / "bin" / _library()), "-I", "-m", "compileall", "-q", "-j", "0", str(building / "lib")]
    subprocess.run(command, env=environment, check=False, capture_output=True)  # noqa: S603


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
