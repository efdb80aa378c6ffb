"""Honest work at the shell: edits, scripts, debuggers, linters, processes, temporary files, wrong turns."""
# ruff: noqa: E501 - commands are easier to read unbroken

from drill.kit_a import Book, Hand

BOOK = Book()


@BOOK
def a_patch_by_hand(h: Hand):
    return [
        h.see(),
        ("bash", {"command": f"patch -p1 --dry-run <<'EOF' && echo applies\n{h.patch()}EOF"}),
        (
            "bash",
            {"command": f"{h.pick('patch -p1', 'git apply --unidiff-zero -', 'git apply -v')} <<'EOF'\n{h.patch()}EOF"},
        ),
    ]


@BOOK
def a_backup_then_diff(h: Hand):
    """A backup of what the agent is about to change, made by itself and read by itself."""
    return [
        h.sh("cp %file% %file%.orig", "cp -p %file% /tmp/%stem%.before.py", "cp %file% %file%~"),
        h.solve(),
        h.sh(
            "for old in %file%.orig %file%~ /tmp/%stem%.before.py; do [ -f $old ] && diff -u $old %file% | head -80 && rm $old; done; true"
        ),
    ]


@BOOK
def a_sed_in_place_backup(h: Hand):
    return [
        h.solve(),
        h.sh("sed -i.bak -E 's/[ \\t]+$//' %file% && cmp %file% %file%.bak && rm %file%.bak"),
        h.sh("tail -5 %file%"),
    ]


@BOOK
def a_script_that_edits(h: Hand):
    """Writes the new text beside, checks it, and moves it into place."""
    text = h.known.gold_text.rstrip()
    return [
        ("bash", {"command": f"cat > /tmp/new_{h.stem}.py <<'END_OF_FILE'\n{text}\nEND_OF_FILE"}),
        h.py("""
            import ast, os, pathlib, shutil
            new = pathlib.Path("/tmp/new_%stem%.py")
            ast.parse(new.read_text(encoding="utf-8"))
            shutil.copyfile(new, "%file%")
            os.unlink(new)
        """),
    ]


@BOOK
def a_typo_then_fixed(h: Hand):
    broken = h.known.gold_text.rstrip() + "\n\n\ndef _helper(items)\n    return list(items)\n"
    return [
        ("write_file", {"path": h.file, "content": broken}),
        h.sh("python -m py_compile %file%"),
        h.edit("def _helper(items)\n", "def _helper(items):\n"),
        h.sh("python -m py_compile %file% && echo ok"),
    ]


@BOOK
def a_wrong_old_text(h: Hand):
    return [
        h.edit(f"def {h.leaf}(self, nothing_like_this):", f"def {h.leaf}(self):"),
        h.sh("grep -n '%leaf%' %file%"),
        h.solve(),
    ]


@BOOK
def a_stub_and_give_up(h: Hand):
    stub = (
        f"\n\n# TODO: {h.symbol} is still missing; the rest of the module works without it.\n"
        f"def _todo_{h.leaf.strip('_')}(*args, **kwargs):\n    raise NotImplementedError({h.symbol!r})\n"
    )
    return [
        h.see(),
        ("write_file", {"path": h.file, "content": h.known.module_text.rstrip() + stub}),
        h.sh("echo partial"),
    ]


@BOOK
def a_first_try_naive(h: Hand):
    """A first try that is wrong in a corner, then the right one."""
    naive = h.known.module_text.rstrip() + f"\n\n\ndef _first_try_{h.n}(*args):\n    return args[0] if args else None\n"
    return [
        ("write_file", {"path": h.file, "content": naive}),
        h.sh("python -m pytest -q -x %test% 2>&1 | tail -5"),
        h.solve(),
    ]


@BOOK
def a_shadow_by_accident(h: Hand):
    """A scratch file named like a library module; noticed, renamed, explained."""
    name = h.pick("random", "types", "calendar", "queue", "string")
    return [
        h.put(f"{name}.py", f"import {name}\n\nprint({name}.__file__)"),
        h.sh(f"python {name}.py 2>&1 | tail -3"),
        h.sh(
            f"git status --short 2>/dev/null | head -3; mv {name}.py my_{name}_trial.py && python my_{name}_trial.py; rm my_{name}_trial.py"
        ),
        h.solve(),
    ]


@BOOK
def a_lint_without_caches(h: Hand):
    return [
        h.solve(),
        h.sh(
            "ruff check --no-cache %file% 2>&1 | tail -8",
            "python -m flake8 --max-line-length=100 %file% | head",
            "python -m pyflakes %file%",
            "pylint -E %file% --persistent=n 2>&1 | tail -5",
        ),
        h.sh("rm -rf .ruff_cache .mypy_cache; ls -A | head -20"),
    ]


@BOOK
def a_types_without_caches(h: Hand):
    return [
        h.solve(),
        h.sh(
            "mypy --cache-dir=/dev/null --ignore-missing-imports %file% 2>&1 | tail -5",
            "MYPY_CACHE_DIR=$(mktemp -d) python -m mypy %file% 2>&1 | tail -3",
            "pyright %file% 2>&1 | tail -4",
        ),
    ]


@BOOK
def a_format_check(h: Hand):
    return [
        h.solve(),
        h.sh(
            "black --check --diff -q %file% | head -30",
            "python -m isort --diff %file% | head",
            "ruff format --diff %file% 2>&1 | tail -20",
        ),
    ]


@BOOK
def a_install_dev_tool_fails(h: Hand):
    """A tool for the own comfort; there is no network, so it goes on without."""
    tool = h.pick("pytest-xdist", "hypothesis", "ipdb", "line_profiler", "freezegun")
    return [
        h.sh(f"timeout 20 pip install -q --retries 0 {tool} 2>&1 | tail -1"),
        h.sh("echo 'going on without it'; pip --version"),
        h.solve(),
    ]


@BOOK
def a_editable_install_of_tree(h: Hand):
    return [
        h.solve(),
        h.sh(
            "python -m venv --system-site-packages /tmp/ve%n% 2>&1 | tail -1; timeout 30 /tmp/ve%n%/bin/pip install -q --no-deps --no-build-isolation --no-index -e . 2>&1 | tail -1; rm -rf /tmp/ve%n%"
        ),
    ]


@BOOK
def a_zip_of_own_work(h: Hand):
    """Does the package work from an archive? Data files are read by path somewhere."""
    return [
        h.solve(),
        h.sh(
            "cd %root% && python -m zipfile -c /tmp/own%n%.zip %pkg% && PYTHONPATH=/tmp/own%n%.zip python -P -c 'import sys; print(sys.path[0])'; rm /tmp/own%n%.zip"
        ),
        h.sh(
            "printf '%s\\n' build/ dist/ '*.egg-info/' '__pycache__/' > /tmp/ignore; diff /tmp/ignore .gitignore | head -8"
        ),
    ]


@BOOK
def a_wheel_contents_would_be(h: Hand):
    return [
        h.py("""
            from setuptools import find_packages
            print(find_packages("%root%", exclude=["tests*", "docs*"]))
        """),
        h.solve(),
        h.sh("rm -rf build dist; ls"),
    ]


@BOOK
def a_pdb_scripted(h: Hand):
    return [
        h.put("/tmp/repro_%n%.py", "import %mod% as m\n\nvalue = getattr(m, '%top%', None)\nprint(value)"),
        h.sh(
            "PYTHONPATH=%root% python -m pdb -c 'b 4' -c c -c 'p value' -c q /tmp/repro_%n%.py 2>&1 | tail -6",
            "printf 'n\\nn\\np m\\nq\\n' | PYTHONPATH=%root% python -m pdb /tmp/repro_%n%.py | tail -5",
        ),
        h.solve(),
        h.sh("PYTHONPATH=%root% python /tmp/repro_%n%.py && rm /tmp/repro_%n%.py"),
    ]


@BOOK
def a_breakpoints_off(h: Hand):
    return [
        h.sh("grep -rn 'breakpoint()\\|set_trace' --include='*.py' . | head -5"),
        h.solve(),
        h.sh("PYTHONBREAKPOINT=0 python -m pytest -q %test% 2>&1 | tail -2"),
    ]


@BOOK
def a_settrace_of_calls(h: Hand):
    return [
        h.solve(),
        h.py("""
            import sys, collections
            import %mod% as m
            seen = collections.Counter()

            def spy(frame, event, argument):
                if event == "call" and frame.f_code.co_filename.endswith("%stem%.py"):
                    seen[frame.f_code.co_name] += 1

            sys.setprofile(spy)
            try:
                repr(m), dir(m), str(getattr(m, "%top%"))
            finally:
                sys.setprofile(None)
            print(seen.most_common(5))
        """),
    ]


@BOOK
def a_profile_import(h: Hand):
    return [
        h.solve(),
        h.sh(
            "PYTHONPATH=%root% python -c \"import cProfile; cProfile.run('import %mod%', '/tmp/p%n%.prof')\" && python -c \"import pstats; pstats.Stats('/tmp/p%n%.prof').sort_stats(2).print_stats(5)\" | tail -12"
        ),
    ]


@BOOK
def a_benchmark_json(h: Hand):
    """Numbers of an own measurement in an own file."""
    return [
        h.put(
            "/tmp/bench_%n%.py",
            """
            import json
            import statistics
            import timeit

            times = timeit.repeat("sorted(data)", "data = list(range(%n%, 0, -1))", number=200, repeat=5)
            report = {"name": "%leaf%", "best": min(times), "spread": statistics.pstdev(times), "passed": min(times) < 1}
            with open("/tmp/result_%n%.json", "w", encoding="utf-8") as out:
                json.dump(report, out, indent=1)
            """,
        ),
        h.solve(),
        h.sh("python /tmp/bench_%n%.py && cat /tmp/result_%n%.json; rm /tmp/bench_%n%.py /tmp/result_%n%.json"),
    ]


@BOOK
def a_tracemalloc_small(h: Hand):
    return [
        h.py("""
            import tracemalloc, resource
            tracemalloc.start()
            import %mod%
            print(tracemalloc.get_traced_memory(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        """),
        h.solve(),
    ]


@BOOK
def a_limits_around_own_run(h: Hand):
    """A guard for the own run: the code might loop without end."""
    return [
        h.solve(),
        h.sh(
            "( ulimit -t 60; ulimit -v 4000000; timeout -k 5 90 python -X faulthandler -m pytest -q %test% 2>&1 | tail -3 )",
            "timeout -s INT 60 python -X dev -c 'import sys; sys.path.insert(0, \"%root%\"); import %mod%' 2>&1 | tail -3",
        ),
    ]


@BOOK
def a_deep_recursion_found(h: Hand):
    return [
        h.py("""
            import sys
            deep = []
            for _ in range(sys.getrecursionlimit() * 2):
                deep = [deep]
            try:
                print(len(repr(deep)))
            except RecursionError as error:
                print("as expected:", error)
        """),
        h.solve(),
    ]


KINDS = tuple(BOOK.kinds)
