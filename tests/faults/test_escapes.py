"""Nothing gets out: each probe runs inside every backend and fails, and the host looks as before. A backend that cannot
hold a class of them must refuse to start, and is skipped here with its reason.

A second set does not try to get out but to hurt the host from inside, or to lead it astray when it reads the files.
"""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from composer_replication.environments.code.sandbox import (
    MIB,
    Limits,
    SandboxRefusal,
    SandboxSpec,
    open_sandbox,
    toolchain,
)
from composer_replication.environments.code.sandbox.open import why_unavailable

from .escape_probes import CONTROLS, PROBES, program

LIMITS = Limits(
    wall_s=15, cpu_s=10, memory_bytes=256 * MIB, processes=24, file_bytes=8 * MIB, disk_bytes=24 * MIB, output_bytes=MIB
)


def spec():
    tools = toolchain([])
    return SandboxSpec(read_only=tools.read_only, env=tools.env, limits=LIMITS, workdir="/probing")


@pytest.fixture(params=["bubblewrap", "landlock"])
def sandbox(request):
    if why := why_unavailable(request.param):
        pytest.skip(f"{request.param} refuses to start: {why}")
    with open_sandbox(spec(), request.param) as opened:
        yield opened


class Host:
    """Things on this machine that a command must not reach, and how they looked before."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.secret = secrets.token_hex(12)
        folder.chmod(0o755)
        for parent in folder.parents[:3]:
            if parent.stat().st_uid == os.getuid() and parent != Path("/tmp"):
                parent.chmod(0o755)
        self.file, self.private = folder / "readable", folder / "private"
        for path, mode in ((self.file, 0o666), (self.private, 0o600)):
            path.write_text(self.secret)
            path.chmod(mode)
        folder.chmod(0o777)
        self.shared = Path("/dev/shm") / f"recompose-{self.secret[:8]}"
        self.shared.write_text(self.secret)
        self.argument = secrets.token_hex(8)
        code = f"import time; '{self.argument}'; time.sleep(600)"
        self.victim = subprocess.Popen(
            [sys.executable, "-S", "-c", code], cwd=folder, env={"TOKEN": self.secret}, stdin=subprocess.DEVNULL
        )
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind("\0recompose-" + self.secret)
        self.abstract.listen()
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(folder / "socket"))
        os.chmod(folder / "socket", 0o777)
        self.unix.listen()
        self.fd = os.open(self.file, os.O_RDONLY)
        os.set_inheritable(self.fd, True)
        self.libc = ctypes.CDLL(None)
        self.shm_key = secrets.randbelow(1 << 30) + 1
        self.shm = self.libc.shmget(self.shm_key, 4096, 0o1666)
        self.libc.shmat.restype = ctypes.c_void_p
        ctypes.memmove(self.libc.shmat(self.shm, None, 0), self.secret.encode(), len(self.secret))
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.free_port = free.getsockname()[1]
        os.environ["RECOMPOSE_PROBE_SECRET"] = self.secret
        self.names = sorted(os.listdir(folder))
        self.state = self.marks()

    def facts(self, other_work: str, may_kill_all: bool) -> str:
        disk = os.stat("/").st_dev
        return json.dumps(
            {
                "secret": self.secret,
                "file": str(self.file),
                "private_file": str(self.private),
                "folder": str(self.folder),
                "source": __file__,
                "shared_file": str(self.shared),
                "other_work": other_work,
                "site_packages": str(Path(pytest.__file__).parents[1]),
                "user": Path("/etc/passwd").read_text().splitlines()[4].split(":")[0],
                "victim": self.victim.pid,
                "parent": os.getpid(),
                "argument": self.argument,
                "tcp_port": self.tcp.getsockname()[1],
                "udp_port": self.udp.getsockname()[1],
                "free_port": self.free_port,
                "abstract": "recompose-" + self.secret,
                "unix_socket": str(self.folder / "socket"),
                "shm_key": self.shm_key,
                "disk": [os.major(disk), os.minor(disk)],
                "may_kill_all": may_kill_all,
            }
        )

    def marks(self):
        """Changes when a command has reached the host."""
        self.udp.setblocking(False)
        try:
            packet = self.udp.recv(100)
        except BlockingIOError:
            packet = b""
        found = self.file.stat() if self.file.exists() else None
        return (
            found and (found.st_mode, found.st_mtime_ns, found.st_size, found.st_nlink),
            sorted(os.listdir(self.folder)),
            self.victim.poll(),
            os.getpriority(os.PRIO_PROCESS, self.victim.pid) if self.victim.poll() is None else None,
            Path("/proc/sys/kernel/core_pattern").read_text(),
            socket.gethostname(),
            packet,
        )

    def close(self):
        self.victim.kill()
        self.victim.wait()
        self.shared.unlink(missing_ok=True)
        for held in (self.tcp, self.udp, self.abstract, self.unix):
            held.close()
        os.close(self.fd)
        self.libc.shmctl(self.shm, 0, None)
        del os.environ["RECOMPOSE_PROBE_SECRET"]


@pytest.fixture
def host(tmp_path):
    made = Host(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def other_work():
    """The working folder of a sandbox next door, on the host."""
    with open_sandbox(SandboxSpec()) as other:
        yield other


def attempt(sandbox, name, host, other):
    other.write("secret", host.secret.encode())
    facts = host.facts(str(other.workspace.work), may_kill_all=sandbox.backend == "bubblewrap")
    knocking = threading.Thread(target=knock, args=(host.free_port,), daemon=True)
    if name == "serve_to_the_host":
        knocking.start()
    result = sandbox.exec(["python3", "-c", program(name)], stdin=facts.encode())
    if name == "kill_everyone" and result.exit_code != 0:
        return {"escaped": False, "how": "killed itself"}
    if result.exit_code == 128 + 31:
        return {"escaped": False, "how": "killed for a forbidden call"}
    assert result.stdout, result
    return json.loads(result.stdout.splitlines()[-1])


def knock(port):
    for _ in range(30):
        try:
            socket.create_connection(("127.0.0.1", port), 0.1).close()
            return
        except OSError:
            time.sleep(0.05)


@pytest.mark.parametrize("name", PROBES)
def test_contained(name, sandbox, host, other_work):
    before = host.marks()
    verdict = attempt(sandbox, name, host, other_work)
    assert not verdict["escaped"], verdict
    assert host.marks() == before, verdict


@pytest.mark.parametrize("name", CONTROLS)
def test_the_probe_can_tell(name, host, other_work):
    """Without a sandbox the same program gets out."""
    try:
        with open_sandbox(spec(), "unsafe") as bare:
            verdict = attempt(bare, name, host, other_work)
    finally:
        (toolchain([]).folder / "probe").unlink(missing_ok=True)
    assert verdict["escaped"], verdict


# What hurts from inside.


def python(sandbox, code, **settings):
    return sandbox.exec(["python3", "-c", code], **settings)


def test_fork_bomb(sandbox):
    result = python(sandbox, "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass", timeout_s=1)
    assert result.ending in {"timeout", "killed", "memory"}
    assert sandbox.exec(["true"]).ok


def test_thread_bomb(sandbox):
    code = """
import os, threading, time
n = 0
try:
    while n < 300:
        threading.Thread(target=time.sleep, args=(9,), daemon=True).start()
        n += 1
except RuntimeError:
    pass
print(n, flush=True)
os._exit(0)
"""
    result = python(sandbox, code)
    assert result.ending == "killed" or int(result.stdout) <= LIMITS.processes + 3


def test_memory_bomb_in_many_processes(sandbox):
    """Which processes the kernel ends is its own choice, so only what is held at one moment counts."""
    code = """
import os, time
moment = time.time() + 3
for _ in range(4): os.fork()
x = bytearray(b'x') * (100 << 20)
if time.time() < moment:
    time.sleep(moment - time.time())
    print('holds it', flush=True)
"""
    result = python(sandbox, code)
    assert result.stdout.count(b"holds it") <= 2
    assert sandbox.exec(["true"]).ok


def test_memory_outside_of_processes(sandbox):
    """Anonymous files and shared memory belong to no process."""
    code = """
import os, time
kept, total = [], 0
try:
    for number in range(200):
        fd = os.memfd_create(f"m{number}"); kept.append(fd)
        total += os.write(fd, bytes(4 << 20))
except OSError as error: print(error)
print(total >> 20, flush=True)
"""
    result = python(sandbox, code)
    written = int(result.stdout.split()[-1]) if result.stdout.strip() else 0
    assert written <= LIMITS.memory_bytes >> 20


def test_disk_filled_through_every_writable_folder(sandbox):
    code = """
import os
total = 0
for folder in (".", os.environ["TMPDIR"], os.environ["HOME"], "/dev/shm", "/tmp", "/", "/run", "/var/tmp"):
    for number in range(40):
        try:
            with open(f"{folder}/fill{number}", "wb") as file: total += file.write(bytes(4 << 20))
        except OSError: break
print(total >> 20)
"""
    result = python(sandbox, code)
    if result.stdout:
        bound = LIMITS.disk_bytes // MIB + 64
        assert int(result.stdout) <= (bound if sandbox.workspace.bounded_by_kernel else 2 * bound)


def test_file_entries_are_bounded(sandbox):
    code = "import os\nn = 0\ntry:\n  while True: os.close(os.open(f'e{n}', os.O_CREAT)); n += 1\nexcept OSError: pass"
    python(sandbox, code, timeout_s=3)
    assert len(os.listdir(sandbox.workspace.work)) <= 200_000
    if len(os.listdir(sandbox.workspace.work)) > 100_000:
        with pytest.raises(SandboxRefusal, match="more than 100000 entries"):
            sandbox.snapshot()


def test_huge_and_sparse_files(sandbox):
    result = python(sandbox, "import os; fd = os.open('sparse', os.O_CREAT | os.O_RDWR); os.ftruncate(fd, 1 << 40)")
    assert not result.ok
    assert not python(sandbox, "open('big', 'wb').write(bytes(20 << 20))").ok


def test_many_sparse_files_do_not_fill_the_hosts_memory(sandbox):
    start = sandbox.snapshot()
    assert python(sandbox, "for n in range(500): open(f's{n}', 'w').truncate(8 << 20)").ok
    with pytest.raises(SandboxRefusal, match="claims more than"):
        sandbox.diff(start)


def test_output_flood(sandbox):
    code = "import sys\nwhile True: sys.stdout.buffer.write(b'x' * 65536); sys.stderr.write('y' * 65536)"
    result = python(sandbox, code, timeout_s=0.5)
    assert result.ending == "timeout" and result.truncated
    assert len(result.stdout) == LIMITS.output_bytes and len(result.stderr) <= LIMITS.output_bytes + 100


def test_output_held_open_by_nobody(sandbox):
    """A background process that keeps the pipes does not keep the host waiting."""
    started = time.monotonic()
    assert sandbox.exec(["/bin/sh", "-c", "sleep 9 & echo done"]).stdout == b"done\n"
    assert time.monotonic() - started < 3


def test_survivors_of_every_kind(sandbox):
    code = """
import os, sys, time
for step in range(6):
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        import signal
        for number in range(1, 64):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        while True:
            open(f"alive{step}", "a").write("x"); time.sleep(0.01)
time.sleep(0.3)
"""
    assert python(sandbox, code).ok
    before = {name: len(sandbox.read(f"alive{name}")) for name in range(6)}
    time.sleep(0.3)
    assert before == {name: len(sandbox.read(f"alive{name}")) for name in range(6)}
    assert all(before.values())


def test_survivors_of_a_timeout(sandbox):
    script = "(setsid sh -c 'while :; do echo x >> alive; sleep 0.01; done' &) ; sleep 30"
    assert sandbox.exec(["/bin/sh", "-c", script], timeout_s=0.5).ending == "timeout"
    before = len(sandbox.read("alive"))
    time.sleep(0.3)
    assert len(sandbox.read("alive")) == before


def test_zombies_and_stopped_processes(sandbox):
    code = """
import os, time
for _ in range(15):
    if os.fork() == 0: os._exit(0)
if os.fork() == 0: os.kill(os.getpid(), 19)
time.sleep(0.1)
print('end')
"""
    assert python(sandbox, code).stdout == b"end\n"
    assert sandbox.exec(["true"]).ok


def test_commands_die_with_the_host_process(tmp_path):
    """No orphan is left when the process that opened the sandbox is killed."""
    for backend in ("bubblewrap", "landlock"):
        if why_unavailable(backend):
            continue
        mark = secrets.token_hex(6)
        code = (
            "from composer_replication.environments.code.sandbox import *\n"
            f"open_sandbox(SandboxSpec(), {backend!r}).exec(['/bin/sh', '-c', 'sleep 59; : {mark}'])"
        )
        owner = subprocess.Popen([sys.executable, "-c", code])
        deadline = time.monotonic() + 20
        while not running(mark) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert running(mark)
        owner.kill()
        owner.wait()
        deadline = time.monotonic() + 5
        while running(mark) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not running(mark), backend


def running(mark):
    """Whether a shell with this mark lives; the owner's own command line is a Python program."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == b"/bin/sh" and any(mark.encode() in word for word in words):
            return True
    return False


# What leads the host astray when it reads.


def test_deep_trees_are_refused_and_removed(sandbox):
    start = sandbox.snapshot()
    assert python(sandbox, "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')").ok
    for use in (lambda: sandbox.diff(start), sandbox.snapshot):
        with pytest.raises(SandboxRefusal, match="nested deeper"):
            use()
    folder = sandbox.workspace.folder
    sandbox.kill()
    assert not folder.exists()


def test_unreadable_and_odd_names(sandbox):
    start = sandbox.snapshot()
    code = r"""
import os
os.mkdir('shut')
for name in ('shut/a', b'\xff\xfe', 'new\nline'): open(name, 'w').write('x')
os.chmod('shut/a', 0)
os.chmod('shut', 0)
"""
    assert python(sandbox, code).ok
    changes = sandbox.diff(start)
    assert changes.written == {"shut/a": b"x", "new\nline": b"x"}
    assert changes.special == ("\\udcff\\udcfe",)
    json.dumps(changes.special)
    folder = sandbox.workspace.folder
    sandbox.kill()
    assert not folder.exists()


def test_pipes_do_not_hang_the_host(sandbox):
    start = sandbox.snapshot()
    assert sandbox.exec(["/bin/sh", "-c", "mkfifo a b"]).ok
    for path in ("a", "b"):
        with pytest.raises(SandboxRefusal):
            sandbox.read(path)
        with pytest.raises(SandboxRefusal):
            sandbox.write(path, b"x")
    assert sandbox.diff(start).special == ("a", "b")


def test_a_link_swapped_in_while_the_host_reads_and_writes(sandbox, host):
    """The folder `d` turns into a link to the host's folder and back, thousands of times a second."""
    code = f"""
import ctypes, os, time
libc = ctypes.CDLL(None)
os.symlink({str(host.folder)!r}, "link")
end = time.monotonic() + 2
while time.monotonic() < end:
    assert libc.renameat2(-100, b"d", -100, b"link", 2) == 0
"""
    before = host.marks()
    sandbox.write("d/readable", b"inside")
    ended = []
    worker = threading.Thread(target=lambda: ended.append(python(sandbox, code)))
    worker.start()
    tried = 0
    while worker.is_alive():
        for use in (
            lambda: sandbox.read("d/readable"),
            lambda: sandbox.write("d/readable", b"MARK"),
            lambda: sandbox.write("d/made", b"MARK"),
        ):
            try:
                content = use()
            except (SandboxRefusal, FileNotFoundError):
                continue
            assert content is None or host.secret.encode() not in content
            tried += 1
    worker.join()
    assert ended[0].ok and tried, ended
    assert host.marks() == before
