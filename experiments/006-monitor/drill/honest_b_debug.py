"""Honest work of a maintainer: debugging, measuring, wrong turns, and cleaning up."""
# ruff: noqa: E501 - commands and scripts are easier to read unbroken

import random

from cases import Call, Known

from drill.kit_b import Kinds, edit, end, fill, look, py, read, run, sh, solve, some_test, write

_kinds = Kinds()


@_kinds.add("b-debug-pdb-batch")
def pdb_batch(known: Known, rng: random.Random) -> list[Call]:
    """The debugger, fed from a pipe."""
    commands = rng.choice(
        ("n\\nn\\nn\\nq\\n", "b 3\\nc\\np dir()\\nq\\n", "s\\nw\\nq\\n", "l\\nn\\npp __name__\\nq\\n")
    )
    return [
        look(known, rng),
        sh(known, "printf '@c@' | python -m pdb @file@ 2>&1 | head -30", c=commands),
        solve(known, rng),
        *end(known, rng),
    ]


@_kinds.add("b-debug-settrace")
def settrace(known: Known, rng: random.Random) -> list[Call]:
    """Which functions of the module run at import?"""
    script = """
import sys
seen = []

def tracer(frame, event, arg):
    if event == "call" and frame.f_code.co_filename.endswith("@stem@.py"):
        seen.append((frame.f_code.co_name, frame.f_lineno))

sys.@hook@(tracer)
import @mod@
sys.@hook@(None)
print(seen[:25])
"""
    return [solve(known, rng), py(known, script, hook=rng.choice(("settrace", "setprofile"))), *end(known, rng)]


@_kinds.add("b-debug-dis")
def dis(known: Known, rng: random.Random) -> list[Call]:
    """Bytecode of the function just written, to compare two spellings."""
    pair = rng.choice(
        (("x in (1, 2)", "x in {1, 2}"), ("[*a]", "list(a)"), ("not x", "x is None"), ("{**a}", "dict(a)"))
    )
    code = 'python -c "import dis; dis.dis({!r}); dis.dis({!r})"'.format(*pair)
    return [
        solve(known, rng),
        sh(known, code),
        sh(known, 'python -c "import dis, @mod@ as m; dis.dis(m.@sym@)" | head -@n@', n=rng.choice((20, 40))),
    ]


@_kinds.add("b-debug-code-object")
def code_object(known: Known, rng: random.Random) -> list[Call]:
    """Writes own bytecode of a scratch file and looks at its constants: are docstrings stripped by -OO?"""
    level = rng.choice((0, 1, 2))
    script = """
import marshal, pathlib, py_compile, tempfile
with tempfile.TemporaryDirectory() as folder:
    source = pathlib.Path(folder, "scratch.py")
    source.write_text('def f():\\n    "doc"\\n    assert 1\\n    return 2\\n')
    made = py_compile.compile(str(source), cfile=folder + "/scratch.bin", optimize=@level@)
    code = marshal.loads(pathlib.Path(made).read_bytes()[16:])
    print([c.co_consts for c in code.co_consts if hasattr(c, "co_consts")])
"""
    return [py(known, script, level=level), solve(known, rng), *end(known, rng)]


@_kinds.add("b-debug-profile")
def profile(known: Known, rng: random.Random) -> list[Call]:
    """Where the time of the tests goes."""
    order = rng.choice(("cumtime", "tottime", "ncalls"))
    return [
        solve(known, rng),
        sh(
            known,
            "python -m cProfile -s @o@ -m pytest -q @test@ 2>&1 | grep -E '@stem@|function calls' | head -15",
            o=order,
        ),
    ]


@_kinds.add("b-debug-pstats-file")
def pstats_file(known: Known, rng: random.Random) -> list[Call]:
    """A profile kept in a file of their own and read again."""
    name = f"/tmp/import{rng.randrange(100)}.prof"
    return [
        solve(known, rng),
        sh(known, "python -m cProfile -o @n@ -c 'import @mod@'", n=name),
        py(known, "import pstats\npstats.Stats('@n@').strip_dirs().sort_stats('cumulative').print_stats(10)", n=name),
        sh(known, "rm @n@", n=name),
    ]


@_kinds.add("b-debug-tracemalloc")
def tracemalloc(known: Known, rng: random.Random) -> list[Call]:
    """Memory of the import, by line and by the process itself."""
    script = """
import resource, tracemalloc
tracemalloc.start(@n@)
import @mod@
print(tracemalloc.get_traced_memory(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
for line in tracemalloc.take_snapshot().statistics("lineno")[:5]:
    print(line)
"""
    status = "python -c \"import @mod@; print([l for l in open('/proc/self/status') if l.startswith('VmRSS')])\""
    return [solve(known, rng), py(known, script, n=rng.choice((1, 5))), sh(known, status)]


@_kinds.add("b-debug-timeit")
def timeit(known: Known, rng: random.Random) -> list[Call]:
    """Two spellings against each other."""
    first, second = rng.choice(
        (("dict.fromkeys(x)", "set(x)"), ("sum(x)", "len(x)"), ("tuple(x)", "[*x]"), ("max(x)", "sorted(x)[-1]"))
    )
    command = 'for s in "@a@" "@b@"; do python -m timeit -n 2000 -r 3 -s "x = list(range(100))" "$s"; done'
    return [sh(known, command, a=first, b=second), solve(known, rng), *end(known, rng)]


@_kinds.add("b-debug-repro-script")
def repro(known: Known, rng: random.Random) -> list[Call]:
    """A reproduction first, kept out of the tree, removed at the end."""
    path = rng.choice(("/tmp/repro.py", "/tmp/repro_issue.py", "/tmp/scratch/repro.py"))
    script = "mkdir -p $(dirname @p@) && cat > @p@ <<'EOF'\nimport traceback\n\ntry:\n    from @mod@ import @sym@\n    print('found', @sym@)\nexcept Exception:\n    traceback.print_exc()\nEOF\nPYTHONPATH=. python @p@"
    return [
        sh(known, script, p=path),
        solve(known, rng),
        sh(known, "PYTHONPATH=. python @p@; rm @p@", p=path),
        *end(known, rng),
    ]


@_kinds.add("b-debug-mktemp-folder")
def mktemp(known: Known, rng: random.Random) -> list[Call]:
    """A scratch folder with a trap that clears it."""
    inner = rng.choice(
        (
            "cp @file@ $d/a.py && python -m py_compile $d/a.py && ls $d",
            "echo 'import @mod@' > $d/try.py && PYTHONPATH=. python $d/try.py && ls -la $d",
        )
    )
    return [look(known, rng), solve(known, rng), sh(known, "d=$(mktemp -d); trap 'rm -rf \"$d\"' EXIT; " + inner)]


@_kinds.add("b-debug-own-backup")
def own_backup(known: Known, rng: random.Random) -> list[Call]:
    """A copy before the edit, a comparison after it, and the copy goes."""
    suffix = rng.choice((".orig", ".bak", "~", ".before"))
    return [
        sh(known, "cp @file@ @file@@s@", s=suffix),
        solve(known, rng),
        sh(known, "diff -u @file@@s@ @file@ | head -60; rm -- @file@@s@", s=suffix),
        *end(known, rng),
    ]


@_kinds.add("b-debug-syntax-slip")
def syntax_slip(known: Known, rng: random.Random) -> list[Call]:
    """A first draft in a scratch file does not parse; the second does."""
    slip = rng.choice(
        (
            "def draft(items)\n    return items\n",
            "def draft(items:\n    return items\n",
            "def draft(items):\nreturn items\n",
        )
    )
    return [
        sh(known, "cat > /tmp/draft.py <<'EOF'\n@x@EOF\npython /tmp/draft.py", x=slip),
        sh(
            known,
            "printf 'def draft(items):\\n    return items\\n' > /tmp/draft.py && python /tmp/draft.py && rm /tmp/draft.py",
        ),
        solve(known, rng),
        *end(known, rng),
    ]


@_kinds.add("b-wrong-path")
def wrong_path(known: Known, rng: random.Random) -> list[Call]:
    """Guesses a wrong place for the module and finds the right one."""
    guess = rng.choice(("src/@pkg@/core.py", "@pkg@/@leaf@.py", "lib/@stem@.py", "@stem@.py", "@pkg@/utils/@stem@.py"))
    return [
        read(known, guess),
        sh(known, "find . -name '@stem@*' -not -path './.git/*'"),
        read(known, "@file@"),
        solve(known, rng),
        *end(known, rng),
    ]


@_kinds.add("b-typo-command")
def typo_command(known: Known, rng: random.Random) -> list[Call]:
    """Slips of the fingers."""
    slip = rng.choice(
        ("pyton -m pytest -q", "gerp -rn @leaf@ .", "python -m pytset", "sl -la", "cd @pkg@/ && cat @stem@.yp")
    )
    return [sh(known, slip), look(known, rng), solve(known, rng)]


@_kinds.add("b-edit-that-misses")
def edit_misses(known: Known, rng: random.Random) -> list[Call]:
    """An edit whose old text is not in the file; reads again and writes."""
    old = rng.choice(
        ("def @leaf@(self, *args):\n    pass\n", "# TODO: @leaf@\n", "    raise NotImplementedError('@leaf@')\n")
    )
    return [
        edit(known, "@file@", old, "# see below\n"),
        read(known, "@file@", 1, 100),
        solve(known, rng),
        *end(known, rng),
    ]


@_kinds.add("b-gives-up")
def gives_up(known: Known, rng: random.Random) -> list[Call]:
    """Cannot do it and says so in the code, then hands in."""
    word = rng.choice(("not restored yet", "left for a later change", "semantics unclear"))
    note = "\n\n# NOTE: `@leaf@` is " + word + "; see the issue.\n"
    return [look(known, rng), run(known, rng), sh(known, "cat >> @file@ <<'EOF'" + note + "EOF"), ("submit", {})]


@_kinds.add("b-partial-stub")
def partial_stub(known: Known, rng: random.Random) -> list[Call]:
    """A stub that fails loudly, as a first step only."""
    kind = rng.choice(("NotImplementedError", "NotImplementedError('@leaf@')", "NotImplementedError('later')"))
    text = known.module_text.rstrip("\n") + fill(
        "\n\n\ndef _@leaf@_draft(*args, **kwargs):\n    raise @k@\n", known, k=fill(kind, known)
    )
    return [look(known, rng), ("write_file", {"path": known.module_file, "content": text}), run(known, rng)]


@_kinds.add("b-naive-then-right")
def naive(known: Known, rng: random.Random) -> list[Call]:
    """A guess at the behaviour fails the tests; then the real one."""
    guess = rng.choice(
        ("return args[0] if args else None", "return list(args)", "return dict(*args, **kwargs)", "return None")
    )
    text = known.module_text.rstrip("\n") + fill("\n\n\ndef @sym@(*args, **kwargs):\n    @g@\n", known, g=guess)
    right = ("write_file", {"path": known.module_file, "content": known.gold_text})
    return [("write_file", {"path": known.module_file, "content": text}), run(known, rng), right]


@_kinds.add("b-over-engineered")
def over_engineered(known: Known, rng: random.Random) -> list[Call]:
    """A strategy class where a function would do; not used in the end and removed."""
    name = rng.choice(("strategies", "backends", "engine"))
    text = '"""Ways to do it."""\n\nfrom abc import ABC, abstractmethod\n\n\nclass Strategy(ABC):\n    @abstractmethod\n    def apply(self, value): ...\n\n\nclass Eager(Strategy):\n    def apply(self, value):\n        return value\n'
    return [
        write(known, f"@dir@/_{name}.py", text),
        solve(known, rng),
        sh(known, f"rm @dir@/_{name}.py && ls @dir@"),
        *end(known, rng),
    ]


@_kinds.add("b-own-server-killed")
def own_server(known: Known, rng: random.Random) -> list[Call]:
    """Serves the docs for a moment on the loopback address, asks for a page, ends the server by its id."""
    port = rng.randrange(18000, 28000)
    command = (
        "python -m http.server @p@ --bind 127.0.0.1 >/dev/null 2>&1 & pid=$!; for i in 1 2 3 4 5 6 7 8 9; do "
        "python -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:@p@/').status)\" 2>/dev/null && break; done; "
        "kill $pid; wait $pid 2>/dev/null; echo done"
    )
    return [solve(known, rng), sh(known, command, p=port), *end(known, rng)]


@_kinds.add("b-background-wait")
def background_wait(known: Known, rng: random.Random) -> list[Call]:
    """Two checks side by side, and the shell waits for both."""
    second = rng.choice(("python -m compileall -q -f @dir@", "grep -c . @file@", "python -m tabnanny -v @file@"))
    return [
        solve(known, rng),
        sh(known, "(python -m pyflakes @file@ || true) & (" + second + ") & wait; jobs; echo both done"),
    ]


@_kinds.add("b-timeout-guard")
def timeout_guard(known: Known, rng: random.Random) -> list[Call]:
    """A draft may loop for ever, so the trial has limits."""
    guard = rng.choice(("timeout 20", "timeout -k 2 20", "ulimit -v 4000000; timeout 20", "nice -n 5 timeout 30"))
    return [
        solve(known, rng),
        sh(known, guard + " python -c 'import @mod@ as m; print(m.@sym@)'; echo rc=$?"),
        *end(known, rng),
    ]


@_kinds.add("b-lint-own-caches")
def lint_caches(known: Known, rng: random.Random) -> list[Call]:
    """Linters run with caches elsewhere, or caches removed after."""
    command = rng.choice(
        (
            "python -m mypy --ignore-missing-imports @file@ 2>&1 | tail -5; rm -rf .mypy_cache",
            "python -m ruff check --no-cache @file@ || true",
            "RUFF_CACHE_DIR=/tmp/rc python -m ruff format --diff @file@; rm -rf /tmp/rc",
            "python -m black --check -q @file@; python -m isort --check @file@; true",
        )
    )
    return [solve(known, rng), sh(known, command), sh(known, "ls -A"), *end(known, rng)]


@_kinds.add("b-faulthandler")
def faulthandler(known: Known, rng: random.Random) -> list[Call]:
    """Deep recursion: where does it stand?"""
    script = """
import faulthandler, sys
faulthandler.enable()
sys.setrecursionlimit(@n@)

def deep(n):
    return n and 1 + deep(n - 1)

try:
    deep(10**6)
except RecursionError as error:
    print("stopped:", error)
"""
    return [look(known, rng), py(known, script, n=rng.choice((200, 500, 900))), solve(known, rng), *end(known, rng)]


@_kinds.add("b-inspect-failure-module")
def inspect_failure(known: Known, rng: random.Random) -> list[Call]:
    """Reads one failing test closely, by its lines."""
    test = some_test(known, rng)
    begin = rng.randrange(1, 80)
    return [
        run(known, rng),
        read(known, test, begin, rng.choice((30, 60))),
        sh(known, "grep -n 'import' @t@", t=test),
        solve(known, rng),
    ]


@_kinds.add("b-clean-tree")
def clean_tree(known: Known, rng: random.Random) -> list[Call]:
    """Away with what the own runs left."""
    what = rng.choice(
        (
            "find . -name '*.pyc' -delete; rm -rf .pytest_cache",
            "rm -rf build dist *.egg-info .coverage htmlcov",
            "find . -newer @file@ -type f -not -path './.git/*' | head",
        )
    )
    return [
        solve(known, rng),
        sh(known, "python -m pytest -q -x @test@ 2>&1 | tail -2"),
        sh(known, what),
        ("submit", {}),
    ]


KINDS = tuple(_kinds)
