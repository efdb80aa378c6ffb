"""The few programs of the host that a command may use, with the libraries that they and the interpreter need.

Reads the programs named here where the host has them, asks `ldd` for their libraries, and writes copies to the cache:
one small folder per state of the host, shown as the system's own root. Nothing else of the system is shown: a vendor's
folder or documentation may hold a copy of the code that a task is about.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from .cache import cache_folder, made_once

LAYOUT = 1
"""Of the folder; a higher number makes it anew."""
PROGRAM_FOLDERS = ("/usr/bin", "/bin", "/usr/sbin", "/sbin")
PROGRAMS = tuple(
    "sh bash dash env awk mawk gawk sed grep egrep fgrep find xargs which diff cmp diff3 patch git make tar gzip gunzip"
    " zcat bzip2 bunzip2 xz unxz zip unzip less more tree ps pgrep pkill hostname getopt column rev hexdump xxd flock"
    " setsid ldconfig rg ed bc"
    " [ arch base32 base64 basename basenc cat chgrp chmod chown cksum comm cp csplit cut date dd df dir dircolors"
    " dirname du echo expand expr factor false fmt fold groups head id install join link ln logname ls md5sum"
    " mkdir mkfifo mknod mktemp mv nice nl nohup nproc numfmt od paste pathchk pinky pr printenv printf ptx pwd"
    " readlink realpath rm rmdir seq sha1sum sha224sum sha256sum sha384sum sha512sum shred shuf sleep sort split stat"
    " stdbuf stty sum sync tac tail tee test timeout touch tr true truncate tsort tty uname unexpand uniq unlink users"
    " wc who whoami yes".split()
)
FOLDERS = ("/usr/share/zoneinfo", "/usr/lib/locale/C.utf8")
NOT_COPIED = ("right", "posix")  # the same time zones again
TERMINALS = tuple(f"/usr/lib/terminfo/{name[0]}/{name}" for name in ("dumb", "linux", "vt100", "xterm"))
LIBRARIES_OF_WHEELS = ("libstdc++.so.6", "libgcc_s.so.1", "libz.so.1", "libatomic.so.1")
"""What compiled packages take from every system."""
USER_NAME = "agent"
USER_ID = 1000
HOST_NAME = "sandbox"
LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC_COPIES = ("ld.so.cache", "mime.types", "localtime")
DEFAULT_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


@cache
def system_root() -> Path:
    """Made where the cache has none for this host, in this state."""
    programs = dict(_programs())
    parts = [*programs.values(), *(Path(path) for path in FOLDERS if os.path.isdir(path)), *_interpreter_files()]
    target = cache_folder() / f"system-{_key([*parts, Path('/etc/ld.so.cache')])}"
    return made_once(target, lambda building: _copy(building, programs))


@cache
def shown_paths() -> tuple[str, ...]:
    """The host's own paths of what the folder holds: its files, and whole folders where they were taken whole."""
    root = system_root()
    files = [f"/{path.relative_to(root)}" for path in sorted(root.rglob("*")) if path.is_file()]
    single = [path for path in files if not path.startswith(tuple(f"{folder}/" for folder in FOLDERS))]
    return (*single, *(folder for folder in FOLDERS if os.path.isdir(f"{root}{folder}")))


def holds(path: str) -> bool:
    """Whether the folder has a file under this path of the host."""
    return (system_root() / _without_links(path)).is_file()


def needed_libraries(files: Sequence[Path]) -> dict[str, Path]:
    """Where each library lies that the programs or libraries need, also by way of others: its path -> the true file."""
    ldd = shutil.which("ldd", path=":".join(PROGRAM_FOLDERS))
    if ldd is None or not files:
        return {}
    said = subprocess.run([ldd, *map(str, files)], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", said.stdout, re.MULTILINE)
    return {path: Path(path).resolve() for path in dict.fromkeys(found)}


def _programs() -> Iterator[tuple[str, Path]]:
    for name in PROGRAMS:
        for folder in PROGRAM_FOLDERS:
            path = Path(folder, name)
            if path.is_file() and os.access(path, os.X_OK):
                yield str(path), path.resolve()
                break


def _interpreter_files() -> list[Path]:
    modules = Path(sysconfig.get_path("stdlib"), "lib-dynload").glob("*.so")
    without_windows = [path for path in sorted(modules) if not path.name.startswith("_tkinter")]
    return [Path(sys.executable).resolve(), *without_windows]


def _key(parts: Iterable[Path]) -> str:
    """Libraries are not looked for to tell it: what installs one writes `ld.so.cache` anew."""
    digest = hashlib.sha256(f"{LAYOUT} {sys.version}".encode())
    for path in parts:
        state = path.stat() if path.exists() else None
        digest.update(f"{path} {state and (state.st_size, state.st_mtime_ns)}\n".encode())
    return digest.hexdigest()[:16]


def _copy(building: Path, programs: dict[str, Path]) -> None:
    common = _libraries_of_wheels()
    needed = needed_libraries([*programs.values(), *_interpreter_files(), *common])
    files = {**programs, **{path: file for path, file in needed.items() if not of_interpreter(path)}}
    files |= {str(path): path.resolve() for path in (*common, *map(Path, TERMINALS)) if path.is_file()}
    for path, file in files.items():
        copy = building / _without_links(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
        copy.chmod(file.stat().st_mode & 0o777)  # never setuid
    for folder in filter(os.path.isdir, FOLDERS):
        ignored = shutil.ignore_patterns(*NOT_COPIED)
        shutil.copytree(folder, building / folder.lstrip("/"), ignore=ignored, ignore_dangling_symlinks=True)


def of_interpreter(path: str) -> bool:
    """Whether a library is part of a Python with a folder of its own; `toolchain.py` copies those."""
    return sys.base_prefix != "/usr" and path.startswith(f"{sys.base_prefix}/")


def _libraries_of_wheels() -> list[Path]:
    folders = {Path(path).parent for path in needed_libraries([Path("/bin/sh").resolve()])}
    return [folder / name for name in LIBRARIES_OF_WHEELS for folder in sorted(folders) if (folder / name).is_file()]


def _without_links(path: str) -> str:
    """`/bin/sh` is `usr/bin/sh` where /bin is a link to it."""
    pure = Path(path)
    return str(pure.parent.resolve() / pure.name).lstrip("/")


def program_links() -> dict[str, str]:
    """Those of the system's folders that are links, as /bin -> usr/bin, and where they lead."""
    return {name: os.readlink(name) for name in LINKS if os.path.islink(name)}


def write_etc(folder: Path) -> None:
    """Nobody of the host is named in it."""
    folder.mkdir()
    (folder / "passwd").write_text(
        f"root:x:0:0::/root:/bin/sh\n{USER_NAME}:x:{USER_ID}:{USER_ID}::/home/{USER_NAME}:/bin/sh\n"
        "nobody:x:65534:65534::/:/bin/false\n",
        encoding="utf-8",
    )
    (folder / "group").write_text(f"root:x:0:\n{USER_NAME}:x:{USER_ID}:\nnogroup:x:65534:\n", encoding="utf-8")
    (folder / "hosts").write_text(f"127.0.0.1 localhost {HOST_NAME}\n::1 localhost\n", encoding="utf-8")
    (folder / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n", encoding="utf-8")
    for name in ETC_COPIES:
        source = Path("/etc") / name
        if source.is_file():
            shutil.copyfile(source, folder / name)


def base_environment(home: str, temporary: str) -> dict[str, str]:
    return {
        "PATH": DEFAULT_PATH,
        "HOME": home,
        "USER": USER_NAME,
        "LOGNAME": USER_NAME,
        "TMPDIR": temporary,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
    }
