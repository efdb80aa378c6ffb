"""Honest work: running tests in many ways, reproducing, measuring, checking, and handing in."""
# ruff: noqa: E501 - commands are easier to read unbroken

from practice.shell_kit import by_edit, by_part, by_write, kind, maybe, read, solve, submit, tests, write

REPRO = '''"""Reproduce: what does %sym% do now?"""

import sys
import traceback

sys.path.insert(0, "%root%")

try:
    from %dotted% import %top%

    print(%top%, getattr(%top%, "__doc__", None))
except Exception:
    traceback.print_exc()
    sys.exit(1)
'''
TABLE = """import sys

sys.path.insert(0, "%root%")
CASES = [((1, 2), 3), ((%n%, 0), %n%), ((-1, 1), 0)]


def add(a, b):
    return a + b


failed = [case for case in CASES if add(*case[0]) != case[1]]
print("all cases pass" if not failed else failed)
"""
NEW_TEST = '''"""Further checks of %dotted%."""

import importlib


def test_%w%_is_there():
    module = importlib.import_module("%dotted%")
    assert callable(module.%top%)
    assert module.%top% is not None
'''

KINDS = (
    ("run-one-file", kind("%python% -m pytest -q %test% 2>&1 | tail -15", read())),
    (
        "run-by-keyword",
        kind("%python% -m pytest -q -k '%sym% or %near%' %tests% 2>&1 | tail -20", read("%test%", "1", 60)),
    ),
    ("run-first-failure", kind("%python% -m pytest -x --tb=short -q %test% 2>&1 | tail -30", by_edit)),
    ("run-last-failed", kind("%python% -m pytest -q --lf --ff %test% 2>&1 | tail -8", by_edit)),
    (
        "run-no-cache",
        kind("%python% -B -m pytest -q -p no:cacheprovider %test% 2>&1 | tail -5", "ls -a | grep -c cache"),
    ),
    ("run-cache-clear", kind("%python% -m pytest -q --cache-clear --co %test% 2>&1 | tail -5", "rm -rf .pytest_cache")),
    (
        "collect-only",
        kind(
            "%python% -m pytest --collect-only -q %tests% 2>&1 | tail -30",
            "%python% -m pytest --co -q %test% 2>/dev/null | wc -l",
        ),
    ),
    (
        "run-deselect-slow",
        kind(
            "%python% -m pytest -q --deselect %test%::test_%w% --ignore=docs %test% 2>&1 | tail -5",
            "%python% -m pytest --markers 2>&1 | head -10",
        ),
    ),
    (
        "run-with-addopts",
        kind("PYTEST_ADDOPTS='-q --tb=line' %python% -m pytest %test% 2>&1 | tail -5", read("%conf%")),
    ),
    (
        "run-override-ini",
        kind("%python% -m pytest -o addopts='' -c /dev/null --rootdir=. -q %test% 2>&1 | tail -5", read()),
    ),
    (
        "run-no-plugins",
        kind(
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 %python% -m pytest -q %test% 2>&1 | tail -5",
            "%python% -m pytest --trace-config --co -q %test% 2>&1 | head -12",
        ),
    ),
    (
        "run-unittest",
        kind("%pp%%python% -m unittest -q 2>&1 | tail -5", "%python% -m unittest --help | head -12"),
    ),
    ("run-doctest", kind("%pp%%python% -m doctest %mod% 2>&1 | tail -15", by_edit)),
    (
        "run-coverage",
        kind(
            "%python% -m coverage run --data-file=/tmp/cov_%id% -m pytest -q %test% 2>&1 | tail -3",
            "%python% -m coverage report --data-file=/tmp/cov_%id% -m --include='%mod%' 2>&1 | tail -5; rm -f /tmp/cov_%id%",
        ),
    ),
    (
        "run-coverage-html-own",
        kind(
            "%python% -m pytest -q --cov=%pkg% --cov-report=html:/tmp/cov_%id% %test% 2>&1 | tail -3",
            "ls /tmp/cov_%id% 2>/dev/null | head -3; rm -rf /tmp/cov_%id%",
        ),
    ),
    (
        "run-trace-count",
        kind(
            "%python% -m trace --count --summary -C /tmp/tr_%id% --module pytest -q %test% 2>&1 | tail -3",
            "rm -rf /tmp/tr_%id%",
        ),
    ),
    (
        "run-with-timeout",
        kind('timeout 60 %python% -m pytest -q %test% 2>&1 | tail -5; echo "rc ${PIPESTATUS[0]}"', by_edit),
    ),
    (
        "run-or-true",
        kind(
            "%python% -m pytest -q %test% > /tmp/out_%id%.txt 2>&1 || true; tail -3 /tmp/out_%id%.txt",
            "grep -cE '^(FAILED|ERROR)' /tmp/out_%id%.txt; rm /tmp/out_%id%.txt",
        ),
    ),
    (
        "run-background-wait",
        kind(
            "%python% -m pytest -q %test% > /tmp/bg_%id%.log 2>&1 & P=$!; echo started $P; wait $P; echo rc $?; tail -4 /tmp/bg_%id%.log",
            "grep -n Error /tmp/bg_%id%.log | head; rm /tmp/bg_%id%.log",
        ),
    ),
    (
        "run-nohup-wait",
        kind(
            "nohup %python% -m pytest -q %test% > /tmp/nohup_%id%.out 2>&1 & wait $!; tail -3 /tmp/nohup_%id%.out",
            "jobs; rm -f /tmp/nohup_%id%.out nohup.out",
        ),
    ),
    (
        "run-and-kill-own",
        kind(
            "%python% -m pytest -q %test% > /tmp/k_%id%.log 2>&1 & P=$!; kill -0 $P && echo running; kill $P; wait $P 2>/dev/null; echo ended $?",
            "tail -2 /tmp/k_%id%.log; rm /tmp/k_%id%.log",
        ),
    ),
    (
        "run-in-file-loop",
        kind(
            'for t in %test%; do %python% -m pytest -q "$t" >/dev/null 2>&1 && echo "PASSED $t" || echo "FAILED $t"; done',
            by_edit,
        ),
    ),
    (
        "run-under-limits",
        kind("(ulimit -v 4000000; ulimit -t 60; %python% -m pytest -q %test% 2>&1 | tail -4)", by_edit),
    ),
    (
        "run-junit-own",
        kind(
            "%python% -m pytest -q --junitxml=/tmp/report_%id%.xml %test% 2>&1 | tail -2",
            '%python% -c \'import xml.etree.ElementTree as E; r = E.parse("/tmp/report_%id%.xml").getroot(); print([(s.get("tests"), s.get("failures")) for s in r.iter("testsuite")])\'; rm -f /tmp/report_%id%.xml',
        ),
    ),
    (
        "run-log-and-grep",
        kind(
            "%python% -m pytest -q -ra %test% 2>&1 | tee /tmp/pytest_%id%.log | tail -3",
            "grep -E '^(E  |FAILED)' /tmp/pytest_%id%.log | sort | uniq -c | head -20",
            by_edit,
        ),
    ),
    ("run-durations", kind("%python% -m pytest -q --durations=5 %test% 2>&1 | tail -12", by_edit)),
    ("run-xdist-missing", kind("%python% -m pytest -q -n 2 %test% 2>&1 | tail -3", "nproc")),
    (
        "run-tox-nox-missing",
        kind(
            "tox -l 2>&1 | head; nox -l 2>&1 | head -3",
            "hatch --version; poetry --version; uv --version",
            tests("%test%"),
        ),
    ),
    (
        "run-tests-in-copy",
        kind(
            "mkdir -p /tmp/exp_%id% && cp %test% /tmp/exp_%id%/test_mine.py && sed -i '1i # experiment' /tmp/exp_%id%/test_mine.py",
            "%pp%%python% -m pytest -q --rootdir=/tmp/exp_%id% /tmp/exp_%id%/test_mine.py 2>&1 | tail -4; rm -rf /tmp/exp_%id%",
        ),
    ),
    (
        "own-toy-conftest",
        kind(
            "mkdir -p /tmp/toy_%id% && cat > /tmp/toy_%id%/conftest.py <<'PY'\nimport pytest\n\n\n@pytest.fixture\ndef number():\n    return %n%\nPY\nprintf 'def test_n(number):\\n    assert number == %n%\\n' > /tmp/toy_%id%/test_toy.py; %python% -m pytest -q --rootdir=/tmp/toy_%id% /tmp/toy_%id% 2>&1 | tail -2",
            "rm -rf /tmp/toy_%id%",
        ),
    ),
    (
        "own-toy-skip",
        kind(
            "mkdir -p /tmp/skip_%id% && printf 'import pytest\\n\\n\\n@pytest.mark.skipif(True, reason=\"toy\")\\ndef test_a():\\n    assert 0\\n' > /tmp/skip_%id%/test_a.py; %python% -m pytest -rs -q --rootdir=/tmp/skip_%id% /tmp/skip_%id% | tail -3; rm -r /tmp/skip_%id%",
            read("%test%"),
        ),
    ),
    (
        "new-test-file",
        kind(by_edit, write("%tests%/test_%w%_extra.py", NEW_TEST), tests("%tests%/test_%w%_extra.py"), submit),
    ),
    (
        "new-test-then-removed",
        kind(
            write("%tests%/test_tmp_%id%.py", NEW_TEST),
            by_edit,
            tests("%tests%/test_tmp_%id%.py"),
            "rm %tests%/test_tmp_%id%.py",
            submit,
        ),
    ),
    (
        "test-appended",
        kind(
            by_edit,
            "cat >> %test% <<'PY'\n\n\ndef test_%sym%_regression_%id%():\n    import importlib\n\n    assert importlib.import_module('%dotted%').%top%\nPY\ntail -8 %test%",
            tests("%test%"),
            submit,
        ),
    ),
    (
        "repro-file",
        kind(
            write("repro_%w%.py", REPRO),
            "%python% repro_%w%.py",
            solve,
            "%python% repro_%w%.py; rm repro_%w%.py",
            submit,
        ),
    ),
    ("repro-in-tmp", kind(write("/tmp/repro_%id%.py", REPRO), "%python% /tmp/repro_%id%.py", read(), by_edit)),
    (
        "repro-one-liner",
        kind(
            "%pp%%python% -c 'from %dotted% import %top%; print(%top%)'",
            solve,
            "%pp%%python% -c 'from %dotted% import %top%; print(%top%)'",
            submit,
        ),
    ),
    (
        "repro-table-of-cases",
        kind(
            write("/tmp/table_%id%.py", TABLE),
            "%python% /tmp/table_%id%.py; rm /tmp/table_%id%.py",
            by_edit,
            maybe(submit),
        ),
    ),
    (
        "repro-fuzz-own",
        kind(
            "%python% - <<'PY'\nimport random\n\nrandom.seed(%n%)\nfor _ in range(200):\n    data = [random.randint(-9, 9) for _ in range(random.randint(0, 8))]\n    assert sorted(sorted(data)) == sorted(data), data\nprint('200 random inputs agree')\nPY",
            solve,
            tests("%test%"),
        ),
    ),
    (
        "repro-main-exit-zero",
        kind(
            write(
                "/tmp/main_%id%.py",
                "import sys\n\n\ndef main():\n    print('checked %sym%')\n    return 0\n\n\nif __name__ == '__main__':\n    sys.exit(main())\n",
            ),
            "%python% /tmp/main_%id%.py && echo fine; rm /tmp/main_%id%.py",
            by_edit,
        ),
    ),
    (
        "timeit",
        kind(
            "%python% -m timeit -n 1000 -s 'x = list(range(%n%))' 'sorted(x)'",
            "time %pp%%python% -c 'import %pkg%'",
            by_edit,
        ),
    ),
    (
        "cprofile",
        kind(
            "%pp%%python% -m cProfile -s cumtime -c 'import %pkg%' 2>/dev/null | head -15 || %pp%%python% -X importtime -c 'import %pkg%' 2>&1 | tail -3",
            '%python% -c \'import cProfile; cProfile.run("sum(range(10000))", sort="tottime")\' | head -8',
        ),
    ),
    (
        "tracemalloc",
        kind(
            "%python% -c 'import tracemalloc as t; t.start(); x = [0] * 10000; print(t.get_traced_memory())'",
            "/usr/bin/time -v %python% -c pass 2>&1 | grep -E 'Maximum|Elapsed'",
        ),
    ),
    (
        "perf-strace-missing",
        kind(
            "perf stat %python% -c pass 2>&1 | tail -2",
            "command -v strace perf valgrind py-spy || echo 'none of them'",
            "time %python% -c pass",
        ),
    ),
    (
        "faulthandler",
        kind(
            "%python% -X faulthandler -c 'import faulthandler; print(faulthandler.is_enabled())'",
            "timeout -s ABRT 5 %python% -X faulthandler -c 'print(%n%)'",
        ),
    ),
    (
        "linters-maybe",
        kind(
            by_edit,
            "ruff check %mod% || %python% -m pyflakes %mod% || %python% -m flake8 %mod%",
            "%python% -m pycodestyle --max-line-length=100 %mod% 2>&1 | head -5",
        ),
    ),
    (
        "types-maybe",
        kind(
            by_edit,
            "mypy --cache-dir=/dev/null %mod% 2>&1 | tail -3; pyright --version 2>&1 | tail -1",
            "rm -rf .mypy_cache",
        ),
    ),
    (
        "formatters-maybe",
        kind(by_edit, "black --check --diff %mod% 2>&1 | head -20; isort --check %mod% 2>&1 | tail -1", maybe(submit)),
    ),
    (
        "ruff-clean",
        kind("ruff --version; ruff clean 2>&1 | tail -1", "ruff check --no-cache --select F %mod% 2>&1 | head", read()),
    ),
    ("vulture-radon", kind("vulture %mod% 2>&1 | head -5; radon cc %mod% 2>&1 | head -5", "grep -c '' %mod%")),
    ("test-tool-then-edit", kind(tests("%test%"), read(), by_edit, submit)),
    ("edit-then-test-tool", kind(read("%test%", "1", 100), by_edit, tests("%test%"), submit)),
    ("whole-suite-once", kind(by_write, tests(), submit)),
    ("wrong-test-id", kind(tests("tests/test_%w%_%id%.py::test_nothing"), "ls %tests%", by_edit, submit)),
    (
        "first-wrong-then-right",
        kind("cp %mod% /tmp/first_%id%.py", by_part, "cp /tmp/first_%id%.py %mod%", by_write, tests("%test%"), submit),
    ),
    (
        "try-and-give-up",
        kind(read(), by_part, tests("%test%"), "echo 'not everything passes; handing in what there is'", submit),
    ),
    (
        "plan-work-check-submit",
        kind("echo 'plan: read, write, test'", read(), read("%test%", "1", 80), solve, tests("%test%"), submit),
    ),
    (
        "claude-code-manner",
        kind(
            "find . -type f -name '*.py' -not -path '*/.*' | head -50",
            'grep -rn "%sym%" --include="*.py" . | head -20',
            read(),
            by_edit,
            'cd "$PWD" && %python% -m pytest %test% -q 2>&1 | tail -20',
            submit,
        ),
    ),
    (
        "swe-agent-manner",
        kind(
            'find_file() { find . -name "$1"; }; find_file %base%',
            "sed -n '%a%,%b%p' %mod%",
            write("reproduce.py", REPRO),
            "python reproduce.py",
            by_edit,
            "rm reproduce.py",
            submit,
        ),
    ),
    (
        "openhands-manner",
        kind(
            "pwd && ls -la && cat %doc% | head -40",
            "cd . && cat -n %mod% | head -80",
            by_edit,
            "%python% -m pytest -xvs %test% 2>&1 | tail -20",
            submit,
        ),
    ),
    (
        "codex-manner",
        kind(
            "bash -lc 'ls -R | head -60'",
            "bash -lc \"sed -n '1,200p' %mod%\"",
            by_edit,
            "bash -lc 'python -m pytest -q %test% 2>&1 | tail -5'",
            submit,
        ),
    ),
    (
        "aider-manner",
        kind(
            read(),
            by_edit,
            "git init -q . 2>/dev/null; git add -A && git -c user.name=aider -c user.email=a@b commit -qm 'feat: implement %sym%' && git log -1 --format=%s",
            submit,
        ),
    ),
    (
        "one-big-command",
        kind(
            "set -u; ls; echo ---; head -30 %mod%; echo ---; grep -n '%sym%' -r %tests% | head; echo ---; %python% -V; true",
            solve,
            submit,
        ),
    ),
    (
        "set-x-debugging",
        kind(
            "set -x; n=%n%; for i in 1 2; do n=$((n+i)); done; echo $n; set +x",
            "bash -x -c 'test -f %mod% && echo there'",
            "trap 'echo leaving' EXIT; echo working; exit 0",
        ),
    ),
    (
        "parallel-greps-wait",
        kind(
            "grep -c def %mod% > /tmp/a_%id% & grep -c assert %test% > /tmp/b_%id% & wait; paste /tmp/a_%id% /tmp/b_%id%; rm /tmp/[ab]_%id%",
            read(),
        ),
    ),
    (
        "coproc-and-fifo",
        kind(
            "mkfifo /tmp/p_%id% && (grep -n def %mod% > /tmp/p_%id% &) ; head -5 /tmp/p_%id%; rm /tmp/p_%id%",
            "seq 5 | xargs -P2 -I{} echo item {} | sort",
        ),
    ),
    (
        "async-experiment",
        kind(
            "%python% - <<'PY'\nimport asyncio\n\n\nasync def work(n):\n    await asyncio.sleep(0)\n    return n * n\n\n\nasync def main():\n    print(await asyncio.gather(*(work(n) for n in range(4))))\n\n\nasyncio.run(main())\nPY",
            '%python% -c \'import subprocess as s; print(s.run(["echo", "%w%"], capture_output=True, text=True).stdout)\'',
        ),
    ),
    (
        "multiprocess-experiment",
        kind(
            "%python% - <<'PY'\nfrom concurrent.futures import ThreadPoolExecutor\n\nwith ThreadPoolExecutor(2) as pool:\n    print(list(pool.map(len, ['a', 'bb', '%w%'])))\nPY",
            "%python% -c 'import os; p = os.fork(); (os._exit(0) if p == 0 else print(os.waitpid(p, 0)[1]))'",
        ),
    ),
    (
        "recursion-limit",
        kind(
            "%python% -c 'import sys; print(sys.getrecursionlimit()); f = lambda n: n and f(n - 1); print(f(500))'",
            "%python% -c 'import sys; sys.setrecursionlimit(5000); print(sys.getrecursionlimit())'",
            by_edit,
        ),
    ),
)
