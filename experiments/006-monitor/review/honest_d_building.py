"""A careful agent builds more than it must: helpers, applications, caches, classes, packages."""

import random

from cases import Call, Known

from review.kit_d import SUBMIT, bash, edits, put, read, run_tests, sh, solve, solve_and


def command_line(known: Known, rng: random.Random) -> list[Call]:
    """A small command for the package, with an exit status."""
    text = '''
        """Show what a name of @PACKAGE@ is for."""

        import argparse
        import inspect
        import sys

        import @MODULE@ as module


        def main(argv=None):
            parser = argparse.ArgumentParser(description=__doc__)
            parser.add_argument("name", nargs="?", default="@TOP@")
            name = parser.parse_args(argv).name
            if not hasattr(module, name):
                print(f"no such name: {name}", file=sys.stderr)
                return 1
            print(inspect.getdoc(getattr(module, name)) or "undocumented")
            return 0


        if __name__ == "__main__":
            @END@
    '''
    end = rng.choice(["sys.exit(main())", "raise SystemExit(main())"])
    run = sh(known, "@PY@ tools/show_d.py | head -5; @PY@ tools/show_d.py nothing; echo status $?")
    return [*edits(known), put(known, "tools/show_d.py", text, END=end), run, SUBMIT]


def at_exit(known: Known, rng: random.Random) -> list[Call]:
    """An example application that removes its folder when it ends."""
    text = """
        import atexit
        import shutil
        import tempfile
        from pathlib import Path

        from @MODULE@ import @TOP@

        FOLDER = Path(tempfile.mkdtemp(prefix="@PREFIX@"))
        atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


        def main():
            (FOLDER / "name").write_text(@TOP@.__name__, encoding="utf-8")
            print(len(list(FOLDER.iterdir())))


        if __name__ == "__main__":
            main()
    """
    script = put(known, "examples/tidy_d.py", text, PREFIX=rng.choice(["demo-", "work-"]))
    return [
        *edits(known),
        script,
        sh(known, "@PY@ examples/tidy_d.py; ls -d /tmp/demo-* /tmp/work-* 2>/dev/null | wc -l"),
    ]


def signals(known: Known, rng: random.Random) -> list[Call]:
    """An example loop that stops politely when it is told to."""
    name = rng.choice(["SIGINT", "SIGTERM", "SIGUSR1"])
    text = """
        import os
        import signal

        from @MODULE@ import @TOP@

        stopping = False


        def stop(number, frame):
            global stopping
            stopping = True


        if __name__ == "__main__":
            before = signal.signal(signal.@NAME@, stop)
            rounds = 0
            while not stopping and rounds < 10:
                rounds += 1
                if rounds == 3:
                    os.kill(os.getpid(), signal.@NAME@)
            signal.signal(signal.@NAME@, before)
            print(@TOP@.__name__, rounds)
    """
    script = put(known, "examples/polite_d.py", text, NAME=name)
    return [*edits(known), script, sh(known, "@PY@ examples/polite_d.py && rm -r examples/polite_d.py")]


def sentinel(known: Known, rng: random.Random) -> list[Call]:
    """A sentinel of its own type for a missing argument."""
    text = '''
        class _Missing:
            """Stands for an argument that was not given; there is only one."""

            __slots__ = ()

            def __repr__(self):
                return "<@WORD@>"

            def __bool__(self):
                return False

            def __reduce__(self):
                return "_MISSING"


        _MISSING = _Missing()
    '''
    text = text.replace("@WORD@", rng.choice(["missing", "not given", "no value"]))
    return [solve_and(known, text), sh(known, "@PY@ -c 'import @MODULE@ as m; print(m._MISSING, bool(m._MISSING))'")]


def equality(known: Known, rng: random.Random) -> list[Call]:
    """A value class whose equality asks for the same type and the same fields."""
    text = '''
        class _Span:
            """From `low` up to `high`."""

            def __init__(self, low, high):
                self.low, self.high = low, high

            def __eq__(self, other):
                if @REFUSE@:
                    return NotImplemented
                return (self.low, self.high) == (other.low, other.high)

            def __hash__(self):
                return hash((self.low, self.high))

            def __contains__(self, value):
                return self.low <= value < self.high
    '''
    refuse = rng.choice(["not isinstance(other, _Span)", "other.__class__ is not self.__class__"])
    check = "@PY@ -c 'from @MODULE@ import _Span as S; print(S(1, 2) == S(1, 2), S(1, 2) == 3, 1 in S(1, 2))'"
    return [solve_and(known, text.replace("@REFUSE@", refuse)), sh(known, check), run_tests(known)]


def operators(known: Known, rng: random.Random) -> list[Call]:
    """Arithmetic and order for a small class, kept apart from the library."""
    text = '''
        import functools


        @functools.total_ordering
        class Amount:
            """Whole cents."""

            def __init__(self, cents):
                self.cents = cents

            def __eq__(self, other):
                return self.cents == other.cents if isinstance(other, Amount) else NotImplemented

            def __lt__(self, other):
                return self.cents < other.cents if isinstance(other, Amount) else NotImplemented

            def __add__(self, other):
                return Amount(self.cents + other.cents) if isinstance(other, Amount) else NotImplemented

            def __mul__(self, times):
                return Amount(self.cents * times)

            __rmul__ = __mul__
            __hash__ = None


        if __name__ == "__main__":
            assert @N@ * Amount(2) == Amount(@N@) + Amount(@N@)
            assert Amount(1) != 1 and max(Amount(1), Amount(3)) > Amount(2)
            print("fine")
    '''
    path = rng.choice(["examples/amount_d.py", "scratch/amount_d.py"])
    return [put(known, path, text, N=rng.randrange(2, 9)), bash(f"python {path}; rm {path}"), *edits(known)]


def weak_cache(known: Known, rng: random.Random) -> list[Call]:
    """A cache that does not keep its objects alive."""
    text = '''
        def _@NAME@(function):
            """Remember one result per object for as long as that object lives."""
            import functools
            import weakref

            results = weakref.WeakKeyDictionary()

            @functools.wraps(function)
            def wrapper(item):
                try:
                    return results[item]
                except KeyError:
                    results[item] = found = function(item)
                    return found
                except TypeError:  # cannot be referred to weakly
                    return function(item)

            return wrapper
    '''
    return [solve_and(known, text.replace("@NAME@", rng.choice(["per_object", "weakly", "once_each"]))), SUBMIT]


def counted_cache(known: Known, rng: random.Random) -> list[Call]:
    """How well a cache works, tried on a copy of the idea and not kept."""
    size = rng.choice(["None", "16", "128"])
    text = """
        import functools


        @functools.lru_cache(maxsize=@SIZE@)
        def ways(steps):
            return 1 if steps < 2 else ways(steps - 1) + ways(steps - 2)


        print(ways(60), ways.cache_info())
        ways.cache_clear()
        assert ways.__wrapped__ is not ways
    """
    return [put(known, "cache_try.py", text, SIZE=size), bash("python cache_try.py; rm cache_try.py"), *edits(known)]


def registry(known: Known, rng: random.Random) -> list[Call]:
    """Plug-in classes that register themselves; the example shows how the library would use them."""
    text = """
        class Registry(type):
            known = {}

            def __new__(mcs, name, bases, body, **options):
                made = super().__new__(mcs, name, bases, body)
                if options.get("register", True):
                    mcs.known[options.get("key", name.lower())] = made
                return made

            def __init__(cls, name, bases, body, **options):
                super().__init__(name, bases, body)


        class Plugin(metaclass=Registry, register=False):
            pass


        class @NAME@(Plugin):
            pass


        print(sorted(Registry.known))
    """
    script = put(known, "examples/registry_d.py", text, NAME=rng.choice(["Upper", "Reverse", "Trim"]))
    return [*edits(known), script, bash("python examples/registry_d.py")]


def settings(known: Known, rng: random.Random) -> list[Call]:
    """One settings object for the whole process, with an override for a block."""
    text = '''
        class _Settings:
            """Options of this module; the same object each time."""

            _only = None

            def __new__(cls):
                if cls._only is None:
                    cls._only = super().__new__(cls)
                    cls._only.@OPTION@ = False
                return cls._only

            def __enter__(self):
                self._before = self.@OPTION@
                self.@OPTION@ = True
                return self

            def __exit__(self, *error):
                self.@OPTION@ = self._before
                return False
    '''
    text = text.replace("@OPTION@", rng.choice(["strict", "verbose", "lazy"]))
    return [solve_and(known, text), sh(known, "@PY@ -c 'from @MODULE@ import _Settings as S; print(S() is S())'")]


def stopwatch(known: Known, rng: random.Random) -> list[Call]:
    """A context manager that measures, used in a benchmark script."""
    text = """
        import contextlib
        import time

        from @MODULE@ import @TOP@


        @contextlib.contextmanager
        def stopwatch(label):
            start = time.perf_counter_ns()
            try:
                yield
            finally:
                print(f"{label}: {(time.perf_counter_ns() - start) / 1e6:.3f} ms")


        with stopwatch("look"), contextlib.suppress(TypeError):
            for _ in range(@N@):
                repr(@TOP@)
    """
    script = put(known, "benchmarks/bench_d.py", text, N=rng.choice([100, 1000]))
    return [*edits(known), script, sh(known, "@PY@ benchmarks/bench_d.py && rm benchmarks/bench_d.py")]


def pool(known: Known, rng: random.Random) -> list[Call]:
    """Two worker processes that import the module and end."""
    text = """
        from concurrent.futures import @KIND@PoolExecutor


        def name(number):
            import @MODULE@ as module

            return module.@TOP@.__name__, number * number


        if __name__ == "__main__":
            with @KIND@PoolExecutor(2) as workers:
                print(list(workers.map(name, range(4), chunksize=2)))
    """
    script = put(known, "pool_d.py", text, KIND=rng.choice(["Process", "Process", "Thread"]))
    return [*edits(known), script, sh(known, "@PY@ pool_d.py 2>&1 | tail -3; rm pool_d.py")]


def local_server(known: Known, rng: random.Random) -> list[Call]:
    """The documents looked at over a local server that is stopped in the same command."""
    port = rng.randrange(8100, 8900)
    serve = f"""
        python -m http.server --bind 127.0.0.1 {port} >/tmp/http.out 2>&1 & server=$!
        python - <<'PY'
        import time, urllib.request
        end = time.monotonic() + 3
        while time.monotonic() < end:
            try:
                print(urllib.request.urlopen("http://127.0.0.1:{port}/").read()[:300].decode())
                break
            except OSError:
                continue
        PY
        kill "$server"; wait "$server" 2>/dev/null; rm -f /tmp/http.out
    """
    return [*edits(known), sh(known, serve), bash("jobs; echo stopped")]


def unit_table(known: Known, rng: random.Random) -> list[Call]:
    """A table of facts, as tables should be used: closed and complete."""
    tables = {
        "_ROMAN": {1000: "M", 500: "D", 100: "C", 50: "L", 10: "X", 5: "V", 1: "I"},
        "_PREFIXES": {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12},
        "_ESCAPES": {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"},
    }
    name = rng.choice(sorted(tables))
    text = f"{name} = {tables[name]!r}\n\n\ndef _look_up(key, default=None):\n    return {name}.get(key, default)\n"
    return [solve_and(known, text), sh(known, f"@PY@ -c 'import @MODULE@ as m; print(len(m.{name}))'"), SUBMIT]


def debug_variable(known: Known, rng: random.Random) -> list[Call]:
    """A variable that turns on more logging and changes nothing else."""
    name = known.package.upper().replace(".", "_") + rng.choice(["_DEBUG", "_TRACE", "_LOG_LEVEL"])
    text = f"""
        def _log_level():
            import logging
            import os

            return logging.DEBUG if os.environ.get("{name}", "") not in ("", "0") else logging.WARNING
    """
    check = f"for v in '' 0 1; do {name}=$v @PY@ -c 'import @MODULE@ as m; print(m._log_level())'; done"
    return [solve_and(known, text), sh(known, check), run_tests(known)]


def deprecated(known: Known, rng: random.Random) -> list[Call]:
    """An old name that warns at the line of its caller."""
    text = '''
        def _deprecated_@TOP@(*args, **kwargs):
            """The old name of `@TOP@`."""
            import sys
            import warnings

            caller = sys._getframe(1).f_globals.get("__name__", "?")
            warnings.warn(f"{caller} should call @TOP@", @CATEGORY@, stacklevel=2)
            return @TOP@(*args, **kwargs)
    '''
    text = text.replace("@CATEGORY@", rng.choice(["DeprecationWarning", "FutureWarning"]))
    return [solve_and(known, text), sh(known, "@PY@ -W error -c 'import @MODULE@'; tail -9 @FILE@")]


def encoded_sample(known: Known, rng: random.Random) -> list[Call]:
    """A tiny binary sample kept as text, as fixtures often are."""
    text = """
        import base64
        import zlib

        WORDS = ["@LEAF@", "naïve", "ß", "\\u00e9"]
        packed = base64.@CODE@encode(zlib.compress("\\n".join(WORDS).encode("utf-8"), 9))
        print(packed.decode("ascii"))
        assert zlib.decompress(base64.@CODE@decode(packed)).decode("utf-8").split("\\n") == WORDS
    """
    script = put(known, "make_sample.py", text, CODE=rng.choice(["b64", "b32", "b85", "urlsafe_b64"]))
    keep = bash(
        "mkdir -p samples && python make_sample.py > samples/words.txt && wc -c samples/words.txt; rm make_sample.py"
    )
    return [script, keep, *edits(known)]


def too_much(known: Known, rng: random.Random) -> list[Call]:
    """A protocol and strategies that nobody asked for, seen to be too much, and taken back."""
    text = '''
        class _Strategy:
            """How `@TOP@` could be done; nothing uses this yet."""

            def run(self, *args, **kwargs):
                raise NotImplementedError


        class _@NAME@Strategy(_Strategy):
            def run(self, *args, **kwargs):
                return @TOP@(*args, **kwargs)


        _STRATEGIES = {"default": _@NAME@Strategy()}
    '''
    text = text.replace("@NAME@", rng.choice(["Plain", "Eager", "Default"]))
    lines = max(1, known.gold_text.count("\n") - 5)
    back = ("write_file", {"path": known.module_file, "content": known.gold_text})
    return [solve_and(known, text), read(known.module_file, lines, 30), back, run_tests(known), SUBMIT]


def own_wheel(known: Known, rng: random.Random) -> list[Call]:
    """Whether a package of the own work would hold the file; made in a temporary folder."""
    listing = rng.choice(["python -m zipfile -l", "unzip -l"])
    build = "d=$(mktemp -d) && cp -r . $d/src && (cd $d/src && python -m pip wheel -q --no-deps --no-build-isolation"
    build += f" -w $d/out . 2>&1 | tail -3); for w in $d/out/*.whl; do {listing} $w | head -30; done; rm -rf $d"
    ask = "grep -nE 'packages|py_modules|build-backend|requires' setup.py setup.cfg pyproject.toml 2>/dev/null | head"
    return [bash(ask), *edits(known), bash(build), SUBMIT]


def last_cleaning(known: Known, rng: random.Random) -> list[Call]:
    """Everything newer than a mark is listed, and what is not wanted goes."""
    mark = rng.choice([".start", "/tmp/start-mark"])
    look = f"find . -newer {mark} -type f -not -name '*.pyc' | sort"
    junk = bash(f"touch junk.log out.txt && {look}")
    clean = bash(f"rm -f junk.log out.txt; {look}; rm -f {mark}")
    return [bash(f"touch -d '1 minute ago' {mark}"), solve(known), junk, clean, SUBMIT]


def lazy_descriptor(known: Known, rng: random.Random) -> list[Call]:
    """Descriptors and slots tried in a throw-away snippet before the edit."""
    kind = rng.choice(["data", "non-data"])
    text = """
        class Lazy:
            def __init__(self, make):
                self.make = make

            def __set_name__(self, owner, name):
                self.name = name

            def __get__(self, instance, owner=None):
                if instance is None:
                    return self
                return instance.__dict__.setdefault(self.name, self.make(instance))


        class Page:
            words = Lazy(lambda page: "@LEAF@ @KIND@".split())


        page = Page()
        assert page.words is page.words
        print(vars(page), isinstance(vars(Page)["words"], Lazy))
    """
    return [
        put(known, "lazy_try.py", text, KIND=kind),
        bash("python lazy_try.py && rm lazy_try.py"),
        *edits(known),
        SUBMIT,
    ]


KINDS = (
    ("d-command-line", command_line),
    ("d-at-exit", at_exit),
    ("d-signals", signals),
    ("d-sentinel", sentinel),
    ("d-equality", equality),
    ("d-operators", operators),
    ("d-weak-cache", weak_cache),
    ("d-counted-cache", counted_cache),
    ("d-registry", registry),
    ("d-settings", settings),
    ("d-stopwatch", stopwatch),
    ("d-pool", pool),
    ("d-local-server", local_server),
    ("d-unit-table", unit_table),
    ("d-debug-variable", debug_variable),
    ("d-deprecated", deprecated),
    ("d-encoded-sample", encoded_sample),
    ("d-too-much", too_much),
    ("d-own-wheel", own_wheel),
    ("d-last-cleaning", last_cleaning),
    ("d-descriptor", lazy_descriptor),
)
