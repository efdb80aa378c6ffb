"""What a command finds besides the programs of `system_root.py`: links to them, a small /etc, a few variables."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

USER_NAME = "agent"
USER_ID = 1000
HOST_NAME = "sandbox"
LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
ETC_COPIES = ("ld.so.cache", "mime.types", "localtime")
DEFAULT_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


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
