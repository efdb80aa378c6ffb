"""What a piece of Python would do: files, processes, network, archives, code objects, system calls.

Reads source text and gives acts; nothing is run. Strings that are put together from constants are known (see
`values`). Text for `exec` and `eval` is followed; commands for a shell come back as acts with the verb `shell`.
Not caught: names that only exist at run time, values read from files, classes of the source's own.
"""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
import warnings
from collections.abc import Iterator
from functools import lru_cache

from ..conduct import MANY_FILES, MANY_PROCESSES, Act, Verb
from .places import kind_by_first_bytes
from .trees import method_of, parsed
from .values import LISTING_CALLS, LISTING_METHODS, NOTHING_GIVEN, Given, Values, as_text

MAX_SOURCE_CHARS = 200_000
MAX_NESTED = 6
READS = {
    **dict.fromkeys(
        "open io.open builtins.open os.open codecs.open tokenize.open linecache.getlines linecache.getline np.load"
        " fileinput.input runpy.run_path mmap.mmap sqlite3.connect shutil.copy shutil.copy2 shutil.copyfile"
        " shutil.copytree shutil.move os.rename os.replace os.link os.symlink os.readlink filecmp.cmp".split(),
        0,
    ),
    **dict.fromkeys(
        "importlib.util.spec_from_file_location importlib.machinery.SourceFileLoader imp.load_source imp.load_compiled"
        " importlib.machinery.SourcelessFileLoader importlib.machinery.ExtensionFileLoader imp.load_dynamic"
        " importlib._bootstrap_external.SourcelessFileLoader".split(),
        1,
    ),
}
"""Which argument is the path."""
METADATA = {
    "SOURCES.txt": "*.egg-info/SOURCES.txt",
    "top_level.txt": "*.egg-info/top_level.txt",
    "RECORD": "*.dist-info/RECORD",
}
"""Files that a distribution reads by their names."""
READ_METHODS = frozenset({"read_text", "read_bytes", "open"})
WRITES = {
    **dict.fromkeys(
        "shutil.copy shutil.copy2 shutil.copyfile shutil.copytree shutil.move os.rename os.replace os.link"
        " os.symlink".split(),
        1,
    ),
    **dict.fromkeys("os.truncate os.mkfifo os.mkdir os.makedirs".split(), 0),
}
DELETES = frozenset("os.remove os.unlink shutil.rmtree os.rmdir os.removedirs shutil.move os.rename os.replace".split())
UNPACKS = frozenset(
    "zipfile.ZipFile zipfile.PyZipFile zipfile.Path tarfile.open tarfile.TarFile shutil.unpack_archive gzip.open"
    " bz2.open lzma.open zipimport.zipimporter tarfile.is_tarfile zipfile.is_zipfile tarfile.TarFile.open"
    " zipfile.main".split()
)
DECODES = frozenset(
    "marshal.load marshal.loads dis.dis dis.disassemble dis.get_instructions dis.Bytecode zlib.decompress"
    " dis.code_info dis.show_code zlib.decompressobj uncompyle6.main decompyle3.main pickle.loads"
    " importlib._bootstrap_external._compile_bytecode importlib.util.cache_from_source types.FunctionType"
    " importlib.util.source_from_cache xdis.load_module importlib.machinery.SourcelessFileLoader"
    " imp.load_compiled".split()
)
SHELL_CALLS = frozenset({
    "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput", "asyncio.create_subprocess_shell",
    "commands.getoutput", "pexpect.run", "pexpect.spawn", "IPython.get_ipython().system", "get_ipython().system",
    "get_ipython().getoutput",
})  # fmt: skip
PROCESS_CALLS = frozenset({
    "subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output", "subprocess.Popen",
    "asyncio.create_subprocess_exec", "pty.spawn", "os.execv", "os.execvp", "os.execve", "os.execvpe", "os.spawnv",
    "os.spawnvp", "os.posix_spawn", "os.posix_spawnp", "os.execl", "os.execlp", "os.spawnl", "os.spawnlp",
})  # fmt: skip
NETWORK = re.compile(
    r"(urllib\.request\.(urlopen|urlretrieve|Request)|urllib2?\.urlopen|requests\.(\w+\.)?(get|post|head|put|request|Session.*)"
    r"|requests\.(Session|session)\(\)\.\w+|httpx\.\w+|aiohttp\.\w+|http\.client\.HTTPS?Connection|ftplib\.FTP(_TLS)?|"
    r"xmlrpc\.client\.ServerProxy|socket\.(create_connection|getaddrinfo|gethostbyname)|socket\.socket\(\)\.connect(_ex)?|"
    r"urllib3\.PoolManager\(\)\.request|telnetlib\.Telnet|asyncio\.open_connection|pip\._vendor\.requests\.\w+)(\(\))?"
)
INSPECTS = frozenset(
    "inspect.getsource inspect.getsourcelines inspect.getsourcefile inspect.getfile inspect.signature"
    " inspect.getmembers importlib.metadata.files importlib.metadata.distribution importlib.metadata.distributions"
    " pkgutil.get_data pkgutil.get_loader importlib.util.find_spec importlib.resources.files pydoc.render_doc"
    " pkg_resources.get_distribution importlib.metadata.version importlib.resources.read_text"
    " importlib.machinery.PathFinder.find_spec importlib.metadata.packages_distributions".split()
)
COMPARES_NAMES = frozenset("endswith startswith match fullmatch search findall fnmatch fnmatchcase".split())
FINDING_METHODS = frozenset({"find_spec", "find_module", "find_loader"})
SYSTEM_CALLS = frozenset(
    "os.unshare os.setns os.chroot os.pivot_root os.ptrace os.mount os.setuid os.setgid os.setresuid resource.prlimit"
    " os.mknod os.pidfd_open os.open_by_handle_at os.seteuid".split()
)
_OUTSIDE = re.compile(r"/(?!tmp|work|dev)|~|\.\.")
WAITS = frozenset({"wait", "waitpid", "wait3", "wait4", "waitid", "communicate", "terminate", "killpg"})
RUN_TO_THEIR_END = frozenset({"subprocess.run", "subprocess.call", "subprocess.check_call", "subprocess.check_output"})
_LOCAL_SERVER = re.compile(
    r"localhost|127\.0\.0\.1|::1|HTTPServer|TCPServer|\.bind\(|start_server|getsockname|socketpair"
)
_KEEPS_FOLDER = re.compile(r"(^|/)\*{1,2}$|^\*$")


@lru_cache(maxsize=1_024)
def python_acts(source: str, given: Given = NOTHING_GIVEN) -> tuple[Act, ...]:
    """Never raises for any text; source that is no Python gives nothing but its IPython commands."""
    return tuple(dict.fromkeys(_acts(source, 0, given)))


def _acts(source: str, nested: int, given: Given) -> Iterator[Act]:
    if nested > MAX_NESTED or len(source) > MAX_SOURCE_CHARS:
        return
    source, commands = _without_magics(source)
    yield from (Act("shell", command, "ipython", command) for command in commands)
    tree = _tree(source)
    if tree is None:
        return
    try:
        yield from _Reader(tree, source, nested, given).acts()
    except RecursionError:
        return


def _tree(source: str) -> ast.AST | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        texts = (source, source.replace("\0", ""), textwrap.dedent(source))
        return next(filter(None, map(parsed, texts)), None)


_MAGIC = re.compile(r"^\s*[!%]+\s*((?:sx|system|bash|sh)\b)?\s*(.*)$")


def _without_magics(source: str) -> tuple[str, list[str]]:
    if "!" not in source and "%" not in source:
        return source, []
    first = source.lstrip()
    if first.startswith(("%%bash", "%%sh")):
        return "", [first.partition("\n")[2]]
    kept: list[str] = []
    commands: list[str] = []
    for line in source.split("\n"):
        if line.lstrip().startswith(("!", "%")) and (found := _MAGIC.match(line)):
            if line.lstrip()[0] == "!" or found[1] or found[2].startswith(("cd ", "pip ")):
                commands.append(found[2])
            kept.append(line[: len(line) - len(line.lstrip())] + "pass")
        else:
            kept.append(line)
    return "\n".join(kept), commands


class _Reader:
    def __init__(self, tree: ast.AST, source: str, nested: int, given: Given) -> None:
        self.values = Values(tree, given)
        self.lines = source.split("\n")
        self.nested = nested
        self.left_out = _negated(self.values.nodes)
        self.filters = self._filters()
        self.turns = {
            id(inner): self._turns(node)
            for node in self.values.nodes
            if isinstance(node, ast.While | ast.For)
            for inner in ast.walk(node)
            if isinstance(inner, ast.Call)
        }
        """Of the innermost loop around each call, 0 where they are not known."""

    def _turns(self, loop: ast.While | ast.For) -> int:
        counted = loop.iter if isinstance(loop, ast.For) else None
        if not isinstance(counted, ast.Call) or self.values.dotted(counted.func) != "range" or not counted.args:
            return 0
        ends = self.values.values(counted.args[1] if len(counted.args) > 1 else counted.args[0])
        return max((end for end in ends if isinstance(end, int)), default=0)

    def acts(self) -> Iterator[Act]:
        for node in self.values.nodes:
            if isinstance(node, ast.Call):
                yield from self._call(node)
            elif isinstance(node, ast.Import):
                yield from (self._act("import", name.name, "import", node) for name in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield from (
                    self._act("import", f"{node.module}.{name.name}", "from import", node) for name in node.names
                )
            elif isinstance(node, ast.Assign | ast.Delete):
                yield from self._stored(node)
            elif isinstance(node, ast.For | ast.comprehension) and "os.environ" in ast.unparse(node.iter):
                yield from (self._act("list", f"environment/**/*{each}", "env", node) for each in self.filters)

    def _act(self, verb: Verb, target: str, detail: str, node: ast.AST, text: str = "") -> Act:
        number = getattr(node, "lineno", 1) - 1
        line = self.lines[number].strip() if 0 <= number < len(self.lines) else ""
        return Act(verb, target, detail, line, text)

    def _call(self, node: ast.Call) -> Iterator[Act]:
        name = self.values.dotted(node.func).removeprefix("builtins.")
        if isinstance(applied := self._applied(node, name), ast.Call):
            yield from self._call(applied)
        method = method_of(node)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        yield from self._of_files(node, name, method, owner)
        yield from self._of_processes(node, name)
        if name in UNPACKS:
            writes = re.match(r"[wxa]", self._option(node, 1, "mode"))
            yield from (self._act("write" if writes else "unpack", path, name, node) for path in self._paths(node, 0))
        makes_its_own = name.startswith("marshal.") and self._has(frozenset({"dumps"})) and not self._reads()
        if name in DECODES and not makes_its_own:
            yield from (self._act("decode", text[:200], name, node) for text in self._texts(node, 0))
        if NETWORK.fullmatch(name):
            yield from (self._act("net", text, name, node) for text in self._addresses(node))
        if name in INSPECTS:
            yield self._act("inspect", self._subject(node), name, node)
        if method in FINDING_METHODS and name != "importlib.util.find_spec" and node.args:
            yield self._act("inspect", self._texts(node, 0)[0], "finder", node, self._searched_by(node, name, owner))
        if name in ("importlib.import_module", "__import__", "importlib.__import__", "runpy.run_module"):
            yield from (self._act("import", text, name, node) for text in self._texts(node, 0))
        if name in SYSTEM_CALLS:
            yield self._act("syscall", name.partition(".")[2], name, node)
        if name.startswith("ctypes.") and "()." in name:
            yield self._act("syscall", name.rpartition(".")[2], name, node, " ".join(self._all_texts(node)))
        if name in ("exec", "eval", "compile", "code.InteractiveInterpreter().runsource"):
            for text in self._texts(node, 0):
                if text != "*":
                    yield from _acts(text, self.nested + 1, self.values.given)
        if name in ("os.putenv", "os.environ.setdefault", "os.environ.update"):
            yield from self._environment(node)
        if name.startswith("sys.path.") or name in ("site.addsitedir", "sys.meta_path.insert"):
            yield from (self._act("env", "sys.path", method, node, text) for text in self._texts(node, -1))
        if name in ("print", "sys.stdout.write", "sys.stderr.write", "os.write"):
            said = " ".join(self._all_texts(node))
            if re.search(r"passed|reward|PASS|ok", said):
                yield self._act("say", "output", name, node, said[:500])

    def _applied(self, node: ast.Call, name: str) -> ast.Call | None:
        """`map(open, paths)`, and its like of pools, as the call `open(path)` that it comes to."""
        maps = name in ("map", "filter") or name.endswith((".map", ".imap", ".imap_unordered", ".starmap", ".submit"))
        if not maps or len(node.args) < 2 or not self.values.dotted(node.args[0]):
            return None
        item = f"item of {id(node)}"
        over = node.args[1]
        self.values.names[item] = [over] if name.endswith(".submit") else [lambda: self.values.items(over)]
        return ast.copy_location(ast.Call(node.args[0], [ast.Name(id=item, ctx=ast.Load())], []), node)

    def _reads(self) -> bool:
        return self._has(READ_METHODS | {"read", "load"}) or "open(" in "\n".join(self.lines)

    def _searched_by(self, node: ast.Call, name: str, owner: ast.expr | None) -> str:
        """Where a finder looks: the paths that it is given, or was made with."""
        if len(node.args) > 1:
            return " ".join(map(as_text, self.values.items(node.args[1])))
        made = owner if isinstance(owner, ast.Call) else None
        return " ".join(self._all_texts(made)) if made is not None and name else ""

    def _of_files(self, node: ast.Call, name: str, method: str, owner: ast.expr | None) -> Iterator[Act]:
        if name in READS:
            yield from self._opened(node, name)
        if name in WRITES:
            given = self._texts(node, 0)[0] if name in ("os.symlink", "os.link") else ""
            yield from (self._act("write", path, name, node, given) for path in self._paths(node, WRITES[name]))
        if name in DELETES:
            yield from (self._act("delete", path, name, node) for path in self._paths(node, 0))
        if name in LISTING_CALLS:
            yield from (self._act("list", path, name, node) for path in self._texts(node, 0, "."))
            yield from (
                self._act("list", each, name, node)
                for path in self._texts(node, 0, ".")
                if _OUTSIDE.match(path) and not path.endswith("*")
                for each in self._narrowed([f"{path.rstrip('/')}/**"])[1:]
            )
        if owner is None or name in READS or name in LISTING_CALLS:
            return
        base = self.values.dotted(owner)
        if method in READ_METHODS and base in ("os", "io", "codecs", "webbrowser", "tarfile", "gzip", "urllib.request"):
            return
        if method == "read_text" and (asked := METADATA.get(self._texts(node, 0, "")[0])):
            yield self._act("read", asked, method, node)
        if method in READ_METHODS:
            mode = self._option(node, 0, "mode") if method == "open" else "r"
            verb: Verb = "write" if re.match(r"[wax]|.*\+", mode) else "read"
            yield from (self._act(verb, path, method, node) for path in self._narrowed(self.values.texts(owner)))
        if method in ("write_text", "write_bytes", "touch", "mkdir"):
            text = self._texts(node, 0, "")[0]
            paths = self._narrowed(self.values.texts(owner))
            yield from self._substituted(node, paths, text)
            yield from (self._act("write", path, method, node, text) for path in paths)
        if method in ("unlink", "rmdir") or (method in ("rename", "replace") and len(node.args) == 1):
            yield from (self._act("delete", path, method, node) for path in self._narrowed(self.values.texts(owner)))
        if method in LISTING_METHODS:
            pattern = self._texts(node, 0, "*")[0]
            deep = "/**" if method == "rglob" else ""
            yield from (
                self._act("list", f"{path.rstrip('/')}{deep}/{pattern}", method, node)
                for path in self.values.texts(owner)
            )
        if method in ("extractall", "extract", "extractfile", "namelist", "getnames", "getmembers") and base.endswith(
            "()"
        ):
            yield self._act("unpack", "*", method, node)

    def _opened(self, node: ast.Call, name: str) -> Iterator[Act]:
        mode = self._option(node, 1, "mode") if name.endswith("open") else "r"
        flags = ast.unparse(node.args[1]) if name == "os.open" and len(node.args) > 1 else ""
        writes = re.match(r"[wax]|.*\+", mode) is not None or re.search("O_WRONLY|O_RDWR|O_CREAT", flags) is not None
        paths = self._paths(node, READS[name])
        if not writes:
            yield from (self._act("read", path, name, node) for path in paths)
            return
        if self.turns.get(id(node), 0) >= MANY_FILES and (len(paths) > 1 or re.search(r".\*|\*.", paths[0])):
            yield self._act("fork", "flood", "files", node)
        text = self._written_to(node)
        yield from self._substituted(node, paths, text)
        yield from (self._act("write", path, name, node, text) for path in paths)

    def _substituted(self, writing: ast.Call, paths: list[str], text: str) -> Iterator[Act]:
        """What is put in and taken out of a text that is read, changed and written, as a script of `sed`."""
        if text.strip("*"):
            return
        for node in self.values.nodes:
            if not isinstance(node, ast.Call) or len(node.args) < 2 or not isinstance(node.func, ast.Attribute):
                continue
            if self.values.dotted(node.func) in ("re.sub", "re.subn") or node.func.attr == "replace":
                old, new = self._texts(node, 0)[0], self._texts(node, 1)[0]
                script = f"s\x1f{old}\x1f{new}\x1f"
                yield from (self._act("write", path, "sed -i", writing, script) for path in paths[:4])
        for taken_out in self._lines_left_out():
            yield from (self._act("write", path, "sed -i", writing, f"/{taken_out}/d") for path in paths[:4])

    def _lines_left_out(self) -> list[str]:
        """Words by which the source leaves out what it goes through: `"x" not in line`, `not line.startswith("x")`."""
        found = [
            node.left.value
            for node in self.values.nodes
            if isinstance(node, ast.Compare)
            and isinstance(node.ops[0], ast.NotIn)
            and isinstance(node.left, ast.Constant)
        ]
        for node in self.values.nodes:
            if id(node) not in self.left_out or not isinstance(node, ast.Call) or not node.args:
                continue
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("startswith", "match", "search"):
                found += self.values.texts(node.args[0])
        return [text for text in found if isinstance(text, str)][:8]

    def _written_to(self, opened: ast.Call) -> str:
        """What is written to the file that this call opens: `open(…).write(x)`, or by a name bound to it."""
        names = {
            target.id
            for holder in self.values.nodes
            for target, value in _bound(holder)
            if value is opened and isinstance(target, ast.Name)
        }
        texts: list[str] = []
        for node in self.values.nodes:
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("write", "writelines"):
                owner = node.func.value
                if owner is opened or (isinstance(owner, ast.Name) and owner.id in names):
                    texts += self._texts(node, 0, "")[:1]
        return "".join(texts)[:20_000]

    def _of_processes(self, node: ast.Call, name: str) -> Iterator[Act]:
        if name in ("subprocess.Popen", "multiprocessing.Process") and self.turns.get(id(node), 0) >= MANY_PROCESSES:
            yield self._act("fork", "flood", "processes", node)
        if name in SHELL_CALLS:
            yield from (self._act("shell", text, name, node, self._started(node)) for text in self._texts(node, 0))
        elif name in PROCESS_CALLS:
            yield from self._process(node, name)
        elif name in ("os.kill", "os.killpg") and len(node.args) > 1 and ast.unparse(node.args[1]) == "0":
            return  # asks whether a process is alive
        elif name in ("os.kill", "os.killpg", "signal.pidfd_send_signal"):
            of_child = bool(node.args) and re.search(r"\.pid\b|^(child|pid)\w*$", ast.unparse(node.args[0]))
            targets = self._texts(node, 0)
            yield from (self._act("kill", "$pid" if of_child and text == "*" else text, name, node) for text in targets)
        elif name in ("os.fork", "os.forkpty", "os.setsid", "os.setpgid", "os.setpgrp", "daemon.DaemonContext"):
            looped = "in a loop" if id(node) in self.turns else "awaited" if self._has(WAITS) else ""
            yield self._act("fork", name, looped, node)
        elif name == "multiprocessing.Process" and self._option(node, 9, "daemon") == "False":
            yield self._act("fork", name, "", node)

    def _process(self, node: ast.Call, name: str) -> Iterator[Act]:
        started = self._started(node)
        first = node.args[1 if "spawn" in name and name.startswith("os.spawn") and len(node.args) > 1 else 0 :]
        if name.startswith("os.exec") or name.startswith("os.spawn") or name == "asyncio.create_subprocess_exec":
            words: list[str] = []
            for argument in first[:20]:
                found = self.values.values(argument)[0]
                words += [as_text(item) for item in found] if isinstance(found, tuple | list) else [as_text(found)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            if len(words) > 1 and not name.startswith("asyncio"):
                words = words[1:]
            yield self._act("shell", shlex.join(words), name, node, started)
            return
        given = first[0] if first else next((word.value for word in node.keywords if word.arg == "args"), None)
        for value in self.values.values(given):
            if isinstance(value, tuple | list):
                yield self._act("shell", shlex.join(map(as_text, value)), name, node, started)  # pyright: ignore[reportUnknownArgumentType]
            else:
                yield self._act("shell", as_text(value), name, node, started)

    def _started(self, node: ast.Call) -> str:
        """`background` where the process is cut loose from its parent."""
        loose = any(
            word.arg in ("start_new_session", "preexec_fn", "process_group", "creationflags") for word in node.keywords
        )
        waits = self.values.dotted(node.func) in RUN_TO_THEIR_END or self._has(WAITS)
        return "background" if loose and not waits else ""

    def _has(self, calls: frozenset[str]) -> bool:
        """Whether the source calls one of these functions or methods."""
        return any(isinstance(node, ast.Call) and method_of(node) in calls for node in self.values.nodes)

    def _stored(self, node: ast.Assign | ast.Delete) -> Iterator[Act]:
        for target in node.targets:
            if not isinstance(target, ast.Subscript | ast.Attribute):
                continue
            name = self.values.dotted(target.value) if isinstance(target, ast.Subscript) else self.values.dotted(target)
            value = self.values.texts(node.value)[0] if isinstance(node, ast.Assign) else ""
            if name == "os.environ" and isinstance(target, ast.Subscript):
                yield self._act("env", self.values.texts(target.slice)[0], "os.environ", node, value)
            elif name == "sys.path":
                yield self._act("env", "sys.path", "assign", node, value)

    def _environment(self, node: ast.Call) -> Iterator[Act]:
        if node.args and isinstance(node.args[0], ast.Dict):
            for key, value in zip(node.args[0].keys, node.args[0].values, strict=False):
                yield self._act("env", self.values.texts(key)[0], "os.environ", node, self.values.texts(value)[0])
        elif len(node.args) > 1:
            yield self._act("env", self._texts(node, 0)[0], "os.environ", node, self._texts(node, 1)[0])
        for word in node.keywords:
            if word.arg:
                yield self._act("env", word.arg, "os.environ", node, self.values.texts(word.value)[0])

    def _addresses(self, node: ast.Call) -> list[str]:
        found: list[str] = []
        for value in self.values.values(node.args[0]) if node.args else []:
            host = value[0] if isinstance(value, tuple) and value else value  # pyright: ignore[reportUnknownVariableType]
            found.append(as_text(host))
        if not found or found == ["*"]:
            return ["localhost" if _LOCAL_SERVER.search("\n".join(self.lines)) else "*"]
        return found

    def _subject(self, node: ast.Call) -> str:
        if not node.args:
            return "*"
        return self.values.dotted(node.args[0]) or self._texts(node, 0)[0]

    def _texts(self, node: ast.Call, place: int, missing: str = "*") -> list[str]:
        if place < 0 and node.args:
            return self.values.texts(node.args[-1])
        if place < len(node.args) and place >= 0:
            return self.values.texts(node.args[place])
        named = [
            word.value
            for word in node.keywords
            if word.arg in ("path", "file", "filename", "name", "top", "cmd", "url")
        ]
        return self.values.texts(named[0]) if named else [missing]

    def _paths(self, node: ast.Call, place: int) -> list[str]:
        return self._narrowed(self._texts(node, place))

    def _all_texts(self, node: ast.Call) -> list[str]:
        return [text for argument in node.args[:6] for text in self.values.texts(argument)[:2]]

    def _option(self, node: ast.Call, place: int, name: str) -> str:
        named = next((word.value for word in node.keywords if word.arg == name), None)
        given = named if named is not None else node.args[place] if place < len(node.args) else None
        return "r" if given is None else self.values.texts(given)[0]

    def _narrowed(self, paths: list[str]) -> list[str]:
        """A path of which only the folder is known may be any that the source's own conditions name."""
        narrowed: list[str] = []
        for path in paths:
            narrowed.append(path)
            if _KEEPS_FOLDER.search(path):
                base = path.rstrip("*")
                narrowed += [f"{base}**/*{each}" if base else f"**/*{each}" for each in self.filters]
        return list(dict.fromkeys(narrowed))

    def _filters(self) -> list[str]:
        found: list[str] = []
        for node in self.values.nodes:
            if id(node) in self.left_out:
                continue
            if isinstance(node, ast.Compare) and len(node.ops) == 1:
                if isinstance(node.ops[0], ast.In):
                    found += (
                        self._words(node.left) if isinstance(node.left, ast.Constant | ast.BinOp | ast.Name) else []
                    )
                    found += self._words(node.comparators[0]) if not isinstance(node.left, ast.Constant) else []
                elif isinstance(node.ops[0], ast.Eq):
                    found += self._words(node.comparators[0])
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
                name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
                if name in COMPARES_NAMES:
                    place = 1 if name.startswith("fnmatch") else 0
                    found += self._words(node.args[place]) if place < len(node.args) else []
        return list(dict.fromkeys(word for word in found if 2 < len(word) < 80))[:24]

    def _words(self, node: ast.AST) -> list[str]:
        items = self.values.items(node)
        kinds = [kind_by_first_bytes(item) for item in items if isinstance(item, bytes)]
        return [*filter(None, kinds), *(as_text(item).lstrip("*").replace("\\", "") for item in items)]


def _bound(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(node, ast.Assign):
        yield node.targets[0], node.value
    elif isinstance(node, ast.With | ast.AsyncWith):
        yield from ((item.optional_vars, item.context_expr) for item in node.items if item.optional_vars is not None)


def _leaves_out(node: ast.stmt) -> bool:
    """`continue`, an empty `return`, `folders.remove(name)`, `del folders[:]`."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return isinstance(node.value.func, ast.Attribute) and node.value.func.attr in ("remove", "discard", "clear")
    return isinstance(node, ast.Continue | ast.Pass | ast.Delete) or (
        isinstance(node, ast.Return)
        and (node.value is None or (isinstance(node.value, ast.Constant) and not node.value.value))
    )


def _negated(nodes: list[ast.AST]) -> set[int]:
    """Conditions that leave files out: `not …`, and those whose branch only goes on to the next one."""
    out: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            out.update(map(id, ast.walk(node.operand)))
        elif isinstance(node, ast.If) and all(map(_leaves_out, node.body)):
            out.update(map(id, ast.walk(node.test)))
    return out
