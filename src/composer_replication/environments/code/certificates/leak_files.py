"""Files that no task tree may hold: compiled code, build products, caches, archives of the target, links out of it.

Reads names, kinds and first bytes; archives are listed and never unpacked to disk. Names are looked at first and bytes
second, so a wheel called `notes.dat` is still a wheel. A copy inside an encrypted or unknown container is not seen.
No history is looked into: a tree has none.
"""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

COMPILED_SUFFIXES = ".pyc .pyo .pyd .class .so .dll .dylib .o .a".split()
ARCHIVE_SUFFIXES = ".whl .egg .zip .jar .tar .tgz .gz .bz2 .xz .zst .7z .pyz".split()
CACHE_FOLDERS = (
    "__pycache__ .mypy_cache .pytest_cache .ruff_cache .hypothesis .tox .nox .eggs .cache .pytype .pyre .venv"
    " site-packages dist-packages __pypackages__ htmlcov .history .ipynb_checkpoints".split()
)
METADATA = "metadata of an installed or built package"
FOLDERS = (
    ("history", "a repository's history", ".git .hg .svn .bzr CVS _darcs".split()),
    ("caches", "a tool's cache", CACHE_FOLDERS),
    ("packaging", METADATA, "*.egg-info *.dist-info *.egg-link".split()),
    ("packaging", "a build product", "build/lib build/lib.* build/bdist.*".split()),
)
FILES = (
    ("compiled", "compiled code", [f"*{suffix}" for suffix in COMPILED_SUFFIXES]),
    ("packaging", METADATA, "*.egg-info *.dist-info *.egg-link".split()),
    ("caches", "a tool's cache or an editor's copy", "*.swp *.swo .coverage .coverage.* .dmypy.json".split()),
)
"""Check, detail, and patterns of the end of a path."""
LARGEST_MEMBER_BYTES = 4 * 1024 * 1024
MOST_MEMBERS = 2000


@dataclass(frozen=True)
class Suspicion:
    check: str
    detail: str


def name_suspicion(path: str, forbidden: Iterable[tuple[str, str, Sequence[str]]]) -> Suspicion | None:
    """`forbidden` is `FOLDERS` or `FILES`."""
    pure = PurePosixPath(path)
    last_two = "/".join(pure.parts[-2:])
    for check, detail, patterns in forbidden:
        if any(fnmatchcase(last_two if "/" in pattern else pure.name, pattern) for pattern in patterns):
            return Suspicion(check, detail)
    return None


def byte_suspicion(content: bytes) -> Suspicion | None:
    """Compiled code by its first bytes, whatever its name."""
    if content.startswith((b"\x7fELF", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe")):
        return Suspicion("compiled", "compiled code by its first bytes")
    if content[2:4] == b"\r\n" and len(content) > 16 and int.from_bytes(content[4:8], "little") <= 3:
        return Suspicion("compiled", "Python bytecode by its first bytes")
    if content.startswith(b"PACK\x00\x00\x00"):
        return Suspicion("history", "a pack of git objects")
    if content.startswith(b"x\x01") and (kind := loose_object_kind(content)):
        return Suspicion("history", f"a loose git object ({kind})")
    return None


def loose_object_kind(content: bytes) -> str:
    try:
        head = zlib.decompressobj().decompress(content, 32)
    except zlib.error:
        return ""
    kind = head.split(b" ", 1)[0]
    return kind.decode() if kind in (b"blob", b"tree", b"commit", b"tag") and b"\0" in head else ""


def kind_suspicion(path: Path, tree: Path) -> Suspicion | None:
    """Links out of the tree, devices, pipes and sockets."""
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        target = path.readlink()
        if target.is_absolute() or not path.resolve().is_relative_to(tree.resolve()):
            return Suspicion("links", f"a link out of the tree, to {target}")
        return None
    return None if stat.S_ISREG(mode) else Suspicion("links", "neither a file nor a folder")


@dataclass(frozen=True)
class Member:
    name: str
    content: bytes


def is_archive(path: str, content: bytes) -> bool:
    magic = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf")
    return PurePosixPath(path).suffix in ARCHIVE_SUFFIXES or content.startswith(magic) or content[257:262] == b"ustar"


def archive_members(content: bytes) -> Iterator[Member]:
    """Raises ValueError where the archive cannot be read."""
    try:
        if zipfile.is_zipfile(io.BytesIO(content)):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                for info in archive.infolist()[:MOST_MEMBERS]:
                    small = info.file_size <= LARGEST_MEMBER_BYTES and not info.is_dir()
                    yield Member(info.filename, archive.read(info) if small else b"")
            return
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for number, entry in enumerate(archive):
                if number == MOST_MEMBERS:
                    return
                handle = archive.extractfile(entry) if entry.isfile() and entry.size <= LARGEST_MEMBER_BYTES else None
                yield Member(entry.name, handle.read() if handle else b"")
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        EOFError,
        OSError,
        RuntimeError,
        NotImplementedError,
        zlib.error,
    ) as error:
        raise ValueError(str(error)) from error


def holds_target(member: Member, packages: Collection[str], file_names: Collection[str]) -> bool:
    """Whether a member is source or bytecode of the target, by its place or by the name of a deleted file."""
    pure = PurePosixPath(member.name)
    if pure.suffix not in {".py", ".pyi", *COMPILED_SUFFIXES}:
        return False
    return pure.name in file_names or any(part in packages for part in (*pure.parent.parts, pure.name.split(".")[0]))
