"""Ways out of a sandbox, each a small program that runs inside it and answers True where it got out.

`facts` tells a program what there is to find on the host: it is given every advantage but the way. What a program does
to the host is looked at from outside as well (`marks` in `test_escapes.py`), so that a wrong answer does not help it.
"""

from __future__ import annotations

import textwrap

PRELUDE = '''
import ctypes, errno, json, os, socket, stat, struct, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
facts = json.load(sys.stdin)
X86 = os.uname().machine == "x86_64"
SECRET = facts["secret"].encode()

def call(number, *arguments):
    """A system call by number (x86_64, aarch64); raises like the library would."""
    ctypes.set_errno(0)
    result = libc.syscall(number[0] if X86 else number[1], *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def holds_secret(path):
    with open(path, "rb") as file:
        return SECRET in file.read(1 << 20)
'''

EPILOGUE = """
try:
    escaped, how = bool(probe()), ""
except (OSError, subprocess.SubprocessError, ValueError, ImportError) as error:
    escaped, how = False, repr(error)
print(json.dumps({"escaped": escaped, "how": how}))
"""

# name: body of `probe`
PROBES: dict[str, str] = {
    # Files of the host
    "read_a_readable_file": "return holds_secret(facts['file'])",
    "read_a_private_file": "return holds_secret(facts['private_file'])",
    "read_password_hashes": "return open('/etc/shadow').read(1) != ''",
    "read_the_host_users": "return facts['user'] in open('/etc/passwd').read()",
    "list_the_home_of_root": "return os.listdir('/root') is not None",
    "list_the_temporary_folder": """
        above, name = os.path.split(facts['folder'])
        return name in os.listdir(above)
    """,
    "read_the_project": "return len(open(facts['source']).read()) > 0",
    "read_another_sandbox": "return holds_secret(facts['other_work'] + '/secret')",
    "write_a_file": "open(facts['file'], 'ab').write(b'MARK'); return True",
    "truncate_a_file": "os.truncate(facts['file'], 1); return os.path.getsize(facts['file']) == 1",
    "make_a_file": "open(facts['folder'] + '/made', 'w').write('MARK'); return True",
    "remove_a_file": "os.remove(facts['file']); return True",
    "rename_a_file": "os.rename(facts['file'], facts['file'] + '.moved'); return True",
    "change_the_mode": "os.chmod(facts['file'], 0o777); return stat.S_IMODE(os.stat(facts['file']).st_mode) == 0o777",
    "change_the_times": "os.utime(facts['file'], (1, 1)); return os.stat(facts['file']).st_mtime == 1",
    "set_an_attribute": "os.setxattr(facts['file'], 'user.mark', b'MARK'); return True",
    "hard_link": "os.link(facts['file'], 'linked'); return holds_secret('linked')",
    "symbolic_link": "os.symlink(facts['file'], 'soft'); return holds_secret('soft')",
    "link_to_the_root": "os.symlink('/', 'root'); return holds_secret('root' + facts['file'])",
    "climb_out_of_the_working_folder": "return holds_secret('../' * 20 + facts['file'])",
    "descriptor_of_the_root": """
        fd = os.open('/', os.O_PATH)
        return holds_secret(f'/proc/self/fd/{fd}' + facts['file'])
    """,
    "watch_a_folder": """
        fd = call((294, 26), 0)
        return call((254, 27), fd, facts['folder'].encode(), 0xfff) >= 0
    """,
    "shared_memory_file": "return holds_secret(facts['shared_file'])",
    "write_to_the_system": "open('/usr/bin/recompose-probe', 'w').write('MARK'); return True",
    "write_to_the_toolchain": "open(os.path.join(sys.prefix, 'probe'), 'w').write('MARK'); return True",
    "change_the_toolchain": """
        mode = os.stat(sys.prefix).st_mode
        os.chmod(sys.prefix, mode ^ 0o070)
        return os.stat(sys.prefix).st_mode != mode
    """,
    "find_an_installed_package": """
        sys.path += [facts['site_packages'], '/usr/lib/python3/dist-packages']
        import pydantic
        return True
    """,
    # Mounts and namespaces
    "mount": "return libc.mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0",
    "remount_writable": "return libc.mount(b'none', b'/usr', None, ctypes.c_ulong(0x20 | 0x1000), None) == 0",
    "bind_mount": "return libc.mount(b'/', b'/tmp', None, ctypes.c_ulong(0x1000), None) == 0",
    "unmount": "return any(libc.umount2(path, 2) == 0 for path in (b'/usr/local', b'/tmp', b'/proc', b'/'))",
    "new_mount_calls": "call((430, 430), b'tmpfs', 0); return True",
    "open_tree": "call((428, 428), -100, b'/', 1); return True",
    "chroot": "os.mkdir('jail'); os.chroot('jail'); return True",
    "pivot_root": "call((155, 41), b'.', b'.'); return True",
    "user_namespace": "call((272, 97), ctypes.c_ulong(0x10000000)); return True",
    "mount_namespace": "call((272, 97), ctypes.c_ulong(0x00020000)); return True",
    "network_namespace": "call((272, 97), ctypes.c_ulong(0x40000000)); return True",
    "clone_a_namespace": """
        pid = call((56, 220), ctypes.c_ulong(0x10000000 | 17), None, None, None, None)
        if pid == 0: os._exit(0)
        return True
    """,
    "clone3_a_namespace": """
        pid = call((435, 435), struct.pack('=11Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0), ctypes.c_size_t(88))
        if pid == 0: os._exit(0)
        return True
    """,
    "join_a_namespace": """
        for pid in (1, facts['victim'], facts['parent']):
            try:
                call((308, 268), os.open(f'/proc/{pid}/ns/mnt', os.O_RDONLY), 0)
                return True
            except OSError: pass
    """,
    "nested_sandbox": """
        done = subprocess.run(['bwrap', '--unshare-all', '--ro-bind', '/', '/', '/bin/true'], capture_output=True)
        return done.returncode == 0
    """,
    "unshare_program": "return subprocess.run(['unshare', '-Ur', 'true'], capture_output=True).returncode == 0",
    "handle_of_a_file": """
        handle = ctypes.create_string_buffer(struct.pack('=Ii', 128, 0), 136); where = ctypes.c_int()
        call((303, 264), -100, b'/usr', handle, ctypes.byref(where), 0)
        return True
    """,
    "make_a_device": """
        os.mknod('disk', stat.S_IFBLK | 0o600, os.makedev(*facts['disk']))
        return len(os.pread(os.open('disk', os.O_RDONLY), 512, 0)) == 512
    """,
    "open_a_disk": """
        for name in os.listdir('/dev'):
            if stat.S_ISBLK(os.stat('/dev/' + name).st_mode): return os.open('/dev/' + name, os.O_RDONLY) >= 0
    """,
    # Processes of the host
    "environment_of_a_process": "return holds_secret(f\"/proc/{facts['victim']}/environ\")",
    "environment_of_anyone": """
        for pid in os.listdir('/proc'):
            try:
                if pid.isdigit() and int(pid) != os.getpid() and holds_secret(f'/proc/{pid}/environ'): return True
            except OSError: pass
    """,
    "command_line_of_anyone": """
        for pid in os.listdir('/proc'):
            try:
                if facts['argument'].encode() in open(f'/proc/{pid}/cmdline', 'rb').read(): return True
            except OSError: pass
    """,
    "root_of_the_first_process": "return holds_secret('/proc/1/root' + facts['file'])",
    "folder_of_a_process": "return holds_secret(f\"/proc/{facts['victim']}/cwd/readable\")",
    "folder_of_the_parent": "return os.path.exists(f\"/proc/{facts['parent']}/root/{facts['file']}\")",
    "memory_of_a_process": "return os.open(f\"/proc/{facts['victim']}/mem\", os.O_RDWR) >= 0",
    "trace_a_process": "return call((101, 117), 16, facts['victim'], None, None) == 0",
    "trace_a_child": """
        pid = os.fork()
        if pid == 0:
            os._exit(0 if libc.ptrace(0, 0, None, None) == 0 else 1)
        return os.waitpid(pid, 0)[1] == 0
    """,
    "read_a_process": """
        buffer = ctypes.create_string_buffer(8)
        local = struct.pack('=QQ', ctypes.addressof(buffer), 8)
        call((310, 270), facts['victim'], local, ctypes.c_ulong(1), local, ctypes.c_ulong(1), 0)
        return True
    """,
    "kill_a_process": "os.kill(facts['victim'], 9); return True",
    "kill_the_parent": "os.kill(facts['parent'], 0); return True",
    "kill_everyone": "os.kill(-1, 19) if facts['may_kill_all'] else None; return False",
    "kill_by_handle": "import signal; signal.pidfd_send_signal(os.pidfd_open(facts['victim']), 9); return True",
    "take_a_descriptor": "call((438, 438), os.pidfd_open(facts['victim']), 0, 0); return True",
    "limit_a_process": """
        import resource
        resource.prlimit(facts['victim'], resource.RLIMIT_NOFILE, (3, 3))
        return True
    """,
    "slow_a_process": "os.setpriority(os.PRIO_PROCESS, facts['victim'], 19); return True",
    "inherited_descriptors": """
        for fd in range(3, 256):
            try: os.fstat(fd)
            except OSError: continue
            if SECRET in os.pread(fd, 1000, 0): return True
    """,
    "inherited_environment": "return any(facts['secret'] in value for value in os.environ.values())",
    # Network
    "tcp_to_the_host": "return socket.create_connection(('127.0.0.1', facts['tcp_port']), 2) is not None",
    "tcp_by_version_six": "return socket.create_connection(('::ffff:127.0.0.1', facts['tcp_port']), 2) is not None",
    "udp_to_the_host": """
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'MARK', ('127.0.0.1', facts['udp_port']))
    """,
    "udp_abroad": "return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'MARK', ('192.0.2.1', 53)) > 0",
    "names": "return bool(socket.getaddrinfo('example.com', 80))",
    "abstract_socket": """
        s = socket.socket(socket.AF_UNIX); s.settimeout(2); s.connect(b'\\0' + facts['abstract'].encode())
        return True
    """,
    "socket_of_the_host": """
        s = socket.socket(socket.AF_UNIX); s.settimeout(2); s.connect(facts['unix_socket'])
        return True
    """,
    "socket_of_the_engine": """
        for path in ('/run/docker.sock', '/var/run/docker.sock', '/run/dbus/system_bus_socket'):
            try:
                socket.socket(socket.AF_UNIX).connect(path)
                return True
            except OSError: pass
    """,
    "raw_socket": "return socket.socket(socket.AF_INET, socket.SOCK_RAW, 1) is not None",
    "packet_socket": "return socket.socket(17, socket.SOCK_RAW, 0) is not None",
    "netlink_socket": "return socket.socket(16, socket.SOCK_RAW, 0) is not None",
    "vsock": "return socket.socket(40, socket.SOCK_STREAM) is not None",
    "serve_to_the_host": """
        s = socket.create_server(('0.0.0.0', facts['free_port'])); s.settimeout(1.5)
        return s.accept() is not None
    """,
    # The kernel
    "keyring": "return call((248, 217), b'user', b'probe', b'MARK', ctypes.c_size_t(4), ctypes.c_int(-3)) > 0",
    "read_keyring": "return call((250, 219), 0, ctypes.c_int(-3), 1) > 0",
    "bpf": "return call((321, 280), 0, struct.pack('=IIII', 2, 4, 4, 1) + bytes(112), 128) >= 0",
    "perf_events": "return call((298, 241), struct.pack('=IIQ', 1, 112, 0) + bytes(96), 0, -1, -1, 0) >= 0",
    "userfaultfd": "return call((323, 282), 1) >= 0",
    "io_uring": "return call((425, 425), 1, ctypes.create_string_buffer(120)) >= 0",
    "set_the_clock": "import time; time.clock_settime(time.CLOCK_REALTIME, time.time()); return True",
    "set_the_host_name": "name = os.uname().nodename.encode(); return libc.sethostname(name, len(name)) == 0",
    "kernel_log": "return libc.klogctl(3, ctypes.create_string_buffer(100), 100) > 0",
    "load_a_module": "call((313, 273), 0, b'', 0); return True",
    "core_pattern": "return os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY) >= 0",
    "magic_key": "return os.open('/proc/sysrq-trigger', os.O_WRONLY) >= 0",
    "kernel_settings": """
        found = []
        for folder, _, files in os.walk('/proc/sys'):
            for name in files:
                try: found.append(os.close(os.open(f'{folder}/{name}', os.O_WRONLY)))
                except OSError: pass
        return bool(found)
    """,
    "sysfs": "return os.open('/sys/kernel/uevent_helper', os.O_WRONLY) >= 0",
    "control_groups": "return os.mkdir('/sys/fs/cgroup/probe') is None",
    "raise_a_limit": """
        import resource
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard * 2, hard * 2))
        return True
    """,
    "type_into_the_terminal": """
        import fcntl
        for fd in (0, 1, 2):
            try: fcntl.ioctl(fd, 0x5412, b'x'); return True
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EACCES): raise RuntimeError(error)
    """,
    "old_calls": """
        if not X86: raise OSError('no such calls here')
        return libc.syscall(0x40000000 | 39) > 0 or libc.syscall(0x40000000 | 101, 0, 0, 0, 0) == 0
    """,
    # Rights
    "become_root": "os.setuid(0); return os.getuid() == 0",
    "be_root": "return os.geteuid() == 0",
    "capabilities": """
        data = ctypes.create_string_buffer(24)
        call((125, 90), struct.pack('=Ii', 0x20080522, 0), data)
        return any(struct.unpack('=6I', data.raw))
    """,
    "setuid_programs": """
        for name in ('/bin/su', '/usr/bin/sudo', '/usr/bin/newuidmap', '/usr/bin/mount'):
            if os.path.exists(name) and os.stat(name).st_mode & stat.S_ISUID:
                out = subprocess.run([name, '--version'], capture_output=True)
        return 'NoNewPrivs:\\t1' not in open('/proc/self/status').read()
    """,
    "shared_memory_of_the_host": """
        ident = libc.shmget(facts['shm_key'], 4096, 0)
        libc.shmat.restype = ctypes.c_void_p
        return ident >= 0 and SECRET in ctypes.string_at(libc.shmat(ident, None, 0), 100)
    """,
}

# Those that get out where nothing holds them; run so, they show that the probes can tell. None of them harms the host.
CONTROLS = """
    read_a_readable_file read_the_host_users list_the_temporary_folder read_the_project write_a_file make_a_file
    change_the_mode change_the_times symbolic_link link_to_the_root climb_out_of_the_working_folder
    descriptor_of_the_root watch_a_folder shared_memory_file find_an_installed_package environment_of_a_process
    environment_of_anyone command_line_of_anyone folder_of_a_process trace_a_child kill_the_parent
    limit_a_process slow_a_process tcp_to_the_host tcp_by_version_six abstract_socket socket_of_the_host
    netlink_socket serve_to_the_host shared_memory_of_the_host truncate_a_file rename_a_file
    kill_a_process write_to_the_toolchain
""".split()


def program(name: str) -> str:
    body = textwrap.dedent(PROBES[name]).strip("\n")
    return PRELUDE + "def probe():\n" + textwrap.indent(body, "    ") + "\n" + EPILOGUE
