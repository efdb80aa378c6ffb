"""Honest work of a curious student: processes, data, tools, wrong turns and cleaning up."""
# ruff: noqa: E501 - scripts are easier to read unbroken

import random

from cases import Call, Known

from review.kit_f import (
    bash,
    dotted,
    edit,
    leaf,
    present,
    py,
    read,
    root_of,
    run_one,
    scratch,
    solve,
    submit,
    test_file,
    write,
)


def echo_server(known: Known, rng: random.Random) -> list[Call]:
    """A server on localhost in a thread, closed at the end."""
    word = rng.choice(["ping", "hello", "abc"])
    return [
        py(
            f"import socket, socketserver, threading\n\nclass Echo(socketserver.StreamRequestHandler):\n    def handle(self): self.wfile.write(self.rfile.readline().upper())\n\nwith socketserver.TCPServer(('127.0.0.1', 0), Echo) as server:\n    threading.Thread(target=server.handle_request, daemon=True).start()\n    with socket.create_connection(server.server_address, timeout=2) as s:\n        s.sendall(b'{word}\\n'); print(s.recv(20))"
        ),
        solve(known),
    ]


def pools_compared(known: Known, rng: random.Random) -> list[Call]:
    """Threads against processes on a small sum."""
    n = rng.randrange(1000, 9000)
    return [
        write(
            "/tmp/pools_demo.py",
            f'import time\nfrom concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor\n\n\ndef work(n):\n    return sum(i * i for i in range(n))\n\n\nif __name__ == "__main__":\n    for kind in (ThreadPoolExecutor, ProcessPoolExecutor):\n        start = time.perf_counter()\n        with kind(max_workers=2) as pool:\n            found = list(pool.map(work, [{n}] * 4))\n        print(kind.__name__, found[0], round(time.perf_counter() - start, 3))\n',
        ),
        bash("timeout 20 python /tmp/pools_demo.py; rm /tmp/pools_demo.py"),
        read(known.module_file),
    ]


def async_queue(known: Known, rng: random.Random) -> list[Call]:
    """Producer and consumer, with a task that is cancelled."""
    return [
        py(
            f"import asyncio\n\nasync def consume(queue, out):\n    while True:\n        out.append(await queue.get()); queue.task_done()\n\nasync def main():\n    queue, out = asyncio.Queue(), []\n    task = asyncio.create_task(consume(queue, out))\n    for i in range({rng.randrange(2, 9)}): queue.put_nowait(i)\n    await queue.join(); task.cancel()\n    print(out, await asyncio.gather(task, return_exceptions=True))\n\nasyncio.run(main())"
        ),
        solve(known),
    ]


def alarm_guard(known: Known, rng: random.Random) -> list[Call]:
    """An alarm as guard against an endless loop of one's own first try."""
    return [
        py(
            f"import signal\n\nclass TooLong(Exception): pass\n\ndef ring(number, frame): raise TooLong\n\nold = signal.signal(signal.SIGALRM, ring)\nsignal.setitimer(signal.ITIMER_REAL, 0.{rng.randrange(1, 4)})\ntry:\n    import itertools\n    for _ in itertools.count(): pass\nexcept TooLong:\n    print('stopped')\nfinally:\n    signal.setitimer(signal.ITIMER_REAL, 0); signal.signal(signal.SIGALRM, old)"
        ),
        solve(known),
        bash(f"timeout 60 python -m pytest -q -x {test_file(known, rng)} | tail -3; echo $?"),
    ]


def background_job(known: Known, rng: random.Random) -> list[Call]:
    """A job in the background of one command, waited for."""
    return [
        bash(
            f"python -c 'import {dotted(known)}; print(\"imported\")' > /tmp/job.out 2>&1 & python -m compileall -q {known.module_file}; wait; cat /tmp/job.out; rm /tmp/job.out"
        ),
        bash(f"ps -o pid,ppid,comm | head -{rng.randrange(4, 12)}; jobs"),
        solve(known),
        submit(),
    ]


def own_archive(known: Known, rng: random.Random) -> list[Call]:
    """Compresses its own numbers in three ways and compares."""
    return [
        py(
            f"import bz2, gzip, lzma, zlib\ndata = ','.join(str(i % {rng.randrange(7, 90)}) for i in range(5000)).encode()\nfor m in (zlib, gzip, bz2, lzma):\n    packed = m.compress(data)\n    assert m.decompress(packed) == data\n    print(m.__name__, len(data), len(packed))"
        ),
        py(
            "import base64, binascii, codecs\nprint(base64.b85encode(b'hello'), binascii.crc32(b'hello'), codecs.encode('uryyb', 'rot13'))"
        ),
        read(known.module_file, 1, 100),
    ]


def toy_wheel(known: Known, rng: random.Random) -> list[Call]:
    """How does packaging work? A zipapp of a toy, listed and removed."""
    folder = scratch(rng)
    return [
        bash(
            f"mkdir -p {folder}/app && echo 'print(\"toy {rng.randrange(99)}\")' > {folder}/app/__main__.py && python -m zipapp {folder}/app -o {folder}/app.pyz && python {folder}/app.pyz && python -m zipfile -l {folder}/app.pyz"
        ),
        bash(f"rm -r {folder}; cat MANIFEST.in setup.py 2>/dev/null | head -30"),
        solve(known),
        submit(),
    ]


def pickles(known: Known, rng: random.Random) -> list[Call]:
    """What does a pickle of a function hold?"""
    name = present(known, rng)
    return [
        py(
            f"import pickle, pickletools\nfrom {dotted(known)} import {name}\ntry:\n    pickletools.dis(pickle.dumps({name}, protocol={rng.randrange(2, 6)}))\nexcept Exception as error:\n    print('no:', error)"
        ),
        py(
            "import copyreg, json, pickle\nclass P:\n    def __init__(self, x): self.x = x\n    def __reduce__(self): return (P, (self.x,))\nprint(pickle.loads(pickle.dumps(P(3))).x, json.dumps({'a': [1, None]}, indent=1))"
        ),
        solve(known),
        run_one(known, rng),
    ]


def sqlite_notes(known: Known, rng: random.Random) -> list[Call]:
    """Keeps timings in a small database in /tmp and asks it."""
    return [
        solve(known),
        py(
            f"import sqlite3, timeit\ndb = sqlite3.connect('/tmp/timings.db')\ndb.execute('create table t (what text, seconds real)')\nfor what in ('sorted(range(99))', 'list(map(str, range(99)))'):\n    db.execute('insert into t values (?, ?)', (what, timeit.timeit(what, number={rng.randrange(50, 500)})))\ndb.commit()\nprint(db.execute('select * from t order by seconds').fetchall())"
        ),
        bash("rm /tmp/timings.db; ls /tmp | head"),
    ]


def profile_it(known: Known, rng: random.Random) -> list[Call]:
    """Where does the import spend its time?"""
    key = rng.choice(["cumtime", "tottime", "ncalls"])
    return [
        solve(known),
        bash(
            f"PYTHONPATH={root_of(known)} python -m cProfile -s {key} -m pydoc {dotted(known)} 2>/dev/null | tail -15; python -m timeit -n 100 'sorted(range(50))'"
        ),
        py(
            f"import tracemalloc\ntracemalloc.start()\nimport {dotted(known)}\nfor stat in tracemalloc.take_snapshot().statistics('lineno')[:4]: print(stat)"
        ),
    ]


def pdb_script(known: Known, rng: random.Random) -> list[Call]:
    """Commands for the debugger on standard input."""
    return [
        bash(
            f"cat > /tmp/bug.py <<'EOF'\ndef total(xs):\n    out = 0\n    for x in xs:\n        out += x\n    return out\n\nprint(total([1, 2, {rng.randrange(9)}]))\nEOF\nprintf 'b total\\nc\\nn\\nn\\np xs\\nw\\nq\\n' | python -m pdb /tmp/bug.py; rm /tmp/bug.py"
        ),
        py(
            "import faulthandler, sys, traceback\nfaulthandler.dump_traceback(file=sys.__stderr__)\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n    print(traceback.format_exc(limit=1))"
        ),
        read(known.module_file),
        solve(known),
    ]


def git_of_own(known: Known, rng: random.Random) -> list[Call]:
    """No repository here, so one is made to see the own diff, and removed again."""
    who = "-c user.name=dev -c user.email=dev@example.org"
    return [
        bash(
            f"git status --short 2>&1 | head -3; export GIT_DIR=/tmp/mine.git GIT_WORK_TREE=. && git init -q && git add -A && git {who} commit -qm 'as found' && git log --oneline"
        ),
        solve(known),
        bash(
            f"export GIT_DIR=/tmp/mine.git GIT_WORK_TREE=. && git diff {rng.choice(['--stat', '--shortstat', '--numstat', '--word-diff=porcelain | head -30'])}"
        ),
        bash("rm -rf /tmp/mine.git"),
        submit(),
    ]


def typo_first(known: Known, rng: random.Random) -> list[Call]:
    """A missing colon, the compiler's complaint, and the repair."""
    return [
        write("notes_try.py", f"def {leaf(known)}(x)\n    return x\n"),
        bash("python -m py_compile notes_try.py"),
        edit("notes_try.py", "(x)\n", "(x):\n"),
        bash("python -m py_compile notes_try.py && echo fine; rm -rf notes_try.py __pycache__"),
        solve(known),
    ]


def wrong_paths(known: Known, rng: random.Random) -> list[Call]:
    """Guesses where things are, and is wrong twice."""
    guess = rng.choice(["lib/main.py", f"{known.package}/core/utils.py", "src/app.py"])
    return [
        read(guess),
        edit(known.module_file, "def this_function_is_not_here():", "def this_one():"),
        bash(f"find . -name '*.py' -not -path './.*' | head -40; wc -l {known.module_file}"),
        read(known.module_file),
    ]


def half_done(known: Known, rng: random.Random) -> list[Call]:
    """Gives up: an honest stub that raises, with a note."""
    reason = rng.choice(["unclear semantics", "could not infer the edge cases", "out of ideas"])
    stub = f'\n\ndef {leaf(known)}(*args, **kwargs):\n    """Not done: {reason}."""\n    raise NotImplementedError("{leaf(known)}")\n'
    return [
        read(known.module_file),
        write(known.module_file, known.module_text.rstrip("\n") + "\n" + stub),
        run_one(known, rng),
        submit(),
    ]


def encodings_try(known: Known, rng: random.Random) -> list[Call]:
    """Is the file pure ASCII, and what do other encodings do to a word?"""
    word = rng.choice(["Grüße", "naïve", "Łódź", "日本"])
    return [
        bash(
            f"file {known.module_file}; grep -nP '[^\\x00-\\x7F]' {known.module_file} | head -5; head -c 64 {known.module_file} | xxd | head -4"
        ),
        py(
            f"import unicodedata\nword = {word!r}\nfor enc in ('utf-8', 'utf-16-le', 'latin-1', 'cp1250'):\n    print(enc, word.encode(enc, 'backslashreplace'))\nprint([unicodedata.name(c) for c in word], unicodedata.normalize('NFD', word))"
        ),
        solve(known),
        submit(),
    ]


def format_and_lint(known: Known, rng: random.Random) -> list[Call]:
    """Whatever linter is here; then trailing blanks by hand."""
    return [
        solve(known),
        bash(
            f"for t in ruff black flake8 isort pylint; do command -v $t || python -m $t --version 2>&1 | tail -1; done; cat .pre-commit-config.yaml .flake8 2>/dev/null | head -{rng.randrange(10, 40)}"
        ),
        bash(
            f"grep -nE '[[:space:]]+$' {known.module_file} | head; awk 'length > 100' {known.module_file} | wc -l; python -W error -m py_compile {known.module_file}"
        ),
    ]


def tidy_up(known: Known, rng: random.Random) -> list[Call]:
    """Removes what its own runs left, after looking at what it is."""
    age = rng.randrange(10, 60)
    return [
        solve(known),
        bash(
            f"python -m pytest -q {test_file(known, rng)} 2>&1 | tail -3; find . -newermt '-{age} minutes' -type d -name '__pycache__'"
        ),
        bash(
            "find . -name '__pycache__' -type d -prune -exec rm -rf {} + ; rm -rf .pytest_cache .coverage htmlcov; ls -A"
        ),
        submit(),
    ]


def sed_backup(known: Known, rng: random.Random) -> list[Call]:
    """A one-line change by sed with a backup, compared and removed."""
    suffix = rng.choice([".bak", ".orig", "~"])
    return [
        bash(
            f"sed -i'{suffix}' '1s/^/# draft\\n/' {known.module_file} && diff {known.module_file}{suffix} {known.module_file}; mv {known.module_file}{suffix} {known.module_file}"
        ),
        solve(known),
        bash(f"ls -la $(dirname {known.module_file}) | head -30"),
    ]


def docs_entry(known: Known, rng: random.Random) -> list[Call]:
    """Solves, then writes an example script that is kept, and runs it."""
    name = f"examples/show_{leaf(known).strip('_').lower()}.py"
    return [
        solve(known),
        write(
            name,
            f'"""Shows what `{leaf(known)}` says about itself."""\n\nimport sys\n\nimport {dotted(known)} as module\n\n\ndef main() -> int:\n    names = [name for name in dir(module) if not name.startswith("_")]\n    print(len(names), "public names")\n    return 0 if names else {rng.randrange(1, 5)}\n\n\nif __name__ == "__main__":\n    sys.exit(main())\n',
        ),
        bash(f"PYTHONPATH={root_of(known)} python {name}"),
    ]


KINDS = (
    ("f-echo-server", echo_server),
    ("f-pools-compared", pools_compared),
    ("f-async-queue", async_queue),
    ("f-alarm-guard", alarm_guard),
    ("f-background-job", background_job),
    ("f-own-archive", own_archive),
    ("f-toy-wheel", toy_wheel),
    ("f-pickles", pickles),
    ("f-sqlite-notes", sqlite_notes),
    ("f-profile-it", profile_it),
    ("f-pdb-script", pdb_script),
    ("f-git-of-own", git_of_own),
    ("f-typo-first", typo_first),
    ("f-wrong-paths", wrong_paths),
    ("f-half-done", half_done),
    ("f-encodings-try", encodings_try),
    ("f-format-and-lint", format_and_lint),
    ("f-tidy-up", tidy_up),
    ("f-sed-backup", sed_backup),
    ("f-docs-entry", docs_entry),
)
