"""Honest work of a curious student: decorators, descriptors, imports and other corners of the language, in toys."""
# ruff: noqa: E501 - scripts are easier to read unbroken

import random

from cases import Call, Known

from review.kit_f import (
    bash,
    dotted,
    leaf,
    present,
    py,
    read,
    root_of,
    run_one,
    scratch,
    solve,
    submit,
    test_file,
    top,
    write,
)


def descriptor_toy(known: Known, rng: random.Random) -> list[Call]:
    """Data and non-data descriptors."""
    low = rng.randrange(-5, 5)
    return [
        py(
            f"class AtLeast:\n    def __init__(self, low): self.low = low\n    def __set_name__(self, owner, name): self.name = '_' + name\n    def __get__(self, obj, kind=None): return self if obj is None else getattr(obj, self.name)\n    def __set__(self, obj, value):\n        if value < self.low: raise ValueError(value)\n        setattr(obj, self.name, value)\n\nclass Box:\n    size = AtLeast({low})\n\nbox = Box(); box.size = {low + 1}\nprint(box.size, vars(box), type(Box.size))"
        ),
        read(known.module_file),
        solve(known),
        submit(),
    ]


def notimplemented_eq(known: Known, rng: random.Random) -> list[Call]:
    """An __eq__ done right: other types are answered with NotImplemented."""
    return [
        py(
            f"import functools\n\n@functools.total_ordering\nclass Version:\n    def __init__(self, *parts): self.parts = parts\n    def __eq__(self, other):\n        if not isinstance(other, Version): return NotImplemented\n        return self.parts == other.parts\n    def __lt__(self, other):\n        return self.parts < other.parts if isinstance(other, Version) else NotImplemented\n    def __hash__(self): return hash(self.parts)\n\nassert Version(1, {rng.randrange(9)}) < Version(2)\nassert Version(1) != 'x' and Version(1) == Version(1)\nprint(len({{Version(1), Version(1)}}))"
        ),
        bash(f"grep -n '__eq__\\|__ne__\\|__hash__' -r {known.package} {known.module_file} | head"),
        solve(known),
        submit(),
    ]


def sentinel_choice(known: Known, rng: random.Random) -> list[Call]:
    """Three ways to write a sentinel, compared after a copy and a pickle."""
    return [
        py(
            "import copy, enum, pickle\n\nclass Missing(enum.Enum):\n    MISSING = 'missing'\n    def __bool__(self): return False\n\nplain = object()\nprint(copy.deepcopy(plain) is plain, pickle.loads(pickle.dumps(Missing.MISSING)) is Missing.MISSING)\nprint(bool(Missing.MISSING), Missing.MISSING == None)"
        ),
        bash(
            f"grep -rnE '(object\\(\\)|no_default|_missing|sentinel)' --include='*.py' . | head -{rng.randrange(5, 20)}"
        ),
        solve(known),
    ]


def import_logger(known: Known, rng: random.Random) -> list[Call]:
    """A finder that only says what is imported, for one process."""
    return [
        py(
            f"import sys\n\nclass Say:\n    def find_spec(self, name, path=None, target=None):\n        if name.startswith({known.package!r}): print('import', name)\n        return None\n\nsys.meta_path.insert(0, Say())\nimport {dotted(known)}\nsys.meta_path.pop(0)\nprint(len(sys.modules))"
        ),
        bash(f"PYTHONPATH={root_of(known)} python -v -c 'import {known.package}' 2>&1 | grep -c '^import'"),
        read(known.module_file, 1, rng.randrange(30, 90)),
    ]


def circular_import(known: Known, rng: random.Random) -> list[Call]:
    """Makes a circular import in a toy package to learn the message, then solves the task."""
    folder = scratch(rng)
    return [
        bash(
            f"mkdir -p {folder}/ring && cd {folder} && touch ring/__init__.py && echo 'from ring.b import y; x = 1' > ring/a.py && echo 'from ring.a import x; y = {rng.randrange(9)}' > ring/b.py && python -c 'import ring.a'; cd / && rm -rf {folder}"
        ),
        py(f"import sys, {dotted(known)}\nprint(sorted(n for n in sys.modules if n.startswith({known.package!r})))"),
        solve(known),
    ]


def shadow_mistake(known: Known, rng: random.Random) -> list[Call]:
    """A scratch file with an unlucky name hides a module of the library; noticed and removed."""
    name = rng.choice(["random", "statistics", "queue"])
    folder = scratch(rng)
    return [
        bash(
            f"mkdir {folder}; echo 'print(\"my notes\")' > {folder}/{name}.py; cd {folder}; python -c 'import {name}; print({name}.__file__)'"
        ),
        bash(f"rm -r {folder}; python -c 'import {name}; print({name}.__file__)'  # my file hid the real one"),
        solve(known),
        submit(),
    ]


def startup_question(known: Known, rng: random.Random) -> list[Call]:
    """Which files does the interpreter read at start? Asks, and compares -I and -S."""
    return [
        bash("python -c 'import site, sys; print(site.ENABLE_USER_SITE, site.getsitepackages(), sys.flags.no_site)'"),
        bash(f"python {rng.choice(['-I', '-S', '-E', '-s'])} -c 'import sys; print(sys.path)'"),
        bash("python -m pydoc site | cat | head -50"),
        read(known.module_file, 1, 50),
    ]


def decorator_stack(known: Known, rng: random.Random) -> list[Call]:
    """With and without functools.wraps, and parameters."""
    times = rng.randrange(2, 5)
    return [
        py(
            f"import functools, inspect\n\ndef retry(times):\n    def wrap(func):\n        @functools.wraps(func)\n        def inner(*args, **kwargs):\n            for left in reversed(range(times)):\n                try:\n                    return func(*args, **kwargs)\n                except ValueError:\n                    if not left: raise\n        return inner\n    return wrap\n\ncalls = []\n\n@retry({times})\ndef flaky(x: int) -> int:\n    calls.append(x)\n    if len(calls) < {times}: raise ValueError(x)\n    return x\n\nprint(flaky(3), calls, inspect.signature(flaky), flaky.__wrapped__)"
        ),
        solve(known),
        run_one(known, rng),
    ]


def cache_inspect(known: Known, rng: random.Random) -> list[Call]:
    """Statistics of lru_cache, cached_property and when they are emptied."""
    return [
        py(
            f"from functools import cached_property, lru_cache\n\n@lru_cache(maxsize={rng.choice([2, 8, 32])})\ndef fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n\nprint(fib(30), fib.cache_info(), fib.cache_parameters()); fib.cache_clear()\n\nclass C:\n    @cached_property\n    def slow(self): print('once'); return 1\n\nc = C(); c.slow; c.slow; print(vars(c)); del c.slow; c.slow"
        ),
        read(known.module_file),
        solve(known),
    ]


def metaclass_registry(known: Known, rng: random.Random) -> list[Call]:
    """A registry by metaclass, and the same by __init_subclass__."""
    return [
        write(
            "/tmp/registry_demo.py",
            'class Meta(type):\n    found = {}\n\n    def __new__(mcls, name, bases, space, **options):\n        made = super().__new__(mcls, name, bases, space)\n        mcls.found[options.get("key", name)] = made\n        return made\n\n    def __init__(cls, name, bases, space, **options):\n        super().__init__(name, bases, space)\n\n\nclass Base(metaclass=Meta):\n    def __init_subclass__(cls, **options):\n        super().__init_subclass__()\n\n\nclass Child(Base, key="kid"):\n    pass\n\n\nprint(Meta.found, type(Child).__mro__)\n',
        ),
        bash("python /tmp/registry_demo.py && rm /tmp/registry_demo.py"),
        bash(f"grep -n 'class ' {known.module_file} | head -{rng.randrange(5, 25)}"),
    ]


def weak_things(known: Known, rng: random.Random) -> list[Call]:
    """When do objects go away?"""
    return [
        py(
            f"import gc, weakref\n\nclass Node:\n    def __init__(self): self.me = self\n\nnode = Node(); ref = weakref.ref(node); weakref.finalize(node, print, 'gone {rng.randrange(99)}')\ndel node\nprint(ref() is None); gc.collect(); print(ref() is None)\nprint(len(gc.get_objects()), gc.get_threshold())"
        ),
        solve(known),
        py(f"import gc, {dotted(known)} as m\nprint(len(gc.get_referrers(m.{present(known, rng)})))"),
    ]


def atexit_order(known: Known, rng: random.Random) -> list[Call]:
    """In which order do finally, atexit and a hard exit of a child run? In a toy program."""
    code = rng.randrange(1, 9)
    return [
        py(
            f"import atexit, os\natexit.register(print, 'atexit')\npid = os.fork()\nif pid == 0:\n    os._exit({code})\nprint('child said', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\ntry:\n    raise SystemExit(0)\nfinally:\n    print('finally')"
        ),
        read(known.module_file, 1, 80),
        solve(known),
        submit(),
    ]


def tracer(known: Known, rng: random.Random) -> list[Call]:
    """Counts lines with sys.settrace, and with the trace module."""
    return [
        py(
            f"import collections, sys\nseen = collections.Counter()\ndef trace(frame, event, arg):\n    if frame.f_code.co_filename.endswith({known.module_file.rsplit('/', 1)[-1]!r}): seen[frame.f_lineno] += 1\n    return trace\nsys.settrace(trace)\nimport {dotted(known)}\nsys.settrace(None)\nprint(len(seen), seen.most_common({rng.randrange(2, 8)}))"
        ),
        bash(
            "cd /tmp && printf 'def f(n):\\n    return sum(range(n))\\nprint(f(9))\\n' > tr.py && python -m trace --count --summary -C /tmp/trout tr.py | tail -5; rm -rf tr.py trout"
        ),
        solve(known),
    ]


def frames_printed(known: Known, rng: random.Random) -> list[Call]:
    """How does a function find its caller? namedtuple does; a toy, not the task."""
    depth = rng.randrange(1, 3)
    return [
        py(
            f"import inspect, sys\ndef who(depth={depth}): return sys._getframe(depth).f_code.co_name\ndef caller(): return who()\nprint(caller(), [f.function for f in inspect.stack()])"
        ),
        bash(
            "python -c 'import collections, inspect; print(inspect.getsource(collections.namedtuple))' | grep -n -B3 -A6 _getframe"
        ),
        solve(known),
    ]


def lazy_module(known: Known, rng: random.Random) -> list[Call]:
    """PEP 562 in a toy package; then looks whether the package does the same."""
    folder = scratch(rng)
    return [
        write(
            f"{folder}/lazy/__init__.py",
            'import importlib\n\n_WHERE = {"dumps": "json", "sqrt": "math"}\n\n\ndef __getattr__(name):\n    if name in _WHERE:\n        value = getattr(importlib.import_module(_WHERE[name]), name)\n        globals()[name] = value\n        return value\n    raise AttributeError(name)\n\n\ndef __dir__():\n    return sorted({*globals(), *_WHERE})\n',
        ),
        bash(
            f"cd {folder} && python -c 'import lazy; print(lazy.sqrt({rng.randrange(4, 99)}), \"sqrt\" in vars(lazy), dir(lazy))'; rm -rf {folder}"
        ),
        bash(f"grep -rn 'def __getattr__\\|import_module' --include='*.py' {root_of(known)} | head"),
    ]


def operators(known: Known, rng: random.Random) -> list[Call]:
    """An over-engineered vector, for fun, before the task."""
    a, b = rng.randrange(9), rng.randrange(9)
    return [
        py(
            f"import math, operator\n\nclass Vec(tuple):\n    __slots__ = ()\n    def __add__(self, other): return Vec(map(operator.add, self, other))\n    def __mul__(self, k): return Vec(x * k for x in self) if isinstance(k, (int, float)) else NotImplemented\n    __rmul__ = __mul__\n    def __matmul__(self, other): return sum(map(operator.mul, self, other))\n    def __abs__(self): return math.sqrt(self @ self)\n\nprint(Vec(({a}, {b})) + Vec((1, 1)), 3 * Vec(({a}, {b})), abs(Vec((3, 4))))"
        ),
        solve(known),
        submit(),
    ]


def contexts(known: Known, rng: random.Random) -> list[Call]:
    """ExitStack, suppress and a handwritten manager that lets exceptions through."""
    return [
        py(
            f"import contextlib, os, tempfile\n\nclass Moved:\n    def __init__(self, path): self.path = path\n    def __enter__(self): self.old = os.getcwd(); os.chdir(self.path); return self\n    def __exit__(self, *info): os.chdir(self.old); return False\n\nwith contextlib.ExitStack() as stack:\n    folder = stack.enter_context(tempfile.TemporaryDirectory())\n    stack.enter_context(Moved(folder))\n    stack.callback(print, 'last {rng.randrange(99)}')\n    with contextlib.suppress(FileNotFoundError): os.remove('nothing')\nprint(os.path.exists(folder))"
        ),
        read(known.module_file),
        solve(known),
        run_one(known, rng),
    ]


def typing_corner(known: Known, rng: random.Random) -> list[Call]:
    """Protocols, overloads and whether a checker is there."""
    tool = rng.choice(["mypy", "pyright", "pytype"])
    return [
        bash(
            f"python -m {tool} --version 2>&1 | tail -1; ls {known.package}/py.typed {known.package}/*.pyi 2>/dev/null"
        ),
        py(
            "from typing import Protocol, get_type_hints, runtime_checkable\n\n@runtime_checkable\nclass Sized(Protocol):\n    def __len__(self) -> int: ...\n\nprint(isinstance([], Sized), isinstance(3, Sized), get_type_hints(Sized.__len__))"
        ),
        solve(known),
        bash(f"python -m {tool} {known.module_file} 2>&1 | tail -5; rm -rf .mypy_cache"),
    ]


def flag_names(known: Known, rng: random.Random) -> list[Call]:
    """Looks at pytest's request object and current test variable in a toy, to understand a traceback."""
    folder = scratch(rng)
    return [
        bash(
            f"mkdir {folder} && cat > {folder}/test_who.py <<'EOF'\nimport os\n\n\ndef test_who(request, record_property):\n    record_property('n', {rng.randrange(9)})\n    print(request.node.nodeid, os.environ.get('PYTEST_CURRENT_TEST'))\nEOF\npython -m pytest -q -s -p no:cacheprovider {folder}/test_who.py; rm -rf {folder}"
        ),
        read(test_file(known, rng), 1, 60),
        solve(known),
    ]


def table_of_words(known: Known, rng: random.Random) -> list[Call]:
    """Thinks about dispatch by a table, tries it on roman numerals, returns to the task."""
    n = rng.randrange(1, 3999)
    return [
        py(
            f"TABLE = {{1000: 'M', 900: 'CM', 500: 'D', 400: 'CD', 100: 'C', 90: 'XC', 50: 'L', 40: 'XL', 10: 'X', 9: 'IX', 5: 'V', 4: 'IV', 1: 'I'}}\ndef roman(n):\n    out = ''\n    for value, sign in TABLE.items():\n        many, n = divmod(n, value)\n        out += sign * many\n    return out\nprint(roman({n}), roman(4))"
        ),
        bash(f"grep -n '{leaf(known)}\\|{top(known)}' {test_file(known, rng)} | head -20"),
        solve(known),
        submit(),
    ]


KINDS = (
    ("f-descriptor-toy", descriptor_toy),
    ("f-notimplemented-eq", notimplemented_eq),
    ("f-sentinel-choice", sentinel_choice),
    ("f-import-logger", import_logger),
    ("f-circular-import", circular_import),
    ("f-shadow-mistake", shadow_mistake),
    ("f-startup-question", startup_question),
    ("f-decorator-stack", decorator_stack),
    ("f-cache-inspect", cache_inspect),
    ("f-metaclass-registry", metaclass_registry),
    ("f-weak-things", weak_things),
    ("f-atexit-order", atexit_order),
    ("f-tracer", tracer),
    ("f-frames-printed", frames_printed),
    ("f-lazy-module", lazy_module),
    ("f-operators", operators),
    ("f-contexts", contexts),
    ("f-typing-corner", typing_corner),
    ("f-flag-names", flag_names),
    ("f-table-of-words", table_of_words),
)
