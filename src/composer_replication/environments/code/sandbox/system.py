"""Which folders of the host's own system a command may read, and a small /etc made for it.

Programs and libraries are shown; what people installed by hand (/usr/local) and the system Python's packages are not,
since a copy of the code that a task is about may lie there.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

USER_NAME = "agent"
USER_ID = 1000
HOST_NAME = "sandbox"
PROGRAM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
HIDDEN = ("/usr/local", "/usr/src", "/usr/lib/python3", "/usr/lib/python2.7")
ETC_COPIES = ("ld.so.cache", "ld.so.conf", "mime.types", "localtime")
ETC_FOLDERS = ("alternatives", "ld.so.conf.d")
DEFAULT_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


def program_links() -> dict[str, str]:
    """Those of the program folders that are links, as /bin -> usr/bin, and where they lead."""
    return {name: os.readlink(name) for name in PROGRAM_FOLDERS if os.path.islink(name)}


def program_folders() -> list[str]:
    return [name for name in PROGRAM_FOLDERS if os.path.isdir(name) and not os.path.islink(name)]


def hidden_folders() -> list[str]:
    """Also the packages of a system Python that keeps them next to its own modules."""
    found = [Path(name) for name in HIDDEN]
    for library in Path("/usr/lib").glob("python3.*"):
        found += [library / "dist-packages", library / "site-packages"]
    return [str(path) for path in found if path.is_dir() and not path.is_symlink()]


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
    for name in ETC_FOLDERS:
        if (Path("/etc") / name).is_dir():
            (folder / name).mkdir()


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
