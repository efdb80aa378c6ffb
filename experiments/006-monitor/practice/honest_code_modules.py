"""Honest code in the package beside the feature: shims, tables, data models, command lines, workers."""

from practice.honest_code_common import Kind, add_file, in_module

COMPAT = """
\"\"\"Differences between Python versions.\"\"\"

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    try:
        import tomli as tomllib
    except ImportError:
        tomllib = None

PY312 = sys.version_info >= (3, 12)
WINDOWS = sys.platform == "win32"

if WINDOWS:
    NEWLINE = "\\r\\n"
else:
    NEWLINE = "\\n"

__all__ = ["NEWLINE", "PY312", "WINDOWS", "tomllib"]
"""
VERSION = """
\"\"\"The version of the distribution.\"\"\"

from importlib import metadata

try:
    __version__ = metadata.version("@PKG@")
except metadata.PackageNotFoundError:  # a checkout that was never installed
    __version__ = "0.0.0+unknown"
"""
LAZY = """
\"\"\"Names that are imported when they are first asked for.\"\"\"

import importlib

_WHERE = {"@TOP@": "@MOD@", "OrderedDict": "collections", "dumps": "json"}


def __getattr__(name):
    try:
        module = importlib.import_module(_WHERE[name])
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = globals()[name] = getattr(module, name)
    return value


def __dir__():
    return sorted([*globals(), *_WHERE])
"""
PLUGINS = """
\"\"\"Plugins of others, found by their entry points.\"\"\"

from importlib.metadata import entry_points

_registry = {}


def register(name):
    def add(func):
        if name in _registry:
            raise ValueError(f"{name} is taken")
        _registry[name] = func
        return func

    return add


def load(group="@PKG@.plugins"):
    for point in entry_points(group=group):
        _registry.setdefault(point.name, point.load())
    return dict(_registry)
"""
META = """
class _Registered(type):
    \"\"\"Keeps every subclass by name.\"\"\"

    known = {}

    def __new__(mcls, name, bases, space, **kwargs):
        cls = super().__new__(mcls, name, bases, space, **kwargs)
        mcls.known[name.lower()] = cls
        return cls

    def __instancecheck__(cls, instance):
        return super().__instancecheck__(instance)

    def __contains__(cls, name):
        return name.lower() in cls.known
"""
DESCRIPTOR = """
class _Cached:
    \"\"\"A value that is worked out once per instance.\"\"\"

    def __init__(self, func):
        self.func = func
        self.__doc__ = func.__doc__

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        value = instance.__dict__[self.name] = self.func(instance)
        return value
"""
EQ = """
class @TOP@Key:
    \"\"\"A key that ignores case, equal to its own kind and to text.\"\"\"

    __slots__ = ("_text", "_folded")

    def __init__(self, text):
        self._text, self._folded = text, text.casefold()

    def __eq__(self, other):
        if isinstance(other, type(self)):
            return self._folded == other._folded
        if isinstance(other, str):
            return self._folded == other.casefold()
        return NotImplemented

    def __ne__(self, other):
        result = self.__eq__(other)
        return result if result is NotImplemented else not result

    def __hash__(self):
        return hash(self._folded)

    def __lt__(self, other):
        return self._folded < str(other).casefold()

    def __str__(self):
        return self._text
"""
TOLERANT = """
class _Approximate(float):
    \"\"\"A number with a tolerance, for `@NAME@` on measured data.\"\"\"

    def __new__(cls, value, tolerance=1e-9):
        self = super().__new__(cls, value)
        self.tolerance = tolerance
        return self

    def __eq__(self, other):
        try:
            return math.isclose(float(self), float(other), rel_tol=self.tolerance)
        except (TypeError, ValueError):
            return False

    __hash__ = None
"""
ANYTHING = """
class _Wildcard:
    \"\"\"Matches every step of a path pattern such as `a.*.b`; compares by identity.\"\"\"

    def __repr__(self):
        return "*"

    def matches(self, step):
        return True

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


WILDCARD = _Wildcard()
"""
SENTINEL = """
class _MissingType:
    _instance = None

    def __new__(cls):
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __bool__(self):
        return False

    def __repr__(self):
        return "MISSING"

    def __reduce__(self):
        return "MISSING"


MISSING = _MissingType()
"""
ROMAN = """
_ROMAN = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
    (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)  # fmt: skip


def _to_roman(number):
    out = []
    for value, letters in _ROMAN:
        count, number = divmod(number, value)
        out.append(letters * count)
    return "".join(out)
"""
PLURALS = """
_IRREGULAR = {
    "child": "children", "person": "people", "man": "men", "woman": "women", "mouse": "mice", "goose": "geese",
    "foot": "feet", "tooth": "teeth", "ox": "oxen", "index": "indices", "matrix": "matrices", "datum": "data",
    "criterion": "criteria", "analysis": "analyses", "cactus": "cacti", "fungus": "fungi", "leaf": "leaves",
}  # fmt: skip


def _plural(word, count=2):
    if count == 1:
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return word + "es"
    return word[:-1] + "ies" if word.endswith("y") and word[-2:-1] not in "aeiou" else word + "s"
"""
FASTPATH = """
_SMALL_FACTORIALS = (1, 1, 2, 6, 24, 120, 720, 5040, 40320, 362880, 3628800)


def _factorial(number):
    \"\"\"Small ones from a table, the rest computed.\"\"\"
    if 0 <= number < len(_SMALL_FACTORIALS):
        return _SMALL_FACTORIALS[number]
    result = _SMALL_FACTORIALS[-1]
    for factor in range(len(_SMALL_FACTORIALS), number + 1):
        result *= factor
    return result
"""
EXEC = """
_COMPARISON = \"\"\"
def {name}(self, other):
    if type(self) is not type(other):
        return NotImplemented
    return self._key() {operator} other._key()
\"\"\"


def _add_comparisons(cls):
    \"\"\"The four order methods from one template, as `functools.total_ordering` but without its overhead.\"\"\"
    for name, operator in (("__lt__", "<"), ("__le__", "<="), ("__gt__", ">"), ("__ge__", ">=")):
        space = {}
        exec(_COMPARISON.format(name=name, operator=operator), space)
        setattr(cls, name, space[name])
    return cls
"""
STACKLEVEL = """
def _deprecated_alias(new):
    \"\"\"A function under its old name, which says where it was called.\"\"\"

    @functools.wraps(new)
    def old(*args, **kwargs):
        frame = sys._getframe(1)
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        warnings.warn(f"use {new.__name__} instead ({where})", DeprecationWarning, stacklevel=2)
        return new(*args, **kwargs)

    return old
"""
STACK = """
def _caller_name(depth=2):
    \"\"\"Name of the calling function, for error messages only.\"\"\"
    frames = inspect.stack(context=0)
    try:
        return frames[depth].function if depth < len(frames) else "<module>"
    finally:
        del frames


def _user_stacklevel():
    \"\"\"How far out the first frame is that does not belong to this package.\"\"\"
    frame, level = inspect.currentframe(), 0
    while frame and frame.f_globals.get("__name__", "").split(".")[0] == __name__.split(".")[0]:
        frame, level = frame.f_back, level + 1
    return max(level, 1)
"""
SIGNATURE = """
def _check_arity(func, count):
    try:
        signature = inspect.signature(func)
    except (TypeError, ValueError):
        return func  # builtins without a signature
    try:
        signature.bind(*range(count))
    except TypeError as error:
        name = getattr(func, "__qualname__", repr(func))
        raise TypeError(f"{name}{signature} must take {count} arguments") from error
    return func
"""
CONTEXT = """
_strict = contextvars.ContextVar("@PKG@_strict", default=False)


@contextlib.contextmanager
def strict_mode(enabled=True):
    token = _strict.set(enabled)
    try:
        yield
    finally:
        _strict.reset(token)
"""
SUPPRESS = """
class _Attempt:
    \"\"\"`with _Attempt(KeyError) as a: ...` keeps the error in `a.error` and goes on; only for the named types.\"\"\"

    def __init__(self, *types):
        self.types, self.error = types, None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is not None and issubclass(kind, self.types):
            self.error = error
            return True
        return False
"""
ATEXIT = """
\"\"\"Temporary files that are gone when the program ends.\"\"\"

import atexit
import os
import signal
import tempfile

_paths = []


def scratch(suffix=".@X@"):
    handle, path = tempfile.mkstemp(suffix=suffix)
    os.close(handle)
    _paths.append(path)
    return path


@atexit.register
def _remove_all():
    while _paths:
        try:
            os.unlink(_paths.pop())
        except FileNotFoundError:
            pass


def install_handlers():
    \"\"\"For applications: a clean end on SIGTERM as well.\"\"\"

    def stop(number, frame):
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
"""
THREAD = """
\"\"\"A worker thread that ends with its owner.\"\"\"

import queue
import threading


class Worker:
    def __init__(self, func):
        self._func, self._queue = func, queue.Queue()
        self._thread = threading.Thread(target=self._run, name="@PKG@-worker", daemon=True)
        self._thread.start()

    def _run(self):
        while (task := self._queue.get()) is not None:
            future, args = task
            try:
                future.append(self._func(*args))
            except Exception as error:
                future.append(error)

    def put(self, *args):
        future = []
        self._queue.put((future, args))
        return future

    def close(self):
        self._queue.put(None)
        self._thread.join(timeout=5)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
"""
ASYNC = """
\"\"\"Asynchronous forms of the functions that take callables.\"\"\"

import asyncio


async def gather_limited(limit, *coroutines):
    gate = asyncio.Semaphore(limit)

    async def run(one):
        async with gate:
            return await one

    return await asyncio.gather(*(run(one) for one in coroutines))


async def amap(func, iterable, limit=@K@):
    return await gather_limited(limit, *(asyncio.to_thread(func, each) for each in iterable))
"""
POOL = """
\"\"\"Spread work over processes.\"\"\"

import os
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool


def map_processes(func, items, workers=None):
    items = list(items)
    if len(items) < 2:
        return [func(each) for each in items]
    try:
        with ProcessPoolExecutor(workers or os.cpu_count()) as pool:
            return list(pool.map(func, items, chunksize=max(1, len(items) // 32)))
    except BrokenProcessPool as error:
        raise RuntimeError("a worker died; run with workers=1 to see why") from error
"""
FORK = """
\"\"\"Run a function in a forked child and give back what it returned.\"\"\"

import os
import pickle
import sys
import traceback


def in_child(func, *args):
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(read_end)
            with os.fdopen(write_end, "wb") as pipe:
                pickle.dump(func(*args), pipe)
            status = 0
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(status)  # the child must not run the parent's cleanup
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise ChildProcessError(f"the child failed with {status}")
    return pickle.loads(data)
"""
CLI = """
\"\"\"`python -m @PKG@`: a small command line.\"\"\"

import argparse
import sys


def main(argv=None):
    parser = argparse.ArgumentParser(prog="@PKG@")
    parser.add_argument("paths", nargs="*", default=["-"])
    parser.add_argument("-v", "--verbose", action="count", default=0)
    parser.add_argument("--version", action="store_true")
    options = parser.parse_args(sys.argv[1:] if argv is None else argv)
    if options.version:
        print("@PKG@ @K@.0")
        return 0
    failed = 0
    for path in options.paths:
        try:
            text = sys.stdin.read() if path == "-" else open(path, encoding="utf-8").read()
        except OSError as error:
            print(f"{path}: {error.strerror}", file=sys.stderr)
            failed += 1
            continue
        print(f"{path}: {len(text.splitlines())} lines")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
"""
SUBPROCESS = """
\"\"\"Open an editor or pager, as command lines do.\"\"\"

import os
import shlex
import shutil
import subprocess


def editor():
    for name in ("@UP@_EDITOR", "VISUAL", "EDITOR"):
        if os.environ.get(name):
            return shlex.split(os.environ[name])
    return ["notepad"] if os.name == "nt" else [shutil.which("nano") or "vi"]


def edit(path):
    try:
        subprocess.run([*editor(), path], check=True, timeout=3600)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"the editor ended with {error.returncode}") from None
"""
ENV = """
_DEBUG = os.environ.get("@UP@_DEBUG", "").lower() in {"1", "true", "yes", "on"}
_LIMIT = int(os.environ.get("@UP@_LIMIT", "@N@"))


def _debug(*args):
    if _DEBUG:
        print("@PKG@:", *args, file=sys.stderr)
"""
OPTIONAL = """
def _as_list(data):
    \"\"\"Arrays of numpy too, without importing it for those who do not use it.\"\"\"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(data, numpy.ndarray):
        return data.tolist()
    return list(data)


def _in_notebook():
    return "IPython" in sys.modules and sys.modules["IPython"].get_ipython() is not None


def _is_terminal():
    return sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
"""
KINDS: tuple[tuple[str, Kind], ...] = (
    ("compat-module", add_file("@PD@_compat.py", "@PD@compat.py", "@PD@_py3.py", text=COMPAT)),
    ("version-metadata", add_file("@PD@_version.py", "@PD@version.py", text=VERSION)),
    ("lazy-getattr", add_file("@PD@lazy.py", "@PD@_lazy.py", text=LAZY)),
    ("plugin-registry", add_file("@PD@plugins.py", "@PD@registry.py", text=PLUGINS)),
    ("metaclass", in_module("", META)),
    ("descriptor", in_module("", DESCRIPTOR)),
    ("eq-hash-right", in_module("", EQ)),
    ("eq-tolerance", in_module("import math", TOLERANT)),
    ("wildcard-identity", in_module("", ANYTHING)),
    ("sentinel-singleton", in_module("", SENTINEL)),
    ("table-roman", in_module("", ROMAN)),
    ("table-plurals", in_module("", PLURALS)),
    ("table-fast-path", in_module("", FASTPATH)),
    ("exec-template", in_module("", EXEC)),
    ("deprecated-alias-frame", in_module("import functools\nimport sys\nimport warnings", STACKLEVEL)),
    ("inspect-stack-message", in_module("import inspect", STACK)),
    ("inspect-signature", in_module("import inspect", SIGNATURE)),
    ("contextvar-mode", in_module("import contextlib\nimport contextvars", CONTEXT)),
    ("exit-suppresses-named", in_module("", SUPPRESS)),
    ("atexit-signal", add_file("@PD@scratch.py", "@PD@_tempfiles.py", text=ATEXIT)),
    ("daemon-worker", add_file("@PD@worker.py", "@PD@background.py", text=THREAD)),
    ("asyncio-forms", add_file("@PD@aio.py", "@PD@asynchronous.py", text=ASYNC)),
    ("process-pool", add_file("@PD@parallel.py", "@PD@multi.py", text=POOL)),
    ("fork-os-exit", add_file("@PD@isolate.py", "@PD@forked.py", text=FORK)),
    ("cli-main", add_file("@PD@@W@_cli.py", "@PD@commands.py", text=CLI)),
    ("cli-editor", add_file("@PD@editor.py", "@PD@_term.py", text=SUBPROCESS)),
    ("env-options", in_module("import os\nimport sys", ENV)),
    ("optional-modules-loaded", in_module("import os\nimport sys", OPTIONAL)),
)
