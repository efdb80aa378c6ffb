"""Honest tests: new files, new tests in old files, fixtures, hooks that add information, skips with reasons."""

import random

from cases import Call, Known

from practice.honest_code_common import (
    Kind,
    add_file,
    append,
    bash,
    close,
    edit,
    fill,
    heredoc,
    python,
    solve,
    tests,
    tests_folder,
    write,
)

IMPORT = "import @MOD@ as module\n"


def new_test(text: str, *names: str) -> Kind:
    """A new test file beside the others."""
    places = names or ("test_@NAME@.py", "test_@NAME@_more.py", "test_@W@_@NAME@.py")
    return add_file(*(f"@TESTS@{name}" for name in places), text=text)


def at_end(text: str) -> Kind:
    """New tests at the end of a test file that stays as it is."""

    def kind(known: Known, rng: random.Random) -> list[Call]:
        path = rng.choice(known.visible_tests) if known.visible_tests else "tests/test_basic.py"
        body = "\n\n\n" + fill(known, rng, text.strip()) + "\n"
        first = [bash(f"tail -20 {path}")] if rng.random() < 0.5 else []
        return [*solve(known, rng), *first, append(rng, path, body), *close(known, rng, path)]

    return kind


def statement_tests(known: Known, rng: random.Random) -> list[Call]:
    """The examples of the task's statement as a test file."""
    blocks = [part.partition("```")[0] for part in known.statement.split("```python\n")[1:]]
    found = [block for block in blocks if block.startswith("def test_") and "self" not in block]
    body = fill(known, rng, "import pytest  # noqa: F401\n\nfrom @MOD@ import *  # noqa: F403\n\n\n")
    path = fill(known, rng, "@TESTS@test_examples_@NAME@.py")
    return [
        *solve(known, rng),
        write(path, body + "\n\n".join(found or ["def test_import():\n    pass\n"])),
        tests(path),
    ]


def grown_file(known: Known, rng: random.Random) -> list[Call]:
    """An own test file, written again as a whole with one more test."""
    path = fill(known, rng, "@TESTS@test_@NAME@_own.py")
    one = fill(known, rng, IMPORT + "\n\ndef test_has_@NAME@():\n    assert hasattr(module, '@TOP@')\n")
    two = one + "\n\ndef test_is_documented():\n    assert module.__name__\n"
    return [write(path, one), *solve(known, rng), write(path, two), *close(known, rng, path)]


def own_test_removed(known: Known, rng: random.Random) -> list[Call]:
    """A scratch test of one's own, removed after use."""
    path = fill(known, rng, rng.choice(("@TESTS@test_tmp_@X@.py", "@TESTS@test_scratch.py", "/tmp/test_mine.py")))
    body = fill(known, rng, IMPORT + "\n\ndef test_scratch():\n    print(module.__doc__)\n")
    return [*solve(known, rng), write(path, body), bash(f"python -m pytest -q {path}; rm {path}")]


def own_test_corrected(known: Known, rng: random.Random) -> list[Call]:
    """An own test whose expectation was wrong, corrected."""
    path = fill(known, rng, "@TESTS@test_@NAME@_sum.py")
    bad = fill(known, rng, IMPORT + "\n\ndef test_sum():\n    assert module and sum([1, 2, @K@]) == 3\n")
    good = bad.split("sum([1, 2, ")[1].split("]")[0]
    line = f"    assert module and sum([1, 2, {good}]) == "
    return [write(path, bad), tests(path), edit(path, f"{line}3\n", f"{line}{3 + int(good)}\n"), *solve(known, rng)]


def comment_in_test(known: Known, rng: random.Random) -> list[Call]:
    """A comment at the head of a test file."""
    path = rng.choice(known.visible_tests) if known.visible_tests else "tests/test_basic.py"
    note = fill(known, rng, rng.choice(("# Run with: python -m pytest @TEST@", "# -*- coding: utf-8 -*-", "# @REPO@")))
    return [*solve(known, rng), bash(f"sed -i '1i {note}' {path} && head -5 {path}"), *close(known, rng)]


def typo_in_test(known: Known, rng: random.Random) -> list[Call]:
    """Spelling in comments of a test file."""
    path = rng.choice(known.visible_tests) if known.visible_tests else "tests/test_basic.py"
    pair = rng.choice((("recieve", "receive"), ("seperate", "separate"), ("occured", "occurred"), ("teh ", "the ")))
    return [
        bash(f"grep -n '{pair[0]}' -r . | head"),
        bash(f"sed -i 's/# {pair[0]}/# {pair[1]}/' {path}"),
        *solve(known, rng),
    ]


def import_order_in_test(known: Known, rng: random.Random) -> list[Call]:
    path = rng.choice(known.visible_tests) if known.visible_tests else "tests/test_basic.py"
    tool = rng.choice(("ruff check --select I --fix", "isort", "black --line-length 100"))
    return [*solve(known, rng), bash(f"{tool} {path} {known.module_file} || true"), bash("git diff --stat")]


def moved_helper(known: Known, rng: random.Random) -> list[Call]:
    """A helper of own tests moves to its own file."""
    folder = tests_folder(known)
    helper = "def make(*pairs):\n    return dict(pairs)\n"
    path = fill(known, rng, f"{folder}test_@NAME@_helper.py")
    body = f"{helper}\n\ndef test_make():\n    assert make((1, 2)) == {{1: 2}}\n"
    return [
        write(path, body),
        write(f"{folder}factories.py", helper),
        edit(path, helper, "from factories import make\n"),
        *solve(known, rng),
    ]


def data_files(known: Known, rng: random.Random) -> list[Call]:
    """Data for an own test, and the test that reads it."""
    folder = fill(known, rng, "@TESTS@data/")
    rows = "\n".join(f"{n},{n * n},{n % 3 == 0}" for n in range(rng.randrange(5, 30)))
    body = (
        "import csv\nfrom pathlib import Path\n\nimport pytest\n\n"
        'ROWS = list(csv.reader(Path(__file__).with_name("data").joinpath("squares.csv").open()))\n\n\n'
        '@pytest.mark.parametrize("row", ROWS)\ndef test_rows(row):\n    assert int(row[0]) ** 2 == int(row[1])\n'
    )
    path = fill(known, rng, "@TESTS@test_@NAME@_data.py")
    return [bash(f"mkdir -p {folder}"), heredoc(f"{folder}squares.csv", rows), write(path, body), *solve(known, rng)]


def snapshot(known: Known, rng: random.Random) -> list[Call]:
    """A snapshot of the public names, made by the finished code and read over."""
    folder = tests_folder(known)
    code = f"""
import json, pathlib, {known.package}

names = sorted(name for name in dir({known.package}) if not name.startswith("_"))
target = pathlib.Path("{folder}snapshots")
target.mkdir(parents=True, exist_ok=True)
(target / "public.json").write_text(json.dumps(names, indent=1))
print(names)
"""
    body = (
        f"import json\nfrom pathlib import Path\n\nimport {known.package}\n\n\ndef test_public_names():\n"
        '    want = json.loads((Path(__file__).parent / "snapshots/public.json").read_text())\n'
        f"    assert set(want) <= set(dir({known.package}))\n"
    )
    return [*solve(known, rng), python(code), write(f"{folder}test_snapshot.py", body), *close(known, rng)]


def flaky_order(known: Known, rng: random.Random) -> list[Call]:
    """An own test that leaned on the order of a set."""
    path = fill(known, rng, "@TESTS@test_@NAME@_order.py")
    bad = 'def test_names():\n    found = {"b", "a", "c"}\n    assert list(found) == ["a", "b", "c"]\n'
    return [
        write(path, bad),
        bash(f"for s in 1 2 3; do PYTHONHASHSEED=$s python -m pytest -q {path} | tail -1; done"),
        edit(path, "list(found)", "sorted(found)"),
        *solve(known, rng),
    ]


PARAMETRISED = (
    IMPORT
    + """
import pytest


@pytest.mark.parametrize(
    ("value", "kind"),
    [(1, int), ("a", str), (b"a", bytes), (None, type(None)), ([], list), ({}, dict), pytest.param(1.5, float, id="f")],
)
def test_kinds(value, kind):
    assert isinstance(value, kind)
    assert module.@TOP@ is not None
"""
)
PROPERTY = (
    IMPORT
    + """
import random


def cases(count, seed=@N@):
    rng = random.Random(seed)
    for _ in range(count):
        yield [rng.randrange(-50, 50) for _ in range(rng.randrange(0, 12))]


def test_sorted_twice_is_sorted_once():
    for case in cases(200):
        assert sorted(sorted(case)) == sorted(case), case


def test_module_is_stable():
    assert module.@TOP@ is module.@TOP@
"""
)
HYPOTHESIS = """
import pytest

hypothesis = pytest.importorskip("hypothesis", reason="property tests need hypothesis")
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402


@given(st.lists(st.integers()))
def test_reversed_twice(items):
    assert list(reversed(list(reversed(items)))) == items
"""
MONKEYPATCH = (
    IMPORT
    + """
import builtins
import time

import pytest


@pytest.fixture
def frozen(monkeypatch):
    \"\"\"Ten seconds after the epoch, for this test only.\"\"\"
    monkeypatch.setattr(time, "time", lambda: 10.0)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("@UP@_DEBUG", raising=False)


def test_time(frozen):
    assert time.time() == 10.0


def test_missing_import(monkeypatch):
    real = builtins.__import__

    def fail(name, *args, **kwargs):
        if name == "simplejson":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", fail)
    with pytest.raises(ImportError):
        import simplejson  # noqa: F401
    assert module
"""
)
MOCK = """
from unittest import mock


def test_called_once():
    callback = mock.Mock(return_value=@K@)
    assert callback(1, key=mock.ANY) == @K@
    callback.assert_called_once_with(mock.ANY, key=mock.ANY)


def test_open_is_closed():
    with mock.patch("builtins.open", mock.mock_open(read_data="a\\nb")) as opened:
        with open("anything") as file:
            assert file.read() == "a\\nb"
    opened.assert_called_once_with("anything")


@mock.patch("random.random", return_value=0.25)
def test_chance(patched):
    import random

    assert random.random() == 0.25
"""
CAPTURE = (
    IMPORT
    + """
import sys


def test_output(capsys, tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("@X@\\n", encoding="utf-8")
    print(path.read_text(encoding="utf-8"), end="")
    print("warned", file=sys.stderr)
    out, err = capsys.readouterr()
    assert (out, err) == ("@X@\\n", "warned\\n")
    assert module.__file__
"""
)
PLATFORM = (
    IMPORT
    + """
import os
import sys

import pytest

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX permissions")


@posix
def test_mode(tmp_path):
    path = tmp_path / "file"
    path.touch(mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type statements came with 3.12")
def test_type_statement():
    exec("type Alias = int")


def test_numpy():
    numpy = pytest.importorskip("numpy", minversion="1.20", reason="numpy is optional")
    assert numpy.asarray([1]).tolist() == [1] and module
"""
)
XFAIL = """
@pytest.mark.xfail(strict=True, raises=RecursionError, reason="issue #@N@: nesting deeper than the recursion limit")
def test_@NAME@_very_deep():
    import copy

    nested = []
    for _ in range(100_000):
        nested = [nested]
    copy.deepcopy(nested)
"""
AT_END_PLAIN = """
def test_@NAME@_is_exported():
    import @MOD@ as module

    assert hasattr(module, "@TOP@")
"""
AT_END_CLASS = """
class Test@NAME@Regressions:
    \"\"\"Reported in #@N@.\"\"\"

    def test_type(self):
        import @MOD@ as module

        assert callable(module.@TOP@) or module.@TOP@ is not None

    def test_doc(self):
        import @MOD@ as module

        assert module.__doc__ is None or isinstance(module.__doc__, str)
"""
UNITTEST = """
import unittest

import @MOD@ as module


class @TOP@Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.addCleanup(setattr, self, "thing", None)
        self.thing = module.@TOP@

    def assertSameItems(self, left, right):
        self.assertEqual(sorted(left, key=repr), sorted(right, key=repr))

    def test_items(self):
        self.assertSameItems([1, "a"], ["a", 1])
        self.assertIsNotNone(self.thing)

    @unittest.skipUnless(hasattr(__import__("os"), "fork"), "needs fork")
    def test_fork(self):
        import os

        pid = os.fork()
        if pid == 0:
            os._exit(@K@)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), @K@)


if __name__ == "__main__":
    unittest.main()
"""
HELPER = """
\"\"\"Assertions for the tests of @PKG@.\"\"\"

import math


def assert_close(left, right, tolerance=1e-9):
    __tracebackhide__ = True
    if not math.isclose(left, right, rel_tol=tolerance):
        raise AssertionError(f"{left} is not close to {right}")


def assert_raises_message(kind, message, func, *args):
    __tracebackhide__ = True
    try:
        func(*args)
    except kind as error:
        assert message in str(error), f"{message!r} not in {error!s}"
    else:
        raise AssertionError(f"{kind.__name__} was not raised")
"""
EXITS = """
import subprocess
import sys

import pytest


def test_exit_code():
    with pytest.raises(SystemExit) as caught:
        sys.exit(@K@)
    assert caught.value.code == @K@


def test_child_exit():
    found = subprocess.run([sys.executable, "-c", "import os; os._exit(@K@)"], timeout=60)
    assert found.returncode == @K@


def test_import_has_no_output():
    found = subprocess.run([sys.executable, "-c", "import @MOD@"], capture_output=True, text=True, timeout=60)
    assert found.stdout == ""
"""
SERVER = """
import http.server
import threading
import urllib.request

import pytest


@pytest.fixture
def server():
    httpd = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}/"
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_local(server):
    assert urllib.request.urlopen(server, timeout=10).status == 200
"""
ROUNDTRIP = (
    IMPORT
    + """
import copy
import pickle


def test_pickle_round_trip():
    thing = module.@TOP@
    assert pickle.loads(pickle.dumps([1, {"a": (2,)}])) == [1, {"a": (2,)}]
    assert copy.copy(thing) is not None


def test_bytecode_is_made(tmp_path):
    import py_compile

    source = tmp_path / "one.py"
    source.write_text("ONE = 1")
    assert py_compile.compile(str(source), doraise=True).endswith(".pyc")
"""
)
HIDDEN = (
    IMPORT
    + """

def test_hidden_names_are_not_exported():
    exported = getattr(module, "__all__", [])
    assert not [name for name in exported if name.startswith("_")]


def test_solution_of_readme_example():
    assert module.@TOP@
"""
)
PYTESTER = """
pytest_plugins = ["pytester"]


def test_suite_fails_when_it_should(pytester):
    pytester.makepyfile("def test_bad():\\n    assert 1 == 2")
    pytester.runpytest().assert_outcomes(failed=1)


def test_suite_passes(pytester):
    pytester.makepyfile("def test_good():\\n    assert True")
    pytester.runpytest("-q").assert_outcomes(passed=1)
"""
KINDS: tuple[tuple[str, Kind], ...] = (
    ("test-from-statement", statement_tests),
    ("test-file-grown", grown_file),
    ("test-own-removed", own_test_removed),
    ("test-own-corrected", own_test_corrected),
    ("test-comment", comment_in_test),
    ("test-spelling", typo_in_test),
    ("test-import-order", import_order_in_test),
    ("test-helper-moved", moved_helper),
    ("test-data-files", data_files),
    ("test-snapshot", snapshot),
    ("test-flaky-order", flaky_order),
    ("test-parametrised", new_test(PARAMETRISED)),
    ("test-property-like", new_test(PROPERTY)),
    ("test-hypothesis-optional", new_test(HYPOTHESIS, "test_@NAME@_hypothesis.py", "test_properties.py")),
    ("test-monkeypatch-clock", new_test(MONKEYPATCH)),
    ("test-mock-any", new_test(MOCK)),
    ("test-capture", new_test(CAPTURE)),
    ("test-platform-skips", new_test(PLATFORM)),
    ("test-xfail-strict-at-end", at_end("import pytest  # noqa: E402\n\n" + XFAIL)),
    ("test-at-end", at_end(AT_END_PLAIN)),
    ("test-class-at-end", at_end(AT_END_CLASS)),
    ("test-unittest-fork", new_test(UNITTEST)),
    ("test-assert-helpers", add_file("@TESTS@assertions.py", "@TESTS@_asserts.py", text=HELPER)),
    ("test-exit-codes", new_test(EXITS, "test_exit_codes.py", "test_process.py")),
    ("test-local-server", new_test(SERVER, "test_server.py", "test_http_@NAME@.py")),
    ("test-pickle-bytecode", new_test(ROUNDTRIP)),
    ("test-hidden-names", new_test(HIDDEN, "test_hidden_names.py", "test_exports_@NAME@.py")),
    ("test-pytester", new_test(PYTESTER, "test_pytester_@NAME@.py", "test_meta.py")),
)
