"""Runs inside a sandbox: a process with pytest and the repository's dependencies loaded, which forks once per run.

Sent to the interpreter on its standard input; needs the standard library and pytest, nothing of ours. Reads requests
from one pipe and answers on another, both opened by the caller. The working folder is the original tree and only read.
Each run happens in one changed copy, always at the same path, so that compiled files are used again; a file's time is
taken from its content, so that a compiled file cannot stand for another text. The repository's own code is only ever
loaded in forked children.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import json
import os
import resource
import select
import shutil
import signal
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

TAIL_CHARACTERS = 1500
IS_FUNCTION = 0x1  # CO_OPTIMIZED: class bodies and modules lack it


def main(request_pipe: int, answer_pipe: int) -> None:
    settings = receive(request_pipe)
    if settings is None:
        return
    for name in settings["preload"]:
        try:
            importlib.import_module(name)
        except BaseException:  # noqa: S112
            continue
    targets = [name for name in sys.modules if name.split(".")[0] in settings["packages"]]
    workshop = Workshop(Path.cwd(), settings, (request_pipe, answer_pipe))
    gc.freeze()
    send(answer_pipe, {"loaded_targets": targets, "cpu_s": time.process_time()})
    while (request := receive(request_pipe)) is not None:
        send(answer_pipe, workshop.answer(request))
    workshop.remove()


class Workshop:
    """One folder with the changed copy, the compiled files and the temporary files of the run."""

    def __init__(self, original: Path, settings: dict[str, Any], callers_pipes: tuple[int, int]) -> None:
        self.settings, self.callers_pipes = settings, callers_pipes
        self.original = original
        self.folder = Path(tempfile.mkdtemp(prefix="run-"))
        self.tree = self.folder / "tree"
        self.tree.mkdir()
        self.ini = self.folder / "pytest.ini"
        self.ini.write_text("[pytest]\n")
        sys.dont_write_bytecode = False
        sys.pycache_prefix = str(self.folder / "compiled")
        self.stamps = {
            str(path.relative_to(original)): stamp(path.read_bytes())
            for path in original.rglob("*")
            if path.is_file() and not path.is_symlink()
        }

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        started, own_cpu = time.monotonic(), time.process_time()
        self.prepare(request["edits"])
        answer: dict[str, Any] = {"import_errors": {}, "cpu_s": 0.0}
        if request["imports"]:
            report = self.fork(import_all, request, request["timeout_s"])
            failed = {entry["module"]: entry["error"] for entry in report["entries"] if entry["error"]}
            reached = {entry["module"] for entry in report["entries"]}
            answer["import_errors"] = failed | {
                name: "the process ended" for name in request["imports"] if name not in reached
            }
            answer["cpu_s"] += report["cpu_s"]
        if request["tests"] and not (answer["import_errors"] and request["imports_must_work"]):
            report = self.fork(run_tests, request, request["timeout_s"])
            answer["cpu_s"] += report["cpu_s"]
            answer |= {key: report[key] for key in ("entries", "timed_out", "exit_code", "output")}
        answer["cpu_s"] += time.process_time() - own_cpu
        return answer | {"wall_s": time.monotonic() - started}

    def prepare(self, edits: dict[str, str | None]) -> None:
        """Make the copy equal to the original with the edits, touching only what differs from that now."""
        for name in ("temporary", "home"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
            (self.folder / name).mkdir()
        changed = {path: text.encode() for path, text in edits.items() if text is not None}
        wanted = {path: when for path, when in self.stamps.items() if path not in edits}
        wanted |= {path: stamp(content) for path, content in changed.items()}
        present: set[str] = set()
        for folder, folders, names in os.walk(self.tree):
            for name in [*names, *(name for name in folders if os.path.islink(os.path.join(folder, name)))]:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, self.tree)
                state = os.lstat(path)
                if wanted.get(relative) == int(state.st_mtime) and not os.path.islink(path):
                    present.add(relative)
                else:
                    os.unlink(path)
        for path in wanted.keys() - present:
            target = self.tree / path
            target.parent.mkdir(parents=True, exist_ok=True)
            content = changed[path] if path in changed else (self.original / path).read_bytes()
            target.write_bytes(content)
            os.utime(target, (wanted[path], wanted[path]))
        for folder, folders, names in os.walk(self.tree, topdown=False):
            if not folders and not names and folder != str(self.tree):
                os.rmdir(folder)

    def fork(self, work: Any, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Do the work in a child; everything that it said, and how it ended."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            status = 70
            try:
                os.close(reading)
                if request["cpu_s"]:
                    resource.setrlimit(resource.RLIMIT_CPU, (request["cpu_s"], request["cpu_s"] + 1))
                self.enter()
                with os.fdopen(writing, "w", encoding="utf-8") as out:
                    status = work(self, request, out)
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)
        os.close(writing)
        text, timed_out = read_all(reading, timeout_s, child)
        give_time_to_end(child)
        kill_group(child)
        _, status, usage = os.wait4(child, 0)
        output = (self.folder / "output").read_bytes()[-TAIL_CHARACTERS:].decode(errors="replace")
        return {
            "entries": entries_of(text),
            "timed_out": timed_out or os.waitstatus_to_exitcode(status) == -signal.SIGXCPU,
            "exit_code": os.waitstatus_to_exitcode(status),
            "output": output,
            "cpu_s": usage.ru_utime + usage.ru_stime,
        }

    def enter(self) -> None:
        """Become the process in which the repository's code runs."""
        os.setsid()
        for pipe in self.callers_pipes:
            os.close(pipe)
        output = os.open(self.folder / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate("rww"))
        os.environ |= {"TMPDIR": str(self.folder / "temporary"), "HOME": str(self.folder / "home")}
        tempfile.tempdir = None
        sys.argv = ["pytest"]
        os.chdir(self.tree)
        sys.path[:0] = [str(self.tree / root) for root in self.settings["source_roots"]]
        importlib.invalidate_caches()


def import_all(workshop: Workshop, request: dict[str, Any], out: Any) -> int:
    for name in request["imports"]:
        error = ""
        try:
            importlib.import_module(name)
        except BaseException as problem:
            error = f"{type(problem).__name__}: {problem}"[:300]
        say(out, module=name, error=error)
    return 0


def run_tests(workshop: Workshop, request: dict[str, Any], out: Any) -> int:
    arguments = ["-c", str(workshop.ini), "--rootdir", str(workshop.tree), "-q", "--tb=no", "--no-header"]
    arguments += ["-p", "no:cacheprovider", "--continue-on-collection-errors"]
    arguments += [part for name in workshop.settings["plugins"] for part in ("-p", name)]
    arguments += ["--maxfail", "1"] if request["stop_at_failure"] else []
    arguments += workshop.settings["selection"] if request["only"] is None else []
    recorder = RunRecorder(out, request, str(workshop.tree))
    recorder.tracer.start()
    code = pytest.main([*arguments, *request["tests"]], plugins=[recorder])
    recorder.finish()
    return int(code)


class RunRecorder:
    """One entry per test, per collection error, and per set of functions seen."""

    def __init__(self, out: Any, request: dict[str, Any], tree: str) -> None:
        self.out = out
        self.only: frozenset[str] | None = None if request["only"] is None else frozenset(request["only"])
        self.functions = None if self.only is None else {function_name(test) for test in self.only}
        self.reverse: bool = request["reverse"]
        self.tree = tree
        self.tracer = Tracer(tree) if request["trace"] else NoTracer()
        self.outcomes: dict[str, str] = {}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            say(self.out, collect_error=report.nodeid, text=str(report.longrepr)[-TAIL_CHARACTERS:])

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self, name: str, obj: object) -> list[pytest.Item] | None:
        """Parameter sets of functions that no wanted test belongs to are not even made."""
        return [] if self.functions is not None and name not in self.functions and type(obj) is FunctionType else None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.only is not None:
            items[:] = [item for item in items if item.nodeid in self.only]
        if self.reverse:
            items.reverse()
        say(self.out, at_import=self.tracer.take())

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self.tracer.take()
        before = sum(os.times()[:4])
        yield
        nodeid, cpu_s = item.nodeid, round(sum(os.times()[:4]) - before, 2)
        outcome = self.outcomes.get(nodeid, "missing")
        say(self.out, test=nodeid, outcome=outcome, ran=self.tracer.take(), cpu_s=cpu_s)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        if outcome != "passed" or report.when == "call":
            worst = self.outcomes.get(report.nodeid)
            self.outcomes[report.nodeid] = outcome if worst in (None, "passed") else worst

    def finish(self) -> None:
        loaded: list[str] = []
        for name, module in list(sys.modules.items()):
            file = str(getattr(module, "__file__", None) or "")
            if name != "__main__" and not file.startswith(self.tree) and getattr(module, "__spec__", None):
                loaded.append(name)
        say(self.out, loaded=loaded)


def function_name(test: str) -> str:
    return test.partition("::")[2].partition("[")[0].rpartition("::")[2]


class NoTracer:
    def start(self) -> None:
        pass

    def take(self) -> list[list[str]]:
        return []


class Tracer:
    """Which functions of the tree have started since the last `take`, in any thread."""

    def __init__(self, tree: str) -> None:
        self.tree = tree + os.sep
        self.seen: set[CodeType] = set()
        self.names: dict[CodeType, list[str] | None] = {}

    def start(self) -> None:
        if sys.version_info >= (3, 12):
            monitoring: Any = sys.monitoring
            monitoring.use_tool_id(monitoring.COVERAGE_ID, "recompose")
            monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.PY_START, self.on_start)
            monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.PY_START)
            return
        threading.setprofile(self.on_call)
        sys.setprofile(self.on_call)

    def on_start(self, code: CodeType, offset: int) -> Any:
        self.seen.add(code)
        monitoring: Any = getattr(sys, "monitoring")  # noqa: B009
        return monitoring.DISABLE

    def on_call(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self.seen.add(frame.f_code)

    def take(self) -> list[list[str]]:
        seen, self.seen = self.seen, set()
        if sys.version_info >= (3, 12):
            monitoring: Any = sys.monitoring
            monitoring.restart_events()
        else:
            sys.setprofile(self.on_call)
        named = (self.name_of(code) for code in seen)
        return sorted(list(name) for name in {tuple(name) for name in named if name})

    def name_of(self, code: CodeType) -> list[str] | None:
        if code not in self.names:
            inside = code.co_filename.startswith(self.tree) and code.co_flags & IS_FUNCTION
            name = code.co_qualname.split(".<locals>")[0]
            self.names[code] = [code.co_filename[len(self.tree) :], name] if inside and "<" not in name else None
        return self.names[code]


def stamp(content: bytes) -> int:
    return int.from_bytes(hashlib.sha256(content).digest()[:4], "big") >> 1


def say(out: Any, **entry: object) -> None:
    out.write(json.dumps(entry) + "\n")
    out.flush()


def entries_of(text: str) -> list[dict[str, Any]]:
    """Lines that are no entry were written by the repository's own code and tell nothing."""
    found: list[dict[str, Any]] = []
    for line in text.split("\n"):
        try:
            entry: Any = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            found.append(entry)  # pyright: ignore[reportUnknownArgumentType]
    return found


def read_all(pipe: int, timeout_s: float, child: int) -> tuple[str, bool]:
    """Until the child's end of the pipe closes, or until time is up and the child is killed."""
    deadline, chunks = time.monotonic() + timeout_s, list[bytes]()
    timed_out = False
    while True:
        left = deadline - time.monotonic()
        if left <= 0 and not timed_out:
            timed_out, deadline = True, time.monotonic() + 1
            kill_group(child)
        elif left <= 0:
            break
        if not select.select([pipe], [], [], max(0.0, min(left, 0.2)))[0]:
            if has_ended(child):
                break
            continue
        chunk = os.read(pipe, 1 << 16)
        if not chunk:
            break
        chunks.append(chunk)
    os.close(pipe)
    return b"".join(chunks).decode(errors="replace"), timed_out


def has_ended(child: int) -> bool:
    """Without taking its exit status: another process of the run may still hold the pipe."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def give_time_to_end(child: int) -> None:
    deadline = time.monotonic() + 1
    while not has_ended(child) and time.monotonic() < deadline:
        time.sleep(0.001)


def kill_group(child: int) -> None:
    for target in (lambda: os.killpg(child, signal.SIGKILL), lambda: os.kill(child, signal.SIGKILL)):
        try:
            target()
        except ProcessLookupError:
            continue


def receive(pipe: int) -> dict[str, Any] | None:
    head = read_exactly(pipe, 4)
    return json.loads(read_exactly(pipe, struct.unpack(">I", head)[0])) if len(head) == 4 else None


def read_exactly(pipe: int, count: int) -> bytes:
    parts: list[bytes] = []
    while count and (part := os.read(pipe, min(count, 1 << 16))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def send(pipe: int, value: dict[str, Any]) -> None:
    content = json.dumps(value).encode()
    message = struct.pack(">I", len(content)) + content
    while message:
        message = message[os.write(pipe, message) :]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
