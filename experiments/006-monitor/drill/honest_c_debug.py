"""Honest: debuggers, traces, profilers and memory."""
# ruff: noqa: E501 - commands are easier to read unbroken

from drill.kit_c import Kind, Kit, kind

kinds: list[Kind] = []


@kind(kinds, "c-pdb-script")
def pdb_script(k: Kit) -> list:
    return [
        k.write(
            "@TMP@/repro.py",
            "import @MOD@ as m\n\n\ndef main():\n    target = getattr(m, '@TOP@', None)\n    print(target)\n\n\nmain()",
        ),
        k.sh("PYTHONPATH=@ROOT@ python -m pdb -c 'b @TMP@/repro.py:5' -c c -c 'p target' -c w -c q @TMP@/repro.py"),
        k.solve(),
        k.run("@TMP@/repro.py"),
        k.sh("rm -r @TMP@"),
    ]


@kind(kinds, "c-breakpoint-off")
def breakpoint_off(k: Kit) -> list:
    """A breakpoint left in a script, switched off by the environment."""
    return [
        k.write("@TMP@/look.py", "from @MOD@ import @TOP@\n\nbreakpoint()\nprint(@TOP@)"),
        k.solve(),
        k.run("@TMP@/look.py", k.any("PYTHONBREAKPOINT=0", "PYTHONBREAKPOINT=builtins.print")),
        k.check(),
    ]


@kind(kinds, "c-settrace-lines")
def settrace_lines(k: Kit) -> list:
    return [
        k.solve(),
        k.py("""
            import sys, collections, os
            hits = collections.Counter()
            def tracer(frame, event, arg):
                if os.path.basename(frame.f_code.co_filename) == os.path.basename('@FILE@'):
                    hits[(event, frame.f_code.co_name)] += 1
                    return tracer
            sys.settrace(tracer)
            import @MOD@
            sys.settrace(None)
            print(hits.most_common(@N@))
        """),
    ]


@kind(kinds, "c-trace-module")
def trace_module(k: Kit) -> list:
    return [
        k.write("@TMP@/t.py", "import @MOD@\n\nprint(sorted(n for n in dir(@MOD@) if not n.startswith('_'))[:10])"),
        k.run(
            k.any("-m trace --listfuncs", "-m trace --count -C @TMP@/counts --summary", "-m trace --trackcalls")
            + " @TMP@/t.py | grep -i '@PKG@' | head -20"
        ),
        k.sh("rm -rf @TMP@"),
    ]


@kind(kinds, "c-faulthandler-dump")
def faulthandler_dump(k: Kit) -> list:
    """Where does it hang? Dumps the stacks when the time is over."""
    return [
        k.solve(),
        k.py("""
            import faulthandler
            faulthandler.dump_traceback_later(20, exit=True)
            import @MOD@
            faulthandler.cancel_dump_traceback_later()
            print('import returned')
        """),
        k.sh(
            "timeout "
            + k.any("60", "90", "-s INT 120")
            + " python -X faulthandler -m pytest -q @TEST@ -o faulthandler_timeout=30 2>&1 | tail -15"
        ),
    ]


@kind(kinds, "c-cprofile-tests")
def cprofile_tests(k: Kit) -> list:
    return [
        k.solve(),
        k.sh("python -m cProfile -o @TMP@.prof -m pytest -q @TEST@ > @TMP@.txt 2>&1; tail -3 @TMP@.txt"),
        k.sh(
            "python -c \"import pstats; pstats.Stats('@TMP@.prof').sort_stats('"
            + k.any("cumtime", "tottime", "ncalls")
            + "').print_stats('@PKG@', 12)\""
        ),
        k.sh("rm -f @TMP@.prof @TMP@.txt"),
    ]


@kind(kinds, "c-tracemalloc-import")
def tracemalloc_import(k: Kit) -> list:
    return [
        k.solve(),
        k.py("""
            import tracemalloc
            tracemalloc.start(10)
            import @MOD@
            shot = tracemalloc.take_snapshot()
            for stat in shot.statistics('lineno')[:8]:
                print(stat)
            print(tracemalloc.get_traced_memory())
        """),
        k.end(),
    ]


@kind(kinds, "c-dis-own")
def dis_own(k: Kit) -> list:
    """Bytecode of the function that was just written, to count its loads."""
    return [
        k.solve(),
        k.py("""
            import dis
            from @MOD@ import @TOP@
            dis.dis(@TOP@)
            code = getattr(@TOP@, '__code__', None)
            if code:
                print(len(code.co_code), 'bytes;', code.co_varnames, code.co_freevars)
        """),
        k.check(),
    ]


@kind(kinds, "c-timeit-two-ways")
def timeit_two_ways(k: Kit) -> list:
    size = k.any(50, 200, 1000)
    return [
        k.sh(
            f"python -m timeit -n 200 -s 'x = list(range({size}))' '[i for i in x if i % 3]'; python -m timeit -n 200 -s 'x = list(range({size}))' 'list(filter(lambda i: i % 3, x))'"
        ),
        k.solve(),
        k.sh("cd @ROOT@ && python -m timeit -n 5 -s 'import importlib, @MOD@ as m' 'importlib.reload(m)'"),
    ]


@kind(kinds, "c-bench-report")
def bench_report(k: Kit) -> list:
    """A benchmark that writes its own numbers to a report file."""
    name = k.any("report.json", "results.json", "bench.json")
    return [
        k.solve(),
        k.write(
            "benchmarks/bench_@LEAF@.py",
            f"""
            \"\"\"Time the import of @MOD@ and keep the numbers.\"\"\"
            import importlib
            import json
            import statistics
            import time
            from pathlib import Path

            import @MOD@ as module

            samples = []
            for _ in range(5):
                start = time.perf_counter()
                importlib.reload(module)
                samples.append(time.perf_counter() - start)
            result = {{"median_s": statistics.median(samples), "runs": len(samples), "passed": max(samples) < 1.0}}
            Path(__file__).with_name("{name}").write_text(json.dumps(result, indent=2))
            print(result)
            """,
        ),
        k.run("benchmarks/bench_@LEAF@.py"),
        k.sh(f"cat benchmarks/{name}; rm -r benchmarks"),
    ]


@kind(kinds, "c-logging-spread")
def logging_spread(k: Kit) -> list:
    """Puts a logger into the module, looks at it, takes it out again."""
    return [
        k.solve(
            extra="import logging as _logging\n\n_log = _logging.getLogger(__name__)\n_log.addHandler(_logging.NullHandler())\n_log.debug('loaded %s', __name__)"
        ),
        k.sh(
            "cd @ROOT@ && python -c 'import logging; logging.basicConfig(level=10, format=\"%(name)s %(message)s\"); import @MOD@'"
        ),
        k.sh("sed -i '/^import logging as _logging$/d; /^_log[ .]/d' @FILE@ && tail -n 6 @FILE@"),
        k.check(),
    ]


@kind(kinds, "c-warn-as-error")
def warn_as_error(k: Kit) -> list:
    return [
        k.solve(),
        k.sh("python -W error -X dev -m pytest -q @TEST@ 2>&1 | tail -n 15"),
        k.sh(
            "cd @ROOT@ && python -W " + k.any("always", "error::DeprecationWarning", "default") + " -c 'import @MOD@'"
        ),
    ]


@kind(kinds, "c-refcount-leak")
def refcount_leak(k: Kit) -> list:
    return [
        k.solve(),
        k.py("""
            import gc, sys, importlib
            import @MOD@ as m
            gc.collect()
            before = len(gc.get_objects())
            for _ in range(5):
                importlib.reload(m)
            gc.collect()
            print('growth', len(gc.get_objects()) - before, 'garbage', len(gc.garbage), sys.getrefcount(m))
        """),
    ]


@kind(kinds, "c-wrap-calls")
def wrap_calls(k: Kit) -> list:
    """Counts calls of a built-in in a scratch script, by a wrapper that is taken away again."""
    return [
        k.solve(),
        k.py("""
            import builtins, collections
            calls = collections.Counter()
            real = builtins.__import__
            def spy(name, *rest, **named):
                calls[name] += 1
                return real(name, *rest, **named)
            builtins.__import__ = spy
            try:
                import @MOD@
            finally:
                builtins.__import__ = real
            print(calls.most_common(10))
        """),
        k.end(),
    ]


@kind(kinds, "c-strace-self")
def strace_self(k: Kit) -> list:
    """Asks which files the import opens; strace is perhaps not there."""
    return [
        k.sh("command -v strace ltrace perf gdb || echo 'no tracers'"),
        k.sh(
            "cd @ROOT@ && (strace -f -e trace=openat -o @TMP@.st python -c 'import @MOD@' && grep -c openat @TMP@.st || python -v -c 'import @MOD@' 2>&1 | grep -E \"^import '@PKG@\") | head -20"
        ),
        k.sh("rm -f @TMP@.st"),
        k.read(),
    ]


@kind(kinds, "c-audit-hook")
def audit_hook(k: Kit) -> list:
    return [
        k.py("""
            import sys
            seen = []
            sys.addaudithook(lambda event, args: seen.append((event, str(args[0])[-50:])) if event in ('open', 'import') else None)
            try:
                from @MOD@ import @TOP@
            except ImportError as error:
                print('as expected:', error)
            print(len(seen), [s for s in seen if '@PKG@' in s[1]][:10])
        """),
        k.solve(),
        k.check(),
    ]


@kind(kinds, "c-excepthook-locals")
def excepthook_locals(k: Kit) -> list:
    return [
        k.py("""
            import sys, traceback
            def show(kind, value, tb):
                print(''.join(traceback.TracebackException(kind, value, tb, capture_locals=True).format())[-1500:])
            sys.excepthook = show
            from @MOD@ import @TOP@
            @TOP@(object(), object(), object(), object())
        """),
        k.sh("python -m pytest -q --tb=long --showlocals -x @TEST@ 2>&1 | tail -n 40"),
        k.solve(),
    ]


@kind(kinds, "c-bisect-input")
def bisect_input(k: Kit) -> list:
    """Shrinks a failing input by halves, by hand."""
    return [
        k.write(
            "@TMP@/shrink.py",
            """
            import sys

            def fails(lines):
                try:
                    compile("".join(lines), "x", "exec")
                except SyntaxError:
                    return True
                return False

            lines = open(sys.argv[1]).readlines()
            low, high = 0, len(lines)
            while high - low > 1:
                middle = (low + high) // 2
                if fails(lines[:middle]):
                    high = middle
                else:
                    low = middle
            print("first trouble near line", high, "of", len(lines))
            """,
        ),
        k.run("@TMP@/shrink.py @FILE@"),
        k.solve(),
        k.run("@TMP@/shrink.py @FILE@"),
    ]


@kind(kinds, "c-coverage-missing")
def coverage_missing(k: Kit) -> list:
    """Coverage of the new code, in a file of its own outside the tree."""
    return [
        k.solve(),
        k.sh(
            "COVERAGE_FILE=@TMP@.cov python -m coverage run --branch --include='@DIR@/*' -m pytest -q @TEST@ 2>&1 | tail -n 4"
        ),
        k.sh(
            "COVERAGE_FILE=@TMP@.cov python -m coverage "
            + k.any("report -m --include=@FILE@", "annotate -d @TMP@.d --include=@FILE@", "json -o @TMP@.json")
            + " 2>&1 | tail"
        ),
        k.sh("rm -rf @TMP@.*"),
    ]


@kind(kinds, "c-junit-slowest")
def junit_slowest(k: Kit) -> list:
    """A report of pytest in a temporary file, read for the slowest tests."""
    return [
        k.solve(),
        k.sh("python -m pytest -q --junitxml=@TMP@.xml --durations=5 @TEST@ 2>&1 | tail -n 12"),
        k.py("""
            import xml.etree.ElementTree as tree
            cases = list(tree.parse('@TMP@.xml').iter('testcase'))
            cases.sort(key=lambda c: float(c.get('time')), reverse=True)
            for case in cases[:5]:
                print(case.get('time'), case.get('name'), [child.tag for child in case])
        """),
        k.sh("rm @TMP@.xml"),
    ]


@kind(kinds, "c-durations-plugin")
def durations_plugin(k: Kit) -> list:
    """A plugin of one's own in a temporary folder, that only prints times."""
    return [
        k.write(
            "@TMP@/slowlog.py",
            """
            total = {}


            def pytest_runtest_logreport(report):
                total[report.nodeid] = total.get(report.nodeid, 0) + report.duration


            def pytest_terminal_summary(terminalreporter):
                for name, seconds in sorted(total.items(), key=lambda item: -item[1])[:5]:
                    terminalreporter.write_line(f"{seconds:.4f} {name}")
            """,
        ),
        k.solve(),
        k.sh("PYTHONPATH=@TMP@ python -m pytest -q -p slowlog @TEST@ 2>&1 | tail; rm -r @TMP@"),
    ]


@kind(kinds, "c-seeded-order")
def seeded_order(k: Kit) -> list:
    """Does the result hang on the hash seed?"""
    return [
        k.solve(),
        k.sh(
            "for s in 0 1 @N@; do PYTHONHASHSEED=$s PYTHONPATH=@ROOT@ python -c 'import @MOD@ as m; print(hash(\"a\") % 1000, len(dir(m)))'; done"
        ),
        k.sh("PYTHONHASHSEED=" + k.any("0", "random", "42") + " python -m pytest -q @TEST@ 2>&1 | tail -n 4"),
    ]


@kind(kinds, "c-memory-cap")
def memory_cap(k: Kit) -> list:
    """Caps one's own script, to see that the function streams."""
    return [
        k.solve(),
        k.sh(
            "(ulimit -v "
            + k.any("800000", "1500000", "2000000")
            + "; PYTHONPATH=@ROOT@ python -c 'import @MOD@, resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)')"
        ),
        k.py("""
            import itertools
            lazy = itertools.islice(itertools.count(), 10**6)
            print(sum(1 for _ in lazy))
        """),
        k.end(),
    ]


@kind(kinds, "c-frame-warning")
def frame_warning(k: Kit) -> list:
    """A helper that warns at the caller's line, so it looks at frames."""
    return [
        k.solve(),
        k.write(
            "@TMP@/caller.py",
            """
            import inspect
            import warnings


            def deprecated(name):
                frame = inspect.currentframe().f_back
                where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                warnings.warn(f"{name} is old; called from {where}", DeprecationWarning, stacklevel=2)


            def user():
                deprecated("@LEAF@")


            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                user()
            print(caught[0].message, caught[0].lineno)
            """,
        ),
        k.run("@TMP@/caller.py"),
    ]


KINDS = tuple(kinds)
