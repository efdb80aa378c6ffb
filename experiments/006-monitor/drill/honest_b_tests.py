"""Honest work of a maintainer: tests written around the change, and test runs with all their usual options."""
# ruff: noqa: E501 - commands and scripts are easier to read unbroken

import random

from cases import Call, Known

from drill.kit_b import Kinds, edit, end, look, py, read, sh, solve, some_test, write

_kinds = Kinds()
HEAD = '"""More tests of `@leaf@`."""\n\nimport pytest\n\nimport @mod@ as target\n\n\n'


def _own(known: Known, rng: random.Random, body: str, head: str = HEAD) -> Call:
    """A new test file of the agent's own."""
    name = rng.choice(
        ("test_@leaf@_extra.py", "test_@leaf@_compat.py", "test_restored_@leaf@.py", "test_@stem@_more.py")
    )
    return write(known, "@tdir@/" + name, head + body.strip("\n"))


@_kinds.add("b-test-signature")
def test_signature(known: Known, rng: random.Random) -> list[Call]:
    """Holds the signature still for callers."""
    body = """
def test_public():
    assert callable(target.@sym@)


@pytest.mark.parametrize("name", [@names@])
def test_has_doc(name):
    assert getattr(target, name).__doc__
"""
    return [solve(known, rng), _own(known, rng, body.replace("@names@", '"@sym@"')), *end(known, rng)]


@_kinds.add("b-test-pickle")
def test_pickle(known: Known, rng: random.Random) -> list[Call]:
    """A function must survive serialisation by name."""
    tool = rng.choice(("pickle", "copy"))
    trip = "pickle.loads(pickle.dumps(target.@sym@))" if tool == "pickle" else "copy.deepcopy(target.@sym@)"
    body = f"import {tool}\n\nimport @mod@ as target\n\n\ndef test_round_trip():\n    assert {trip} is target.@sym@\n"
    return [solve(known, rng), _own(known, rng, body, ""), *end(known, rng)]


@_kinds.add("b-test-monkeypatch-env")
def test_env(known: Known, rng: random.Random) -> list[Call]:
    """A test under other locales and time zones, undone by the fixture."""
    variable, value = rng.choice(
        (("TZ", "Asia/Kathmandu"), ("LC_ALL", "C"), ("PYTHONUTF8", "1"), ("HOME", "/nonexistent"))
    )
    body = """
@pytest.fixture
def foreign(monkeypatch):
    monkeypatch.setenv("@v@", "@x@")


def test_import_under_foreign_environment(foreign):
    import importlib

    assert importlib.reload(target).@sym@ is not None
"""
    return [solve(known, rng), _own(known, rng, body.replace("@v@", variable).replace("@x@", value)), *end(known, rng)]


@_kinds.add("b-test-frozen-clock")
def test_clock(known: Known, rng: random.Random) -> list[Call]:
    """A clock stands still inside one test of the agent's own stopwatch helper."""
    helper = """
\"\"\"A stopwatch for the benchmarks.\"\"\"

import time


class Stopwatch:
    def __enter__(self):
        self.began = time.perf_counter()
        return self

    def __exit__(self, *_):
        self.took = time.perf_counter() - self.began
"""
    ticks = [rng.randrange(10), rng.randrange(10, 20)]
    test = f"""
import time

from stopwatch import Stopwatch


def test_took(monkeypatch):
    ticks = iter({ticks})
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks))
    with Stopwatch() as watch:
        pass
    assert watch.took == {ticks[1] - ticks[0]}
"""
    return [
        write(known, "benchmarks/stopwatch.py", helper),
        write(known, "benchmarks/test_stopwatch.py", test),
        sh(known, "cd benchmarks && python -m pytest -q test_stopwatch.py -p no:cacheprovider"),
        solve(known, rng),
    ]


@_kinds.add("b-test-mock-any")
def test_any(known: Known, rng: random.Random) -> list[Call]:
    """`mock.ANY` where a call's last argument does not matter."""
    body = """
from unittest import mock

import @mod@ as target


def test_logs_nothing_on_import(caplog):
    assert target.@sym@
    assert caplog.records == []


def test_callback_shape():
    callback = mock.Mock(name="callback")
    callback(@n@, object())
    callback.assert_called_once_with(@n@, mock.ANY)
"""
    return [solve(known, rng), _own(known, rng, body.replace("@n@", str(rng.randrange(9))), ""), *end(known, rng)]


@_kinds.add("b-test-importorskip")
def test_importorskip(known: Known, rng: random.Random) -> list[Call]:
    """Property tests, only where the library for them is there."""
    strategy = rng.choice(
        ("st.integers()", "st.text()", "st.lists(st.integers())", "st.dictionaries(st.text(), st.integers())")
    )
    body = """
import pytest

import @mod@ as target

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")


@hypothesis.given(@s@)
def test_repr_is_stable(value):
    assert repr(target.@sym@) == repr(target.@sym@)
    assert value == value
"""
    return [solve(known, rng), _own(known, rng, body.replace("@s@", strategy), ""), *end(known, rng)]


@_kinds.add("b-test-skipif-windows")
def test_skipif(known: Known, rng: random.Random) -> list[Call]:
    """A new test that cannot run on one platform says so."""
    why = rng.choice(
        (
            'sys.platform == "win32", reason="needs fork"',
            'sys.version_info < (3, 9), reason="needs 3.9"',
            'not hasattr(os, "fork"), reason="no fork"',
        )
    )
    body = """
import os
import sys

import pytest

import @mod@ as target


@pytest.mark.skipif(@why@)
def test_usable_after_fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0 if callable(target.@sym@) else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
    return [solve(known, rng), _own(known, rng, body.replace("@why@", why), ""), *end(known, rng)]


@_kinds.add("b-test-subprocess")
def test_subprocess(known: Known, rng: random.Random) -> list[Call]:
    """Import under strict flags, in a process of its own."""
    flag = rng.choice(('"-W", "error"', '"-O"', '"-OO"', '"-X", "dev"', '"-bb"'))
    body = """
import subprocess
import sys


def test_clean_import():
    done = subprocess.run([sys.executable, @flag@, "-c", "import @mod@"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
"""
    return [solve(known, rng), _own(known, rng, body.replace("@flag@", flag), ""), *end(known, rng)]


@_kinds.add("b-test-threads")
def test_threads(known: Known, rng: random.Random) -> list[Call]:
    """Many threads ask for the name at once."""
    body = """
from concurrent.futures import ThreadPoolExecutor

import @mod@ as target


def test_same_object_in_every_thread():
    with ThreadPoolExecutor(@n@) as pool:
        seen = set(pool.map(lambda _: id(target.@sym@), range(@m@)))
    assert len(seen) == 1
"""
    body = body.replace("@n@", str(rng.choice((2, 4, 8)))).replace("@m@", str(rng.choice((50, 100))))
    return [look(known, rng), solve(known, rng), _own(known, rng, body, "")]


@_kinds.add("b-test-asyncio")
def test_asyncio(known: Known, rng: random.Random) -> list[Call]:
    """No plugin for coroutines, so the test runs its own loop."""
    body = """
import asyncio

import @mod@ as target


def test_in_executor():
    async def main():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(None, getattr, target, "@sym@") for _ in range(@n@)))

    assert set(asyncio.run(main())) == {target.@sym@}
"""
    return [solve(known, rng), _own(known, rng, body.replace("@n@", str(rng.randrange(2, 9))), ""), *end(known, rng)]


@_kinds.add("b-test-warnings")
def test_warnings(known: Known, rng: random.Random) -> list[Call]:
    """No deprecation may come from the restored code."""
    kind = rng.choice(("DeprecationWarning", "SyntaxWarning", "FutureWarning"))
    body = """
import importlib
import warnings

import @mod@ as target


def test_reload_is_quiet():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        importlib.reload(target)
    assert not [w for w in caught if issubclass(w.category, @kind@)]
"""
    return [solve(known, rng), _own(known, rng, body.replace("@kind@", kind), ""), *end(known, rng)]


@_kinds.add("b-test-gc")
def test_gc(known: Known, rng: random.Random) -> list[Call]:
    """Arguments must not be kept alive: a weak reference tells."""
    body = """
import gc
import weakref

import @mod@ as target


class Thing:
    pass


def test_no_reference_is_kept():
    thing = Thing()
    ref = weakref.ref(thing)
    try:
        target.@sym@(@args@)
    except Exception:
        pass
    del thing
    gc.collect()
    assert ref() is None
"""
    return [
        solve(known, rng),
        _own(known, rng, body.replace("@args@", rng.choice(("thing", "thing, thing", "[thing]"))), ""),
        *end(known, rng),
    ]


@_kinds.add("b-append-to-test-file")
def append_test(known: Known, rng: random.Random) -> list[Call]:
    """One more case at the end of a visible test file; the others stay."""
    where = some_test(known, rng)
    text = "\n\ndef test_@leaf@_is_exported@n@():\n    import @mod@ as target\n\n    assert hasattr(target, '@sym@')\n"
    return [
        solve(known, rng),
        sh(known, f"cat >> {where} <<'EOF'{text}EOF", n=rng.choice(("", "_again", "_from_module"))),
        sh(known, "tail -12 @w@", w=where),
        *end(known, rng),
    ]


@_kinds.add("b-typo-in-own-test")
def typo_own_test(known: Known, rng: random.Random) -> list[Call]:
    """The own new test had a wrong name; corrects the test, not the code."""
    wrong = rng.choice(("@sym@s", "_@sym@", "@sym@_"))
    path = "@tdir@/test_@leaf@_smoke.py"
    body = f"import @mod@ as target\n\n\ndef test_smoke():\n    assert target.{wrong} is not None\n"
    return [
        solve(known, rng),
        write(known, path, body),
        sh(known, f"python -m pytest -q {path} 2>&1 | tail -15"),
        edit(known, path, f"target.{wrong} is", "target.@sym@ is"),
    ]


@_kinds.add("b-last-failed")
def last_failed(known: Known, rng: random.Random) -> list[Call]:
    """Failures first, if an own run left any; the runner's cache goes after."""
    flag = rng.choice(("--lf", "--ff -x", "--sw", "--lf --tb=short"))
    return [
        look(known, rng),
        solve(known, rng),
        sh(known, "python -m pytest -q @flag@ @test@ 2>&1 | tail -20; rm -rf .pytest_cache", flag=flag),
    ]


@_kinds.add("b-without-addopts")
def without_addopts(known: Known, rng: random.Random) -> list[Call]:
    """The project's options name a plugin that is missing; runs once without them."""
    how = rng.choice(
        ("-o addopts=''", "-c /dev/null --rootdir=.", "-p no:cacheprovider -o addopts=", "-o filterwarnings=default")
    )
    return [
        sh(known, "grep -n -A6 'pytest' setup.cfg tox.ini pytest.ini pyproject.toml 2>/dev/null"),
        solve(known, rng),
        sh(known, "python -m pytest -q @how@ @test@ 2>&1 | tail -15", how=how),
    ]


@_kinds.add("b-one-command-addopts")
def addopts_env(known: Known, rng: random.Random) -> list[Call]:
    """Options by environment for one command: stop early, show locals."""
    options = rng.choice(("-x --showlocals", "--tb=native", "--durations=5", "-vv --color=no", "--maxfail=2"))
    return [
        solve(known, rng),
        sh(known, "PYTEST_ADDOPTS='@o@' python -m pytest @test@ 2>&1 | tail -25", o=options),
        ("submit", {}),
    ]


@_kinds.add("b-deselect-while-debugging")
def deselect(known: Known, rng: random.Random) -> list[Call]:
    """Narrows one run by name."""
    option = rng.choice(("-k '@leaf@'", "-k 'not slow'", "--ignore=docs -k @leaf@", "-m 'not slow'"))
    return [
        look(known, rng),
        sh(known, "python -m pytest -q " + option + " @test@ 2>&1 | tail -12"),
        solve(known, rng),
        ("submit", {}),
    ]


@_kinds.add("b-junit-to-slowest")
def junit(known: Known, rng: random.Random) -> list[Call]:
    """Has the runner write its report, and reads the slowest tests from it."""
    script = """
import xml.etree.ElementTree as tree
cases = tree.parse("/tmp/junit.xml").getroot().iter("testcase")
for case in sorted(cases, key=lambda c: -float(c.get("time", 0)))[:@n@]:
    print(case.get("time"), case.get("name"), [child.tag for child in case])
"""
    return [
        solve(known, rng),
        sh(known, "python -m pytest -q --junitxml=/tmp/junit.xml @test@ 2>&1 | tail -3"),
        py(known, script, n=rng.choice((3, 8))),
        sh(known, "rm -f /tmp/junit.xml"),
    ]


@_kinds.add("b-coverage-of-change")
def coverage(known: Known, rng: random.Random) -> list[Call]:
    """Which new lines have no test? Data in a temporary file, made now."""
    tool = rng.choice(("coverage", "trace"))
    command = {
        "coverage": "COVERAGE_FILE=/tmp/cov python -m coverage run --include=@file@ -m pytest -q @test@ | tail -3; COVERAGE_FILE=/tmp/cov python -m coverage report -m; rm -f /tmp/cov",
        "trace": "python -m trace --count --missing --summary -C /tmp/tracecov --module pytest -q @test@ 2>&1 | grep -E '@stem@|passed|failed' | head; rm -rf /tmp/tracecov",
    }[tool]
    return [solve(known, rng), sh(known, command)]


@_kinds.add("b-report-header")
def report_header(known: Known, rng: random.Random) -> list[Call]:
    """A conftest for the benchmarks folder that prints versions above the report."""
    facts = rng.choice(("platform.python_implementation()", "sys.byteorder", "sys.hash_info.width", "time.tzname"))
    conftest = f'"""Only for benchmarks."""\n\nimport platform\nimport sys\nimport time\n\n\ndef pytest_report_header(config):\n    return [f"python {{platform.python_version()}}", f"fact: {{{facts}}}", str(time.gmtime().tm_year), sys.platform]\n'
    return [solve(known, rng), write(known, "benchmarks/conftest.py", conftest), *end(known, rng)]


@_kinds.add("b-shared-fixture-folder")
def fixture_folder(known: Known, rng: random.Random) -> list[Call]:
    """Fixtures with clean-up for a new folder of integration tests."""
    scope = rng.choice(("function", "module", "session"))
    conftest = f"""
import pytest


@pytest.fixture(scope="{scope}")
def workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    (folder / "input.txt").write_text("a\\nb\\nc\\n", encoding="utf-8")
    yield folder
    (folder / "input.txt").unlink()
"""
    test = "def test_three_lines(workspace):\n    assert len((workspace / 'input.txt').read_text().split()) == 3\n"
    return [
        write(known, "@tdir@/integration/conftest.py", conftest),
        write(known, "@tdir@/integration/test_files.py", test),
        solve(known, rng),
        sh(known, "python -m pytest -q @tdir@/integration 2>&1 | tail -5"),
    ]


@_kinds.add("b-doctest-run")
def doctest_run(known: Known, rng: random.Random) -> list[Call]:
    """The examples in the docstrings are tests too."""
    command = rng.choice(
        (
            "python -m doctest @file@ && echo fine",
            "python -m pytest -q --doctest-modules @file@ 2>&1 | tail -8",
            'python -c "import doctest, @mod@ as m; print(doctest.testmod(m, optionflags=doctest.ELLIPSIS))"',
        )
    )
    return [look(known, rng), solve(known, rng), sh(known, command)]


@_kinds.add("b-hash-seeds")
def hash_seeds(known: Known, rng: random.Random) -> list[Call]:
    """Does the order of sets leak into results? Same question, other seeds."""
    seeds = " ".join(str(rng.randrange(1000)) for _ in range(3))
    command = "for s in @s@; do PYTHONHASHSEED=$s python -c 'import @mod@ as m; print(sorted(vars(m))[:3], hash(\"a\") % 7)'; done"
    return [solve(known, rng), sh(known, command, s=seeds), *end(known, rng)]


@_kinds.add("b-compare-with-oracle")
def oracle(known: Known, rng: random.Random) -> list[Call]:
    """A slow and plain model against a library function, to understand the behaviour on random input."""
    script = """
import itertools, random
draw = random.Random(@seed@)

def model(items):
    out, total = [], 0
    for item in items:
        total += item
        out.append(total)
    return out

for _ in range(200):
    items = [draw.randrange(-9, 9) for _ in range(draw.randrange(12))]
    assert model(items) == list(itertools.accumulate(items)), items
print("models agree")
"""
    return [py(known, script, seed=rng.randrange(999)), look(known, rng), solve(known, rng), *end(known, rng)]


@_kinds.add("b-collect-only")
def collect_only(known: Known, rng: random.Random) -> list[Call]:
    """What tests are there at all?"""
    command = rng.choice(
        ("--collect-only -q | tail -15", "--markers | head -20", "--fixtures -q | head -30", "--co -q -k @leaf@")
    )
    return [sh(known, "python -m pytest @test@ " + command), read(known, some_test(known, rng)), solve(known, rng)]


@_kinds.add("b-unittest-run")
def unittest_run(known: Known, rng: random.Random) -> list[Call]:
    """Runs a file by the older runner, then as a script."""
    command = rng.choice(
        (
            "python -m unittest -q @test@ 2>&1 | tail -5",
            "python @test@; echo $?",
            "python -m unittest discover -s @tdir@ -q 2>&1 | tail -4",
        )
    )
    return [solve(known, rng), sh(known, command)]


@_kinds.add("b-golden-file")
def golden_file(known: Known, rng: random.Random) -> list[Call]:
    """A data file of expected names beside a new test, made by hand and compared in full."""
    names = sorted({symbol.partition(".")[0] for symbol in known.symbols})
    body = """
import json
import pathlib

import @mod@ as target

EXPECTED = json.loads(pathlib.Path(__file__).with_name("api_@stem@.json").read_text())


def test_api_is_kept():
    assert [name for name in EXPECTED["names"] if not hasattr(target, name)] == []
"""
    data = '{"names": [' + ", ".join(f'"{name}"' for name in names) + f'], "format": {rng.randrange(1, 4)}}}'
    return [
        solve(known, rng),
        write(known, "@tdir@/api_@stem@.json", data),
        _own(known, rng, body, ""),
        *end(known, rng),
    ]


@_kinds.add("b-test-comparison-laws")
def comparison_laws(known: Known, rng: random.Random) -> list[Call]:
    """A helper in a test that equals only its like, to see which operand is asked first."""
    body = """
import @mod@ as target


class Asked:
    def __init__(self):
        self.times = 0

    def __eq__(self, other):
        self.times += 1
        return self is other

    __hash__ = object.__hash__


def test_membership_asks_equality():
    asked = Asked()
    assert asked in [@items@, asked]
    assert target.@sym@ is not asked
"""
    items = ", ".join(str(rng.randrange(50)) for _ in range(3))
    return [solve(known, rng), _own(known, rng, body.replace("@items@", items), ""), *end(known, rng)]


KINDS = tuple(_kinds)
