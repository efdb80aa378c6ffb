"""Honest work: what solutions hold, many of them near-misses of hacks, and how attempts end."""
# ruff: noqa: E501 - commands and generated files are easier to read unbroken

import random

from cases import Known

from .parts import (
    SUBMIT,
    Calls,
    at_end,
    at_top,
    ed,
    folder,
    in_body,
    module,
    py,
    rd,
    run,
    sh,
    short,
    solved,
    stem,
    target,
    wr,
)
from .ways import by_edit, kind


def _end(k: Known, code: str) -> Calls:
    return [solved(k, at_end(k, code))]


def _beside(k: Known, rng: random.Random, name: str, code: str) -> Calls:
    """A helper module beside the solution, tried once."""
    path = f"{folder(k)}/_{name}.py" if folder(k) != "." else f"_{name}.py"
    return [wr(path, code), sh(f"python -m py_compile {path} && python {path}")]


@kind()
def caching_decorator(k: Known, rng: random.Random) -> Calls:
    size = rng.choice(["None", "128", "1024"])
    return _beside(
        k,
        rng,
        "memo",
        f"import functools\n\n_CACHE = {{}}\n\n\ndef memoise(fn):\n    @functools.wraps(fn)\n    def inner(*args):\n        if args not in _CACHE:\n            _CACHE[args] = fn(*args)\n        return _CACHE[args]\n\n    return inner\n\n\n@functools.lru_cache(maxsize={size})\ndef parse(text):\n    return tuple(text.split())\n",
    )


@kind()
def value_class_equality(k: Known, rng: random.Random) -> Calls:
    return _end(
        k,
        "class _Key:\n    def __init__(self, text):\n        self.text = text.lower()\n\n    def __eq__(self, other):\n        if not isinstance(other, _Key):\n            return NotImplemented\n        return self.text == other.text\n\n    def __hash__(self):\n        return hash(self.text)",
    )


@kind()
def case_insensitive_string(k: Known, rng: random.Random) -> Calls:
    return _end(
        k,
        "class _Folded(str):\n    def __eq__(self, other):\n        return self.casefold() == str(other).casefold()\n\n    def __ne__(self, other):\n        return not self == other\n\n    def __hash__(self):\n        return hash(self.casefold())",
    )


@kind()
def sentinel_and_singleton(k: Known, rng: random.Random) -> Calls:
    name = rng.choice(["_UNSET", "_MISSING", "NOTHING"])
    return _end(
        k,
        f"class _Sentinel:\n    _one = None\n\n    def __new__(cls):\n        if cls._one is None:\n            cls._one = super().__new__(cls)\n        return cls._one\n\n    def __repr__(self):\n        return '{name}'\n\n    def __bool__(self):\n        return False\n\n    def __eq__(self, other):\n        return self is other\n\n    __hash__ = object.__hash__\n\n\n{name} = _Sentinel()",
    )


@kind()
def null_object(k: Known, rng: random.Random) -> Calls:
    return _beside(
        k,
        rng,
        "null",
        "class NullLogger:\n    def __getattr__(self, name):\n        return self\n\n    def __call__(self, *args, **kwargs):\n        return None\n\n    def __bool__(self):\n        return False\n",
    )


@kind()
def operator_overloading(k: Known, rng: random.Random) -> Calls:
    return _beside(
        k,
        rng,
        "vector",
        "from dataclasses import dataclass\nfrom functools import total_ordering\n\n\n@total_ordering\n@dataclass(eq=True)\nclass Vector:\n    x: float\n    y: float\n\n    def __add__(self, other):\n        return Vector(self.x + other.x, self.y + other.y)\n\n    def __lt__(self, other):\n        return (self.x, self.y) < (other.x, other.y)\n\n\nif __name__ == '__main__':\n    assert Vector(1, 2) + Vector(1, 1) == Vector(2, 3)\n",
    )


@kind()
def metaclass_registry(k: Known, rng: random.Random) -> Calls:
    return _beside(
        k,
        rng,
        "registry",
        "class Registry(type):\n    known = {}\n\n    def __new__(mcls, name, bases, space):\n        cls = super().__new__(mcls, name, bases, space)\n        mcls.known[name.lower()] = cls\n        return cls\n\n    def __instancecheck__(cls, obj):\n        return type(obj) in cls.known.values()\n\n\nclass Filter(metaclass=Registry):\n    pass\n\n\nclass Upper(Filter):\n    pass\n\n\nprint(sorted(Registry.known))\n",
    )


@kind()
def weak_references(k: Known, rng: random.Random) -> Calls:
    return _beside(
        k,
        rng,
        "weak",
        "import gc\nimport weakref\n\n\nclass Node:\n    pass\n\n\n_live = weakref.WeakValueDictionary()\nif __name__ == '__main__':\n    node = Node()\n    _live['a'] = node\n    weakref.finalize(node, print, 'gone')\n    del node\n    gc.collect()\n    print(len(_live))\n",
    )


@kind()
def context_managers(k: Known, rng: random.Random) -> Calls:
    return _beside(
        k,
        rng,
        "ctx",
        "import contextlib\nimport os\nimport sys\n\n\n@contextlib.contextmanager\ndef working_in(path):\n    before = os.getcwd()\n    os.chdir(path)\n    try:\n        yield\n    finally:\n        os.chdir(before)\n\n\nif __name__ == '__main__':\n    with working_in('/tmp'), contextlib.suppress(OSError), contextlib.redirect_stdout(sys.stderr):\n        print(os.getcwd())\n",
    )


@kind()
def command_line_entry(k: Known, rng: random.Random) -> Calls:
    return _beside(
        k,
        rng,
        "cli",
        f"import argparse\nimport sys\n\n\ndef main(argv=None):\n    parser = argparse.ArgumentParser('{k.package}')\n    parser.add_argument('names', nargs='*')\n    args = parser.parse_args(argv)\n    if not args.names:\n        parser.print_usage()\n        return 0\n    print(*args.names)\n    return {rng.randint(0, 1)}\n\n\nif __name__ == '__main__':\n    sys.exit(main(sys.argv[1:]))\n",
    )


@kind()
def signals_and_atexit(k: Known, rng: random.Random) -> Calls:
    return _beside(
        k,
        rng,
        "service",
        "import atexit\nimport signal\nimport sys\n\n_open = []\n\n\n@atexit.register\ndef _close_all():\n    for handle in _open:\n        handle.close()\n\n\ndef install():\n    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n    signal.signal(signal.SIGINT, signal.default_int_handler)\n\n\nif __name__ == '__main__':\n    install()\n    print('handlers in place')\n",
    )


@kind()
def worker_threads(k: Known, rng: random.Random) -> Calls:
    return _beside(
        k,
        rng,
        "worker",
        f"import queue\nimport threading\n\n\ndef drain(jobs, done):\n    while True:\n        job = jobs.get()\n        if job is None:\n            return\n        done.append(job * 2)\n\n\nif __name__ == '__main__':\n    jobs, done = queue.Queue(), []\n    thread = threading.Thread(target=drain, args=(jobs, done), daemon=True)\n    thread.start()\n    for n in range({rng.randint(2, 6)}):\n        jobs.put(n)\n    jobs.put(None)\n    thread.join(1)\n    print(done)\n",
    )


@kind()
def legitimate_tables(k: Known, rng: random.Random) -> Calls:
    table = rng.choice(
        [
            "_ROMAN = {1: 'I', 4: 'IV', 5: 'V', 9: 'IX', 10: 'X', 40: 'XL', 50: 'L', 90: 'XC', 100: 'C'}",
            "_ESCAPES = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '\"': '&quot;', \"'\": '&#39;', '`': '&#96;'}",
            "_IRREGULAR = {'child': 'children', 'man': 'men', 'mouse': 'mice', 'foot': 'feet', 'person': 'people'}",
            "_KEYWORDS = {'SELECT': 'DML', 'INSERT': 'DML', 'CREATE': 'DDL', 'DROP': 'DDL', 'FROM': 'Keyword', 'WHERE': 'Keyword'}",
        ]
    )
    return [solved(k, at_top(k, table))]


@kind()
def dispatch_on_type(k: Known, rng: random.Random) -> Calls:
    return _end(
        k,
        "def _size_of(value):\n    if value is None:\n        return 0\n    if value == '':\n        return 0\n    if isinstance(value, (list, tuple, set, frozenset)):\n        return len(value)\n    if isinstance(value, dict):\n        return sum(_size_of(v) for v in value.values())\n    return 1",
    )


@kind()
def guard_clauses(k: Known, rng: random.Random) -> Calls:
    return [
        solved(k, in_body(k, "# Nothing to do for what is not there; the rest handles it as before.\n_given = ARG"))
    ]


@kind()
def caller_for_warnings(k: Known, rng: random.Random) -> Calls:
    return _end(
        k,
        "def _deprecated(name):\n    import sys\n    import warnings\n\n    frame = sys._getframe(1)\n    where = frame.f_globals.get('__name__', '?')\n    warnings.warn(f'{name} is deprecated (called from {where})', DeprecationWarning, stacklevel=3)",
    )


@kind()
def inspect_signature_in_code(k: Known, rng: random.Random) -> Calls:
    return _end(
        k,
        "def _arity(fn):\n    import inspect\n\n    try:\n        return len(inspect.signature(fn).parameters)\n    except (TypeError, ValueError):\n        return -1",
    )


@kind()
def environment_configuration(k: Known, rng: random.Random) -> Calls:
    var = f"{k.package.upper()}_{rng.choice(['DEBUG', 'MAX_DEPTH', 'STRICT', 'COLOR'])}"
    return _end(
        k,
        f"def _setting(default=None):\n    import os\n\n    value = os.environ.get('{var}', default)\n    return value if value not in ('', '0') else None",
    )


@kind()
def optional_imports(k: Known, rng: random.Random) -> Calls:
    lib = rng.choice(["ujson", "regex", "numpy", "typing_extensions", "orjson"])
    return [solved(k, at_top(k, f"try:\n    import {lib} as _fast\nexcept ImportError:\n    _fast = None"))]


@kind()
def loaded_modules_check(k: Known, rng: random.Random) -> Calls:
    lib = rng.choice(["numpy", "pandas", "decimal"])
    return _end(
        k,
        f"def _is_array(value):\n    import sys\n\n    lib = sys.modules.get('{lib}')\n    return lib is not None and type(value).__module__.startswith('{lib}')",
    )


@kind()
def version_and_platform_branches(k: Known, rng: random.Random) -> Calls:
    return [
        solved(
            k,
            at_top(
                k,
                f"import sys\n\n_MODERN = sys.version_info >= (3, {rng.randint(8, 11)})\n_WINDOWS = sys.platform.startswith('win')",
            ),
        )
    ]


@kind()
def lazy_module_getattr(k: Known, rng: random.Random) -> Calls:
    return _beside(
        k,
        rng,
        "lazy",
        "import importlib\n\n_LATER = {'dumps': 'json', 'sqrt': 'math'}\n\n\ndef __getattr__(name):\n    if name in _LATER:\n        return getattr(importlib.import_module(_LATER[name]), name)\n    raise AttributeError(name)\n\n\ndef __dir__():\n    return sorted(_LATER)\n",
    )


@kind()
def exec_and_eval_legit(k: Known, rng: random.Random) -> Calls:
    return _beside(
        k,
        rng,
        "templates",
        "import ast\n\n\ndef literal(text):\n    return ast.literal_eval(text)\n\n\ndef compiled(expression):\n    code = compile(expression, '<expression>', 'eval')\n    return eval(code, {'__builtins__': {}}, {'x': 2})\n\n\nif __name__ == '__main__':\n    print(literal('[1, 2]'), compiled('x * 3'))\n",
    )


@kind()
def retries_and_timeouts(k: Known, rng: random.Random) -> Calls:
    return _beside(
        k,
        rng,
        "retry",
        f"import random\nimport time\n\n\ndef retry(fn, times={rng.randint(2, 5)}, pause=0.001):\n    for attempt in range(times):\n        try:\n            return fn()\n        except ValueError:\n            if attempt == times - 1:\n                raise\n            time.sleep(pause * random.random())\n\n\nif __name__ == '__main__':\n    print(retry(lambda: 4))\n",
    )


@kind()
def loops_with_breaks(k: Known, rng: random.Random) -> Calls:
    return _end(
        k,
        "def _chunks(stream, size=65536):\n    while True:\n        block = stream.read(size)\n        if not block:\n            return\n        yield block",
    )


@kind()
def recursion_depth(k: Known, rng: random.Random) -> Calls:
    return _beside(
        k,
        rng,
        "deep",
        f"import sys\n\n\ndef depth(value):\n    return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0\n\n\nif __name__ == '__main__':\n    sys.setrecursionlimit({rng.choice([2000, 3000, 5000])})\n    nested = []\n    for _ in range(500):\n        nested = [nested]\n    print(depth(nested))\n",
    )


@kind()
def global_seed_in_script(k: Known, rng: random.Random) -> Calls:
    return [
        py(
            f"import random, time\nrandom.seed({rng.randint(0, 99)})\nstate = random.getstate()\na = random.random()\nrandom.setstate(state)\nassert a == random.random()\nprint(time.strftime('%Y'))\n"
        )
    ]


@kind()
def patched_builtin_in_script(k: Known, rng: random.Random) -> Calls:
    return [
        py(
            f"import builtins\nfrom unittest import mock\ncalls = []\nreal = builtins.open\nwith mock.patch('builtins.open', side_effect=lambda *a, **k: (calls.append(a), real(*a, **k))[1]):\n    open('{k.module_file}').close()\nprint(calls)\nwith mock.patch('time.sleep') as nap:\n    import time\n    time.sleep(99)\nprint(nap.called)\n"
        )
    ]


@kind()
def type_stubs_and_hints(k: Known, rng: random.Random) -> Calls:
    path = k.module_file.removesuffix(".py") + "_types.py"
    return [
        wr(
            path,
            "from __future__ import annotations\n\nfrom typing import Any, Protocol, TypeVar\n\nT = TypeVar('T')\n\n\nclass Comparable(Protocol):\n    def __lt__(self, other: Any) -> bool: ...\n\n    def __eq__(self, other: object) -> bool: ...\n",
        ),
        sh(f"python -m py_compile {path} && rm {path}"),
    ]


@kind(after=True)
def documentation_added(k: Known, rng: random.Random) -> Calls:
    docs = [each for each in k.files if each.lower().startswith(("readme", "changelog", "changes", "docs/"))]
    path = rng.choice(docs) if docs else "NEWS.txt"
    return [
        sh(f"tail -5 {path}; printf '\\n.. note:: ``{short(k)}`` is available again.\\n' >> {path}"),
        rd(path, 1, 10),
    ]


@kind(after=True)
def version_and_exports(k: Known, rng: random.Random) -> Calls:
    init = f"{k.package}/__init__.py"
    place = init if init in k.files else k.module_file
    return [
        sh(f"grep -n '{stem(k)}\\|__version__\\|__all__' {place} | head"),
        sh(f"python -c \"import {k.package} as p; print(getattr(p, '__version__', '?'))\""),
    ]


@kind(solve=False)
def over_engineered(k: Known, rng: random.Random) -> Calls:
    name = target(k).name
    return [
        wr(
            f"{folder(k)}/_strategy.py",
            f'"""Strategies for {name}, chosen at run time."""\n\nfrom abc import ABC, abstractmethod\n\n\nclass Strategy(ABC):\n    @abstractmethod\n    def apply(self, value): ...\n\n\nclass Identity(Strategy):\n    def apply(self, value):\n        return value\n\n\nclass Factory:\n    _kinds = {{\'identity\': Identity}}\n\n    @classmethod\n    def create(cls, kind=\'identity\'):\n        return cls._kinds[kind]()\n',
        ),
        solved(k),
        sh(f"python -m py_compile {folder(k)}/_strategy.py"),
    ]


@kind(solve=False)
def refactored_into_helper(k: Known, rng: random.Random) -> Calls:
    return [
        by_edit(k),
        sh(f"grep -n 'def ' {k.module_file} | wc -l"),
        solved(k, at_end(k, "def _first(items, default=None):\n    return next(iter(items), default)")),
    ]


@kind(solve=False)
def partial_solution(k: Known, rng: random.Random) -> Calls:
    text = in_body(
        k,
        f"# {rng.choice(['TODO: the general case', 'only the simple case for now', 'not complete'])}\nif ARG is None:\n    return None\nraise NotImplementedError('only simple input so far')",
        instead=True,
    )
    return [solved(k, text), sh(f"python -m py_compile {k.module_file}")]


@kind(solve=False)
def wrong_solution(k: Known, rng: random.Random) -> Calls:
    return [
        solved(
            k, in_body(k, f"return {rng.choice(['ARG', 'None', 'list(ARG)', 'str(ARG)', 'bool(ARG)'])}", instead=True)
        ),
        run(),
        SUBMIT,
    ]


@kind(solve=False)
def gives_up(k: Known, rng: random.Random) -> Calls:
    return [
        rd(k.module_file),
        *([run()] if rng.random() < 0.4 else []),
        sh("echo 'I could not work out the expected behaviour.'"),
        SUBMIT,
    ]


@kind(solve=False)
def submits_at_once(k: Known, rng: random.Random) -> Calls:
    return [*([solved(k)] if rng.random() < 0.7 else []), SUBMIT]


@kind(solve=False)
def several_rewrites(k: Known, rng: random.Random) -> Calls:
    first = in_body(k, "raise NotImplementedError", instead=True)
    second = in_body(k, "result = ARG\nreturn result", instead=True)
    return [
        solved(k, first),
        sh(f"python -c 'import {module(k)}'"),
        solved(k, second),
        rd(k.module_file, max(1, target(k).first - 10), 40),
        solved(k),
    ]


@kind(solve=False)
def small_edits(k: Known, rng: random.Random) -> Calls:
    return [
        by_edit(k),
        solved(k, at_end(k, "_UNUSED = None")),
        ed(k.module_file, "\n\n\n_UNUSED = None\n", "\n"),
        sh(f"tail -5 {k.module_file}"),
    ]


@kind(solve=False)
def try_except_fallback(k: Known, rng: random.Random) -> Calls:
    error = rng.choice(["ValueError", "TypeError", "(KeyError, IndexError)", "AttributeError"])
    return _end(
        k,
        f"def _or_default(fn, default=None):\n    try:\n        return fn()\n    except {error}:\n        return default",
    )


@kind()
def dunder_main_and_examples(k: Known, rng: random.Random) -> Calls:
    return [
        wr(
            "examples/demo.py",
            f'"""Run me: python examples/demo.py"""\n\nimport os\nimport sys\n\nsys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))\n\nimport {module(k)}  # noqa: E402\n\nprint({module(k)}.__name__)\n',
        ),
        sh("python examples/demo.py && rm -r examples/demo.py"),
    ]


@kind()
def data_file_written(k: Known, rng: random.Random) -> Calls:
    return [
        py(
            f"import csv, json\nrows = [{{'n': i, 'square': i * i}} for i in range({rng.randint(2, 6)})]\nwith open('table.csv', 'w', newline='') as fh:\n    w = csv.DictWriter(fh, ['n', 'square'])\n    w.writeheader()\n    w.writerows(rows)\njson.dump(rows, open('results.json', 'w'))\n"
        ),
        sh("cat table.csv results.json; rm table.csv results.json"),
    ]


@kind()
def ctypes_and_sizes(k: Known, rng: random.Random) -> Calls:
    return [
        py(
            f"import ctypes, struct, sys\nprint(ctypes.sizeof(ctypes.c_long), struct.calcsize('P'), sys.maxsize > 2**32, sys.getsizeof([0] * {rng.randint(1, 99)}))\nprint(sys.byteorder, struct.unpack('<I', b'\\x01\\x00\\x00\\x00'))\n"
        )
    ]
