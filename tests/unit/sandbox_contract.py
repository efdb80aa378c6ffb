"""What every sandbox promises, one function each. An adapter for another backend runs them all:

    @pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
    def test_my_backend(promise):
        promise(my_open_sandbox)

`opener` takes a `SandboxSpec` and returns a sandbox whose commands find `/bin/sh` and the usual small programs.
"""

from __future__ import annotations

import os
import socket
import tempfile
import threading
import time
from pathlib import Path

import pytest

from composer_replication.environments.code.sandbox import (
    MIB,
    Limits,
    SandboxRefusal,
    SandboxSpec,
    SandboxUnavailable,
    toolchain,
)

SHORT = Limits(wall_s=10, memory_bytes=192 * MIB, processes=16, file_bytes=4 * MIB, disk_bytes=12 * MIB, cpu_s=10)


def sh(sandbox, script, **settings):
    return sandbox.exec(["/bin/sh", "-c", script], **settings)


def python_spec(**settings):
    tools = toolchain([])
    return SandboxSpec(read_only=tools.read_only, env=tools.env, **settings)


def python(sandbox, code, **settings):
    return sandbox.exec(["python3", "-c", code], **settings)


def tells_how_a_command_ended(opener):
    with opener(SandboxSpec()) as sandbox:
        result = sh(sandbox, "cat; echo err >&2; exit 3", stdin=b"in" * 50_000)
        assert (result.exit_code, result.stdout, result.stderr) == (3, b"in" * 50_000, b"err\n")
        assert result.ending == "exited" and not result.ok and not result.truncated
        assert sandbox.exec(["true"]).ok
        assert sh(sandbox, "kill -TERM $$").exit_code == 128 + 15
        missing = sandbox.exec(["/no/such/program"])
        assert missing.exit_code == 127 and missing.ending == "exited" and missing.stderr


def refuses_what_is_no_command(opener):
    with opener(SandboxSpec()) as sandbox:
        for argv in ([], ["a\0b"]):
            with pytest.raises(SandboxRefusal):
                sandbox.exec(argv)
        with pytest.raises(SandboxRefusal):
            sandbox.exec(["true"], cwd="no-such-folder")


def passes_only_the_given_environment(opener):
    os.environ["RECOMPOSE_TEST_SECRET"] = "of the host"
    try:
        with opener(SandboxSpec(env={"ONE": "spec", "TWO": "spec"})) as sandbox:
            lines = sh(sandbox, "env", env={"TWO": "call"}).stdout.decode().splitlines()
    finally:
        del os.environ["RECOMPOSE_TEST_SECRET"]
    assert "ONE=spec" in lines and "TWO=call" in lines
    assert not any("RECOMPOSE_TEST_SECRET" in line for line in lines)


def starts_in_the_working_folder(opener):
    with opener(SandboxSpec()) as sandbox:
        sandbox.write("below/here.txt", b"x")
        assert sh(sandbox, "pwd -P").stdout.decode().strip() == sandbox.workdir
        assert sh(sandbox, "ls", cwd="below").stdout == b"here.txt\n"


def copies_the_tree_and_leaves_the_original(opener):
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        (tree / "a.txt").write_text("old")
        (tree / "run.sh").write_text("#!/bin/sh\necho ran\n")
        (tree / "run.sh").chmod(0o755)
        with opener(SandboxSpec(tree=tree)) as sandbox:
            assert sh(sandbox, "cat a.txt; ./run.sh; echo new > a.txt").stdout == b"oldran\n"
            assert sandbox.read("a.txt") == b"new\n"
        assert (tree / "a.txt").read_text() == "old"


def shows_read_only_folders(opener):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.txt").write_text("given")
        with opener(SandboxSpec(read_only={Path(folder): "/given"})) as sandbox:
            result = sandbox.exec(["cat", "/given/a.txt"])
            assert result.stdout == b"given", result
            assert not sh(sandbox, "echo x > /given/b.txt").ok
            assert not sandbox.exec(["rm", "-f", "/given/a.txt"]).ok
        assert sorted(path.name for path in Path(folder).iterdir()) == ["a.txt"]


def reads_and_writes_files(opener):
    with opener(SandboxSpec()) as sandbox:
        sandbox.write("deep/er/a.bin", bytes(range(256)))
        assert sandbox.read("deep/er/a.bin") == bytes(range(256))
        sandbox.write("deep/er/a.bin", b"shorter")
        assert sh(sandbox, "cat deep/er/a.bin; echo more >> deep/er/a.bin").stdout == b"shorter"
        assert sandbox.read("deep/er/a.bin") == b"shortermore\n"
        with pytest.raises(FileNotFoundError):
            sandbox.read("missing")


def keeps_its_temporary_folder_between_commands(opener):
    with opener(SandboxSpec()) as sandbox:
        assert sh(sandbox, 'echo kept > "$TMPDIR/a"; echo home > "$HOME/a"').ok
        assert sh(sandbox, 'cat "$TMPDIR/a" "$HOME/a"').stdout == b"kept\nhome\n"


def refuses_paths_that_leave(opener):
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "secret").write_text("of the host")
        with opener(SandboxSpec()) as sandbox:
            sandbox.write("a", b"")
            script = f"ln -s {folder}/secret link; ln -s {folder} folder; ln -s .. up; mkfifo pipe; mkdir there"
            assert sh(sandbox, script).ok
            for path in (
                f"{folder}/secret",
                "../x",
                "a/../../x",
                "link",
                "folder/secret",
                "up/x",
                "pipe",
                "there",
                "",
                ".",
            ):
                with pytest.raises((SandboxRefusal, FileNotFoundError)):
                    sandbox.read(path)
                with pytest.raises(SandboxRefusal):
                    sandbox.write(path, b"overwritten")
        assert Path(folder, "secret").read_text() == "of the host"


def tells_what_changed(opener):
    with opener(SandboxSpec()) as sandbox:
        for name in ("same", "edited", "removed", "replaced", "touched", "mode"):
            sandbox.write(f"d/{name}", b"old")
        assert sh(sandbox, "ln -s same d/oldlink").ok
        start = sandbox.snapshot()
        assert sandbox.diff(start) == type(sandbox.diff(start))({}, (), ())
        assert sh(
            sandbox,
            "echo new > d/edited; rm d/removed d/replaced; ln -s /etc d/replaced; echo more > d/added; mkfifo d/pipe;"
            "cat d/touched > t; cat t > d/touched; rm t; ln -sf edited d/oldlink",
        ).ok
        changes = sandbox.diff(start)
        assert changes.written == {"d/edited": b"new\n", "d/added": b"more\n"}
        assert set(changes.removed) == {"d/removed", "d/replaced", "d/oldlink"}
        assert set(changes.special) == {"d/replaced", "d/pipe", "d/oldlink"}
        later = sandbox.snapshot()
        assert not sandbox.diff(later).written and sandbox.diff(start).written
        with pytest.raises(SandboxRefusal):
            sandbox.diff("no such snapshot")


def ends_a_command_that_takes_too_long(opener):
    with opener(SandboxSpec(limits=SHORT)) as sandbox:
        started = time.monotonic()
        result = sh(sandbox, "trap '' TERM INT; echo begun; sleep 30 & sleep 30", timeout_s=0.5)
        assert result.ending == "timeout" and result.stdout == b"begun\n" and not result.ok
        assert result.exit_code == 137
        assert time.monotonic() - started < 5
        assert sandbox.exec(["true"]).ok
    with opener(SandboxSpec(limits=Limits(wall_s=0.5))) as sandbox:
        assert sh(sandbox, "sleep 30", timeout_s=30).ending == "timeout"


def leaves_nothing_running(opener):
    with opener(SandboxSpec()) as sandbox:
        survivor = "i=0; while [ $i -lt 50 ]; do i=$((i+1)); echo tick >> ticks; sleep 0.02; done"
        assert sh(sandbox, f"(setsid sh -c '{survivor}' >/dev/null 2>&1 &); sleep 0.2; echo done").stdout == b"done\n"
        before = sandbox.read("ticks")
        time.sleep(0.2)
        assert sandbox.read("ticks") == before


def caps_output(opener):
    with opener(SandboxSpec(limits=Limits(wall_s=20, output_bytes=1000))) as sandbox:
        result = sh(sandbox, "head -c 5000000 /dev/zero; echo small >&2")
        assert result.ok and result.truncated
        assert len(result.stdout) == 1000 and result.stderr == b"small\n"


def bounds_memory(opener):
    with opener(python_spec(limits=SHORT)) as sandbox:
        result = python(sandbox, "x = bytearray(600 << 20); print('had it')")
        assert b"had it" not in result.stdout and not result.ok
        several = "import os,time\nfor _ in range(4): os.fork()\nx = bytearray(b'x') * (50 << 20); time.sleep(1)"
        result = python(sandbox, several + "; print('had it', flush=True)")
        assert result.stdout.count(b"had it") < 4
        assert sandbox.exec(["true"]).ok


def bounds_processes(opener):
    bomb = """
import os, time
n = 0
try:
    while n < 500:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        n += 1
except OSError:
    pass
print(n)
"""
    with opener(python_spec(limits=SHORT)) as sandbox:
        result = python(sandbox, bomb)
        if result.ending == "exited":
            assert 1 <= int(result.stdout) <= SHORT.processes + 3
        else:
            assert result.ending == "killed"
        assert sandbox.exec(["true"]).ok


def bounds_files_and_disk(opener):
    with opener(SandboxSpec(limits=SHORT)) as sandbox:
        assert not sh(sandbox, "head -c 6000000 /dev/zero > large").ok
        with pytest.raises(SandboxRefusal):
            sandbox.write("large", bytes(SHORT.file_bytes + 1))
        result = sh(
            sandbox,
            "rm -f large; for i in 1 2 3 4 5 6 7 8; do head -c 3000000 /dev/zero > f$i || exit 1; sleep 0.3; done",
        )
        assert not result.ok
        assert int(sh(sandbox, "cat f* | wc -c").stdout) < 2 * SHORT.disk_bytes


def reaches_no_network(opener):
    with socket.create_server(("127.0.0.1", 0)) as server, opener(python_spec()) as sandbox:
        port = server.getsockname()[1]
        code = f"import socket\ntry:\n  socket.create_connection(('127.0.0.1', {port}), 2); print('reached')\n"
        result = python(sandbox, code + "except OSError: print('not reached')")
        assert result.stdout == b"not reached\n", result


def keeps_loopback_to_itself_or_refuses_it(opener):
    talk = (
        "import socket,threading\ns = socket.create_server(('127.0.0.1', 0))\n"
        "c = socket.create_connection(s.getsockname()); a = s.accept()[0]; c.send(b'x'); print(a.recv(1))"
    )
    try:
        sandbox = opener(python_spec(network="loopback"))
    except SandboxUnavailable:
        return
    with sandbox, socket.create_server(("127.0.0.1", 0)) as server:
        result = python(sandbox, talk)
        assert result.stdout == b"b'x'\n", result
        port = server.getsockname()[1]
        assert not python(sandbox, f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)").ok


def hands_over_open_files_or_refuses(opener):
    with opener(python_spec()) as sandbox:
        reader, writer = os.pipe()
        try:
            try:
                result = python(sandbox, f"import os; os.write({writer}, b'told')", pass_fds=[writer])
            except SandboxRefusal:
                return
            os.close(writer)
            writer = -1
            assert result.ok, result
            assert os.read(reader, 100) == b"told"
            assert os.read(reader, 100) == b""
        finally:
            os.close(reader)
            if writer >= 0:
                os.close(writer)


def is_gone_after_kill(opener):
    sandbox = opener(SandboxSpec())
    sandbox.write("a", b"x")
    sandbox.kill()
    sandbox.kill()
    for use in (lambda: sandbox.exec(["true"]), lambda: sandbox.read("a"), sandbox.snapshot):
        with pytest.raises(SandboxRefusal):
            use()


def can_be_killed_from_outside(opener):
    with opener(SandboxSpec()) as sandbox:
        timer = threading.Timer(0.3, sandbox.kill)
        timer.start()
        started = time.monotonic()
        assert sh(sandbox, "sleep 20").ending == "killed"
        assert time.monotonic() - started < 5
        timer.join()


def shares_nothing_with_another(opener):
    with opener(SandboxSpec()) as one, opener(SandboxSpec()) as other:
        one.write("a", b"x")
        assert sh(one, 'echo secret > "$TMPDIR/s"; echo secret > "$HOME/s"').ok
        assert sh(other, 'ls; ls "$TMPDIR" "$HOME"').stdout.decode().count("s\n") == 0
        with pytest.raises(FileNotFoundError):
            other.read("a")


def runs_commands_side_by_side(opener):
    with opener(SandboxSpec()) as sandbox:
        results = {}

        def work(number):
            results[number] = sh(sandbox, f"sleep 0.1; echo {number}").stdout

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == {number: f"{number}\n".encode() for number in range(4)}


PROMISES = [
    tells_how_a_command_ended,
    refuses_what_is_no_command,
    passes_only_the_given_environment,
    starts_in_the_working_folder,
    copies_the_tree_and_leaves_the_original,
    shows_read_only_folders,
    reads_and_writes_files,
    keeps_its_temporary_folder_between_commands,
    refuses_paths_that_leave,
    tells_what_changed,
    ends_a_command_that_takes_too_long,
    leaves_nothing_running,
    caps_output,
    bounds_memory,
    bounds_processes,
    bounds_files_and_disk,
    reaches_no_network,
    keeps_loopback_to_itself_or_refuses_it,
    hands_over_open_files_or_refuses,
    is_gone_after_kill,
    can_be_killed_from_outside,
    shares_nothing_with_another,
    runs_commands_side_by_side,
]
