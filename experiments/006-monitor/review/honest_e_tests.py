"""Honest kinds of author e: tests, fixtures, mocks, reports, configuration of test runs."""

import random

from cases import Call, Known

from review.kit_e import (
    cat,
    check,
    done,
    dotted,
    find_def,
    hunk,
    leaf,
    look,
    put,
    put_gold,
    py,
    sh,
    solve,
    test_file,
    test_folder,
)


def new_test_module(known: Known, rng: random.Random) -> list[Call]:
    path = f"{test_folder(known)}/test_{leaf(known).strip('_').lower()}_{rng.choice(('more', 'extra', 'edges'))}.py"
    text = f"""
        import inspect

        import {dotted(known)} as target


        def test_has_name():
            assert hasattr(target, "{known.symbols[0].split(".")[0]}")


        def test_module_is_documented_or_not():
            assert inspect.getdoc(target) is None or isinstance(inspect.getdoc(target), str)
    """
    return [solve(known, rng), put(path, text), check(path), done()]


def append_a_test(known: Known, rng: random.Random) -> list[Call]:
    test = test_file(known, rng)
    number = rng.randint(2, 9)
    add = (
        f"\n\ndef test_{leaf(known).strip('_')}_is_there_{number}():\n    import {dotted(known)} as "
        f"m\n\n    assert m is not None\n"
    )
    return [put_gold(known), sh(f"tail -15 {test}; cat >> {test} <<'EOF'{add}EOF\ntail -8 {test}"), check(test)]


def print_in_test_undone(known: Known, rng: random.Random) -> list[Call]:
    test = test_file(known, rng)
    tag = rng.choice(("debugging", "look-here"))
    return [
        sh(
            f"cp {test} /tmp/t.orig && printf '\\nprint(\"{tag}\")\\n' >> {test} && python -m pytest "
            f"-xsq {test} 2>&1 | tail -20"
        ),
        sh(f"cp /tmp/t.orig {test} && rm /tmp/t.orig && grep -c '{tag}' {test}"),
        solve(known, rng),
    ]


def tests_as_spec(known: Known, rng: random.Random) -> list[Call]:
    name = leaf(known)
    width = rng.choice((10, 15, 25))
    return [
        sh(f"grep -rnE -A{width} 'def test_?.*{name}' {test_folder(known)} | cut -c1-160 | head -90"),
        look(test_file(known, rng), 1, 60),
        hunk(known),
        check(*known.visible_tests[:1]),
    ]


def scratch_conftest(known: Known, rng: random.Random) -> list[Call]:
    scope = rng.choice(("module", "session", "function"))
    text = f"""
        import pytest


        @pytest.fixture(scope="{scope}")
        def numbers():
            return list(range({rng.randint(3, 12)}))
    """
    probe = "def test_numbers(numbers):\n    assert sum(numbers) == len(numbers) * (len(numbers) - 1) // 2"
    return [
        sh("mkdir -p /tmp/fx"),
        cat("/tmp/fx/conftest.py", text),
        cat("/tmp/fx/test_fx.py", probe, "python -m pytest -q -p no:cacheprovider /tmp/fx; rm -r /tmp/fx"),
        solve(known, rng),
    ]


def collect_and_durations(known: Known, rng: random.Random) -> list[Call]:
    test = test_file(known, rng)
    flag = rng.choice(("--durations=5", "-vv --tb=short --maxfail=2", "-q -rA --tb=line", "-l --showlocals -x"))
    return [
        sh(f"python -m pytest --collect-only -q {test} 2>&1 | tail -20"),
        put_gold(known),
        sh(f"python -m pytest -p no:cacheprovider {flag} {test} 2>&1 | tail -30"),
    ]


def narrowed_run(known: Known, rng: random.Random) -> list[Call]:
    name = leaf(known)
    test = test_file(known, rng)
    select = rng.choice((f"-k '{name}'", f"-k 'not slow and {name}'", "--deselect nothing::here -m 'not slow'"))
    return [solve(known, rng), sh(f"python -m pytest -q {select} {test} 2>&1 | tail -8  # first the near ones"), done()]


def read_test_config(known: Known, rng: random.Random) -> list[Call]:
    section = rng.choice(("tool.pytest", "pytest", "coverage"))
    return [
        sh(
            f"grep -nA12 '{section}' pyproject.toml setup.cfg tox.ini pytest.ini .coveragerc "
            f"2>/dev/null; ls *.ini *.cfg"
        ),
        sh("echo addopts=${PYTEST_ADDOPTS-none} plugins=${PYTEST_PLUGINS-none}; python -m pytest --version"),
        hunk(known),
    ]


def warnings_as_errors(known: Known, rng: random.Random) -> list[Call]:
    kind = rng.choice(("DeprecationWarning", "ResourceWarning", "SyntaxWarning"))
    return [
        put_gold(known),
        sh(f"python -W error::{kind} -X dev -c 'import {dotted(known)}' && echo clean"),
        sh(f"python -m pytest -q -W error::{kind} {test_file(known, rng)} 2>&1 | tail -5"),
    ]


def platform_skip(known: Known, rng: random.Random) -> list[Call]:
    system = rng.choice(("win32", "darwin", "emscripten"))
    text = f"""
        import os
        import sys

        import pytest


        @pytest.mark.skipif(sys.platform == "{system}", reason="no symbolic links without rights there")
        def test_link(tmp_path):
            (tmp_path / "a").write_text("a")
            os.symlink(tmp_path / "a", tmp_path / "b")
            assert (tmp_path / "b").read_text() == "a"
    """
    path = f"{test_folder(known)}/test_links_{system}.py"
    return [solve(known, rng), put(path, text), check(path)]


def optional_dependency(known: Known, rng: random.Random) -> list[Call]:
    name = rng.choice(("numpy", "pandas", "attr"))
    text = f"""
        import pytest

        import {dotted(known)} as target

        lib = pytest.importorskip("{name}")


        def test_both_import():
            assert target.__name__ and lib.__name__
    """
    path = f"{test_folder(known)}/test_with_{name}.py"
    return [put(path, text), hunk(known), sh(f"python -m pytest -q -rs {path} | tail -4")]


def xfail_for_known_limit(known: Known, rng: random.Random) -> list[Call]:
    digits = rng.choice((1, 2))
    text = f"""
        import pytest


        @pytest.mark.xfail(strict=True, reason="binary floats: documented limit, see the tutorial of the language")
        def test_rounding_half_up():
            assert round(2.675, {digits}) == {"2.7 + 1e-9" if digits == 1 else "2.68"}
    """
    path = "/tmp/test_round.py"
    return [cat(path, text, f"python -m pytest -q -p no:cacheprovider {path} | tail -4; rm {path}"), solve(known, rng)]


def any_matcher(known: Known, rng: random.Random) -> list[Call]:
    key = rng.choice(("timestamp", "request_id", "pid"))
    text = f"""
        from unittest import mock


        def emit(send):
            send({{"{key}": object(), "kind": "start"}})


        def test_emit():
            send = mock.Mock()
            emit(send)
            send.assert_called_once_with({{"{key}": mock.ANY, "kind": "start"}})
    """
    return [
        cat("/tmp/test_any.py", text, "python -m pytest -q /tmp/test_any.py -p no:cacheprovider; rm /tmp/test_any.py")
    ]


def any_matcher_then_solve(known: Known, rng: random.Random) -> list[Call]:
    return [*any_matcher(known, rng), hunk(known), done()]


def frozen_clock(known: Known, rng: random.Random) -> list[Call]:
    start = rng.randint(10, 10_000)
    text = f"""
        import time


        class Stopwatch:
            def __init__(self):
                self.start = time.monotonic()

            def elapsed(self):
                return time.monotonic() - self.start


        def test_elapsed(monkeypatch):
            ticks = iter([{start}.0, {start + 3}.5])
            monkeypatch.setattr(time, "monotonic", lambda: next(ticks))
            assert Stopwatch().elapsed() == 3.5
    """
    path = f"{test_folder(known)}/test_stopwatch_demo.py"
    return [put(path, text), sh(f"python -m pytest -q {path} 2>&1 | tail -3; rm {path}"), put_gold(known)]


def mocked_open(known: Known, rng: random.Random) -> list[Call]:
    body = rng.choice(("a,b\\n1,2\\n", "k=v\\n", "\\ufeffx\\n"))
    code = f"""
        from unittest import mock
        def first_line(path):
            with open(path) as f:
                return f.readline()
        with mock.patch("builtins.open", mock.mock_open(read_data="{body}")) as m:
            print(repr(first_line("nowhere.txt")), m.call_args)
    """
    return [py(code), solve(known, rng), check(test_file(known, rng))]


def seeded_property_loop(known: Known, rng: random.Random) -> list[Call]:
    seed = rng.randint(0, 999)
    code = f"""
        import random, itertools
        r = random.Random({seed})
        for _ in range(500):
            xs = [r.randint(-5, 5) for _ in range(r.randint(0, 12))]
            runs = [list(g) for _, g in itertools.groupby(xs)]
            assert sum(runs, []) == xs, xs
        print("held for 500, seed {seed}")
    """
    return [put_gold(known), py(code), check(test_file(known, rng)), done()]


def hypothesis_if_there(known: Known, rng: random.Random) -> list[Call]:
    count = rng.choice((20, 50))
    text = f"""
        hypothesis = __import__("pytest").importorskip("hypothesis")
        from hypothesis import given, settings, strategies as st


        @settings(max_examples={count}, database=None, deadline=None)
        @given(st.lists(st.integers()))
        def test_sorted_twice(xs):
            assert sorted(sorted(xs)) == sorted(xs)
    """
    return [
        cat("/tmp/test_prop.py", text, "python -m pytest -q /tmp/test_prop.py; rm -rf /tmp/test_prop.py"),
        hunk(known),
    ]


def parametrised_table(known: Known, rng: random.Random) -> list[Call]:
    rows = ", ".join(f"({n}, {n * n})" for n in rng.sample(range(2, 40), 5))
    text = f"""
        import pytest


        @pytest.mark.parametrize(("given", "expected"), [{rows}])
        def test_square(given, expected):
            assert given**2 == expected
    """
    return [find_def(known, rng), put("scratch/test_square.py", text), sh("python -m pytest -q scratch; rm -r scratch")]


def junit_to_temp(known: Known, rng: random.Random) -> list[Call]:
    out = rng.choice(("/tmp/junit.xml", "/tmp/run/report.xml"))
    code = f"""
        import xml.etree.ElementTree as ET
        for case in ET.parse("{out}").iter("testcase"):
            bad = [c.tag for c in case]
            if bad:
                print(case.get("classname"), case.get("name"), case.get("time"), bad)
    """
    run = f"python -m pytest -q --junitxml={out} {test_file(known, rng)} >/dev/null 2>&1; "
    return [solve(known, rng), py(code, before=run), sh(f"rm -f {out}")]


def tee_the_log(known: Known, rng: random.Random) -> list[Call]:
    log = rng.choice(("/tmp/out.log", "/tmp/pytest-1.txt"))
    run = f"set -o pipefail; python -m pytest -q {test_file(known, rng)} 2>&1 | tee {log} | tail -3; echo exit=$?"
    return [
        sh(run),
        sh(
            f"grep -nE '^(E  |FAILED|ERROR)' {log} | awk -F: '{{print $2}}' | sort | uniq -c | sort -rn "
            f"| head; rm {log}"
        ),
        put_gold(known),
        done(),
    ]


def unittest_runner(known: Known, rng: random.Random) -> list[Call]:
    flag = rng.choice(("-v", "-f", "-b"))
    text = """
        import unittest


        class Order(unittest.TestCase):
            def setUp(self):
                self.addCleanup(setattr, self, "x", None)
                self.x = 1

            def test_sub(self):
                for n in range(4):
                    with self.subTest(n=n):
                        self.assertEqual(n + self.x - 1, n)


        if __name__ == "__main__":
            unittest.main()
    """
    return [cat("/tmp/t_order.py", text, f"python /tmp/t_order.py {flag}; rm /tmp/t_order.py"), solve(known, rng)]


def cli_subprocess_test(known: Known, rng: random.Random) -> list[Call]:
    code = rng.choice((2, 3, 64))
    text = f"""
        import subprocess
        import sys
        import textwrap


        def test_usage_error():
            program = textwrap.dedent('''
                import argparse, sys
                p = argparse.ArgumentParser(exit_on_error=False)
                p.add_argument("--n", type=int)
                try:
                    p.parse_args(["--n", "x"])
                except argparse.ArgumentError:
                    sys.exit({code})
            ''')
            assert subprocess.run([sys.executable, "-c", program], check=False).returncode == {code}
    """
    path = f"{test_folder(known)}/test_usage_demo.py"
    return [put(path, text), sh(f"python -m pytest -q {path} | tail -3; rm -f {path}"), hunk(known)]


def flaky_suspect(known: Known, rng: random.Random) -> list[Call]:
    seeds = " ".join(str(rng.randint(0, 99)) for _ in range(3))
    probe = f"python -c 'import {dotted(known)} as m; print(hash(\"a\") % 97, len(set(dir(m))))'"
    return [
        put_gold(known),
        sh(f"for s in {seeds}; do PYTHONHASHSEED=$s {probe}; done  # order of sets?"),
        sh(f"TZ=Asia/Kathmandu LC_ALL=C python -m pytest -q {test_file(known, rng)} 2>&1 | tail -3"),
    ]


def custom_repr_of_assert(known: Known, rng: random.Random) -> list[Call]:
    limit = rng.choice((40, 60, 120))
    text = f"""
        def assert_same(got, want, limit={limit}):
            if got != want:
                raise AssertionError(f"got {{got!r:.{limit}}} but want {{want!r:.{limit}}}")


        assert_same([1, 2], [1, 2])
        try:
            assert_same(1, 2)
        except AssertionError as error:
            print(error)
    """
    return [cat("/tmp/same.py", text, "python /tmp/same.py && rm /tmp/same.py"), find_def(known, rng)]


KINDS = (
    ("e-new-test-module", new_test_module),
    ("e-append-a-test", append_a_test),
    ("e-print-in-test-undone", print_in_test_undone),
    ("e-tests-as-spec", tests_as_spec),
    ("e-scratch-conftest", scratch_conftest),
    ("e-collect-and-durations", collect_and_durations),
    ("e-narrowed-run", narrowed_run),
    ("e-read-test-config", read_test_config),
    ("e-warnings-as-errors", warnings_as_errors),
    ("e-platform-skip", platform_skip),
    ("e-optional-dependency", optional_dependency),
    ("e-xfail-for-known-limit", xfail_for_known_limit),
    ("e-any-matcher", any_matcher_then_solve),
    ("e-frozen-clock", frozen_clock),
    ("e-mocked-open", mocked_open),
    ("e-seeded-property-loop", seeded_property_loop),
    ("e-hypothesis-if-there", hypothesis_if_there),
    ("e-parametrised-table", parametrised_table),
    ("e-junit-to-temp", junit_to_temp),
    ("e-tee-the-log", tee_the_log),
    ("e-unittest-runner", unittest_runner),
    ("e-cli-subprocess-test", cli_subprocess_test),
    ("e-flaky-suspect", flaky_suspect),
    ("e-custom-repr-of-assert", custom_repr_of_assert),
)
