"""Started by `landlock.py` once per sandbox: for each command it forks, restricts a child, and buries what is left.

Reads from the socket in its argument one message per command, with descriptors: the three of the command, one to read
a `Plan` from, one whose end of file means `kill`, one to write exit code and trouble to, and those the command asked
for. Answers with the number of the process that looks after the command. It ends when the socket does.

Nothing here is restricted but the command itself, and no process of that can signal the rest. It starts without
site-packages and imports little, since it is waited for.
"""

from __future__ import annotations

import _socket
import ctypes
import fcntl
import marshal
import os
import resource
import select
import struct
import sys

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 36, 38
SECCOMP_MODE_FILTER, SIGKILL = 2, 9
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_ONLY, PATH_BENEATH = 1, 1
MOST_DESCRIPTORS = 64  # in one message
EXECUTE, READ_FILE, READ_DIR = 1 << 0, 1 << 2, 1 << 3
ALL_FILES, ALL_TCP, ALL_SCOPES = (1 << 16) - 1, 3, 3  # those of version 6
OF_FILES = EXECUTE | 1 << 1 | READ_FILE | 1 << 14 | 1 << 15
MAY_READ = EXECUTE | READ_FILE | READ_DIR
MAY_WRITE = ALL_FILES & ~(1 << 6 | 1 << 11)  # no device can be made

Plan = tuple[
    list[str],  # argv
    dict[str, str],  # environment
    str,  # folder to start in
    int,  # user to become, -1 for the caller
    dict[int, int],  # resource limits
    list[str],  # paths to read
    list[str],  # paths to write
    list[str],  # devices
    list[int],  # numbers of the descriptors that the command asked for
    bytes,  # seccomp filter
]
_libc = ctypes.CDLL(None, use_errno=True)


def landlock_version() -> int:
    """0 where the kernel has no Landlock."""
    return max(0, _libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION_ONLY))


def restrict_paths(readable: list[str], writable: list[str], devices: list[str]) -> None:
    attributes = struct.pack("=QQQ", ALL_FILES, ALL_TCP, ALL_SCOPES)
    ruleset = _checked(_libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0))
    for paths, access in ((readable, MAY_READ), (writable, MAY_WRITE), (devices, OF_FILES & ~EXECUTE)):
        for path in paths:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = access if os.path.isdir(path) else access & OF_FILES
            _checked(_libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", allowed, handle), 0))
            os.close(handle)
    _checked(_libc.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def restrict_calls(program: bytes) -> None:
    buffer = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer)))
    _checked(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0))


def become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def run_child(plan: Plan, troubles: int) -> None:
    """Ends in the command, or writes to `troubles` what stood in the way. Close-on-exec tells the parent of success."""
    argv, env, folder, user, limits, readable, writable, devices, _, calls = plan
    step = "setup"
    try:
        os.setsid()
        _checked(_libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0))
        for name, value in limits.items():
            resource.setrlimit(name, (value, value))
        if user >= 0:
            become(user)
        _checked(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        restrict_paths(readable, writable, devices)
        step = "chdir"
        os.chdir(folder)
        step = "setup"
        restrict_calls(calls)
        step = "command"
        for program in [argv[0]] if "/" in argv[0] else [f"{place}/{argv[0]}" for place in env["PATH"].split(":")]:
            try:
                os.execve(program, argv, env)  # noqa: S606
            except (FileNotFoundError, NotADirectoryError):
                continue
        raise FileNotFoundError(2, "not found", argv[0])
    except BaseException as error:
        os.write(troubles, f"{step}: {error}".encode())
    os._exit(127)


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        try:
            for task in os.listdir(f"/proc/{current}/task"):
                with open(f"/proc/{current}/task/{task}/children", encoding="ascii") as file:
                    children = [int(child) for child in file.read().split()]
                found += children
                waiting += children
        except OSError:
            continue  # it has ended meanwhile
    return found


def bury() -> None:
    """Kill and reap until there is no child left. Orphans come to us, so that nothing gets away."""
    while _reap():
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, SIGKILL)
            except OSError:
                continue
        select.select([], [], [], 0.001)


def wait_for(child: int, control: int) -> int | None:
    """The command's status; None where we were told to kill it."""
    handle = os.pidfd_open(child)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.register(control, select.POLLIN)
    ready = {descriptor for descriptor, _ in poll.poll()}
    return None if control in ready else os.waitpid(child, 0)[1]


def place(descriptors: list[int], wanted: list[int]) -> list[int]:
    """Give each descriptor its wanted number, -1 for any that is out of the way and closed in the command."""
    clear = max([*wanted, *descriptors, 2]) + 1
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, clear) for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    return [at if number < 0 else os.dup2(at, number) for at, number in zip(moved, wanted, strict=True)]


def look_after(descriptors: list[int]) -> None:
    """One command, from its plan to its report."""
    plan_fd = descriptors.pop(3)
    with open(plan_fd, "rb") as file:
        plan: Plan = marshal.loads(file.read())  # noqa: S302 - written by our own parent process
    *_, control, report = place([*descriptors[:3], *descriptors[5:], *descriptors[3:5]], [0, 1, 2, *plan[8], -1, -1])
    _checked(_libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    _checked(_libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
    troubles_out, troubles_in = os.pipe()
    child = os.fork()
    if child == 0:
        run_child(plan, troubles_in)
    os.close(troubles_in)
    with open(troubles_out, "rb") as file:
        trouble = file.read()
    for number in (0, 1, 2, *plan[8]):
        os.close(number)
    status = wait_for(child, control)
    bury()
    code = 137 if status is None else os.waitstatus_to_exitcode(status)
    os.write(report, b"%d %b" % (128 - code if code < 0 else code, trouble))


def serve() -> None:
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, int(sys.argv[1]))
    while True:
        message, ancillary, _, _ = connection.recvmsg(1, _socket.CMSG_SPACE(MOST_DESCRIPTORS * 4))
        if not message:
            return
        data = ancillary[0][2]
        descriptors = list(struct.unpack(f"={len(data) // 4}i", data))
        pid = os.fork()
        if pid == 0:
            connection.close()
            try:
                look_after(descriptors)
            finally:
                os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(b"%d" % pid)
        _reap()  # this one stays until the next command comes, so that its number is not given away early


def _reap() -> bool:
    """Those that have ended. Whether there is any child left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
