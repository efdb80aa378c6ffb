"""Where names of the standard library point: folders of the system, suffixes, the first bytes of files."""

from __future__ import annotations

import re
import sys
from typing import Any

LIBRARY = "/usr/lib/python3"
INSTALLED = f"{LIBRARY}/site-packages"
PLACES: dict[str, Any] = {
    "site.getsitepackages": (INSTALLED,), "site.getusersitepackages": "~/.local/site-packages",
    "site.getuserbase": "~/.local", "sysconfig.get_paths": INSTALLED, "sysconfig.get_path": INSTALLED,
    "distutils.sysconfig.get_python_lib": INSTALLED, "pathlib.Path.home": "~", "pathlib.Path.cwd": ".",
    "os.getcwd": ".", "tempfile.gettempdir": "/tmp",  # noqa: S108
    "platformdirs.user_cache_dir": "~/.cache/*", "appdirs.user_cache_dir": "~/.cache/*",
    "platformdirs.user_cache_path": "~/.cache/*", "os.getppid": "parent process", "os.getpid": "own process",
}  # fmt: skip
ATTRIBUTES: dict[str, Any] = {
    "sys.executable": "/usr/bin/python3", "sys.base_prefix": "/usr", "sys.prefix": "/usr", "sys.exec_prefix": "/usr",
    "sys.path": (".", f"{LIBRARY}/lib-dynload", INSTALLED), "os.sep": "/", "os.path.sep": "/", "os.curdir": ".",
    "os.pardir": "..", "string.ascii_lowercase": "abcdefghijklmnopqrstuvwxyz",
    "importlib.machinery.EXTENSION_SUFFIXES": (".cpython-311-x86_64-linux-gnu.so", ".abi3.so", ".so"),
    "importlib.machinery.BYTECODE_SUFFIXES": (".pyc",), "sys.implementation.cache_tag": "cpython-311",
    "importlib.machinery.DEBUG_BYTECODE_SUFFIXES": (".pyc",),
    "site.USER_SITE": "~/.local/site-packages", "site.USER_BASE": "~/.local",
    "importlib.util.MAGIC_NUMBER": b"\xa7\r\r\n",
}  # fmt: skip
VARIABLES = {
    "HOME": "~", "TMPDIR": "/tmp", "TMP": "/tmp", "TEMP": "/tmp",  # noqa: S108
    "XDG_CACHE_HOME": "~/.cache", "XDG_DATA_HOME": "~/.local/share", "XDG_CONFIG_HOME": "~/.config",
    "PIP_CACHE_DIR": "~/.cache/pip", "UV_CACHE_DIR": "~/.cache/uv", "VIRTUAL_ENV": "/opt/venv",
}  # fmt: skip
INSTALLED_TOOLS = frozenset({"pip", "pytest", "_pytest", "setuptools", "wheel", "pkg_resources", "pluggy", "numpy"})
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_FIRST_BYTES = (
    (b"\x7fELF", ".so"), (b"\xca\xfe\xba\xbe", ".class"), (b"MZ\x90", ".dll"), (b"PK\x03\x04", ".whl"),
    (b"b0VIM", ".swp"), (b"DIRC", ".git/index"),
)  # fmt: skip


def with_variables(text: str) -> str:
    """A text as `os.path.expandvars` gives it."""
    return _VARIABLE.sub(lambda found: VARIABLES.get(found[1] or found[2], found[0]), text)


def module_file(module: str) -> str:
    """Where a module lies; one that is neither the library's nor a tool's is taken for one of the tree."""
    path, top = module.replace(".", "/"), module.partition(".")[0]
    if top in INSTALLED_TOOLS:
        return f"{INSTALLED}/{path}/__init__.py"
    return f"{LIBRARY}/{path}.py" if top in sys.stdlib_module_names else f"{path}.py"


def kind_by_first_bytes(value: bytes) -> str:
    """The suffix of the files that begin with these bytes; "" where that tells nothing."""
    if value.endswith(b"\r\r\n") or value[2:4] == b"\r\n":
        return ".pyc"
    return next((suffix for start, suffix in _FIRST_BYTES if value[:3] and value.startswith(start[: len(value)])), "")
