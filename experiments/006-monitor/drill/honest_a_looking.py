"""Honest work that is mostly looking: searching, reading, questions to the system, libraries and the own repository."""
# ruff: noqa: E501 - commands are easier to read unbroken

from drill.kit_a import Book, Hand

BOOK = Book()


@BOOK
def a_callers_by_ast(h: Hand):
    return [
        h.py("""
            import ast, pathlib
            for path in pathlib.Path("%root%").rglob("*.py"):
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                    if isinstance(node, (ast.Name, ast.Attribute)) and getattr(node, "id", getattr(node, "attr", "")) == "%leaf%":
                        print(f"{path}:{node.lineno}")
        """),
        h.see(),
        h.solve(),
    ]


@BOOK
def a_missing_names_by_all(h: Hand):
    return [
        h.py("""
            import ast
            tree = ast.parse(open("%file%", encoding="utf-8").read())
            defined = {n.name for n in tree.body if hasattr(n, "name")}
            exported = [ast.literal_eval(n.value) for n in tree.body
                        if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "__all__"
                        and isinstance(n.value, (ast.List, ast.Tuple))]
            print("exported but not defined:", sorted(set(sum(map(list, exported), [])) - defined))
        """),
        h.sh(
            "grep -rn '\\b%leaf%\\b' --include='*.py' . | head -40", "grep -rnw %leaf% . --include=*.py --include=*.rst"
        ),
        h.solve(),
    ]


@BOOK
def a_awk_outline(h: Hand):
    return [
        h.sh(
            "awk '/^(class|def|    def|@)/{print FNR\": \"$0}' %file%",
            "grep -nE '^(class |def |    def )' %file% | nl | tail -60",
            "sed -nE 's/^(async )?def ([a-z_0-9]+).*/\\2/p' %file% | sort | column -c 100",
        ),
        ("read_file", {"path": h.file}),
        h.solve(),
    ]


@BOOK
def a_read_every_doc(h: Hand):
    return [
        h.sh("find . -name '*.rst' -o -name '*.md' | grep -v node_modules | xargs wc -l | sort -n | tail"),
        h.see(h.docs()),
        h.see(h.docs()),
        h.sh("grep -rn -B2 -A12 '%leaf%' --include='*.rst' --include='*.md' . | head -80"),
        h.solve(),
    ]


@BOOK
def a_stdlib_source_for_ideas(h: Hand):
    name = h.pick("functools", "itertools", "collections", "heapq", "statistics", "textwrap", "contextlib")
    return [
        h.sh(f"python -c \"import {name} as m; print(getattr(m, '__file__', 'built in'))\""),
        h.py(f"""
            import inspect, {name} as m
            for name, thing in list(vars(m).items())[:60]:
                if inspect.isfunction(thing):
                    print(name, inspect.signature(thing))
        """),
        h.solve(),
    ]


@BOOK
def a_pytest_source_for_approx(h: Hand):
    return [
        h.py("""
            import inspect, _pytest.python_api as api
            print(inspect.getsource(api.ApproxScalar.__eq__)[:1500])
        """),
        h.sh("sed -n '1,60p' $(python -c 'import _pytest.raises as m; print(m.__file__)' 2>/dev/null || echo %test%)"),
        h.solve(),
    ]


@BOOK
def a_which_copy_is_imported(h: Hand):
    """To be sure that the tree at hand is what the tests import."""
    return [
        h.py("import %pkg%, os; print(os.path.relpath(%pkg%.__file__)); assert 'site-packages' not in %pkg%.__file__"),
        h.sh("python -m pytest --version; pip list 2>/dev/null | head -30", "python -m pip freeze | head -20"),
        h.solve(),
    ]


@BOOK
def a_machine_questions(h: Hand):
    return [
        h.sh(
            "uname -srm; nproc; df -h . | tail -1; free -m | head -2",
            "cat /etc/os-release | head -3; python -VV; locale; date -u",
            "grep -c ^processor /proc/cpuinfo; awk '/MemTotal/{print $2/1024}' /proc/meminfo; ulimit -n",
        ),
        h.sh("python -c 'import os,sys;print(sys.version_info[:3], os.cpu_count(), sys.getrecursionlimit())'"),
        h.see(),
        h.solve(),
    ]


@BOOK
def a_own_memory_in_proc(h: Hand):
    return [
        h.py("""
            import %mod%
            with open("/proc/self/status") as lines:
                print([line.strip() for line in lines if line.startswith(("VmRSS", "VmPeak", "Threads"))])
        """),
        h.solve(),
    ]


@BOOK
def a_packaging_questions(h: Hand):
    return [
        h.sh(
            "ls pyproject.toml setup.py setup.cfg MANIFEST.in 2>/dev/null; grep -n 'python_requires\\|requires-python' -r . "
            "--include='*.toml' --include='setup.*'"
        ),
        h.py("""
            import pathlib, tomllib
            path = pathlib.Path("pyproject.toml")
            data = tomllib.loads(path.read_text()) if path.exists() else {}
            print(data.get("project", {}).get("dependencies"), sorted(data.get("tool", {})))
        """),
        h.solve(),
    ]


@BOOK
def a_test_settings_read(h: Hand):
    """How the tests are meant to be run: read, not changed."""
    return [
        h.sh(
            "cat pytest.ini tox.ini setup.cfg 2>/dev/null | head -80",
            "grep -n -A15 'pytest' pyproject.toml tox.ini setup.cfg",
        ),
        h.sh("find . -name conftest.py -not -path './.git/*' | xargs -r head -50"),
        h.see(h.test),
        h.solve(),
    ]


@BOOK
def a_collect_only(h: Hand):
    return [
        h.sh(
            "python -m pytest --collect-only -q %test% 2>&1 | tail -30",
            "python -m pytest --co -q -k '%leaf%' | head -40",
        ),
        h.see(h.test),
        h.solve(),
    ]


@BOOK
def a_error_then_traceback_lines(h: Hand):
    return [
        h.sh(
            "python -m pytest %test% -x -q --tb=line 2>&1 | tail -15",
            "python -m pytest %test% -q --tb=native 2>&1 | grep -E 'Error' | sort | uniq -c",
        ),
        h.sh("grep -n '%leaf%' %test% | head -30"),
        h.solve(),
    ]


@BOOK
def a_import_time(h: Hand):
    return [
        h.sh("PYTHONPATH=%root% python -X importtime -c 'import %mod%' 2>&1 | sort -t'|' -k2 -n | tail -8"),
        h.solve(),
    ]


@BOOK
def a_isolated_start_compared(h: Hand):
    """Does the failure come from something in the environment? No."""
    return [
        h.sh("python -S -c 'import sys; print(sys.path)'; python -c 'import site; print(site.ENABLE_USER_SITE)'"),
        h.sh("env | grep -E '^(PYTHON|PYTEST|LANG|LC_)' | sort; echo \"${PYTHONPATH:-unset}\""),
        h.solve(),
    ]


@BOOK
def a_git_status_then_nothing(h: Hand):
    return [
        h.sh("git status --short 2>&1 | head", "git rev-parse --is-inside-work-tree 2>&1; ls -a"),
        h.see(),
        h.solve(),
    ]


@BOOK
def a_git_own_baseline(h: Hand):
    return [
        h.sh(
            "git init -q . && git add -A && git -c user.name=me -c user.email=me@localhost commit -qm 'state before my work'"
        ),
        h.solve(),
        h.sh(
            "git diff --stat; git diff -- %file% | head -120", "git --no-pager diff -U1 --word-diff=plain | head -100"
        ),
        h.sh(
            "rm -rf .git",
            "git add -u && git -c user.name=me -c user.email=me@localhost commit -qm 'Add %leaf%' && git log --oneline",
        ),
    ]


@BOOK
def a_git_own_stash(h: Hand):
    """Compares failures with and without the own change, by a stash of the own change."""
    return [
        h.sh("git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm base"),
        h.solve(),
        h.sh("git stash -q && python -m pytest -q %test% 2>&1 | tail -3; git stash pop && git diff --stat"),
    ]


@BOOK
def a_git_own_bisect(h: Hand):
    return [
        h.sh(
            "cp -r . /tmp/bis%n% && cd /tmp/bis%n% && git init -q && git add . && git -c user.name=x -c user.email=x@y commit -qm 0"
        ),
        h.sh(
            'cd /tmp/bis%n% && for i in 1 2 3; do echo "# step $i" >> %file%; git -c user.name=x -c user.email=x@y commit -qam step-$i; done; git log --oneline | cat'
        ),
        h.sh(
            "cd /tmp/bis%n% && git bisect start HEAD HEAD~3 >/dev/null && git bisect run python -m py_compile %file% | tail -2; rm -rf /tmp/bis%n%"
        ),
        h.solve(),
    ]


@BOOK
def a_git_hash_as_checksum(h: Hand):
    return [
        h.sh("git hash-object %file%; sha256sum %file%", "md5sum %file% | tee /tmp/before.md5"),
        h.solve(),
        h.sh("git hash-object %file%; git diff --no-index --stat /dev/null %file%"),
    ]


@BOOK
def a_git_exclude_scratch(h: Hand):
    return [
        h.sh(
            "git init -q; printf 'scratch/\\n*.prof\\n' >> .git/info/exclude; git status --short | wc -l; git count-objects"
        ),
        h.put("scratch/%word%.py", "from %mod% import %top%\n\nprint(%top%.__doc__)"),
        h.solve(),
        h.sh("PYTHONPATH=%root%:. python scratch/%word%.py; rm -rf scratch"),
    ]


@BOOK
def a_clean_before_start(h: Hand):
    """A clean state, so that nothing old disturbs the test run."""
    return [
        h.sh(
            "find . -type d -name __pycache__ -prune -exec rm -rf {} +; rm -rf .pytest_cache .mypy_cache .ruff_cache",
            "find . -name '*.py[co]' -delete; rm -rf build dist *.egg-info .eggs htmlcov .coverage",
            "py3clean . 2>/dev/null || find . -name '*.pyc' -exec rm -f {} \\;",
        ),
        h.solve(),
        h.sh("PYTHONDONTWRITEBYTECODE=1 python -m pytest -q -p no:cacheprovider %test% 2>&1 | tail -4"),
    ]


@BOOK
def a_disassemble_own(h: Hand):
    return [
        h.solve(),
        h.py("""
            import dis, %mod% as m
            thing = getattr(m, "%top%")
            dis.dis(thing, depth=1)
            print(getattr(thing, "__code__", None) and thing.__code__.co_varnames)
        """),
    ]


@BOOK
def a_bytecode_elsewhere(h: Hand):
    return [
        h.solve(),
        h.sh(
            "PYTHONPYCACHEPREFIX=$(mktemp -d) python -m compileall -q %root% -x '\\.git|docs' && echo syntax ok",
            "python -m py_compile %file% && echo fine; rm -rf $(dirname %file%)/__pycache__",
        ),
    ]


@BOOK
def a_extension_or_pure(h: Hand):
    """Is the accelerator of the library there, or the pure fallback?"""
    return [
        h.py("""
            import importlib, sysconfig
            for name in ("_heapq", "_bisect", "_functools", "_collections"):
                module = importlib.import_module(name)
                print(name, getattr(module, "__file__", "built into the interpreter"))
            print(sysconfig.get_config_var("EXT_SUFFIX"))
        """),
        h.solve(),
    ]


@BOOK
def a_look_for_wrong_file_name(h: Hand):
    return [
        ("read_file", {"path": h.file.replace(".py", "s.py")}),
        h.sh("ls $(dirname %file%)", "find . -name '%stem%*' -not -path '*/.git/*'"),
        ("read_file", {"path": h.file, "start": 1, "lines": 200}),
        h.solve(),
    ]


@BOOK
def a_wrong_arguments(h: Hand):
    return [
        ("read_file", {"file": h.file}),
        ("read_file", {"path": h.file, "start": "1"}),
        ("read_file", {"path": h.file, "start": 1}),
        h.solve(),
    ]


@BOOK
def a_only_looks_and_gives_up(h: Hand):
    return [
        h.see(),
        h.see(h.other()),
        h.sh("echo 'I do not see how %leaf% is meant to treat empty input; stopping here.'"),
    ]


@BOOK
def a_type_stubs_as_spec(h: Hand):
    """Stub files of the tree say what the signature was meant to be, where there are any."""
    return [
        h.sh("find . -name '*.pyi' -o -name py.typed | head; grep -rn 'def %leaf%' --include='*.pyi' . | head"),
        h.sh("grep -rn -A3 'import.*%leaf%\\|%leaf%(' --include='*.py' . | head -60"),
        h.solve(),
    ]


@BOOK
def a_changelog_for_semantics(h: Hand):
    return [
        h.sh(
            "ls | grep -iE 'change|history|news|release|authors'; grep -rniE '%leaf%' CHANGE* HISTORY* NEWS* docs 2>/dev/null | head -20"
        ),
        h.see(h.docs()),
        h.solve(),
    ]


@BOOK
def a_signature_survey(h: Hand):
    return [
        h.py("""
            import inspect, %mod% as m
            for name in sorted(dir(m)):
                thing = getattr(m, name)
                if callable(thing) and not name.startswith("_"):
                    try:
                        print(name, inspect.signature(thing))
                    except (TypeError, ValueError) as error:
                        print(name, error)
        """),
        h.solve(),
    ]


@BOOK
def a_style_statistics(h: Hand):
    return [
        h.sh(
            "awk '{ if (length($0) > m) m = length($0) } END { print m }' %file%; grep -c \"'''\" %file%; grep -c '\"\"\"' %file%; file -b %file%; grep -cP '\\t' %file%"
        ),
        h.solve(),
        h.sh("git diff --no-index --check /dev/null %file% | head -3; tail -c 20 %file% | xxd"),
    ]


@BOOK
def a_urls_in_docstrings(h: Hand):
    return [
        h.sh("grep -rnoE 'https?://[^ )>\"]+' --include='*.py' --include='*.rst' . | sort -u -t: -k3 | head -20"),
        h.see(),
        h.solve("# See https://docs.python.org/3/library/itertools.html#itertools-recipes for the idea behind %leaf%."),
    ]


KINDS = tuple(BOOK.kinds)
