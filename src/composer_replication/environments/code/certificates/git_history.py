"""Whether a `.git` folder holds anything beyond one fresh root commit: reads it as bytes and never runs git on it.

A fresh commit writes loose objects only, so packs, alternates, other refs, a longer reflog and unreachable objects are
each something else.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

EXTRA_FILES = ("ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "refs/stash", "objects/info/alternates")
EXTRA_FOLDERS = (
    "objects/pack",
    "modules",
    "worktrees",
    "lfs",
    "refs/remotes",
    "refs/tags",
    "refs/original",
    "lost-found",
)


def history_findings(git: Path) -> Iterator[tuple[str, str]]:
    """(path inside the folder, what is wrong). Nothing for a folder with one root commit, or with none."""
    if not git.is_dir():
        yield "", "a link to a history elsewhere"
        return
    for name in EXTRA_FILES:
        if (git / name).exists():
            yield name, "a trace of another history"
    for folder in EXTRA_FOLDERS:
        for path in sorted((git / folder).rglob("*")):
            if path.is_file():
                yield str(path.relative_to(git)), "objects or refs of another history"
    for log in sorted((git / "logs").rglob("*")):
        if log.is_file() and log.read_bytes().count(b"\n") > 1:
            yield str(log.relative_to(git)), "more than one entry in the reflog"
    heads = refs(git)
    if len(set(heads.values())) > 1:
        yield "refs", "refs to more than one commit"
    yield from object_findings(git, set(heads.values()))


def refs(git: Path) -> dict[str, str]:
    found = {
        str(path.relative_to(git)): path.read_text(errors="replace").strip()
        for path in (git / "refs").rglob("*")
        if path.is_file()
    }
    packed = git / "packed-refs"
    for line in packed.read_text(errors="replace").splitlines() if packed.is_file() else ():
        if line and line[0] not in "#^":
            commit, _, name = line.partition(" ")
            found.setdefault(name, commit)
    return found


def object_findings(git: Path, heads: set[str]) -> Iterator[tuple[str, str]]:
    objects: dict[str, tuple[bytes, bytes]] = {}
    for path in (git / "objects").glob("[0-9a-f][0-9a-f]/*"):
        try:
            head, _, body = zlib.decompress(path.read_bytes()).partition(b"\0")
        except zlib.error:
            yield str(path.relative_to(git)), "an object that cannot be read"
            continue
        objects[path.parent.name + path.name] = head.split(b" ")[0], body
    commits = [name for name, (kind, _) in objects.items() if kind == b"commit"]
    if len(commits) > 1:
        yield "objects", f"{len(commits)} commits"
    if any(line.startswith(b"parent ") for name in commits for line in objects[name][1].split(b"\n\n")[0].splitlines()):
        yield "objects", "a commit with a parent"
    unreachable = set(objects) - set(reachable(objects, heads))
    if unreachable:
        yield "objects", f"{len(unreachable)} objects that no ref reaches"


def reachable(objects: dict[str, tuple[bytes, bytes]], heads: set[str]) -> Iterator[str]:
    waiting, seen = list(heads), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in objects:
            continue
        seen.add(name)
        yield name
        kind, body = objects[name]
        if kind == b"commit":
            waiting.extend(line[5:].decode() for line in body.splitlines() if line.startswith(b"tree "))
        elif kind == b"tree":
            while body:
                _, _, rest = body.partition(b"\0")
                waiting.append(rest[:20].hex())
                body = rest[20:]
