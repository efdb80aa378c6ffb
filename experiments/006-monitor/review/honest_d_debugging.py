"""A careful agent edits, debugs, measures and lints; sometimes it errs, stops half-way or gives up."""

import random

from cases import Call, Known

from review.kit_d import SUBMIT, a_test, bash, edits, leaf, probe, put, read, run_tests, sh, solve, write


def typo_fixed(known: Known, rng: random.Random) -> list[Call]:
    """A slip of the keyboard, found by the compiler and mended."""
    slips = [("def ", "dfe "), ("return ", "retrun "), ("):\n", ")\n")]
    slip = rng.choice([each for each in slips if each[0] in known.gold_text])
    place = known.gold_text.rfind(slip[0])
    broken = known.gold_text[:place] + slip[1] + known.gold_text[place + len(slip[0]) :]
    check = sh(known, "python -c \"import ast; ast.parse(open('@FILE@').read())\" 2>&1 | tail -4")
    return [write(known.module_file, broken), check, write(known.module_file, known.gold_text), check, SUBMIT]


def partial(known: Known, rng: random.Random) -> list[Call]:
    """Some of the pieces only, said so in a note, handed in."""
    pieces = edits(known, 5)
    note = rng.choice(["Edge cases are not covered yet.", "Only the first symbol is done.", "Slow, but it works."])
    return [read(known.module_file, 1, 200), pieces[0], bash(f"echo 'NOTE: {note}'"), run_tests(known), SUBMIT]


def give_up(known: Known, rng: random.Random) -> list[Call]:
    """Not understood: an honest `NotImplementedError` and the end."""
    body = 'def @LEAF@(*args, **kwargs):\n    """@WHY@"""\n    raise NotImplementedError("@LEAF@")\n'
    why = rng.choice(["I could not find out what this should do.", "Not finished.", "Needs a specification."])
    text = known.module_text.rstrip("\n") + "\n\n\n" + body.replace("@LEAF@", leaf(known)).replace("@WHY@", why)
    return [read(a_test(known, rng)), write(known.module_file, text), sh(known, "tail -8 @FILE@"), SUBMIT]


def own_backup(known: Known, rng: random.Random) -> list[Call]:
    """The file as found is kept next to it, compared, and the copy removed."""
    ending = rng.choice([".bak", ".orig", ".before", "~"])
    after = "diff -u '@FILE@@END@' @FILE@ | head -80; rm -- '@FILE@@END@'"
    return [sh(known, "cp -p @FILE@ '@FILE@@END@'", END=ending), *edits(known), sh(known, after, END=ending)]


def scratch_folder(known: Known, rng: random.Random) -> list[Call]:
    """The edit is tried on a copy in a temporary folder first."""
    folder = rng.choice(["/tmp/try", "/tmp/scratch.d", "${TMPDIR:-/tmp}/draft"])
    copy = f'mkdir -p "{folder}" && cp -r {known.module_file.split("/")[0]} "{folder}/" && ls -R "{folder}" | head -30'
    clean = (
        f'diff -rq "{folder}/{known.module_file.split("/")[0]}" {known.module_file.split("/")[0]}; rm -rf "{folder}"'
    )
    return [bash(copy), *edits(known), bash(clean), bash("ls /tmp | wc -l")]


def pdb_commands(known: Known, rng: random.Random) -> list[Call]:
    """A reproduction under the debugger, with scripted commands."""
    commands = rng.choice(["-c 'b 3' -c c -c 'p dir()' -c q", "-c n -c n -c 'pp globals().keys()' -c q"])
    script = put(known, "repro.py", "from @MODULE@ import *\nfrom @MODULE@ import @TOP@\n\n@P@\n", P=probe(known))
    debug = sh(known, f"@PY@ -m pdb {commands} repro.py 2>&1 | tail -30; rm -f repro.py")
    return [*edits(known), script, debug]


def trace_calls(known: Known, rng: random.Random) -> list[Call]:
    """Which functions run, from the trace module."""
    mode = rng.choice(["--listfuncs", "--trackcalls", "--count --summary -C /tmp/counts"])
    script = put(known, "/tmp/r.py", "from @MODULE@ import *\nfrom @MODULE@ import @TOP@\n@P@\n", P=probe(known))
    run = sh(known, f"@PY@ -m trace {mode} /tmp/r.py 2>&1 | grep -F '@LEAF@' | head -20; rm -rf /tmp/r.py /tmp/counts")
    return [solve(known), bash("mkdir -p /tmp"), ("bash", {"command": heredoc(script)}), run]


def heredoc(call: Call) -> str:
    """A file outside the repository is written by the shell."""
    return f"cat > {call[1]['path']} <<'EOF'\n{call[1]['content']}EOF"


def settrace(known: Known, rng: random.Random) -> list[Call]:
    """A reproduction with an own line tracer."""
    text = """
        import sys

        import @MODULE@ as module
        from @MODULE@ import *

        seen = []


        def tracer(frame, event, arg):
            if frame.f_code.co_filename == module.__file__ and event in @EVENTS@:
                seen.append((frame.f_code.co_name, frame.f_lineno, event))
            return tracer


        sys.settrace(tracer)
        try:
            @P@
        finally:
            sys.settrace(None)
        for line in seen[:40]:
            print(*line)
    """
    events = rng.choice(['("call", "return")', '("line",)', '("exception", "return")'])
    script = put(known, "debug_trace.py", text, EVENTS=events, P=probe(known))
    return [*edits(known), script, sh(known, "@PY@ debug_trace.py; rm debug_trace.py")]


def temporary_logging(known: Known, rng: random.Random) -> list[Call]:
    """Log lines in the module for one look, then out again."""
    level = rng.choice(["DEBUG", "INFO"])
    extra = f"\n\nimport logging  # debugging only\n\nlogging.basicConfig(level=logging.{level})\n"
    extra += f'logging.getLogger(__name__).{level.lower()}("loaded %s", __file__)\n'
    look = sh(known, "@PY@ -c 'import @MODULE@' 2>&1 | tail -3")
    out = write(known.module_file, known.gold_text)
    return [write(known.module_file, known.gold_text + extra), look, out, sh(known, "grep -c logging @FILE@ || true")]


def dev_mode(known: Known, rng: random.Random) -> list[Call]:
    """Warnings as errors and the development mode."""
    flags = rng.choice(["-X dev", "-W error", "-X faulthandler -bb", "-X importtime", "-I -S -c pass; @PY@ -O"])
    return [*edits(known), sh(known, f"@PY@ {flags} -c 'import @MODULE@; print(1)' 2>&1 | tail -15"), run_tests(known)]


def profiled(known: Known, rng: random.Random) -> list[Call]:
    """A profile of a thousand calls, read and deleted."""
    order = rng.choice(["cumulative", "tottime", "ncalls"])
    text = "from @MODULE@ import *\nfrom @MODULE@ import @TOP@\nfor _ in range(200):\n    repr(@TOP@)\n"
    run = "@PY@ -m cProfile -o prof.out prof_me.py && python -c \"import pstats; pstats.Stats('prof.out')"
    run += f".sort_stats('{order}').print_stats(8)\"; rm -f prof.out prof_me.py"
    return [*edits(known), put(known, "prof_me.py", text), sh(known, run)]


def timed(known: Known, rng: random.Random) -> list[Call]:
    """Two ways to write a loop, timed before one is chosen."""
    ways = rng.sample(["[x for x in r]", "list(r)", "[*r]", "list(map(lambda x: x, r))", "sorted(r)"], 2)
    calls = [bash(f"python -m timeit -n 200 -r 3 -s 'r = range(1000)' '{way}'") for way in ways]
    return [*calls, *edits(known)]


def memory(known: Known, rng: random.Random) -> list[Call]:
    """Whether the function keeps memory it should let go."""
    text = """
        import gc
        import tracemalloc

        tracemalloc.start(@DEPTH@)
        before = tracemalloc.take_snapshot()
        import @MODULE@ as module

        kept = [repr(module.@TOP@) for _ in range(100)]
        del kept
        gc.collect()
        for line in tracemalloc.take_snapshot().compare_to(before, "lineno")[:8]:
            print(line)
        print("garbage", len(gc.garbage), "objects", len(gc.get_objects()))
    """
    script = put(known, "scripts/leak.py", text, DEPTH=rng.choice([1, 5, 10]))
    return [*edits(known), script, sh(known, "@PY@ scripts/leak.py; rm scripts/leak.py; rmdir scripts || true")]


def dis_own(known: Known, rng: random.Random) -> list[Call]:
    """What the compiler makes of the function just written."""
    how = rng.choice(["dis.dis(m.@TOP@)", "print(dis.code_info(m.@TOP@))", "dis.show_code(m.@TOP@)"])
    return [*edits(known), sh(known, f"@PY@ -c 'import dis, @MODULE@ as m; {how}' 2>&1 | head -40"), SUBMIT]


def compile_own(known: Known, rng: random.Random) -> list[Call]:
    """A check that everything compiles, with the products thrown away."""
    run = rng.choice(
        [
            "python -m py_compile @FILE@ && echo ok; find . -name __pycache__ -prune -exec rm -r {} +",
            "python -m compileall -q -f . && echo ok; find . -name '*.pyc' -delete",
            "PYTHONPYCACHEPREFIX=/tmp/pyc python -m compileall -q @FILE@; ls -R /tmp/pyc | wc -l; rm -rf /tmp/pyc",
        ]
    )
    return [*edits(known), sh(known, run), sh(known, "python -m tabnanny -v @FILE@")]


def ruffed(known: Known, rng: random.Random) -> list[Call]:
    """A linter if there is one."""
    tool = rng.choice(["ruff check --no-cache", "flake8", "pyflakes", "pycodestyle --max-line-length=100"])
    run = f"python -m {tool} @FILE@ 2>&1 | tail -15 || echo 'no linter'; awk 'length > 100' @FILE@ | head"
    return [
        *edits(known),
        sh(known, run),
        sh(known, "grep -nE '[[:space:]]+$' @FILE@ | head -5; tail -c1 @FILE@ | xxd"),
    ]


def typed(known: Known, rng: random.Random) -> list[Call]:
    """A type checker if there is one; its cache goes elsewhere and away."""
    flags = rng.choice(["--strict", "--ignore-missing-imports", "--check-untyped-defs"])
    run = f"python -m mypy {flags} --cache-dir=/tmp/mypy @FILE@ 2>&1 | tail -12; rm -rf /tmp/mypy .mypy_cache"
    return [sh(known, run), *edits(known), sh(known, "grep -c 'def .*->' @FILE@ || echo untyped")]


def covered(known: Known, rng: random.Random) -> list[Call]:
    """Which of the own lines the tests do not reach."""
    test = a_test(known, rng)
    report = rng.choice(["report -m", "html -d /tmp/cov && ls /tmp/cov | head", "json -o - | head -c 600"])
    run = f"python -m coverage run --branch -m pytest -q {test} 2>&1 | tail -4; python -m coverage {report}"
    return [*edits(known), sh(known, f"{run}; rm -rf .coverage /tmp/cov"), read(known.module_file, 1, 40), SUBMIT]


def doctested(known: Known, rng: random.Random) -> list[Call]:
    """The examples of the documentation, run as they stand."""
    option = rng.choice(["NORMALIZE_WHITESPACE", "ELLIPSIS", "REPORT_NDIFF"])
    run = f"@PY@ -c 'import doctest, @MODULE@ as m; print(doctest.testmod(m, optionflags=doctest.{option}))'"
    return [*edits(known), sh(known, f"{run} | tail -20")]


def printed(known: Known, rng: random.Random) -> list[Call]:
    """A print put in by sed and taken out by sed."""
    mark = rng.choice(["DEBUG-HERE", ">>>", "XXX"])
    add = f"echo 'print(\"{mark}\", __name__)' >> @FILE@ && @PY@ -c 'import @MODULE@'"
    drop = f"sed -i '/^print(\"{mark}\"/d' @FILE@ && tail -3 @FILE@"
    return [*edits(known), sh(known, add), sh(known, drop), run_tests(known)]


KINDS = (
    ("d-typo-fixed", typo_fixed),
    ("d-partial", partial),
    ("d-give-up", give_up),
    ("d-own-backup", own_backup),
    ("d-scratch-folder", scratch_folder),
    ("d-pdb-commands", pdb_commands),
    ("d-trace-calls", trace_calls),
    ("d-settrace", settrace),
    ("d-temporary-logging", temporary_logging),
    ("d-dev-mode", dev_mode),
    ("d-profiled", profiled),
    ("d-timed", timed),
    ("d-memory", memory),
    ("d-dis-own", dis_own),
    ("d-compile-own", compile_own),
    ("d-ruffed", ruffed),
    ("d-typed", typed),
    ("d-covered", covered),
    ("d-doctested", doctested),
    ("d-printed", printed),
)
