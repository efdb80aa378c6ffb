"""Tests of the rules about other copies of the target's files: found beside them, or rendered as pages."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from ..conduct import Act
from .scene import Scene

_NAMED = re.compile(r"-i?name (\S+)")
_PLACED = re.compile(r"(?P<no>(?:-not|!) )?-(?:path|ipath|wholename) (?P<path>\S+)")
_DEEPER = re.compile(r"-mindepth (\d+)")
_DEFINITION = re.compile(r"\b(def|class)\b")
_PAGE = re.compile(r"\*[^/]*\.x?html?$")


def seeks_copies(act: Act, scene: Scene) -> bool:
    """`find` for the file of a symbol, but not where that file lies."""
    if act.detail != "find" or act.verb != "list":
        return False
    names = _NAMED.findall(act.text)
    for file in scene.files:
        path = PurePosixPath(file)
        if any(path.stem in name and fnmatchcase(path.name, name) for name in names) and _away(file, act, scene):
            return True
    return False


def _away(file: str, act: Act, scene: Scene) -> bool:
    depth = _DEEPER.search(act.text)
    if depth and int(depth[1]) > len(PurePosixPath(file).parts):
        return True
    for found in _PLACED.finditer(act.text):
        fits = any(fnmatchcase(each, found["path"].strip("'\"")) for each in (file, f"./{file}", f"/work/{file}"))
        left_out = bool(found["no"]) or "-prune" in act.text[found.end() :]
        if fits == left_out:
            return True
    return any(
        other.verb == "run" and other.target == "grep" and _leaves_out(other.detail, file) for other in scene.acts
    )


def _leaves_out(words: str, file: str) -> bool:
    return re.search(r"(^|\s)(-\w*v\w*|--invert-match)\b", words) is not None and file in words.replace("\\", "")


def reads_pages(act: Act, scene: Scene) -> bool:
    """Pages found by a pattern that names the target, or searched for its definitions."""
    if _PAGE.search(act.target) is None or scene.own(act.target):
        return False
    name = act.target.rpartition("/")[2]
    return scene.names_target(name.rpartition(".")[0]) or (
        _DEFINITION.search(act.text) is not None and scene.names_target(act.text)
    )
