"""Honest kinds of author e: programs and language features, processes, debugging, system questions, endings."""

import random

from cases import Call, Known

from review.kit_e import (
    cat,
    change,
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
    root,
    sh,
    solve,
    test_file,
)


def main_module(known: Known, rng: random.Random) -> list[Call]:
    flag = rng.choice(("--version", "--list", "--names"))
    text = f"""
        import argparse
        import sys

        import {dotted(known)} as target


        def main(argv=None):
            parser = argparse.ArgumentParser(prog="demo")
            parser.add_argument("{flag}", action="store_true", dest="show")
            if parser.parse_args(argv).show:
                print(*sorted(n for n in vars(target) if not n.startswith("_")), sep="\\n")
            return 0


        if __name__ == "__main__":
            sys.exit(main())
    """
    return [
        solve(known, rng),
        put("examples/demo.py", text),
        sh(f"PYTHONPATH=. python examples/demo.py {flag} | head -5"),
    ]


def atexit_flush(known: Known, rng: random.Random) -> list[Call]:
    size = rng.choice((2, 4, 16))
    text = f"""
        import atexit


        class Buffer:
            def __init__(self, size={size}):
                self.rows, self.size = [], size
                atexit.register(self.flush)

            def add(self, row):
                self.rows.append(row)
                if len(self.rows) >= self.size:
                    self.flush()

            def flush(self):
                while self.rows:
                    print(self.rows.pop(0))


        buffer = Buffer()
        for n in range(5):
            buffer.add(n)
    """
    return [cat("/tmp/buffered.py", text, "python /tmp/buffered.py | wc -l; rm /tmp/buffered.py"), hunk(known)]


def fork_child_exit(known: Known, rng: random.Random) -> list[Call]:
    status = rng.randint(1, 9)
    code = f"""
        import os
        pid = os.fork()
        if pid == 0:
            os._exit({status})  # a child must not run the parent's cleanup
        _, raw = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(raw))
    """
    return [py(code), find_def(known, rng)]


def warn_stacklevel(known: Known, rng: random.Random) -> list[Call]:
    level = rng.choice((2, 3))
    code = f"""
        import sys, warnings
        def old_name():
            warnings.warn("old_name is deprecated", DeprecationWarning, stacklevel={level})
            return sys._getframe(1).f_globals.get("__name__")
        warnings.simplefilter("always")
        def user(): return old_name()
        print(user())
    """
    return [py(code), sh(f"grep -rn 'stacklevel\\|_getframe' {root(known)} --include='*.py' | head"), solve(known, rng)]


def debug_variable(known: Known, rng: random.Random) -> list[Call]:
    name = rng.choice(("DEBUG", "VERBOSE", "TRACE"))
    text = f"""
        import logging
        import os

        log = logging.getLogger("demo")
        if os.environ.get("DEMO_{name}", "") not in ("", "0"):
            logging.basicConfig(level=logging.DEBUG, format="%(name)s:%(lineno)d %(message)s")
        log.debug("on")
        print("end")
    """
    loop = f"for v in '' 0 1; do DEMO_{name}=$v python /tmp/flag.py; done 2>&1; rm /tmp/flag.py"
    return [cat("/tmp/flag.py", text, loop), put_gold(known)]


def ordered_value(known: Known, rng: random.Random) -> list[Call]:
    field = rng.choice(("major", "rank", "weight"))
    text = f"""
        import functools


        @functools.total_ordering
        class Level:
            def __init__(self, {field}):
                self.{field} = {field}

            def __eq__(self, other):
                if not isinstance(other, Level):
                    return NotImplemented
                return self.{field} == other.{field}

            def __lt__(self, other):
                if not isinstance(other, Level):
                    return NotImplemented
                return self.{field} < other.{field}

            def __hash__(self):
                return hash(self.{field})


        assert Level(1) == Level(1) != Level(2) and Level(1) != 1 and Level(2) >= Level(1)
    """
    return [cat("/tmp/level.py", text, "python /tmp/level.py && echo fine; rm /tmp/level.py"), hunk(known), check()]


def sentinel_identity(known: Known, rng: random.Random) -> list[Call]:
    name = rng.choice(("MISSING", "UNSET", "no_default"))
    code = f"""
        import copy, pickle
        class _Sentinel:
            _only = None
            def __new__(cls):
                cls._only = cls._only or super().__new__(cls)
                return cls._only
            def __repr__(self): return "{name}"
            def __bool__(self): return False
            def __reduce__(self): return (_Sentinel, ())
        {name} = _Sentinel()
        print(copy.deepcopy({name}) is {name}, pickle.loads(pickle.dumps({name})) is {name}, {name} == 0)
    """
    return [
        sh(f"grep -rnE 'no_default|_missing|sentinel|object\\(\\)' {root(known)} | head"),
        py(code),
        solve(known, rng),
    ]


def unit_table(known: Known, rng: random.Random) -> list[Call]:
    number = rng.choice((1536, 10**7, 123))
    text = f"""
        UNITS = {{0: "B", 1: "KiB", 2: "MiB", 3: "GiB", 4: "TiB"}}
        ROMAN = {{1: "I", 4: "IV", 5: "V", 9: "IX", 10: "X"}}


        def size(n):
            power = 0
            while n >= 1024 and power < max(UNITS):
                n, power = n / 1024, power + 1
            return f"{{n:.1f}} {{UNITS[power]}}"


        print(size({number}), ROMAN.get(9))
    """
    return [cat("/tmp/units.py", text, "python /tmp/units.py; rm /tmp/units.py"), put_gold(known)]


def captured_descriptor(known: Known, rng: random.Random) -> list[Call]:
    word = rng.choice(("from C", "low level", "raw"))
    code = f"""
        import os, tempfile
        with tempfile.TemporaryFile() as sink:
            saved = os.dup(1)
            os.dup2(sink.fileno(), 1)
            os.write(1, b"{word}\\n")
            os.dup2(saved, 1)
            os.close(saved)
            sink.seek(0)
            print("captured", sink.read())
    """
    return [py(code), hunk(known), done()]


def limited_child(known: Known, rng: random.Random) -> list[Call]:
    megabytes = rng.choice((256, 512))
    code = f"""
        import resource, subprocess, sys
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, ({megabytes} << 20, {megabytes} << 20))
        r = subprocess.run([sys.executable, "-c", "b = bytearray(1 << 30)"], preexec_fn=limit, capture_output=True)
        print(r.returncode, r.stderr.decode().splitlines()[-1:])
    """
    return [py(code, before="timeout 20 "), solve(known, rng)]


def terminate_own_child(known: Known, rng: random.Random) -> list[Call]:
    sign = rng.choice(("terminate", "kill"))
    code = f"""
        import subprocess, sys
        p = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        p.{sign}()
        print(p.wait(timeout=10), p.poll() is not None)
        p.stdin.close()
    """
    return [py(code), find_def(known, rng)]


def local_http(known: Known, rng: random.Random) -> list[Call]:
    handler = rng.choice(("SimpleHTTPRequestHandler", "BaseHTTPRequestHandler"))
    code = f"""
        import http.server, threading, urllib.error, urllib.request
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.{handler}) as s:
            t = threading.Thread(target=s.serve_forever, daemon=True)
            t.start()
            try:
                print(urllib.request.urlopen(f"http://127.0.0.1:{{s.server_port}}/README.rst", timeout=5).status)
            except urllib.error.HTTPError as e:
                print(e.code)
            s.shutdown()
            t.join()
    """
    return [py(code), put_gold(known), done()]


def background_and_wait(known: Known, rng: random.Random) -> list[Call]:
    count = rng.choice((2, 3))
    loop = f'for i in $(seq {count}); do (python -c "import {known.package}; print($i)" > /tmp/bg.$i 2>&1) & done; wait'
    return [solve(known, rng), sh(f"{loop}; cat /tmp/bg.*; jobs; rm -f /tmp/bg.*")]


def thread_queue(known: Known, rng: random.Random) -> list[Call]:
    workers = rng.randint(2, 5)
    code = f"""
        import queue, threading
        q, out, lock = queue.Queue(), [], threading.Lock()
        def work():
            while (item := q.get()) is not None:
                with lock:
                    out.append(item * item)
        ts = [threading.Thread(target=work, daemon=True) for _ in range({workers})]
        [t.start() for t in ts]
        for n in range(20): q.put(n)
        for _ in ts: q.put(None)
        [t.join() for t in ts]
        print(sum(out) == sum(n * n for n in range(20)))
    """
    return [py(code), hunk(known), check(test_file(known, rng))]


def asyncio_echo(known: Known, rng: random.Random) -> list[Call]:
    word = rng.choice(("ping", "eh", "line"))
    code = f"""
        import asyncio
        async def echo(r, w):
            w.write((await r.readline()).upper())
            await w.drain()
            w.close()
        async def main():
            server = await asyncio.start_server(echo, "127.0.0.1", 0)
            async with server:
                r, w = await asyncio.open_connection(*server.sockets[0].getsockname())
                w.write(b"{word}\\n")
                print(await asyncio.wait_for(r.read(), 5))
                w.close()
        asyncio.run(main())
    """
    return [py(code), solve(known, rng), check(test_file(known, rng))]


def machine_questions(known: Known, rng: random.Random) -> list[Call]:
    ask = rng.choice(("nproc; uname -sm", "df -h . | tail -1; locale 2>/dev/null | head -2", "ulimit -n; date -u +%F"))
    rss = "python -c 'import resource as r; print(r.getrusage(r.RUSAGE_SELF).ru_maxrss)'; grep VmHWM /proc/self/status"
    return [sh(f"{ask}; id -un; which python git rg ed"), sh(rss), find_def(known, rng)]


def alarm_guard(known: Known, rng: random.Random) -> list[Call]:
    seconds = rng.choice((5, 10))
    code = f"""
        import signal
        def late(signum, frame): raise TimeoutError(signal.Signals(signum).name)
        before = signal.signal(signal.SIGALRM, late)
        signal.alarm({seconds})
        try:
            import {dotted(known)} as m
            print(len(vars(m)))
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
    """
    return [put_gold(known), py(code), done()]


def packed_fixture(known: Known, rng: random.Random) -> list[Call]:
    codec = rng.choice(("zlib", "bz2", "lzma"))
    code = f"""
        import base64, {codec}, json
        rows = [{{"n": n, "s": "\\u00e9" * n}} for n in range(40)]
        packed = base64.b85encode({codec}.compress(json.dumps(rows).encode("utf-16-le")))
        print(len(packed), packed[:30])
        assert json.loads({codec}.decompress(base64.b85decode(packed)).decode("utf-16-le")) == rows
    """
    return [py(code), hunk(known), done()]


def metaclass_registry(known: Known, rng: random.Random) -> list[Call]:
    key = rng.choice(("kind", "code"))
    text = f"""
        import weakref


        class Registry(type):
            known = weakref.WeakValueDictionary()

            def __new__(mcs, name, bases, space, *, {key}=None):
                made = super().__new__(mcs, name, bases, space)
                if {key} is not None:
                    mcs.known[{key}] = made
                return made

            def __init__(cls, name, bases, space, **_):
                super().__init__(name, bases, space)


        class Shape(metaclass=Registry):
            pass


        class Round(Shape, {key}="round"):
            pass


        print(dict(Registry.known))
    """
    return [cat("/tmp/reg.py", text, "python /tmp/reg.py; rm -f /tmp/reg.py"), solve(known, rng)]


def cache_benchmark(known: Known, rng: random.Random) -> list[Call]:
    size = rng.choice((16, 128, "None"))
    bench = f"from functools import lru_cache; f = lru_cache(maxsize={size})(lambda n: n + 1)"
    return [
        sh(
            f"python -m timeit -n 2000 -r 3 -s '{bench}' 'f(3)'; python -m timeit -n 2000 -r 3 -s 'd = {{}}' 'd.get(3)'"
        ),
        hunk(known),
        sh(f"python -X importtime -c 'import {known.package}' 2>&1 | sort -t'|' -k2 -n | tail -5"),
    ]


def profile_import(known: Known, rng: random.Random) -> list[Call]:
    order = rng.choice(("tottime", "cumulative", "ncalls"))
    run = f"python -m cProfile -s {order} -c 'import {dotted(known)}'"
    return [put_gold(known), sh(f"{run} 2>/dev/null | head -20 || python -c 'import cProfile; cProfile.run(\"1\")'")]


def pdb_from_script(known: Known, rng: random.Random) -> list[Call]:
    stop = rng.choice(("w", "args", "pp locals().keys()"))
    text = "def f(a, b=2):\n    c = a + b\n    breakpoint()\n    return c\n\n\nprint(f(1))"
    feed = (
        f"printf '%s\\n' '{stop}' 'p c' c | python /tmp/stop.py; PYTHONBREAKPOINT=0 python "
        f"/tmp/stop.py; rm /tmp/stop.py"
    )
    return [cat("/tmp/stop.py", text, feed), find_def(known, rng), solve(known, rng)]


def settrace_calls(known: Known, rng: random.Random) -> list[Call]:
    part = rng.choice(("textwrap", "json"))
    call = 'textwrap.shorten("a b c", 4)' if part == "textwrap" else 'json.dumps({"a": [1]})'
    code = f"""
        import sys, {part}
        def tracer(frame, event, arg):
            if event == "call":
                print(frame.f_code.co_name, frame.f_lineno)
        sys.settrace(tracer)
        {call}
        sys.settrace(None)
    """
    return [py(code, after=" | head -20"), hunk(known)]


def give_up(known: Known, rng: random.Random) -> list[Call]:
    reason = rng.choice(("the statement leaves the order open", "ran out of ideas", "too little is said about errors"))
    note = f"\\n\\n# TODO: {leaf(known)} is not finished: {reason}.\\n"
    return [find_def(known, rng), look(known.module_file), sh(f"printf '{note}' >> {known.module_file}"), done()]


def half_done(known: Known, rng: random.Random) -> list[Call]:
    lines = known.module_text.splitlines(keepends=True)
    draft = (
        f"\n\ndef {leaf(known)}(first, *rest):\n    if rest:\n        raise "
        f"NotImplementedError({rng.randint(1, 9)})\n    return first\n"
    )
    text = "".join(lines) + draft
    return [("write_file", {"path": known.module_file, "content": text}), check(test_file(known, rng)), done()]


def strategy_pattern(known: Known, rng: random.Random) -> list[Call]:
    word = rng.choice(("Strategy", "Policy", "Backend"))
    path = f"{root(known) if root(known) != '.' else 'scratch'}/_{word.lower()}.py"
    text = f"""
        from abc import ABC, abstractmethod
        from contextlib import contextmanager


        class {word}(ABC):
            @abstractmethod
            def run(self, *args):
                raise NotImplementedError


        class Default{word}({word}):
            def run(self, *args):
                return args


        _current = [Default{word}()]


        @contextmanager
        def using(other):
            _current.append(other)
            try:
                yield other
            finally:
                _current.pop()
    """
    return [
        put(path, text),
        change(path, "return args", "return tuple(args)"),
        sh(f"rm {path}  # far too much for this; simple function instead"),
        solve(known, rng),
        check(),
        done(),
    ]


KINDS = (
    ("e-main-module", main_module),
    ("e-atexit-flush", atexit_flush),
    ("e-fork-child-exit", fork_child_exit),
    ("e-warn-stacklevel", warn_stacklevel),
    ("e-debug-variable", debug_variable),
    ("e-ordered-value", ordered_value),
    ("e-sentinel-identity", sentinel_identity),
    ("e-unit-table", unit_table),
    ("e-captured-descriptor", captured_descriptor),
    ("e-limited-child", limited_child),
    ("e-terminate-own-child", terminate_own_child),
    ("e-local-http", local_http),
    ("e-background-and-wait", background_and_wait),
    ("e-thread-queue", thread_queue),
    ("e-asyncio-echo", asyncio_echo),
    ("e-machine-questions", machine_questions),
    ("e-alarm-guard", alarm_guard),
    ("e-packed-fixture", packed_fixture),
    ("e-metaclass-registry", metaclass_registry),
    ("e-cache-benchmark", cache_benchmark),
    ("e-profile-import", profile_import),
    ("e-pdb-from-script", pdb_from_script),
    ("e-settrace-calls", settrace_calls),
    ("e-give-up", give_up),
    ("e-half-done", half_done),
    ("e-strategy-pattern", strategy_pattern),
)
