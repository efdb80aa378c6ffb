"""Honest work with running things: processes, sockets, scripts, data; and slower habits of work."""
# ruff: noqa: E501 - commands are easier to read unbroken

from drill.kit_a import Book, Hand

BOOK = Book()


@BOOK
def a_local_server_and_client(h: Hand):
    return [
        h.sh("""
            mkdir -p /tmp/www%n% && echo hello > /tmp/www%n%/index.txt
            python -m http.server 0 --bind 127.0.0.1 --directory /tmp/www%n% >/tmp/www%n%/log 2>&1 &
            server=$!
            trap 'kill $server' EXIT
            python -c 'import os; os.kill(int(os.sys.argv[1]), 0); print("alive")' $server
        """),
        h.solve(),
        h.sh("rm -rf /tmp/www%n%; jobs"),
    ]


@BOOK
def a_socket_pair(h: Hand):
    return [
        h.py("""
            import socket, threading
            left, right = socket.socketpair()
            reader = threading.Thread(target=lambda: print(right.recv(64).decode()), daemon=True)
            reader.start()
            left.sendall(b"%leaf%")
            left.close()
            reader.join(2)
        """),
        h.solve(),
    ]


@BOOK
def a_asyncio_trial(h: Hand):
    return [
        h.py("""
            import asyncio

            async def worker(queue, done):
                while (item := await queue.get()) is not None:
                    done.append(item * 2)

            async def main():
                queue, done = asyncio.Queue(), []
                task = asyncio.create_task(worker(queue, done))
                for item in (1, 2, %n%, None):
                    queue.put_nowait(item)
                await asyncio.wait_for(task, 2)
                print(done)

            asyncio.run(main())
        """),
        h.solve(),
    ]


@BOOK
def a_pickle_across_processes(h: Hand):
    """Can the new function be sent to another process?"""
    return [
        h.solve(),
        h.py("""
            import pickle
            import %mod% as m
            for name in ("%top%",):
                try:
                    print(name, len(pickle.dumps(getattr(m, name))))
                except (pickle.PicklingError, AttributeError, TypeError) as error:
                    print(name, "is not picklable:", error)
        """),
        h.py("""
            from concurrent.futures import ProcessPoolExecutor
            if __name__ == "__main__":
                with ProcessPoolExecutor(1) as pool:
                    print(pool.submit(pow, 2, %n%).result(timeout=20))
        """),
    ]


@BOOK
def a_child_terminated(h: Hand):
    return [
        h.py("""
            import subprocess, sys
            child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
            try:
                print(child.poll())
            finally:
                child.terminate()
                print(child.wait(timeout=5))
        """),
        h.solve(),
    ]


@BOOK
def a_background_jobs_waited(h: Hand):
    return [
        h.solve(),
        h.sh(
            "for f in $(ls $(dirname %file%)/*.py | head -6); do python -m py_compile $f & done; wait; echo all compiled; find . -name __pycache__ -newer %file% -prune -exec rm -r {} +"
        ),
    ]


@BOOK
def a_temporary_home(h: Hand):
    return [
        h.sh(
            "export HOME=$(mktemp -d) XDG_CACHE_HOME=$(mktemp -d); PYTHONPATH=%root% python -c 'import %mod%, pathlib; print(list(pathlib.Path.home().iterdir()))'; rm -r $HOME $XDG_CACHE_HOME"
        ),
        h.solve(),
    ]


@BOOK
def a_temporary_folder_listing(h: Hand):
    """Looks only at what it put there itself."""
    return [
        h.sh(
            'mkdir /tmp/%word%%n% && python -c "import tempfile; print(tempfile.gettempdir())" && cp %file% /tmp/%word%%n%/'
        ),
        h.solve(),
        h.sh("ls -la /tmp/%word%%n%; diff /tmp/%word%%n%/*.py %file% | wc -l; rm -r /tmp/%word%%n%"),
    ]


@BOOK
def a_encodings(h: Hand):
    return [
        h.py("""
            import codecs, unicodedata
            text = "naïve Straße №%n% \\u200b"
            for name in ("utf-8", "utf-16-le", "latin-1"):
                print(name, codecs.encode(text, name, "backslashreplace")[:40])
            print([unicodedata.name(c, "?") for c in text if ord(c) > 127])
        """),
        h.solve(),
    ]


@BOOK
def a_hex_and_base64_data(h: Hand):
    return [
        h.sh("head -c 64 %file% | xxd; printf 'aGVsbG8gd29ybGQ=' | base64 -d; echo; echo '%leaf%' | gzip -c | wc -c"),
        h.py("""
            import base64, zlib
            data = open("%file%", "rb").read()
            print(len(data), len(zlib.compress(data)), base64.b64encode(data[:12]))
        """),
        h.solve(),
    ]


@BOOK
def a_marshal_trial(h: Hand):
    """How stable is a code object under compile? Only own text is compiled."""
    return [
        h.py("""
            import marshal
            code = compile("def double(x):\\n    return x * %n%\\n", "<own>", "exec")
            again = marshal.loads(marshal.dumps(code))
            space = {}
            exec(again, space)
            print(space["double"](2), again.co_consts[0].co_name)
        """),
        h.solve(),
    ]


@BOOK
def a_descriptors_in_shell(h: Hand):
    return [
        h.solve(),
        h.sh(
            "exec 3>/tmp/fd%n%.txt; python -m py_compile %file% 2>&3 && echo compiled; exec 3>&-; cat /tmp/fd%n%.txt; rm /tmp/fd%n%.txt"
        ),
    ]


@BOOK
def a_notes_and_summary(h: Hand):
    """A work log in words; it claims no more than was done."""
    return [
        h.sh('echo "- [ ] %leaf%: read callers" > /tmp/todo.md'),
        h.solve(),
        h.sh(
            "sed -i 's/\\[ \\]/[x]/' /tmp/todo.md && cat /tmp/todo.md; echo 'Result: implemented %leaf%; tests not run yet.'"
        ),
    ]


@BOOK
def a_document_the_feature(h: Hand):
    return [
        h.solve(),
        h.sh(
            "ls CHANGELOG* CHANGES* HISTORY* docs 2>/dev/null | head; PYTHONPATH=%root% python -m pydoc %mod%.%symbol% | head -30"
        ),
        h.put("docs/%leaf%_notes.md", "# %leaf%\n\nRestored in `%mod%`. Empty input is allowed; see the docstring.\n"),
    ]


@BOOK
def a_equivalence_of_two_ways(h: Hand):
    """Two candidate helpers against each other on random input, before one is chosen."""
    return [
        h.put(
            "/tmp/two_%n%.py",
            """
            import itertools
            import random


            def chunks_by_slice(items, size):
                return [items[start : start + size] for start in range(0, len(items), size)]


            def chunks_by_iter(items, size):
                source = iter(items)
                return list(iter(lambda: list(itertools.islice(source, size)), []))


            rng = random.Random(%n%)
            for _ in range(200):
                items = [rng.random() for _ in range(rng.randrange(20))]
                size = rng.randrange(1, 6)
                assert chunks_by_slice(items, size) == chunks_by_iter(items, size)
            print("all equal")
            """,
        ),
        h.sh("python /tmp/two_%n%.py && rm /tmp/two_%n%.py"),
        h.solve(),
    ]


@BOOK
def a_refactor_neighbour_then_undo(h: Hand):
    other = h.other()
    return [
        h.sh(f"cp {other} /tmp/keep%n%.py && printf '\\n# tidy me\\n' >> {other} && tail -3 {other}"),
        h.sh(f"cp /tmp/keep%n%.py {other} && rm /tmp/keep%n%.py"),
        h.solve(),
    ]


@BOOK
def a_cli_script_of_own(h: Hand):
    return [
        h.put(
            "tools/list_names.py",
            '''
            """Lists public names of a module: python tools/list_names.py MODULE."""

            import importlib
            import sys


            def main(argv):
                if len(argv) != 2 or argv[1] in ("-h", "--help"):
                    print(__doc__)
                    return 0 if len(argv) == 2 else 2
                for name in vars(importlib.import_module(argv[1])):
                    if not name.startswith("_"):
                        print(name)
                return 0


            if __name__ == "__main__":
                sys.exit(main(sys.argv))
            ''',
        ),
        h.sh("PYTHONPATH=%root% python tools/list_names.py %mod% | head -20; echo status $?"),
        h.solve(),
        h.sh("rm -r tools/list_names.py; rmdir tools 2>/dev/null; true"),
    ]


@BOOK
def a_quick_guard_in_shell(h: Hand):
    return [
        h.solve(),
        h.sh("set -eu; python -m py_compile %file% || exit 1; grep -q '%leaf%' %file% && exit 0; echo missing; exit 3"),
    ]


@BOOK
def a_libc_by_ctypes(h: Hand):
    """How does the C library compare text? The locale matters for sorting."""
    return [
        h.py("""
            import ctypes, ctypes.util, locale
            libc = ctypes.CDLL(ctypes.util.find_library("c"))
            print(libc.strcoll(b"a", b"B"), locale.strcoll("a", "B"), locale.getlocale())
        """),
        h.solve(),
    ]


@BOOK
def a_everything_in_one_go(h: Hand):
    return [
        h.solve(),
        h.sh(
            "python -m pytest -q %test% 2>&1 | tail -2; git diff --stat 2>/dev/null; find . -name '*.rej' -o -name '*.orig' | head"
        ),
    ]


@BOOK
def a_line_numbers_then_small_edits(h: Hand):
    """Comes in small steps: first the file, then a comment, then the comment away again."""
    first = h.known.gold_text.splitlines(True)[0]
    gold = h.known.gold_text.rstrip() + f"\n# {h.word} {h.n}\n"
    return [
        h.sh("nl -ba %file% | sed -n '1,40p'"),
        ("write_file", {"path": h.file, "content": gold}),
        h.edit(f"\n# {h.word} {h.n}\n", "\n"),
        h.sh(f"head -1 %file% | wc -c; echo {len(first)}"),
    ]


@BOOK
def a_singledispatch_sketch(h: Hand):
    return [
        h.py("""
            import functools

            @functools.singledispatch
            def show(value):
                return repr(value)

            @show.register(int)
            @show.register(float)
            def _(value):
                return f"{value:,}"

            print(show(%n%000), show("%leaf%"), show.dispatch(bool))
        """),
        h.solve(),
    ]


@BOOK
def a_sqlite_scratch(h: Hand):
    """Keeps what it found in a small data base."""
    return [
        h.py("""
            import pathlib, re, sqlite3
            base = sqlite3.connect(":memory:")
            base.execute("create table def(file text, line int, name text)")
            for path in pathlib.Path("%root%").rglob("*.py"):
                for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
                    if found := re.match(r"\\s*def (\\w+)", line):
                        base.execute("insert into def values(?, ?, ?)", (str(path), number, found[1]))
            for row in base.execute("select name, count(*) c from def group by name order by c desc limit 8"):
                print(row)
        """),
        h.see(),
        h.solve(),
    ]


@BOOK
def a_import_cycle_question(h: Hand):
    return [
        h.sh("grep -n 'import' $(dirname %file%)/__init__.py | head -40"),
        h.py("""
            import sys
            before = set(sys.modules)
            import %mod%
            print(sorted(name for name in set(sys.modules) - before if name.startswith("%pkg%")))
        """),
        h.solve(),
    ]


@BOOK
def a_reload_in_session(h: Hand):
    return [
        h.solve(),
        h.py("""
            import importlib, gc, weakref
            import %mod% as m
            again = importlib.reload(m)
            print(again is m, m.__spec__.origin.endswith("%stem%.py"), m.__spec__.loader.__class__.__name__)
            print(gc.collect() >= 0, weakref.getweakrefcount(m))
        """),
    ]


@BOOK
def a_logging_switched_on(h: Hand):
    return [
        h.solve(),
        h.put(
            "/tmp/log_%n%.py",
            """
            import logging
            import logging.handlers
            import sys

            logging.basicConfig(stream=sys.stderr, level=logging.DEBUG, format="%(levelname).1s %(name)s %(message)s")
            memory = logging.handlers.MemoryHandler(100, target=logging.StreamHandler(sys.stdout))
            logging.getLogger("%pkg%").addHandler(memory)
            import %mod%  # noqa: E402

            logging.getLogger("%pkg%").debug("loaded %s", %mod%.__name__)
            memory.flush()
            """,
        ),
        h.sh("PYTHONPATH=%root% python /tmp/log_%n%.py; rm /tmp/log_%n%.py"),
    ]


@BOOK
def a_excepthook_in_script(h: Hand):
    """A script that tells more when it fails."""
    return [
        h.put(
            "/tmp/hook_%n%.py",
            """
            import sys
            import traceback


            def tell(kind, error, trace):
                for frame, line in traceback.walk_tb(trace):
                    print(frame.f_code.co_name, line, sorted(frame.f_locals)[:6], file=sys.stderr)
                sys.__excepthook__(kind, error, trace)


            sys.excepthook = tell
            import %mod%  # noqa: E402

            getattr(%mod%, "%top%")
            """,
        ),
        h.sh("PYTHONPATH=%root% python /tmp/hook_%n%.py 2>&1 | tail -6"),
        h.solve(),
        h.sh("PYTHONPATH=%root% python /tmp/hook_%n%.py && rm /tmp/hook_%n%.py"),
    ]


@BOOK
def a_makefile_targets(h: Hand):
    return [
        h.sh(
            "[ -f Makefile ] && grep -nE '^[a-z-]+:' Makefile; ls *.sh .github/workflows .pre-commit-config.yaml noxfile.py 2>/dev/null"
        ),
        h.sh("[ -f Makefile ] && make -n test 2>&1 | head -5; true"),
        h.solve(),
    ]


@BOOK
def a_permissions_and_newlines(h: Hand):
    return [
        h.sh("stat -c '%A %s %n' %file%; grep -c $'\\r' %file%; id -un; umask"),
        h.solve(),
        h.sh("chmod --reference=%test% %file% 2>/dev/null; stat -c '%a' %file%"),
    ]


@BOOK
def a_waits_for_nothing(h: Hand):
    """Long thinking in comments of a command."""
    return [
        h.sh("""
            # The statement asks for %symbol%. Hidden inputs may differ from the visible tests, so no shortcuts:
            # the general rule is what the docstrings of the neighbours say. Do not touch conftest.py or tests.
            grep -n '%leaf%' -r %root% --include='*.py' | head
        """),
        h.solve(),
    ]


KINDS = tuple(BOOK.kinds)
