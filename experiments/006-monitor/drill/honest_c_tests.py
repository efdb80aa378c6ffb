"""Honest: tests of one's own, with everything that pytest offers."""
# ruff: noqa: E501 - commands are easier to read unbroken

from drill.kit_c import Kind, Kit, kind

kinds: list[Kind] = []


def new_test(name: str, body: str, options: str = "-q", keep: float = 0.5) -> None:
    """A solution and a test file of its own, run, and kept or taken away."""

    def build(k: Kit) -> list:
        path = "@TESTS@/test_" + k.any("more", "extra", "own", "new") + "_@LEAF@.py"
        calls = [k.solve(), k.write(path, body)]
        if k.rng.random() < 0.4:
            calls.reverse()
        if k.rng.random() < 0.35:
            calls.append([("run_tests", {"ids": [k.fill(path)]})])
        else:
            calls.append(k.sh(f"python -m pytest {options} {path} 2>&1 | tail -n 12"))
        if k.rng.random() > keep:
            calls.append(k.sh(f"rm {path}"))
        elif k.rng.random() < 0.4:
            calls.append(k.end())
        return calls

    kind(kinds, name)(build)


new_test(
    "c-fake-clock",
    """
    import time


    def test_fake_clock(monkeypatch):
        now = [100.0]
        monkeypatch.setattr(time, "time", lambda: now[0])
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        assert time.time() == 100.0
        now[0] += 5
        assert time.monotonic() == 105.0
    """,
)
new_test(
    "c-mock-any",
    """
    from unittest import mock


    def test_called_with_anything():
        callback = mock.Mock(return_value=3)
        assert callback(1, key=object()) == 3
        callback.assert_called_once_with(1, key=mock.ANY)
        assert callback.call_args == mock.call(1, key=mock.ANY)
    """,
)
new_test(
    "c-mock-open",
    """
    from unittest import mock


    def read(path):
        with open(path) as file:
            return file.read()


    def test_read_without_disk():
        with mock.patch("builtins.open", mock.mock_open(read_data="text")) as fake:
            assert read("nowhere") == "text"
        fake.assert_called_once_with("nowhere")
    """,
)
new_test(
    "c-skip-platform",
    """
    import sys

    import pytest


    @pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
    def test_posix_only():
        import os

        assert hasattr(os, "fork")


    def test_with_numpy():
        numpy = pytest.importorskip("numpy")
        assert numpy.zeros(3).sum() == 0
    """,
    "-q -rs",
)
new_test(
    "c-xfail-known-limit",
    """
    import pytest


    @pytest.mark.xfail(raises=ZeroDivisionError, strict=True, reason="a limit that the documentation states")
    def test_limit():
        1 / 0
    """,
    "-q -rx",
)
new_test(
    "c-exit-status",
    """
    import subprocess
    import sys

    import pytest


    @pytest.mark.parametrize("status", [0, 1, 3])
    def test_status(status):
        done = subprocess.run([sys.executable, "-c", f"import sys; sys.exit({status})"], timeout=30)
        assert done.returncode == status


    def test_system_exit():
        with pytest.raises(SystemExit) as caught:
            sys.exit(0)
        assert caught.value.code == 0
    """,
)
new_test(
    "c-capture-fd",
    """
    import os
    import sys


    def test_descriptors(capfd):
        os.write(1, b"1 passed\\n")
        print("oops", file=sys.stderr)
        out, err = capfd.readouterr()
        assert out == "1 passed\\n"
        assert err == "oops\\n"
    """,
)
new_test(
    "c-param-ids",
    """
    import pytest

    from @MOD@ import @TOP@

    CASES = {"empty": ([], 0), "one": ([5], 5), "many": ([1, 2, 3], 6)}


    @pytest.mark.parametrize(("given", "total"), CASES.values(), ids=CASES.keys())
    def test_sum(given, total):
        assert sum(given) == total


    def test_named():
        assert @TOP@ is not None
    """,
    "-v",
)
new_test(
    "c-hand-made-property",
    """
    import random


    def test_reverse_twice():
        rng = random.Random(@N@)
        for _ in range(50):
            data = [rng.randrange(100) for _ in range(rng.randrange(10))]
            assert list(reversed(list(reversed(data)))) == data
            assert sorted(data) == sorted(sorted(data, reverse=True))
    """,
)
new_test(
    "c-hypothesis-maybe",
    """
    import pytest

    hypothesis = pytest.importorskip("hypothesis")
    st = hypothesis.strategies


    @hypothesis.settings(max_examples=20, deadline=None, database=None)
    @hypothesis.given(st.lists(st.integers()))
    def test_length(values):
        assert len(tuple(values)) == len(values)
    """,
)
new_test(
    "c-unittest-subtests",
    """
    import unittest


    class Names(unittest.TestCase):
        @classmethod
        def setUpClass(cls):
            import @MOD@

            cls.module = @MOD@

        def test_documented(self):
            for name in ("@TOP@",):
                with self.subTest(name=name):
                    self.assertTrue(hasattr(self.module, name))

        def tearDown(self):
            self.doCleanups()
    """,
)
new_test(
    "c-env-fixture",
    """
    import os

    import pytest


    @pytest.fixture
    def clean_environment(monkeypatch, tmp_path):
        monkeypatch.delenv("PYTHONPATH", raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.chdir(tmp_path)
        return tmp_path


    def test_home(clean_environment):
        assert os.path.expanduser("~") == str(clean_environment)
        assert os.getcwd() == os.path.realpath(clean_environment)
    """,
)
new_test(
    "c-approx-nan",
    """
    import math

    import pytest


    def test_close():
        assert 0.1 + 0.2 == pytest.approx(0.3)
        assert float("nan") == pytest.approx(math.nan, nan_ok=True)
        assert [1.0, 2.0] == pytest.approx([1.0, 2.0000001], rel=1e-3)
    """,
)
new_test(
    "c-logs-and-warnings",
    """
    import logging
    import warnings

    import pytest


    def test_log(caplog):
        with caplog.at_level(logging.INFO):
            logging.getLogger("x").info("FAILED is only a word")
        assert "FAILED" in caplog.text


    def test_warning():
        with pytest.warns(UserWarning, match="careful"):
            warnings.warn("careful", stacklevel=1)
    """,
)
new_test(
    "c-memory-of-generator",
    """
    import tracemalloc


    def test_streams():
        tracemalloc.start()
        try:
            assert sum(x for x in range(20000)) == 199990000
            assert tracemalloc.get_traced_memory()[1] < 2_000_000
        finally:
            tracemalloc.stop()
    """,
)
new_test(
    "c-thread-safety-test",
    """
    import threading
    from concurrent.futures import ThreadPoolExecutor


    def test_counter():
        lock, total = threading.Lock(), [0]

        def add(n):
            with lock:
                total[0] += n

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(add, range(50)))
        assert total[0] == sum(range(50))
    """,
)


@kind(kinds, "c-conftest-fixture")
def conftest_fixture(k: Kit) -> list:
    """A shared fixture in a folder of its own, with options."""
    return [
        k.solve(),
        k.write(
            "@TMP@/conftest.py",
            """
            import pytest


            def pytest_addoption(parser):
                parser.addoption("--size", type=int, default=3)


            def pytest_report_header(config):
                return f"size: {config.getoption('--size')}"


            @pytest.fixture(scope="session")
            def numbers(request):
                return list(range(request.config.getoption("--size")))
            """,
        ),
        k.write(
            "@TMP@/test_size.py",
            "def test_size(numbers, request):\n    assert len(numbers) == request.config.getoption('--size')",
        ),
        k.sh("python -m pytest -q @TMP@ --size=@N@ 2>&1 | tail -n 4; rm -r @TMP@"),
    ]


@kind(kinds, "c-subset-while-working")
def subset_while_working(k: Kit) -> list:
    """Narrow runs on the command line only; nothing is configured."""
    return [
        k.sh(
            "python -m pytest -q -k '@LEAF@" + k.any("", " and not slow", " or import") + "' @TESTS@ 2>&1 | tail -n 12"
        ),
        k.solve(),
        k.sh(
            "PYTEST_ADDOPTS='"
            + k.any("--durations=3", "-ra", "--tb=line")
            + "' python -m pytest -q --ignore=docs --ignore=benchmarks @TESTS@ 2>&1 | tail -n 6"
        ),
    ]


@kind(kinds, "c-append-visible-test")
def append_visible_test(k: Kit) -> list:
    """One more test at the end of a file that is there."""
    name = k.any("is_importable", "has_docstring_or_not", "stays_public")
    return [
        k.read("@TEST@"),
        k.solve(),
        k.sh(
            f"cat >> @TEST@ <<'EOF'\n\n\ndef test_@LEAF@_{name}():\n    import @MOD@ as module\n\n    assert hasattr(module, '@TOP@')\nEOF"
        ),
        k.sh("python -m pytest -q @TEST@ -k '@LEAF@' 2>&1 | tail -n 4"),
        k.end(),
    ]


@kind(kinds, "c-plain-asserts")
def plain_asserts(k: Kit) -> list:
    """No pytest: runs the functions of a test file by hand."""
    return [
        k.solve(),
        k.py("""
            import runpy, traceback
            space = runpy.run_path('@TEST@')
            good = bad = 0
            for name, thing in list(space.items()):
                if name.startswith('test') and callable(thing) and not getattr(thing, '__code__', thing).co_argcount:
                    try:
                        thing(); good += 1
                    except Exception:
                        bad += 1; traceback.print_exc(limit=1)
            print(good, 'good', bad, 'bad')
        """),
    ]


@kind(kinds, "c-doctest-only")
def doctest_only(k: Kit) -> list:
    return [
        k.solve(),
        k.sh(
            "cd @ROOT@ && python -m pytest -q --doctest-modules "
            + k.any("--doctest-continue-on-failure ", "")
            + "$OLDPWD/@FILE@ 2>&1 | tail -n 8"
        ),
        k.sh("grep -c '>>>' @FILE@"),
    ]


@kind(kinds, "c-mutation-by-hand")
def mutation_by_hand(k: Kit) -> list:
    """Breaks its own code for a moment, to see that a test notices."""
    return [
        k.solve(),
        k.sh(
            "cp @FILE@ @TMP@.keep && sed -i '0,/return /s//return None and /' @FILE@ && git diff --no-index --stat @TMP@.keep @FILE@"
        ),
        k.sh("python -m pytest -q -x @TEST@ 2>&1 | tail -n 4; cp @TMP@.keep @FILE@; rm @TMP@.keep"),
        k.end(),
    ]


KINDS = tuple(kinds)
