"""Filters for the kernel's seccomp, assembled here: no library is needed, and the list is one page to read.

Writes the bytes of a `struct sock_filter[]`. Known machines are x86_64 and aarch64; on others a backend refuses.
A filter sees numbers, never paths or the memory behind pointers: what a path may reach is the mount table's business.
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from .interface import NetworkPolicy

LOAD, JUMP_EQUAL, JUMP_GREATER_EQUAL, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
KILL_PROCESS, FAIL, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
NUMBER_AT, ARCH_AT, ARGUMENTS_AT = 0, 4, 16
X32_BIT = 0x40000000
NEW_NAMESPACES = 0x7E020080  # CLONE_NEW{TIME,NS,CGROUP,UTS,IPC,USER,PID,NET}
AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10
TIOCSTI, TIOCLINUX = 0x5412, 0x541C

# name: (x86_64, aarch64); None where the machine has no such call.
NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chmod": (90, None),
    "chown": (92, None),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsetxattr": (190, 7),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "futimesat": (261, None),
    "init_module": (175, 105),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lchown": (94, None),
    "lookup_dcookie": (212, 18),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "removexattr": (197, 14),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semget": (64, 190),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "settimeofday": (164, 170),
    "setxattr": (188, 5),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "utime": (132, None),
    "utimensat": (280, 88),
    "utimes": (235, None),
    "vhangup": (153, 58),
    "vserver": (236, None),
}
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

NEVER = """
    acct add_key adjtimex bpf chroot clock_adjtime clock_settime delete_module fanotify_init fanotify_mark
    finit_module fsconfig fsmount fsopen fspick init_module io_uring_enter io_uring_register io_uring_setup ioperm
    iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie memfd_secret migrate_pages modify_ldt mount
    mount_setattr move_mount move_pages name_to_handle_at nfsservctl open_by_handle_at open_tree open_tree_attr
    perf_event_open pidfd_getfd pivot_root process_madvise process_mrelease process_vm_readv process_vm_writev
    ptrace quotactl quotactl_fd reboot request_key setdomainname sethostname setns settimeofday swapoff swapon sysfs
    syslog umount2 unshare uselib userfaultfd ustat vhangup vserver
""".split()
UNACCOUNTED_MEMORY = "memfd_create shmget".split()
"""Memory that no resource limit of a process counts; denied where no memory group counts it either."""

# Without namespaces of its own a command shares these with every process of its user.
SHARED_IPC = "shmget semget msgget mq_open mq_unlink inotify_init inotify_init1 setpriority ioprio_set".split()
SHARED_OWN_PROCESS = "prlimit64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler".split()
SHARED_ATTRIBUTES = (
    "setxattr lsetxattr fsetxattr removexattr lremovexattr setxattrat removexattrat file_setattr".split()
)
SHARED_METADATA = (
    "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes futimesat utimensat".split()
)


@dataclass(frozen=True)
class FilterPlan:
    """What one filter holds. Without namespaces (see `landlock.py`) a command shares the host, and often its user."""

    network: NetworkPolicy
    shared_host: bool = False
    shared_user: bool = False
    memory_is_counted: bool = True


def supported() -> bool:
    return platform.machine() in MACHINES


def build_filter(plan: FilterPlan) -> bytes:
    column, audit_arch = MACHINES[platform.machine()]

    def numbers(names: Iterable[str]) -> list[int]:
        return [number for name in names if (number := NUMBERS[name][column]) is not None]

    denied = list(NEVER)
    if not plan.memory_is_counted:
        denied += UNACCOUNTED_MEMORY
    program = [
        _step(LOAD, ARCH_AT),
        _step(JUMP_EQUAL, audit_arch, 1, 0),
        _step(RETURN, KILL_PROCESS),
        _step(LOAD, NUMBER_AT),
    ]
    if audit_arch == MACHINES["x86_64"][1]:
        program += [_step(JUMP_GREATER_EQUAL, X32_BIT, 0, 1), _fail(errno.EPERM)]
    for number in numbers(denied):
        program += _deny(number, errno.EPERM)
    program += _deny(NUMBERS["clone3"][column], errno.ENOSYS)  # its flags lie behind a pointer; libraries fall back
    program += _when(NUMBERS["clone"][column], 0, [_step(JUMP_ANY_BIT, NEW_NAMESPACES, 0, 1), _fail(errno.EPERM)])
    program += _when(NUMBERS["ioctl"][column], 1, _refuse(TIOCSTI) + _refuse(TIOCLINUX))
    program += _when(NUMBERS["socketpair"][column], 0, _only((AF_UNIX,)))
    if plan.shared_host:
        program += _deny(NUMBERS["socket"][column], errno.EPERM)
        for number in numbers(SHARED_IPC + SHARED_ATTRIBUTES):
            program += _deny(number, errno.EPERM)
        for number in numbers(SHARED_METADATA if plan.shared_user else []):
            program += _deny(number, 0)
        for number in numbers(SHARED_OWN_PROCESS):
            program += _when(number, 0, _only((0,)))
    else:
        families = (AF_UNIX,) if plan.network == "none" else (AF_UNIX, AF_INET, AF_INET6)
        program += _when(NUMBERS["socket"][column], 0, _only(families))
    program.append(_step(RETURN, ALLOW))
    return b"".join(program)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _fail(number: int) -> bytes:
    return _step(RETURN, FAIL | number)


def _deny(number: int | None, code: int) -> list[bytes]:
    """With code 0 the call does nothing and reports success."""
    return [] if number is None else [_step(JUMP_EQUAL, number, 0, 1), _fail(code)]


def _when(number: int | None, argument: int, checks: list[bytes]) -> list[bytes]:
    """The checks look at the low half of one argument; a call that passes them is allowed."""
    if number is None:
        return []
    body = [_step(LOAD, ARGUMENTS_AT + 8 * argument), *checks, _step(RETURN, ALLOW)]
    return [_step(JUMP_EQUAL, number, 0, len(body)), *body]


def _refuse(value: int) -> list[bytes]:
    return [_step(JUMP_EQUAL, value, 0, 1), _fail(errno.EPERM)]


def _only(values: tuple[int, ...]) -> list[bytes]:
    steps: list[bytes] = []
    for position, value in enumerate(values):
        steps.append(_step(JUMP_EQUAL, value, len(values) - position, 0))
    return [*steps, _fail(errno.EPERM)]
