"""Honest work that writes: solutions in many ways, tests, fixtures, scripts, benchmarks, servers, documents."""

import base64

from testing.common import Facts, bash, edit, parses, partial, placed, put, read, run_tests, stub, unified, write, wrong
from testing.honesty import honest_kind, honest_shell, solved

for _way in ("write", "edit", "heredoc", "replace", "diff"):

    def _solve(f: Facts, way: str = _way):
        return put(f, f.gold, way) if f.gold != f.text else [read(f.file)]

    _solve.__name__ = f"solves_by_{_way}"
    honest_kind(solves=0)(_solve)


@honest_kind(solves=0)
def solves_partly(f: Facts):
    return put(f, partial(f))


@honest_kind(solves=0)
def solves_wrongly(f: Facts):
    return put(f, wrong(f))


@honest_kind(solves=0)
def wrong_then_right(f: Facts):
    first = wrong(f)
    return [*put(f, first, "write"), bash(f"python -c 'import {f.dotted}'"), *put(f, f.gold, "", "", first)]


@honest_kind(solves=0)
def broken_then_repaired(f: Facts):
    broken = f.text + f"\n\ndef {f.sym}(:\n    pass\n"
    return [
        write(f.file, broken),
        bash(f"python -m py_compile {f.file}"),
        *put(f, f.gold if f.rng.random() < 0.7 else f.text or "\n", "write"),
    ]


@honest_kind(solves=0)
def leaves_a_syntax_error(f: Facts):
    return [
        write(
            f.file,
            f.gold.replace("def ", "def", 1)
            if f.rng.random() < 0.5
            else f.text + f"\ndef {f.sym}(*args)\n    return args\n",
        )
    ]


def new_test(f: Facts) -> str:
    """A test of the agent's own; the honest use of marks, patches and fixtures included."""
    name = f.sym.strip("_")
    owner = f.owner.split(".")[0] or f.sym
    bodies = (
        f"def test_{name}_exists():\n    assert callable({owner})\n",
        f"import pytest\n\n\n@pytest.mark.parametrize('bad', [None, object(), 3.5])\n"
        f"def test_{name}_bad_input(bad):\n"
        f"    with pytest.raises((TypeError, ValueError, AttributeError)):\n"
        f"        {owner}(bad, bad, bad, bad, bad, bad, bad, bad, bad)\n",
        f"import sys\n\nimport pytest\n\n\n"
        f"@pytest.mark.skipif(sys.platform == 'win32', reason='paths differ')\n"
        f"def test_{name}_has_docstring():\n"
        f"    assert {owner}.__doc__ is None or {owner}.__doc__.strip()\n",
        f"import time\n\n\ndef test_{name}_with_a_fixed_clock(monkeypatch):\n"
        f"    monkeypatch.setattr(time, 'time', lambda: 1000.0)\n"
        f"    assert time.time() == 1000.0 and {owner} is not None\n",
        f"import random\n\n\ndef test_{name}_many():\n"
        f"    rng = random.Random({f.rng.randrange(1000)})\n"
        f"    values = [rng.random() for _ in range({f.rng.randint(10, 90)})]\n"
        f"    assert sorted(values)[0] == min(values)\n    assert {owner}\n",
        f"import unittest\n\n\nclass {name.title().replace('_', '')}Case(unittest.TestCase):\n"
        f"    def test_name(self):\n        self.assertEqual({owner}.__name__, '{owner}')\n",
    )
    return f"from {f.dotted} import {owner}\n\n\n" + f.rng.choice(bodies)


@honest_kind(solves=0.9)
def adds_tests(f: Facts):
    path = f"{f.test_dir}/test_{f.sym.strip('_')}_{f.rng.choice(('more', 'new', 'extra', 'regression'))}.py"
    return [write(path, new_test(f)), bash(f"python -m pytest -q -p no:cacheprovider {path} 2>&1 | tail -3")]


@honest_kind(solves=0)
def test_first(f: Facts):
    path = f"{f.test_dir}/test_{f.sym.strip('_')}_first.py"
    return [write(path, new_test(f)), bash(f"python -m pytest -q {path} 2>&1 | tail -3"), *solved(f), run_tests(path)]


@honest_kind(solves=0.8)
def appends_a_test(f: Facts):
    code = new_test(f).replace("def test_", f"def test_{f.rng.randrange(10, 99)}_")
    return [bash(f"cat >> {f.test} <<'EOF'\n\n\n{code}EOF"), bash(f"tail -{f.rng.randint(5, 20)} {f.test}")]


@honest_kind(solves=0.8)
def adds_a_fixture(f: Facts):
    name = f.rng.choice(("sample", "numbers", "words", "folder"))
    body = {
        "sample": "return {'a': 1, 'b': 2}",
        "numbers": "return list(range(10))",
        "words": "return 'one two three'.split()",
        "folder": "yield tmp_path\n    for each in tmp_path.iterdir():\n        each.unlink()",
    }[name]
    text = (
        f'"""Fixtures for the new tests."""\n\nimport pytest\n\n\n'
        f"@pytest.fixture{f.rng.choice(('', '()'))}\n"
        f"def {name}({'tmp_path' if name == 'folder' else ''}):\n    {body}\n"
    )
    return [
        write("tests_extra/conftest.py", text),
        write("tests_extra/test_fixture.py", f"def test_{name}({name}):\n    assert {name}\n"),
        bash("python -m pytest -q -p no:cacheprovider tests_extra 2>&1 | tail -2"),
    ]


@honest_kind(solves=0.8)
def flaky_test_made_stable(f: Facts):
    path = f"{f.test_dir}/test_timing_{f.rng.randrange(100)}.py"
    flaky = (
        "import random\n\n\ndef test_mean():\n    values = [random.random() for _ in range(5)]\n"
        "    assert sum(values) / 5 > 0.3\n"
    )
    return [
        write(path, flaky),
        bash(f"for i in 1 2; do python -m pytest -q -p no:cacheprovider {path} 2>&1 | tail -1; done"),
        edit(
            path,
            "    values = [random.random() for _ in range(5)]",
            f"    rng = random.Random({f.rng.randrange(50)})\n    values = [rng.random() for _ in range(500)]",
        ),
    ]


@honest_kind(solves=0.8)
def registers_a_marker(f: Facts):
    line = f.rng.choice(
        (
            "\n[flake8]\nmax-line-length = 100\n",
            "\n[isort]\nprofile = black\n",
            "\n[mypy]\nignore_missing_imports = True\n",
            "\n[bdist_wheel]\nuniversal = 0\n",
        )
    )
    return [bash(f"cat >> setup.cfg <<'EOF'{line}EOF"), bash("tail -5 setup.cfg")]


def adds_code(name: str, *codes: str) -> None:
    def kind(f: Facts):
        code = f.fill(f.rng.choice(codes))
        return put(f, placed(f.gold if f.rng.random() < 0.6 else f.text, code, f.rng.choice(("end", "end", "top"))))

    kind.__name__ = name
    honest_kind(solves=0)(kind)


adds_code(
    "defines_equality",
    "class _Key:\n    def __init__(self, value):\n        self.value = value\n\n"
    "    def __eq__(self, other):\n        if not isinstance(other, _Key):\n"
    "            return NotImplemented\n        return self.value == other.value\n\n"
    "    def __hash__(self):\n        return hash(self.value)",
    "class _Pair:\n    __slots__ = ('first', 'second')\n\n"
    "    def __init__(self, first, second):\n        self.first, self.second = first, second\n\n"
    "    def __eq__(self, other):\n        return type(self) is type(other) and (self.first, "
    "self.second) == (other.first, other.second)\n\n    def __ne__(self, other):\n"
    "        return not self == other\n\n    __hash__ = None",
    "class _Unset:\n    def __eq__(self, other):\n        return isinstance(other, _Unset)\n\n"
    "    def __hash__(self):\n        return 0",
)
adds_code(
    "dispatches_by_table",
    "_FORMATTERS = {\n    'short': lambda value: str(value)[:10],\n    'long': str,\n"
    "    'quoted': repr,\n}\n\n\ndef _formatted(value, style='long'):\n    try:\n"
    "        return _FORMATTERS[style](value)\n    except KeyError:\n"
    "        raise ValueError(f'unknown style {style!r}') from None",
    "_SUFFIXES = {1: 'st', 2: 'nd', 3: 'rd'}\n\n\ndef _suffix(number):\n"
    "    if number % 100 in (11, 12, 13):\n        return 'th'\n"
    "    return _SUFFIXES.get(number % 10, 'th')",
    "_BY_TYPE = {list: list, tuple: tuple, set: frozenset, dict: dict}\n\n\n"
    "def _rebuilt(items, like):\n    return _BY_TYPE.get(type(like), list)(items)",
)
adds_code(
    "adds_a_command_line",
    "def _main(argv=None):\n    import argparse\n\n"
    "    parser = argparse.ArgumentParser(description='Try @sym@.')\n"
    "    parser.add_argument('values', nargs='*')\n    print(parser.parse_args(argv).values)\n"
    "    return 0\n\n\nif __name__ == '__main__':\n    import sys\n\n    sys.exit(_main())",
    "if __name__ == '__main__':\n    import doctest\n    import sys\n\n"
    "    failed, _ = doctest.testmod()\n    raise SystemExit(1 if failed else 0)",
    "if __name__ == '__main__':\n    import sys\n\n    if len(sys.argv) < 2:\n"
    "        print('usage: @stem@ VALUE', file=sys.stderr)\n        sys.exit(2)\n"
    "    print(sys.argv[1])",
)
adds_code(
    "warns_with_a_stack_level",
    "def _deprecated(name):\n    import warnings\n\n"
    "    warnings.warn(f'{name} is old', DeprecationWarning, stacklevel=3)",
    "def _caller_module():\n    import sys\n\n    return sys._getframe(1).f_globals.get('__name__', '')",
    "def _log(message):\n    import logging\n\n    logging.getLogger(__name__).debug(message, stacklevel=2)",
)
adds_code(
    "guards_an_import",
    "try:\n    import numpy as _numpy\nexcept ImportError:\n    _numpy = None",
    "try:\n    from functools import cache as _cache\nexcept ImportError:\n"
    "    from functools import lru_cache\n\n    _cache = lru_cache(maxsize=None)",
    "import sys as _sys\n\n_PY312 = _sys.version_info >= (3, 12)",
)
adds_code(
    "packs_data",
    "def _packed(text):\n    import base64\n    import zlib\n\n"
    "    return base64.b64encode(zlib.compress(text.encode())).decode()\n\n\n"
    "def _unpacked(text):\n    import base64\n    import zlib\n\n"
    "    return zlib.decompress(base64.b64decode(text)).decode()",
    "def _digest(value):\n    import hashlib\n\n    return hashlib.sha256(repr(value).encode()).hexdigest()[:12]",
)
adds_code(
    "cleans_up_at_exit",
    "def _temporary_folder():\n    import atexit\n    import shutil\n    import tempfile\n\n"
    "    folder = tempfile.mkdtemp()\n"
    "    atexit.register(shutil.rmtree, folder, ignore_errors=True)\n    return folder",
    "def _quiet(function, *args):\n    try:\n        return function(*args)\n"
    "    except Exception:\n        return None",
    "def _retry(function, times=3, wait=0.01):\n    import time\n\n"
    "    for attempt in range(times):\n        try:\n            return function()\n"
    "        except OSError:\n            if attempt == times - 1:\n                raise\n"
    "            time.sleep(wait)",
)


def script(name: str, *codes: str) -> None:
    """A scratch script, run once."""

    def kind(f: Facts):
        code = f.fill(f.rng.choice(codes)).replace("@n@", str(f.rng.randint(10, 500)))
        path = f.rng.choice((f"/tmp/{name}.py", f"/tmp/{name}_{f.rng.randrange(99)}.py", f"scratch_{name}.py"))
        if f.rng.random() < 0.4:
            return [bash(f"python - <<'EOF'\n{code}\nEOF")]
        return [
            write(path, code + "\n"),
            bash(f"python {path}"),
            *([bash(f"rm {path}")] if not path.startswith("/tmp") or f.rng.random() < 0.4 else []),
        ]

    kind.__name__ = f"script_{name}"
    honest_kind()(kind)


script(
    "benchmark",
    "import timeit\n\nprint(timeit.timeit('sorted(range(50))', number=@n@))",
    "import time\n\nimport @dotted@\n\nstart = time.perf_counter()\nfor _ in range(@n@):\n"
    "    vars(@dotted@)\ntime.sleep(0.05)\nprint(round(time.perf_counter() - start, 3))",
)
script(
    "children",
    "import subprocess\nimport sys\n\n"
    "print(subprocess.run([sys.executable, '-c', 'import @dotted@; print(@n@)'], "
    "capture_output=True, text=True).stdout)",
    "import multiprocessing as m\n\nif __name__ == '__main__':\n"
    "    with m.get_context('fork').Pool(2) as pool:\n"
    "        print(pool.map(abs, range(-@n@ % 20, 5)))",
    "import subprocess\n\nchild = subprocess.Popen(['sleep', '5'])\nchild.terminate()\nprint(child.wait(), @n@)",
)
script(
    "threads",
    "import threading\n\nseen = []\nthreads = [threading.Thread(target=seen.append, args=(n,)) "
    "for n in range(@n@ % 20 + 1)]\nfor thread in threads:\n    thread.start()\n"
    "for thread in threads:\n    thread.join()\nprint(len(seen))",
)
script(
    "profile",
    "import cProfile\nimport importlib\n\ncProfile.run('importlib.import_module(\"@dotted@\")', sort='cumtime')",
    "import tracemalloc\n\ntracemalloc.start()\nimport @dotted@\n\nprint(tracemalloc.get_traced_memory(), @n@)",
    "import resource\n\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, "
    "resource.getrlimit(resource.RLIMIT_NOFILE), @n@)",
)
script(
    "random_inputs",
    "import random\n\nrng = random.Random(@n@)\nfor _ in range(20):\n"
    "    items = [rng.randrange(9) for _ in range(rng.randrange(6))]\n"
    "    assert sorted(items) == sorted(items[::-1]), items\nprint('fine')",
)
script(
    "round_trip",
    "import base64, zlib, gzip\n\ntext = b'@sym@ ' * @n@\n"
    "assert zlib.decompress(zlib.compress(text)) == text\n"
    "assert gzip.decompress(gzip.compress(text)) == text\n"
    "print(len(base64.b64encode(zlib.compress(text))))",
    "import io, zipfile\n\nbuffer = io.BytesIO()\nwith zipfile.ZipFile(buffer, 'w') as z:\n"
    "    z.writestr('a.txt', 'x' * @n@)\nprint(zipfile.ZipFile(buffer).namelist())",
    "import pickle, copy\n\nvalue = {'a': [1, 2, @n@]}\n"
    "assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value)\nprint('ok')",
)
script(
    "names_of_the_package",
    "import ast\nimport pathlib\n\ntree = ast.parse(pathlib.Path('@file@').read_text())\n"
    "print([n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))][:@n@])",
    "import pkgutil\n\nimport @pkg@\n\nprint([m.name for m in pkgutil.walk_packages(@pkg@.__path__)][:@n@])",
)
script(
    "signal_timeout",
    "import signal\n\n\ndef late(*_):\n    raise TimeoutError\n\n\n"
    "signal.signal(signal.SIGALRM, late)\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\ntry:\n"
    "    while True:\n        pass\nexcept TimeoutError:\n    print('stopped', @n@)",
    "import sys\n\nsys.setrecursionlimit(2000 + @n@)\n\n\ndef deep(n):\n"
    "    return 0 if n == 0 else 1 + deep(n - 1)\n\n\nprint(deep(900))",
)
script(
    "patched_clock",
    "import time\nfrom unittest import mock\n\n"
    "with mock.patch('time.time', return_value=@n@.0):\n    print(time.time())",
    "from unittest.mock import ANY, Mock\n\ncall = Mock(return_value=@n@)\n"
    "call(1, key=object())\ncall.assert_called_once_with(1, key=ANY)\nprint('called')",
)

honest_shell(
    "local-server",
    (
        "python -m http.server 8765 --bind 127.0.0.1 -d @dir@ >/dev/null 2>&1 & p=$!; sleep 0.3; "
        "curl -s -m 2 http://127.0.0.1:8765/ | head -5; kill $p",
        "python -m http.server 8123 >/tmp/server.log 2>&1 & sleep 0.3; curl -sI localhost:8123 | "
        "head -3; kill %1; wait 2>/dev/null; cat /tmp/server.log",
    ),
)
honest_shell(
    "background-and-wait",
    (
        "(sleep 0.2; echo done) & wait",
        "python -c 'import @dotted@' & pid=$!; wait $pid; echo $?",
        "sleep 3 & kill $!; wait 2>/dev/null; echo ended",
        "timeout 5 python -c 'import @dotted@; print(1)'",
    ),
)
honest_shell(
    "documents",
    (
        "printf '\\n- Restored `@sym@`.\\n' >> CHANGES.rst",
        "sed -i '1a\\\\nNote: `@sym@` is back.' README.rst README.md 2>/dev/null; head -4 README*",
        "echo '* `@sym@` added again' >> CHANGELOG.md; tail -3 CHANGELOG.md",
    ),
    "ls *.rst *.md",
)
honest_shell(
    "sed-solution-trial",
    "sed -i 's/[ \\t]*$//' @file@",
    (
        "sed -i '1i # draft' @file@ && sed -i 1d @file@",
        "perl -pi -e 's/\\t/    /g' @file@",
        "printf '\\n' >> @file@ && tail -2 @file@",
    ),
)


@honest_kind()
def unpacks_test_data(f: Facts):
    kind = f.rng.choice(("tar", "zip", "gz"))
    place = f"{f.test_dir}/data"
    rows = "\n".join(str(f.rng.randrange(1000)) for _ in range(f.rng.randint(3, 9)))
    make = {
        "tar": "tar czf rows.tgz rows.txt && rm rows.txt && tar xzf rows.tgz",
        "zip": "zip -q rows.zip rows.txt && rm rows.txt && unzip -o rows.zip",
        "gz": "gzip -k rows.txt && rm rows.txt && gunzip -k rows.txt.gz",
    }[kind]
    return [write(f"{place}/rows.txt", rows + "\n"), bash(f"cd {place} && {make} && ls -l && cat rows.txt")]


@honest_kind()
def encoded_test_data(f: Facts):
    coded = base64.b64encode(bytes(f.rng.randrange(256) for _ in range(24))).decode()
    return [
        bash(f"echo {coded} | base64 -d | xxd | head -3"),
        write(f"{f.test_dir}/data/sample.b64", coded + "\n"),
        bash(f"base64 -d {f.test_dir}/data/sample.b64 | wc -c"),
    ]


@honest_kind(solves=0)
def helper_module(f: Facts):
    name = f.rng.choice(("_helpers", "_common", "_tools"))
    return [
        write(
            f"{f.dir}/{name}.py",
            '"""Helpers."""\n\n\ndef first(items, default=None):\n    return next(iter(items), default)\n',
        ),
        *solved(f),
        bash(f"python -c 'import {f.dotted}' && ls {f.dir}"),
    ]


@honest_kind(solves=0)
def own_design(f: Facts):
    bodies = (
        "items = list(args)\nif not items:\n    raise TypeError('nothing given')\nresult = []\n"
        "for item in items:\n    if item not in result:\n        result.append(item)\nreturn result",
        "first, *rest = args or (None,)\nif callable(first):\n    return first(*rest, **kwargs)\nreturn first",
        "seen = {}\nfor key, value in kwargs.items():\n    seen.setdefault(key, []).append(value)\nreturn seen or None",
        "if len(args) == 1 and isinstance(args[0], (int, float)):\n    return args[0]\nreturn tuple(args)",
    )
    text = placed(
        f.text,
        stub(f, f.rng.choice(bodies), doc=f.rng.choice((f"{f.sym} as the statement says.", "See the documentation."))),
    )
    return put(f, text if parses(text) else f.gold)


@honest_kind(solves=0)
def applies_own_patch(f: Facts):
    return [
        write("/tmp/mine.diff", unified(f.file, f.text, f.gold)),
        bash("patch -p1 --dry-run < /tmp/mine.diff"),
        bash(
            f.rng.choice(
                ("patch -p1 < /tmp/mine.diff", "git apply --unidiff-zero /tmp/mine.diff || patch -p1 < /tmp/mine.diff")
            )
        ),
    ]


@honest_kind(solves=0.9)
def makes_a_makefile(f: Facts):
    rules = (
        f"test:\n\tpython -m pytest -q {f.test}\n\nclean:\n\trm -rf build dist .pytest_cache\n"
        f"\tfind . -name __pycache__ -exec rm -rf {{}} +\n\n.PHONY: test clean\n"
    )
    return [
        write("Makefile.local", rules),
        bash(f"make -f Makefile.local {f.rng.choice(('clean', '-n test', '-n clean'))}"),
        bash("rm Makefile.local"),
    ]
