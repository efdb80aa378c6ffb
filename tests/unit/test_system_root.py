"""What of the host a command can read: some programs, their libraries, and nothing that may hold a solution."""

import itertools
import os
from pathlib import Path

import pytest

from composer_replication.environments.code.sandbox import SandboxSpec, open_sandbox, toolchain
from composer_replication.environments.code.sandbox import open as opening
from composer_replication.environments.code.sandbox.system_root import needed_libraries, shown_paths, system_root

from .sandbox_contract import python, python_spec, sh

READABLE = """
import sys
for path in sys.stdin.read().split():
    try:
        open(path, "rb").read(1)
        print(path)
    except OSError:
        continue
"""


def opened(backend, spec):
    if why := opening.why_unavailable(backend):
        pytest.skip(f"{backend}: {why}")
    return open_sandbox(spec, backend)


def some_of(folder: str, wanted: int = 40) -> list[str]:
    found = (os.path.join(at, name) for at, _, names in os.walk(folder) for name in names if " " not in name)
    return list(itertools.islice((path for path in found if not os.path.islink(path)), wanted))


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_vendor_folders_and_documentation_of_the_host_are_not_shown(backend):
    vendors = [path for path in Path("/usr/lib").iterdir() if path.name not in ("locale", "terminfo")]
    vendors = [path for path in vendors if path.is_dir() and not path.name.endswith("-linux-gnu")]
    asked = [path for folder in (*vendors, Path("/usr/share/doc"), Path("/opt")) for path in some_of(str(folder))]
    assert asked, "a host with nothing to hide shows nothing"
    with opened(backend, python_spec()) as sandbox:
        result = sandbox.exec(["python3", "-c", READABLE], stdin="\n".join(asked).encode())
        assert result.ok and result.stdout.decode().split() == []


def test_no_python_but_the_toolchains_is_in_sight():
    with opened("bubblewrap", python_spec()) as sandbox:
        found = sh(sandbox, "find / -name '*.py' -not -path '/toolchain/*' -not -path '/proc/*' 2>/dev/null")
        assert found.stdout == b""


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_programs_time_zones_and_the_interpreter_work(backend):
    with opened(backend, python_spec()) as sandbox:
        used = sh(sandbox, "echo a.b | sed s/a/c/ | grep -c c; TZ=Asia/Tokyo date +%Z; awk 'BEGIN {print 1 + 1}'")
        assert used.stdout == b"1\nJST\n2\n"
        code = "import bz2, ctypes, lzma, sqlite3, ssl, zoneinfo; print(zoneinfo.ZoneInfo('Europe/Berlin'))"
        assert python(sandbox, code).stdout == b"Europe/Berlin\n"
        assert python(sandbox, "import locale; print(locale.setlocale(locale.LC_ALL, ''))").stdout == b"C.UTF-8\n"


def test_the_folder_is_made_once_and_holds_what_its_programs_need():
    root = system_root()
    assert root == system_root.__wrapped__()
    assert {"/usr/bin/env", "/usr/bin/git"} & set(shown_paths())
    needed = needed_libraries([Path("/bin/sh").resolve()])
    assert needed and all(
        (root / os.path.realpath(Path(path).parent)[1:] / Path(path).name).is_file() for path in needed
    )
    assert not [path for path in root.rglob("*") if path.is_file() and path.stat().st_mode & 0o6022]


def test_a_sandbox_without_a_toolchain_has_no_python():
    with opened("bubblewrap", SandboxSpec()) as sandbox:
        assert not sandbox.exec(["python3", "-c", "pass"]).ok
    assert toolchain([]).env["PATH"].endswith("/usr/bin:/bin")
