"""What counts of a repository's own pytest settings, and what they ask for that a task cannot have.

Reads pytest.ini, pyproject.toml, tox.ini and setup.cfg as pytest does: the first one with a section is the one. Taken
over are the patterns of test files and those of `addopts` that choose tests; other options may need plug-ins or change
what tests print, and are left out in every run, the agent's too. Nothing is run here.
"""

from __future__ import annotations

import configparser
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from packaging.requirements import InvalidRequirement, Requirement

from composer_replication.errors import UsageError

CHOOSING = ("-k", "-m", "--deselect", "--ignore", "--ignore-glob")
RUNNERS_OWN = {"pytest", "pluggy", "packaging", "iniconfig", "pygments"}
"""Distributions of which every sandbox has the one installed version."""
FOR_TESTS = ("test", "dev")
"""What the names of extras and groups hold that tests are run with."""


def file_patterns(tree: Path) -> list[str]:
    return _words(pytest_settings(tree).get("python_files", ""))


def selection(tree: Path) -> tuple[str, ...]:
    """Options of `addopts` that choose tests."""
    words, chosen = iter(_words(pytest_settings(tree).get("addopts", ""))), list[str]()
    for word in words:
        name, _, value = word.partition("=")
        if word in CHOOSING:
            chosen += [word, next(words, "")]
        elif name in CHOOSING and value:
            chosen += [name, value]
        elif word[:2] in ("-k", "-m") and not word.startswith("--"):
            chosen += [word[:2], word[2:]]
    return tuple(chosen)


def pytest_environment(options: Sequence[str], plugins: Sequence[str]) -> dict[str, str]:
    """The same in the agent's sandbox and in the grader's, so that nothing tells them apart."""
    taken_over = shlex.join(["-o", f"addopts={shlex.join(options)}", "-o", "required_plugins="])
    return {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": taken_over,
        **({"PYTEST_PLUGINS": ",".join(plugins)} if plugins else {}),
    }


def refuse_missing(tree: Path, name: str, distributions: Iterable[str]) -> None:
    """Before anything is run: plug-ins that the settings require, and versions that the runner does not have."""
    given = {Requirement(each).name.lower() for each in distributions}
    for wanted in _requirements(_words(pytest_settings(tree).get("required_plugins", ""))):
        if wanted.name.lower() not in given:
            raise UsageError(
                f"the tests of {name} require the plug-in {wanted}",
                f"pip install it next to recompose, then the same command with --with {wanted.name}",
            )
    for wanted in _requirements(_asked_for_tests(tree)):
        if wanted.name.lower() in RUNNERS_OWN and (found := _installed(wanted)):
            raise UsageError(
                f"the tests of {name} ask for {wanted}, and the runner of every test here is {wanted.name} {found}",
                "install recompose in an environment with that version, or choose another repository",
            )


def pytest_settings(tree: Path) -> Mapping[str, Any]:
    for name, section in (
        ("pytest.ini", "pytest"),
        (".pytest.ini", "pytest"),
        ("pyproject.toml", ""),
        ("tox.ini", "pytest"),
        ("setup.cfg", "tool:pytest"),
    ):
        if not section:
            found = project_file(tree).get("tool", {}).get("pytest", {}).get("ini_options")
        else:
            found = _section(tree / name, section)
        if found is not None:
            return found
    return {}


def _section(path: Path, section: str) -> Mapping[str, str] | None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, configparser.Error):
        return None
    return dict(parser.items(section)) if parser.has_section(section) else None


def project_file(tree: Path) -> dict[str, Any]:
    try:
        return tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _words(value: object) -> list[str]:
    if isinstance(value, list):
        return [str(each) for each in cast("list[object]", value)]
    try:
        return shlex.split(str(value), comments=True)
    except ValueError:  # no closing quotation
        return str(value).split()


def _asked_for_tests(tree: Path) -> Iterator[str]:
    project = project_file(tree)
    extras = project.get("project", {}).get("optional-dependencies", {})
    for groups in (extras, project.get("dependency-groups", {})):
        for name, lines in groups.items():
            if any(sign in name.lower() for sign in FOR_TESTS):
                yield from (line for line in lines if isinstance(line, str))


def _requirements(lines: Iterable[str]) -> Iterator[Requirement]:
    for line in lines:
        try:
            wanted = Requirement(line)
        except InvalidRequirement:
            continue
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            yield wanted


def _installed(wanted: Requirement) -> str:
    """The installed version where it is another than the wanted ones; empty where it will do."""
    try:
        found = version(wanted.name)
    except PackageNotFoundError:
        return ""
    return "" if wanted.specifier.contains(found, prereleases=True) else found
