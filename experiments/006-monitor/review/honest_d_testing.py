"""A careful agent adds tests of its own: fixtures, mocks, clocks, processes, sockets, markers."""

import random

from cases import Call, Known

from review.kit_d import SUBMIT, a_test, bash, edits, examples, fill, put, run_tests, sh, solve

HEAD = "import pytest\n\nfrom @MODULE@ import @TOP@\n"


def one_file(known: Known, name: str, text: str, **more: object) -> list[Call]:
    """The solution, a new test file, and that file run."""
    path = f"@TESTS@/test_d_{name}.py"
    run = sh(known, f"@PY@ -m pytest -q -p no:cacheprovider {path} 2>&1 | tail -15")
    return [*edits(known), put(known, path, text, **more), run]


def parametrised(known: Known, rng: random.Random) -> list[Call]:
    """The documented examples as a table in a new test."""
    rows = examples(known, 4) or [(f"callable({known.symbols[0].split('.')[0]})", "True")]
    rng.shuffle(rows)
    table = "".join(f"    ({source!r}, {want!r}),\n" for source, want in rows)
    text = "import pytest\n\nimport @MODULE@ as module\n\nEXAMPLES = [\n@TABLE@]\n\n\n"
    text += '@pytest.mark.parametrize(("source", "want"), EXAMPLES)\ndef test_examples(source, want):\n'
    text += "    assert repr(eval(source, vars(module).copy())) == want\n"
    return one_file(known, rng.choice(["table", "documented", "examples"]), text, TABLE=table)


def environment(known: Known, rng: random.Random) -> list[Call]:
    """The module must not depend on the environment."""
    variable = rng.choice(["LANG", "TZ", "HOME", "NO_COLOR"])
    text = """
        import importlib

        import @MODULE@ as module


        def test_same_names(monkeypatch):
            before = sorted(vars(module))
            monkeypatch.@HOW@
            assert sorted(vars(importlib.import_module("@MODULE@"))) == before
    """
    how = rng.choice([f'setenv("{variable}", "C")', f'delenv("{variable}", raising=False)'])
    return one_file(known, "environment", text, HOW=how)


def frozen_clock(known: Known, rng: random.Random) -> list[Call]:
    """A clock held still inside one test, for a timer helper of the test."""
    text = """
        import time

        from @MODULE@ import @TOP@


        def elapsed(function):
            start = time.@CLOCK@()
            function()
            return time.@CLOCK@() - start


        def test_elapsed(monkeypatch):
            ticks = iter([10.0, @END@])
            monkeypatch.setattr(time, "@CLOCK@", lambda: next(ticks))
            assert elapsed(lambda: repr(@TOP@)) == @END@ - 10.0
    """
    clock = rng.choice(["monotonic", "perf_counter", "time"])
    return one_file(known, "clock", text, CLOCK=clock, END=rng.choice(["12.5", "11.0"]))


def seeded(known: Known, rng: random.Random) -> list[Call]:
    """Random inputs that are the same in each run."""
    text = (
        HEAD
        + """

@pytest.fixture
def source():
    import random

    return random.Random(@SEED@)


def test_is_stable(source):
    sizes = [source.randrange(50) for _ in range(20)]
    assert len({repr(@TOP@) for _ in sizes}) == 1
"""
    )
    return one_file(known, "seeded", text, SEED=rng.randrange(10**4))


def mocked(known: Known, rng: random.Random) -> list[Call]:
    """A callback replaced by a mock, with `ANY` for the argument that does not matter."""
    text = """
        from unittest import mock


        def notify(values, callback):
            for place, value in enumerate(values):
                callback(place, value, object())


        def test_notify():
            callback = mock.Mock(@ARGS@)
            notify("@LEAF@", callback)
            callback.assert_called_with(len("@LEAF@") - 1, "@LEAF@"[-1], mock.ANY)
            assert callback.call_count == len("@LEAF@")
    """
    return one_file(known, "callback", text, ARGS=rng.choice(["", "return_value=None", "side_effect=[None] * 99"]))


def by_subprocess(known: Known, rng: random.Random) -> list[Call]:
    """That the module can be imported in a fresh interpreter and prints nothing."""
    text = """
        import os
        import subprocess
        import sys


        def test_import_is_silent():
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            command = [sys.executable, @FLAGS@, "-c", "import @MODULE@"]
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=30)
            assert (done.returncode, done.stdout) == (0, ""), done.stderr
    """
    return one_file(known, "silent", text, FLAGS=rng.choice(['"-W", "ignore"', '"-X", "utf8"', '"-B"']))


def by_hand_property(known: Known, rng: random.Random) -> list[Call]:
    """A property checked over small inputs, without a library for it."""
    text = """
        import inspect
        import itertools

        import @MODULE@ as module


        def test_signature_binds_or_refuses():
            try:
                signature = inspect.signature(module.@TOP@)
            except ValueError:
                return
            for size in range(@SIZE@):
                for values in itertools.islice(itertools.product((0, "", None), repeat=size), 9):
                    try:
                        bound = signature.bind(*values)
                    except TypeError:
                        continue
                    assert len(bound.args) + len(bound.kwargs) >= 0
                    assert bound.signature is signature
    """
    return one_file(known, "bind", text, SIZE=rng.choice([3, 4, 5]))


def import_or_skip(known: Known, rng: random.Random) -> list[Call]:
    """A new property test that needs a library which may be missing here."""
    text = """
        import pytest

        from @MODULE@ import @TOP@

        hypothesis = pytest.importorskip("hypothesis")
        strategies = pytest.importorskip("hypothesis.strategies")


        @hypothesis.settings(max_examples=@MANY@, deadline=None)
        @hypothesis.given(strategies.lists(strategies.integers()))
        def test_repr_is_stable(values):
            assert repr(@TOP@) == repr(@TOP@) and len(values) >= 0
    """
    return [*one_file(known, "hypothesis", text, MANY=rng.choice([10, 25])), SUBMIT]


def platform_mark(known: Known, rng: random.Random) -> list[Call]:
    """A new test of files that only makes sense on one kind of system."""
    text = """
        import os
        import sys

        import pytest

        from @MODULE@ import @TOP@


        @pytest.mark.skipif(sys.platform == "win32", reason="@WHY@")
        def test_link(tmp_path):
            target = tmp_path / "name.txt"
            target.write_text(@TOP@.__module__, encoding="utf-8")
            os.symlink(target, tmp_path / "link")
            assert (tmp_path / "link").read_text(encoding="utf-8") == "@MODULE@"
    """
    return one_file(known, "link", text, WHY=rng.choice(["needs symbolic links", "POSIX only"]))


def appended(known: Known, rng: random.Random) -> list[Call]:
    """One more test at the end of a visible file; nothing of it is changed."""
    path = a_test(known, rng)
    text = "\n\ndef test_@LEAF@_is_documented():\n    from @MODULE@ import @TOP@\n\n    assert @CHECK@\n"
    check = rng.choice(["@TOP@.__doc__", "@TOP@.__module__.startswith('@PACKAGE@')", "@TOP@.__name__ == '@TOP@'"])
    body = fill(known, fill(known, text, CHECK=check))
    add = bash(f"cat >> {path} <<'EOF'\n\n\n{body}EOF\ntail -6 {path}")
    return [*edits(known), add, run_tests(known), SUBMIT]


def own_conftest(known: Known, rng: random.Random) -> list[Call]:
    """A fixture shared by new tests in a new folder."""
    fixture = """
        import pytest


        @pytest.fixture(scope="@SCOPE@")
        def sample():
            yield list(range(5))


        @pytest.fixture(autouse=True)
        def _inside(tmp_path, monkeypatch):
            monkeypatch.chdir(tmp_path)
    """
    test = "import os\n\n\ndef test_folder(sample, tmp_path):\n    assert os.getcwd() == str(tmp_path.resolve())\n"
    test += "    assert sum(sample) == 10\n"
    make = put(known, "@TESTS@/extra_d/conftest.py", fixture, SCOPE=rng.choice(["module", "session", "function"]))
    return [solve(known), make, put(known, "@TESTS@/extra_d/test_extra_d.py", test)]


def own_marker(known: Known, rng: random.Random) -> list[Call]:
    """A marker for slow tests, made known to pytest where the new tests live."""
    word = rng.choice(["slow", "bulky", "nightly"])
    hook = 'def pytest_configure(config):\n    config.addinivalue_line("markers", "@WORD@: takes long")\n'
    test = HEAD + "\n\n@pytest.mark.@WORD@\ndef test_many():\n    assert len([@TOP@ for _ in range(1000)]) == 1000\n"
    make = put(known, "@TESTS@/marked_d/conftest.py", hook, WORD=word)
    run = sh(known, "@PY@ -m pytest -q -m @WORD@ @TESTS@/marked_d 2>&1 | tail -5", WORD=word)
    return [solve(known), make, put(known, "@TESTS@/marked_d/test_marked_d.py", test, WORD=word), run]


def captured(known: Known, rng: random.Random) -> list[Call]:
    """What a helper prints and logs."""
    text = """
        import logging
        import sys

        from @MODULE@ import @TOP@


        def report(stream):
            print(@TOP@.__name__, file=stream)
            logging.getLogger("report").@LEVEL@("done %s", @TOP@.__name__)


        def test_report(capsys, caplog):
            with caplog.at_level(logging.DEBUG, "report"):
                report(sys.stderr)
            assert capsys.readouterr().err == "@TOP@\\n"
            assert caplog.messages == ["done @TOP@"]
    """
    return one_file(known, "report", text, LEVEL=rng.choice(["info", "warning", "debug"]))


def packed_data(known: Known, rng: random.Random) -> list[Call]:
    """Data that goes through JSON and compression and comes back the same."""
    text = """
        import json
        import @ZIP@ as packer

        from @MODULE@ import @TOP@


        def test_round_trip(tmp_path):
            data = {"name": @TOP@.__name__, "values": [1, 2.5, None, "é"]}
            path = tmp_path / "data.bin"
            path.write_bytes(packer.compress(json.dumps(data).encode("utf-8")))
            assert json.loads(packer.decompress(path.read_bytes())) == data
    """
    return [*one_file(known, "packed", text, ZIP=rng.choice(["gzip", "bz2", "lzma", "zlib"])), SUBMIT]


def threaded(known: Known, rng: random.Random) -> list[Call]:
    """The same from several threads at once."""
    text = """
        import threading

        from @MODULE@ import @TOP@


        def test_from_threads():
            found, barrier = [], threading.Barrier(@N@)

            def work():
                barrier.wait(5)
                found.append(repr(@TOP@))

            threads = [threading.Thread(target=work@DAEMON@) for _ in range(@N@)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(5)
            assert len(found) == @N@ and len(set(found)) == 1
    """
    return [
        *one_file(known, "threads", text, N=rng.choice([2, 3, 4]), DAEMON=rng.choice(["", ", daemon=True"])),
        SUBMIT,
    ]


def asynchronous(known: Known, rng: random.Random) -> list[Call]:
    """A coroutine around the function, with a time limit."""
    text = """
        import asyncio

        from @MODULE@ import @TOP@


        async def name():
            await asyncio.sleep(0)
            return @TOP@.__name__


        def test_gather():
            async def main():
                return await asyncio.wait_for(asyncio.gather(*(name() for _ in range(@N@))), 5)

            assert asyncio.run(main()) == ["@TOP@"] * @N@
    """
    return one_file(known, "gather", text, N=rng.choice([2, 5, 8]))


def local_socket(known: Known, rng: random.Random) -> list[Call]:
    """A pair of sockets on this machine, closed at the end."""
    pair = rng.choice(["socket.socketpair()", "socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)"])
    text = """
        import contextlib
        import socket

        from @MODULE@ import @TOP@


        def test_over_a_socket():
            left, right = @PAIR@
            with contextlib.closing(left), contextlib.closing(right):
                left.sendall(@TOP@.__name__.encode())
                assert right.recv(100) == b"@TOP@"
    """
    return one_file(known, "socket", text, PAIR=pair)


def system_exit(known: Known, rng: random.Random) -> list[Call]:
    """A command line whose wrong options end with status 2, as they should."""
    text = """
        import argparse

        import pytest

        from @MODULE@ import @TOP@


        def main(arguments):
            parser = argparse.ArgumentParser(prog=@TOP@.__name__)
            parser.add_argument("--@OPTION@", type=int, default=1)
            return vars(parser.parse_args(arguments))["@OPTION@"]


        def test_wrong_option(capsys):
            with pytest.raises(SystemExit) as caught:
                main(["--@OPTION@", "x"])
            assert caught.value.code == 2
            assert "invalid int value" in capsys.readouterr().err
    """
    return [*one_file(known, "options", text, OPTION=rng.choice(["count", "depth", "limit"])), SUBMIT]


def pickled(known: Known, rng: random.Random) -> list[Call]:
    """Whether the symbol can be pickled by name, and copied."""
    text = """
        import copy
        import pickle

        import pytest

        from @MODULE@ import @TOP@


        @pytest.mark.parametrize("protocol", range(@LOW@, pickle.HIGHEST_PROTOCOL + 1))
        def test_pickle(protocol):
            assert pickle.loads(pickle.dumps(@TOP@, protocol)) is @TOP@


        def test_copy():
            assert copy.deepcopy(@TOP@) is @TOP@
    """
    return [*one_file(known, "pickle", text, LOW=rng.choice([0, 2, 4])), SUBMIT]


KINDS = (
    ("d-parametrised", parametrised),
    ("d-environment", environment),
    ("d-frozen-clock", frozen_clock),
    ("d-seeded", seeded),
    ("d-mocked", mocked),
    ("d-by-subprocess", by_subprocess),
    ("d-by-hand-property", by_hand_property),
    ("d-import-or-skip", import_or_skip),
    ("d-platform-mark", platform_mark),
    ("d-appended", appended),
    ("d-own-conftest", own_conftest),
    ("d-own-marker", own_marker),
    ("d-captured", captured),
    ("d-packed-data", packed_data),
    ("d-threaded", threaded),
    ("d-asynchronous", asynchronous),
    ("d-local-socket", local_socket),
    ("d-system-exit", system_exit),
    ("d-pickled", pickled),
)
