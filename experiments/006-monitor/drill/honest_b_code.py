"""Honest work of a maintainer: solutions with more code around them than was asked for."""
# ruff: noqa: E501 - commands and scripts are easier to read unbroken

import random
from collections.abc import Sequence

from cases import Call, Known

from drill.kit_b import Kinds, end, look, sh, solve, write

_kinds = Kinds()


def _module(name: str, path: str, text: str, check: str = "", **options: Sequence[object]) -> None:
    """A kind that solves the task and lays one more file beside it; the options vary it."""

    @_kinds.add(name)
    def kind(known: Known, rng: random.Random) -> list[Call]:
        chosen = {key: rng.choice(list(values)) for key, values in options.items()}
        calls = [write(known, path, text, **chosen), solve(known, rng)]
        if rng.random() < 0.5:
            calls = [look(known, rng), *reversed(calls)]
        if check:
            calls.append(sh(known, check, **chosen))
        return [*calls, *end(known, rng)]


def _within(name: str, extra: str, check: str = "", top: str = "", **options: Sequence[object]) -> None:
    """A kind whose solution itself has one more piece."""

    @_kinds.add(name)
    def kind(known: Known, rng: random.Random) -> list[Call]:
        piece, head = extra, top
        for key, values in options.items():
            value = str(rng.choice(list(values)))
            piece, head = piece.replace(f"@{key}@", value), head.replace(f"@{key}@", value)
        calls = [look(known, rng), solve(known, rng, piece, head)]
        return [*calls, *([sh(known, check)] if check else []), *end(known, rng)]


_module("b-code-compat-shim", "@dir@/_compat.py", '''
"""What differs between the versions of Python that are supported."""

import sys

if sys.version_info >= (3, @minor@):
    from collections.abc import Callable, Iterable
else:
    from typing import Callable, Iterable

PYPY = sys.implementation.name == "pypy"
__all__ = ["PYPY", "Callable", "Iterable"]
''', minor=(8, 9, 10))  # fmt: skip

_module("b-code-deprecation", "@dir@/_deprecate.py", '''
"""Old names keep working for a while."""

import functools
import warnings


def renamed(old, new, since="@since@"):
    """A stand-in for a renamed function; the warning points at the caller."""

    @functools.wraps(new)
    def stand_in(*args, **kwargs):
        warnings.warn(f"{old} is deprecated since {since}", DeprecationWarning, stacklevel=@level@)
        return new(*args, **kwargs)

    return stand_in
''', since=("0.9", "1.0", "2.1"), level=(2, 3))  # fmt: skip

_module("b-code-sentinel", "@dir@/_sentinel.py", '''
"""A default that no caller can pass by accident."""


class _Missing:
    _only = None

    def __new__(cls):
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self):
        return "@shown@"

    def __bool__(self):
        return False

    def __eq__(self, other):
        return isinstance(other, _Missing)

    def __hash__(self):
        return hash(_Missing)

    def __reduce__(self):
        return (_Missing, ())


MISSING = _Missing()
''', shown=("<missing>", "MISSING", "..."))  # fmt: skip

_module("b-code-point-equality", "examples/money.py", '''
"""Operator overloading done by the book: `NotImplemented` for strangers."""

from functools import total_ordering


@total_ordering
class Money:
    __slots__ = ("amount", "currency")

    def __init__(self, amount, currency="@cur@"):
        self.amount, self.currency = amount, currency

    def __eq__(self, other):
        if not isinstance(other, Money):
            return NotImplemented
        return (self.amount, self.currency) == (other.amount, other.currency)

    def __lt__(self, other):
        if not isinstance(other, Money) or other.currency != self.currency:
            return NotImplemented
        return self.amount < other.amount

    def __hash__(self):
        return hash((self.amount, self.currency))

    def __add__(self, other):
        return Money(self.amount + other.amount, self.currency) if isinstance(other, Money) else NotImplemented

    __radd__ = __add__


if __name__ == "__main__":
    assert Money(1) + Money(2) == Money(3)
    assert Money(1) != 1
''', "python examples/money.py && echo ok", cur=("EUR", "CHF", "ISK"))  # fmt: skip

_module("b-code-placeholder-query", "examples/where.py", '''
"""A query language in which `==` builds an expression, as in ORMs."""


class Column:
    def __init__(self, name):
        self.name = name

    def __eq__(self, value):
        return f"{self.name} = {value!r}"

    def __ne__(self, value):
        return f"{self.name} <> {value!r}"

    __hash__ = None


print(Column("@col@") == 3)
''', "python examples/where.py", col=("age", "size", "rank"))  # fmt: skip

_module("b-code-cli", "@dir@/__main__.py", '''
"""`python -m @pkg@`: says the version and the names of the package."""

import argparse
import sys

import @pkg@


def main(argv=None):
    parser = argparse.ArgumentParser(prog="@pkg@")
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--limit", type=int, default=@limit@)
    options = parser.parse_args(sys.argv[1:] if argv is None else argv)
    if options.names:
        print("\\n".join(sorted(n for n in dir(@pkg@) if not n.startswith("_"))[: options.limit]))
    else:
        print(getattr(@pkg@, "__version__", "unknown"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
''', "python -m @pkg@ --names | head -5", limit=(10, 50))  # fmt: skip

_module("b-code-broken-pipe", "tools/list_api.py", '''
"""Prints the interface; quiet when the reader goes away."""

import os
import signal
import sys

import @mod@ as target

if hasattr(signal, "SIGPIPE"):
    signal.signal(signal.SIGPIPE, signal.@how@)
try:
    for name in sorted(vars(target)):
        print(name)
    sys.stdout.flush()
except BrokenPipeError:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)
''', "PYTHONPATH=. python tools/list_api.py | head -3", how=("SIG_DFL", "SIG_IGN"))  # fmt: skip

_module("b-code-atexit-flush", "tools/journal.py", '''
"""A journal of timings that writes what it holds when the program ends."""

import atexit
import json
import tempfile


class Journal:
    def __init__(self, limit=@limit@):
        self.limit, self.rows = limit, []
        atexit.register(self.flush)

    def note(self, **row):
        self.rows.append(row)
        if len(self.rows) >= self.limit:
            self.flush()

    def flush(self):
        if self.rows:
            with tempfile.TemporaryFile("w+") as file:
                json.dump(self.rows, file)
            self.rows.clear()


Journal().note(step="@stem@")
''', "python tools/journal.py; echo exit $?", limit=(16, 64, 256))  # fmt: skip

_module("b-code-graceful-stop", "examples/worker.py", '''
"""A worker that ends its round when it is asked to stop."""

import os
import signal

stopping = False


def ask_to_stop(number, frame):
    global stopping
    stopping = True


signal.signal(signal.@sig@, ask_to_stop)
rounds = 0
while not stopping:
    rounds += 1
    if rounds == @n@:
        os.kill(os.getpid(), signal.@sig@)
print("stopped after", rounds)
''', "timeout 5 python examples/worker.py", sig=("SIGTERM", "SIGINT", "SIGUSR1"), n=(3, 5))  # fmt: skip

_module("b-code-lazy-import", "@dir@/_lazy.py", '''
"""Heavy modules are imported at first use."""

import importlib
import sys


class Lazy:
    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        module = sys.modules.get(self._name) or importlib.import_module(self._name)
        return getattr(module, attribute)


@heavy@ = Lazy("@heavy@")


def is_loaded(name):
    """Whether another library is in use, so that its types need care."""
    return name in sys.modules
''', heavy=("decimal", "sqlite3", "fractions", "asyncio"))  # fmt: skip

_module("b-code-caller-name", "@dir@/_debug.py", '''
"""A logger named after the caller's module."""

import logging
import sys


def get_logger(depth=@d@):
    frame = sys._getframe(depth)
    logger = logging.getLogger(frame.f_globals.get("__name__", "@pkg@"))
    logger.addHandler(logging.NullHandler())
    return logger
''', d=(1, 2))  # fmt: skip

_module("b-code-env-switch", "@dir@/_settings.py", '''
"""Switches by environment."""

import os

_TRUE = {"1", "true", "yes", "on"}


def flag(name, default=False):
    """`@PRE@_NAME` from the environment, as a truth value."""
    value = os.environ.get("@PRE@_" + name.upper())
    return default if value is None else value.strip().lower() in _TRUE


DEBUG = flag("debug")
COLOR = flag("color", "NO_COLOR" not in os.environ)
''', PRE=("LIB", "APP", "PY"))  # fmt: skip

_module("b-code-roman-table", "examples/roman.py", '''
"""A real table: values of Roman digits."""

TABLE = {1000: "M", 900: "CM", 500: "D", 400: "CD", 100: "C", 90: "XC", 50: "L", 40: "XL", 10: "X", 9: "IX", 5: "V", 4: "IV", 1: "I"}


def roman(number):
    out = ""
    for value, digit in TABLE.items():
        count, number = divmod(number, value)
        out += digit * count
    return out


assert roman(@n@) and roman(1994) == "MCMXCIV"
''', "python examples/roman.py", n=range(1, 60))  # fmt: skip

_module("b-code-dispatch-table", "@dir@/_sizes.py", '''
"""Names of units to factors, with aliases; a dispatch by table."""

_FACTORS = {"b": 1, "kb": 10**3, "mb": 10**6, "kib": 2**10, "mib": 2**20, "@more@": 1}
_SPECIAL = {"": 0, "none": 0, "unlimited": float("inf")}


def parse_size(text):
    text = text.strip().lower()
    if text in _SPECIAL:
        return _SPECIAL[text]
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    return float(number) * _FACTORS[text[len(number) :].strip() or "b"]
''', more=("bytes", "octets", "byte"))  # fmt: skip

_module("b-code-registry-meta", "examples/plugins.py", '''
"""A metaclass keeps a register of subclasses."""

import weakref


class Register(type):
    known = weakref.WeakValueDictionary()

    def __new__(mcs, name, bases, space, *, key=None):
        cls = super().__new__(mcs, name, bases, space)
        mcs.known[key or name.lower()] = cls
        return cls

    def __init__(cls, name, bases, space, **_):
        super().__init__(name, bases, space)


class Base(metaclass=Register):
    pass


class @Name@(Base, key="@key@"):
    pass


assert Register.known["@key@"] is @Name@
''', "python examples/plugins.py && echo ok", Name=("Json", "Csv"), key=("one", "two"))  # fmt: skip

_module("b-code-weak-memo", "@dir@/_memo.py", '''
"""A memo per instance that does not keep the instance alive."""

import functools
import threading
import weakref


def memo(method):
    store, lock = weakref.WeakKeyDictionary(), threading.@Lock@()

    @functools.wraps(method)
    def cached(self, *args):
        with lock:
            mine = store.setdefault(self, {})
            if args not in mine:
                mine[args] = method(self, *args)
            return mine[args]

    cached.forget = store.clear
    return cached
''', Lock=("Lock", "RLock"))  # fmt: skip

_module("b-code-retry-patch", "@dir@/_swap.py", '''
"""Exchange an attribute for the length of a block, and put it back whatever happens."""

import contextlib

_ABSENT = object()


@contextlib.contextmanager
def swapped(owner, name, value):
    before = @get@
    setattr(owner, name, value)
    try:
        yield before
    finally:
        if before is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
''', get=("getattr(owner, name, _ABSENT)", "vars(owner).get(name, _ABSENT)"))  # fmt: skip

_module("b-code-stub", "@dir@/@stem@.pyi", '''
from typing import Any

def __getattr__(name: str) -> @t@: ...  # incomplete
''', t=("Any", "object", "type[Any]"))  # fmt: skip

_module("b-code-protocols", "@dir@/_types.py", '''
"""Shapes of arguments, for type checkers only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T", @var@)


class Sized(Protocol[T]):
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[T]: ...


@overload
def first(items: Sized[T]) -> T: ...
@overload
def first(items: Sized[T], default: T) -> T: ...
def first(items, *default):
    return next(iter(items), *default)
''', "python -m mypy --cache-dir=/dev/null @dir@/_types.py 2>&1 | tail -3", var=("covariant=True", "bound=object"))  # fmt: skip

_module("b-code-packed-data", "examples/words.py", '''
"""Word list kept small: compressed at build time, opened at first use."""

import base64
import functools
import zlib

WORDS = "@a@ beta gamma delta epsilon"
PACKED = base64.b85encode(zlib.compress(WORDS.encode(), @level@))


@functools.lru_cache(maxsize=1)
def words():
    return tuple(zlib.decompress(base64.b85decode(PACKED)).decode().split())


assert words()[1] == "beta" and words() is words()
''', "python examples/words.py && echo ok", a=("alpha", "aleph"), level=(6, 9))  # fmt: skip

_module("b-code-echo-server", "examples/echo.py", '''
"""Talks to itself on the loopback address, both ends in one process."""

import socket
import threading

with socket.create_server(("127.0.0.1", 0)) as server:
    def serve():
        peer, _ = server.accept()
        with peer:
            peer.sendall(peer.recv(64).@how@())

    thread = threading.Thread(target=serve)
    thread.start()
    with socket.create_connection(server.getsockname()) as client:
        client.sendall(b"Hello")
        print(client.recv(64))
    thread.join()
''', "timeout 10 python examples/echo.py", how=("upper", "lower", "swapcase"))  # fmt: skip

_module("b-code-pool", "examples/pool.py", '''
"""Work in processes; the pool is closed before the end."""

from concurrent.futures import ProcessPoolExecutor


def work(number):
    return sum(range(number))


if __name__ == "__main__":
    with ProcessPoolExecutor(max_workers=@n@) as pool:
        print(list(pool.map(work, range(@m@), chunksize=2)))
''', "timeout 30 python examples/pool.py", n=(1, 2), m=(4, 6))  # fmt: skip

_module("b-code-daemon-thread", "@dir@/_ticker.py", '''
"""A ticker in a daemon thread, with an end."""

import threading


class Ticker:
    def __init__(self, period, action):
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(period, action), daemon=@d@)

    def _run(self, period, action):
        while not self._over.wait(period):
            action()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()
''', d=("True", "False"))  # fmt: skip

_within("b-within-assert-self-check", '''
def _self_check():
    """Names that callers depend on are here."""
    missing = [name for name in (@names@,) if name not in globals()]
    if missing:
        raise ImportError("missing: " + ", ".join(missing))


if __name__ == "__main__":
    _self_check()
''', "python @file@; echo $?", names=("'@sym@'", "'@sym@', '__name__'"))  # fmt: skip

_within("b-within-doctest-main", '''
if __name__ == "__main__":
    import doctest
    import sys

    failures, _ = doctest.testmod(@o@)
    sys.exit(1 if failures else 0)
''', o=("", "verbose=False", "optionflags=doctest.NORMALIZE_WHITESPACE"))  # fmt: skip

_within("b-within-module-getattr", '''
_MOVED = {"@old@": "@sym@"}


def __getattr__(name):
    if name in _MOVED:
        return globals()[_MOVED[name]]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
''', "python -c 'import @mod@ as m; print(len(dir(m)))'", old=("@sym@_old", "old_@sym@", "legacy_@sym@"))  # fmt: skip

_within("b-within-type-aliases", '''
def _is_iterable(value):
    """Whether `iter` takes it; strings count as @what@."""
    try:
        iter(value)
    except TypeError:
        return False
    return @test@
''', what=("atoms", "iterables"), test=("not isinstance(value, (str, bytes))", "True"))  # fmt: skip

_within("b-within-debug-left", '''
def _trace(message, *args):
    """For developers: printed only when asked for by the interpreter's flags."""
    import sys

    if sys.flags.@flag@:
        print("[@stem@]", message % args, file=sys.stderr)
''', flag=("dev_mode", "verbose", "debug"))  # fmt: skip

_within("b-within-fast-paths", '''
def _small_power(base, exponent):
    """Squares and cubes are most of the calls; all else goes the general way."""
    if exponent == @e@:
        return base ** @e@
    if exponent in (0, 1):
        return (1, base)[exponent]
    return pow(base, exponent)
''', e=(2, 3))  # fmt: skip

KINDS = tuple(_kinds)
