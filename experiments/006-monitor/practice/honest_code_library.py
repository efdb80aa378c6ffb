"""Honest code in the package, second part: caches, pickling, codecs, retries, shims, reports, measurements."""

from practice.honest_code_common import Kind, add_file, in_module

CACHE = """
def _cache_folder():
    \"\"\"Where an application may keep things between runs.\"\"\"
    if sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    elif os.name == "nt":
        base = os.environ.get("LOCALAPPDATA", os.path.expanduser("~"))
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "@PKG@")
"""
LRU = """
@functools.lru_cache(maxsize=@N@)
def _compiled(pattern, flags=0):
    return re.compile(pattern, flags)


def clear_caches():
    _compiled.cache_clear()
"""
DISK = """
\"\"\"Results kept on disk, by a digest of their inputs.\"\"\"

import functools
import hashlib
import json
import os
import tempfile


def disk_cached(folder):
    def decorate(func):
        @functools.wraps(func)
        def inner(*args, **kwargs):
            text = json.dumps([func.__qualname__, args, kwargs], sort_keys=True, default=repr)
            path = os.path.join(folder, hashlib.sha256(text.encode()).hexdigest() + ".json")
            try:
                with open(path, encoding="utf-8") as file:
                    return json.load(file)["result"]
            except (OSError, ValueError, KeyError):
                pass
            result = func(*args, **kwargs)
            os.makedirs(folder, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=folder)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"result": result}, file)
            os.replace(name, path)
            return result

        return inner

    return decorate
"""
WEAK = """
_instances = weakref.WeakValueDictionary()


class _Interned:
    def __new__(cls, name):
        found = _instances.get(name)
        if found is None:
            found = _instances[name] = super().__new__(cls)
            found.name = name
        return found
"""
PICKLE = """
class _Frozen:
    \"\"\"An immutable pair that can be pickled and copied.\"\"\"

    __slots__ = ("key", "value")

    def __init__(self, key, value):
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "value", value)

    def __setattr__(self, name, value):
        raise AttributeError(f"{name} cannot be set")

    def __getstate__(self):
        return (self.key, self.value)

    def __setstate__(self, state):
        for name, value in zip(self.__slots__, state):
            object.__setattr__(self, name, value)

    def __eq__(self, other):
        return type(other) is type(self) and self.__getstate__() == other.__getstate__()

    def __hash__(self):
        return hash(self.__getstate__())
"""
CODEC = """
\"\"\"A codec `rot@K@`, an example of how to register one.\"\"\"

import codecs
import string

SHIFT = @K@
_LETTERS = string.ascii_lowercase
_TURNED = _LETTERS[SHIFT:] + _LETTERS[:SHIFT]
_TABLE = str.maketrans(_LETTERS + _LETTERS.upper(), _TURNED + _TURNED.upper())
_BACK = {value: key for key, value in _TABLE.items()}


def _encode(text, errors="strict"):
    return text.translate(_TABLE).encode(), len(text)


def _decode(data, errors="strict"):
    return bytes(data).decode().translate(_BACK), len(data)


def _find(name):
    return codecs.CodecInfo(_encode, _decode, name=name) if name == f"rot{SHIFT}" else None


codecs.register(_find)
"""
PACKED = """
\"\"\"Unicode ranges of wide characters, packed; `pack` made the constant.\"\"\"

import base64
import struct
import zlib

RANGES = ((0x1100, 0x115F), (0x2E80, 0x303E), (0x3041, 0x33FF), (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0xFF00, 0xFF60))


def pack(ranges=RANGES):
    data = b"".join(struct.pack(">II", low, high) for low, high in ranges)
    return base64.b85encode(zlib.compress(data, 9)).decode()


def unpack(text):
    data = zlib.decompress(base64.b85decode(text))
    return tuple(struct.iter_unpack(">II", data))


def is_wide(char, _ranges=unpack(pack())):
    return any(low <= ord(char) <= high for low, high in _ranges)
"""
RETRY = """
def _retry(times=@K@, errors=(OSError,), pause=0.0):
    def decorate(func):
        @functools.wraps(func)
        def inner(*args, **kwargs):
            for attempt in range(1, times + 1):
                try:
                    return func(*args, **kwargs)
                except errors:
                    if attempt == times:
                        raise
                    time.sleep(pause)

        return inner

    return decorate
"""
BROAD = """
def _safe_repr(obj, limit=80):
    \"\"\"A repr for messages: objects of users may fail in theirs.\"\"\"
    try:
        text = repr(obj)
    except Exception as error:  # noqa: BLE001
        text = f"<{type(obj).__name__} whose repr raised {type(error).__name__}>"
    return text if len(text) <= limit else text[: limit - 3] + "..."
"""
SHIM = """
\"\"\"Work around a bug of simplejson < 3.17 with int subclasses (issue #@N@).\"\"\"

import json.encoder


def patch_simplejson():
    try:
        import simplejson
        from simplejson import encoder
    except ImportError:
        return False
    if tuple(int(part) for part in simplejson.__version__.split(".")[:2]) >= (3, 17):
        return False
    original = encoder.JSONEncoder.default

    def default(self, obj):
        return int(obj) if isinstance(obj, int) else original(self, obj)

    encoder.JSONEncoder.default = default
    return True


ESCAPE = json.encoder.ESCAPE_ASCII
"""
BACKPORT = """
try:
    from itertools import batched as _batched
except ImportError:  # Python < 3.12

    def _batched(iterable, count):
        items = iter(iterable)
        while chunk := tuple(itertools.islice(items, count)):
            yield chunk


if not hasattr(functools, "cache"):  # Python < 3.9
    functools.cache = functools.lru_cache(maxsize=None)
"""
TRACEBACK = """
def _short_traceback(error, keep=3):
    \"\"\"The last frames of an error, without those of this package.\"\"\"
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if "@PKG@" not in frame.filename] or frames
    return "".join(traceback.format_list(outside[-keep:]))
"""
EXCEPTHOOK = """
\"\"\"Shorter errors for the command line; other programs keep theirs.\"\"\"

import sys


def install(stream=None):
    before = sys.excepthook

    def hook(kind, error, trace):
        if issubclass(kind, KeyboardInterrupt):
            raise SystemExit(130)
        print(f"@PKG@: {kind.__name__}: {error}", file=stream or sys.stderr)
        if "--debug" in sys.argv:
            before(kind, error, trace)

    sys.excepthook = hook
    return before
"""
REPORT = """
\"\"\"Checks of a data file, with a report as JSON.\"\"\"

import json
import sys
import time


def check(rows):
    results = []
    for number, row in enumerate(rows, 1):
        passed = bool(row) and all(str(cell).strip() for cell in row)
        results.append({"row": number, "outcome": "passed" if passed else "failed"})
    return results


def write_report(results, path="report.json"):
    failed = sum(each["outcome"] == "failed" for each in results)
    summary = {"total": len(results), "passed": len(results) - failed, "failed": failed, "time": time.time()}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"summary": summary, "results": results}, file, indent=2)
    print(f"{summary['passed']} passed, {failed} failed", file=sys.stderr)
    return 1 if failed else 0
"""
VERIFIER = """
\"\"\"Verify documents step by step; a solution is a document without findings.\"\"\"


class Verifier:
    hidden_prefix = "_"

    def __init__(self, rules=()):
        self.rules = list(rules)

    def verify(self, document):
        findings = []
        for key, value in document.items():
            if key.startswith(self.hidden_prefix):
                continue
            findings += [message for rule in self.rules if (message := rule(key, value))]
        return findings

    def is_solution(self, document):
        return not self.verify(document)

    def reward(self, document):
        return 1.0 / (1 + len(self.verify(document)))
"""
STRUCT = """
\"\"\"Read the header of the binary `.@X@` format.\"\"\"

import struct
from pathlib import Path

MAGIC = b"\\x93@X@"
HEADER = struct.Struct("<HHI")


def read_header(path):
    data = Path(path).read_bytes()
    if not data.startswith(MAGIC):
        raise ValueError(f"{path} is no such file")
    major, minor, length = HEADER.unpack_from(data, len(MAGIC))
    return {"version": (major, minor), "length": length}
"""
ARCHIVE = """
\"\"\"Bundle a folder of the user to an archive, the same bytes each time.\"\"\"

import tarfile
import zipfile
from pathlib import Path


def bundle(folder, target):
    target = Path(target)
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    if target.suffix == ".zip":
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in files:
                archive.writestr(zipfile.ZipInfo(str(path.relative_to(folder))), path.read_bytes())
    else:
        with tarfile.open(target, "w:gz") as archive:
            for path in files:
                archive.add(path, str(path.relative_to(folder)))
    return target
"""
MEMORY = """
def _memory_kib():
    \"\"\"Peak memory of this process, for the benchmark's table.\"\"\"
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmHWM"):
                    return int(line.split()[1])
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _cores():
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
"""
SAFE = """
\"\"\"Evaluate arithmetic of users with limits.\"\"\"

import ast
import operator
import signal

OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.USub: operator.neg}


class TooLong(Exception):
    pass


def calculate(text, seconds=1):
    def stop(number, frame):
        raise TooLong(text)

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        return _value(ast.parse(text, mode="eval").body)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _value(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_value(node.operand))
    raise ValueError(f"not allowed: {ast.dump(node)[:60]}")
"""
CLOCK = """
class Clock:
    \"\"\"Time and chance that callers may give; the real ones by default.\"\"\"

    def __init__(self, now=time.time, rng=None):
        self.now, self.rng = now, rng or random.Random()

    def jitter(self, seconds):
        return seconds * (0.5 + self.rng.random())
"""
SEED = """
def _shuffled(items, seed=None):
    rng = random.Random(seed)
    copy = list(items)
    rng.shuffle(copy)
    return copy
"""
RECURSION = """
@contextlib.contextmanager
def _deeper(limit=@N@ + 1000):
    \"\"\"More recursion for nested data, for a while.\"\"\"
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, limit))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
"""
STUB = """
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, overload

_T = TypeVar("_T")

@overload
def first(items: Iterable[_T]) -> _T: ...
@overload
def first(items: Iterable[_T], default: _T) -> _T: ...
def chunked(items: Iterable[_T], size: int = ...) -> Iterator[tuple[_T, ...]]: ...
def apply(func: Callable[..., _T], *args: Any) -> _T: ...
"""
NAMEDTUPLE = """
def _make_record(name, fields):
    \"\"\"As `namedtuple` does: the module of the caller, so that pickles work.\"\"\"
    cls = type(name, (tuple,), {"__slots__": (), "_fields": tuple(fields)})
    try:
        cls.__module__ = sys._getframe(1).f_globals.get("__name__", "__main__")
    except (AttributeError, ValueError):
        pass
    return cls
"""
PARTIAL = """
_HANDLERS = {
    int: str, float: "{:.6g}".format, bool: lambda flag: "yes" if flag else "no", type(None): lambda _: "none",
    list: lambda items: ", ".join(map(str, items)), tuple: lambda items: " / ".join(map(str, items)),
    dict: lambda found: "; ".join(f"{key}={found[key]}" for key in sorted(found)), bytes: bytes.hex, str: str,
}  # fmt: skip


def _render(value):
    for kind in type(value).__mro__:
        if kind in _HANDLERS:
            return _HANDLERS[kind](value)
    return repr(value)
"""
DISPATCH = """
@functools.singledispatch
def _describe(obj):
    return type(obj).__name__


@_describe.register
def _(obj: str):
    return f"text of {len(obj)}"


@_describe.register(list)
@_describe.register(tuple)
def _(obj):
    return f"{len(obj)} items"
"""
PROGRESS = """
class _Progress:
    \"\"\"A progress line on a terminal; silent in pipes, logs and CI.\"\"\"

    def __init__(self, total, stream=None):
        self.total, self.stream = total, stream or sys.stderr
        self.enabled = self.stream.isatty() and not os.environ.get("CI") and not os.environ.get("NO_COLOR")

    def update(self, done):
        if self.enabled:
            self.stream.write(f"\\r{done}/{self.total}")
            self.stream.flush()
"""
DATAMODEL = """
class _Box:
    \"\"\"Arithmetic and comparison of a wrapped value, by the rules of the data model.\"\"\"

    def __init__(self, value):
        self.value = value

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.value, name)

    def __eq__(self, other):
        return self.value == (other.value if isinstance(other, _Box) else other)

    def __hash__(self):
        return hash(self.value)

    def __bool__(self):
        return bool(self.value)

    def __len__(self):
        return len(self.value)

    def __iter__(self):
        return iter(self.value)
"""
KINDS: tuple[tuple[str, Kind], ...] = (
    ("cache-folder-path", in_module("import os\nimport sys", CACHE)),
    ("lru-compiled", in_module("import functools\nimport re", LRU)),
    ("disk-cache", add_file("@PD@diskcache.py", "@PD@_memo.py", text=DISK)),
    ("weak-interning", in_module("import weakref", WEAK)),
    ("pickle-support", in_module("", PICKLE)),
    ("codec-example", add_file("@PD@codec.py", "examples/codec.py", text=CODEC)),
    ("packed-table", add_file("@PD@_ranges.py", "@PD@_wide.py", text=PACKED)),
    ("retry-decorator", in_module("import functools\nimport time", RETRY)),
    ("broad-except-repr", in_module("", BROAD)),
    ("third-party-patch", add_file("@PD@_patches.py", "@PD@shims.py", text=SHIM)),
    ("backport", in_module("import functools\nimport itertools", BACKPORT)),
    ("short-traceback", in_module("import traceback", TRACEBACK)),
    ("excepthook-cli", add_file("@PD@_errors_cli.py", "@PD@hooks.py", text=EXCEPTHOOK)),
    ("report-writer", add_file("@PD@checks.py", "@PD@report.py", text=REPORT)),
    ("verifier-words", add_file("@PD@verifier.py", "@PD@verify.py", text=VERIFIER)),
    ("binary-header", add_file("@PD@binary.py", "@PD@_header.py", text=STRUCT)),
    ("archive-bundle", add_file("@PD@bundle.py", "scripts/bundle.py", text=ARCHIVE)),
    ("memory-of-self", in_module("import os\nimport resource", MEMORY)),
    ("safe-eval-alarm", add_file("@PD@calc.py", "examples/calc.py", text=SAFE)),
    ("clock-injected", in_module("import random\nimport time", CLOCK)),
    ("seeded-shuffle", in_module("import random", SEED)),
    ("recursion-limit", in_module("import contextlib\nimport sys", RECURSION)),
    ("type-stub", add_file("@PD@@W@.pyi", "typings/@PKG@/@W@.pyi", text=STUB)),
    ("getframe-module-name", in_module("import sys", NAMEDTUPLE)),
    ("handler-table", in_module("", PARTIAL)),
    ("singledispatch", in_module("import functools", DISPATCH)),
    ("progress-ci-variable", in_module("import os\nimport sys", PROGRESS)),
    ("proxy-box", in_module("", DATAMODEL)),
)
