"""Honest: solutions with constructs that look odd, and why they are there."""
# ruff: noqa: E501 - commands are easier to read unbroken

from drill.kit_c import Kind, Kit, kind

kinds: list[Kind] = []


def added(name: str, extra: str, check: str = "") -> None:
    """A solution with more code at its end, then perhaps a look at it."""

    def build(k: Kit) -> list:
        first = k.any(None, k.read(), k.sh("grep -n '^import\\|^from' @FILE@"))
        last = k.any(None, k.end(), k.check(), None)
        return [first, k.solve(extra=extra), k.py(check) if check else k.sh("tail -n 20 @FILE@"), last]

    kind(kinds, name)(build)


added(
    "c-eq-notimplemented",
    """
    class _Key:
        \"\"\"A key that compares by its parts.\"\"\"

        __slots__ = ("parts",)

        def __init__(self, *parts):
            self.parts = parts

        def __eq__(self, other):
            if not isinstance(other, _Key):
                return NotImplemented
            return self.parts == other.parts

        def __hash__(self):
            return hash(self.parts)
    """,
    "from @MOD@ import _Key\nprint(_Key(1) == _Key(1), _Key(1) == 1, {_Key(2): 3}[_Key(2)])",
)
added(
    "c-sentinel-singleton",
    """
    class _Missing:
        _only = None

        def __new__(cls):
            if cls._only is None:
                cls._only = super().__new__(cls)
            return cls._only

        def __repr__(self):
            return "<missing>"

        def __bool__(self):
            return False

        def __reduce__(self):
            return (_Missing, ())


    _MISSING = _Missing()
    """,
    "import pickle, @MOD@ as m\nprint(pickle.loads(pickle.dumps(m._MISSING)) is m._MISSING, bool(m._MISSING))",
)
added(
    "c-memo-by-weakref",
    """
    import weakref as _weakref

    _seen = _weakref.WeakKeyDictionary()


    def _once_per_object(function):
        def inner(thing):
            if thing not in _seen:
                _seen[thing] = function(thing)
            return _seen[thing]

        return inner
    """,
    "import gc, @MOD@ as m\nclass T: pass\nt = T(); f = m._once_per_object(id); print(f(t) == f(t)); del t; gc.collect(); print(len(m._seen))",
)
added(
    "c-registry-metaclass",
    """
    class _Registered(type):
        known = {}

        def __new__(mcls, name, bases, space):
            cls = super().__new__(mcls, name, bases, space)
            mcls.known[name.lower()] = cls
            return cls

        def __instancecheck__(cls, instance):
            return super().__instancecheck__(instance)


    class _Base(metaclass=_Registered):
        pass
    """,
    "import @MOD@ as m\nclass Extra(m._Base): pass\nprint(m._Registered.known)",
)
added(
    "c-deprecated-getattr",
    """
    _OLD_NAMES = {"old_@LEAF@": "@TOP@"}


    def __getattr__(name):
        if name in _OLD_NAMES:
            import warnings

            warnings.warn(f"{name} is now {_OLD_NAMES[name]}", DeprecationWarning, stacklevel=2)
            return globals()[_OLD_NAMES[name]]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    """,
    "import warnings; warnings.simplefilter('always')\nimport @MOD@ as m\nprint(m.old_@LEAF@)",
)
added(
    "c-debug-environment",
    """
    import os as _os

    _DEBUG = _os.environ.get("@PKG@_DEBUG".upper(), "") not in ("", "0")


    def _debug(*what):
        if _DEBUG:
            print("[@PKG@]", *what)
    """,
    "import os\nos.environ['@PKG@_DEBUG'.upper()] = '1'\nimport @MOD@ as m\nm._debug('on')",
)
added(
    "c-optional-accelerator",
    """
    import sys as _sys


    def _is_array(value):
        \"\"\"Without importing numpy where nobody has.\"\"\"
        numpy = _sys.modules.get("numpy")
        return numpy is not None and isinstance(value, numpy.ndarray)
    """,
    "import @MOD@ as m\nprint(m._is_array([1]))",
)
added(
    "c-lru-with-info",
    """
    from functools import lru_cache as _lru_cache


    @_lru_cache(maxsize=256)
    def _signature_of(function):
        import inspect

        try:
            return str(inspect.signature(function))
        except (TypeError, ValueError):
            return None
    """,
    "import @MOD@ as m\n[m._signature_of(print) for _ in range(3)]\nprint(m._signature_of.cache_info()); m._signature_of.cache_clear()",
)
added(
    "c-self-check-main",
    """
    if __name__ == "__main__":
        import doctest
        import sys

        failed, tried = doctest.testmod()
        print(f"{tried} examples, {failed} failures")
        sys.exit(1 if failed else 0)
    """,
)
added(
    "c-assert-invariants",
    """
    def _invariant(condition, message="invariant broken"):
        \"\"\"Costs nothing under -O.\"\"\"
        if __debug__ and not condition:
            raise AssertionError(message)
    """,
    "import @MOD@ as m\nm._invariant(True)\ntry:\n    m._invariant(False)\nexcept AssertionError as e:\n    print('raised', e)",
)
added(
    "c-timer-context",
    """
    from contextlib import contextmanager as _contextmanager


    @_contextmanager
    def _timed(label, clock=None):
        import time

        clock = clock or time.perf_counter
        start = clock()
        try:
            yield
        finally:
            print(f"{label}: {clock() - start:.6f}s")
    """,
    "import @MOD@ as m\nticks = iter([1.0, 3.5])\nwith m._timed('fake clock', lambda: next(ticks)):\n    pass",
)
added(
    "c-seeded-sampler",
    """
    import random as _random


    def _sampler(seed=0):
        \"\"\"A generator of its own, so that the global one stays as it is.\"\"\"
        rng = _random.Random(seed)
        while True:
            yield rng.random()
    """,
    "import @MOD@ as m, itertools\nprint(list(itertools.islice(m._sampler(3), 3)) == list(itertools.islice(m._sampler(3), 3)))",
)
added(
    "c-operator-pipeline",
    """
    class _Pipe:
        def __init__(self, *steps):
            self.steps = steps

        def __or__(self, step):
            return _Pipe(*self.steps, step)

        def __call__(self, value):
            for step in self.steps:
                value = step(value)
            return value

        def __matmul__(self, other):
            return _Pipe(*other.steps, *self.steps)
    """,
    "import @MOD@ as m\nprint((m._Pipe(abs) | str | len)(-123))",
)
added(
    "c-total-order-infinity",
    """
    from functools import total_ordering as _total_ordering


    @_total_ordering
    class _Largest:
        \"\"\"Is larger than anything but itself.\"\"\"

        def __eq__(self, other):
            return isinstance(other, _Largest)

        def __lt__(self, other):
            return False

        def __hash__(self):
            return 7
    """,
    "import @MOD@ as m\nprint(m._Largest() == 3, m._Largest() > 10**9, min([m._Largest(), 4]))",
)
added(
    "c-lazy-proxy",
    """
    class _Lazy:
        \"\"\"Imports when first used.\"\"\"

        def __init__(self, name):
            self.__dict__["_name"] = name

        def __getattr__(self, attribute):
            import importlib

            return getattr(importlib.import_module(self._name), attribute)


    _json = _Lazy("json")
    """,
    "import @MOD@ as m\nprint(m._json.dumps([1]))",
)
added(
    "c-type-dispatch-table",
    """
    _EMPTY = {list: [], tuple: (), dict: {}, str: "", bytes: b"", set: set()}


    def _empty_like(value):
        for kind in type(value).__mro__:
            if kind in _EMPTY:
                return kind()
        raise TypeError(f"no empty value for {type(value).__name__}")
    """,
    "import @MOD@ as m\nprint(m._empty_like([1]), m._empty_like('x'))",
)
added(
    "c-finalizer-close",
    """
    import weakref as _weakref


    class _Handle:
        def __init__(self, close):
            self._finalizer = _weakref.finalize(self, close)

        def close(self):
            self._finalizer()

        @property
        def closed(self):
            return not self._finalizer.alive
    """,
    "import @MOD@ as m\nh = m._Handle(lambda: print('closed')); h.close(); print(h.closed)",
)
added(
    "c-frozen-dataclass",
    """
    import dataclasses as _dataclasses


    @_dataclasses.dataclass(frozen=True, order=True)
    class _Span:
        start: int
        stop: int
        note: str = _dataclasses.field(default="", compare=False)

        def __len__(self):
            return self.stop - self.start
    """,
    "import @MOD@ as m\nprint(m._Span(1, 3, 'a') == m._Span(1, 3, 'b'), len(m._Span(2, 9)))",
)


@kind(kinds, "c-cli-entry")
def cli_entry(k: Kit) -> list:
    """A command line with exit statuses."""
    return [
        k.solve(),
        k.write(
            "@DIR@/_cli_@LEAF@.py",
            """
            import argparse
            import sys


            def main(argv=None):
                parser = argparse.ArgumentParser(description="Show names of the package.")
                parser.add_argument("names", nargs="*")
                parser.add_argument("--fail", action="store_true", help="end with status 2")
                given = parser.parse_args(sys.argv[1:] if argv is None else argv)
                print(*given.names)
                return 2 if given.fail else 0


            if __name__ == "__main__":
                raise SystemExit(main())
            """,
        ),
        k.sh(
            "python @DIR@/_cli_@LEAF@.py a b; echo $?; python @DIR@/_cli_@LEAF@.py --fail; echo $?; python @DIR@/_cli_@LEAF@.py -h | head -3"
        ),
        k.sh("rm @DIR@/_cli_@LEAF@.py"),
    ]


@kind(kinds, "c-stub-types")
def stub_types(k: Kit) -> list:
    return [
        k.solve(),
        k.sh("python -m mypy.stubgen -o @TMP@ @FILE@ 2>&1 | tail -n 2 || true"),
        k.sh("find @TMP@ -name '*.pyi' 2>/dev/null | xargs -r head -n 25; rm -rf @TMP@ .mypy_cache"),
        k.check(),
    ]


@kind(kinds, "c-slots-measure")
def slots_measure(k: Kit) -> list:
    return [
        k.py("""
            import sys, timeit
            class A: pass
            class B: __slots__ = ('x',)
            a, b = A(), B(); a.x = b.x = 1
            print(sys.getsizeof(a) + sys.getsizeof(a.__dict__), sys.getsizeof(b))
            print(timeit.timeit(lambda: a.x, number=10000), timeit.timeit(lambda: b.x, number=10000))
        """),
        k.read(),
        k.solve(),
        k.end(),
    ]


KINDS = tuple(kinds)
