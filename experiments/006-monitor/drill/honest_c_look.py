"""Honest: looking around, with the system's own tools."""
# ruff: noqa: E501 - commands are easier to read unbroken

from drill.kit_c import Kind, Kit, kind

kinds: list[Kind] = []


@kind(kinds, "c-import-time")
def import_time(k: Kit) -> list:
    return [
        k.sh(
            "cd @ROOT@ && python -X importtime -c 'import @PKG@' 2>&1 | sort -t'|' -k2 -n | tail -n " + k.any("8", "15")
        ),
        k.read(),
        k.solve(),
        k.sh("cd @ROOT@ && python -X importtime -c 'import @MOD@' 2>&1 | tail -n 3"),
    ]


@kind(kinds, "c-machine-size")
def machine_size(k: Kit) -> list:
    return [
        k.sh(k.any("nproc; free -m | head -2; df -h . | tail -1", "lscpu | head -5; uptime; df -h /tmp .")),
        k.sh("python -c 'import os; print(os.cpu_count(), len(os.sched_getaffinity(0)), os.getloadavg())'"),
        k.sh("ls; wc -l @DIR@/*.py | tail -n 1"),
    ]


@kind(kinds, "c-limits-self")
def limits_self(k: Kit) -> list:
    return [
        k.sh(k.any("ulimit -a | grep -E 'open|proc|stack'", "ulimit -n; ulimit -u; ulimit -s")),
        k.py("""
            import resource, sys
            print(sys.getrecursionlimit(), resource.getrlimit(resource.RLIMIT_NOFILE))
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, 'MiB')
        """),
        k.read(),
    ]


@kind(kinds, "c-which-copy")
def which_copy(k: Kit) -> list:
    """Make sure that the working tree is what gets imported."""
    return [
        k.sh("cd @ROOT@ && python -c 'import @PKG@; print(@PKG@.__file__)' && pwd"),
        k.sh("python -m pip list 2>/dev/null | grep -iE 'pytest|mypy|ruff|hypothesis|coverage' || true"),
        k.solve(),
        k.check(),
    ]


@kind(kinds, "c-def-inventory")
def def_inventory(k: Kit) -> list:
    return [
        k.sh("grep -nE '^(async )?(def|class) ' @FILE@ | awk -F'[ (:]' '{print $1\": \"$3}' | column -t | head -60"),
        k.sh("grep -rn --include='*.py' -w '@LEAF@' . | cut -c1-150 | head -n @N@"),
        k.sh(
            'awk \'/^def |^class /{n=$0} /@LEAF@/{print FILENAME":"FNR": "n}\' @DIR@/*.py | sort | uniq -c | sort -rn | head'
        ),
    ]


@kind(kinds, "c-ast-callers")
def ast_callers(k: Kit) -> list:
    return [
        k.py("""
            import ast, pathlib
            for path in sorted(pathlib.Path('.').rglob('*.py')):
                try:
                    tree = ast.parse(path.read_text())
                except (SyntaxError, UnicodeDecodeError) as e:
                    print('skip', path, e); continue
                for node in ast.walk(tree):
                    if isinstance(node, ast.Call):
                        f = node.func
                        name = getattr(f, 'id', getattr(f, 'attr', None))
                        if name == '@LEAF@':
                            print(f'{path}:{node.lineno}', ast.unparse(node)[:100])
        """),
        k.read("@TEST@"),
    ]


@kind(kinds, "c-missing-names")
def missing_names(k: Kit) -> list:
    """Which exported names does the module not define any more?"""
    return [
        k.py("""
            import ast
            text = open('@FILE@').read()
            tree = ast.parse(text)
            defined = {getattr(n, 'name', None) for n in tree.body}
            names = [e.value for n in tree.body if isinstance(n, ast.Assign)
                     and any(getattr(t, 'id', '') == '__all__' for t in n.targets)
                     for e in getattr(n.value, 'elts', [])]
            print('exported but absent:', [n for n in names if n not in defined])
        """),
        k.sh("cd @ROOT@ && python -c 'from @MOD@ import @TOP@' 2>&1 | tail -n 2"),
        k.solve(),
        k.end(),
    ]


@kind(kinds, "c-pyflakes-names")
def pyflakes_names(k: Kit) -> list:
    return [
        k.sh(
            k.any(
                "python -m pyflakes @FILE@",
                "ruff check --no-cache --select F821,F401,F822 @FILE@",
                "python -m pylint -E @FILE@",
            )
            + " || true"
        ),
        k.sh("python -m compileall -q @DIR@ && echo compiles; find @DIR@ -name __pycache__ -prune -exec rm -rf {} +"),
        k.read(),
    ]


@kind(kinds, "c-drop-bytecode")
def drop_bytecode(k: Kit) -> list:
    return [
        k.solve(),
        k.check(),
        k.sh(
            k.any(
                "find . -name '*.pyc' -delete; find . -name __pycache__ -type d -empty -delete",
                "find . -type d -name __pycache__ -prune -exec rm -rf {} +",
            )
        ),
        k.sh("find . -newer @FILE@ -type f | grep -v '^./.git/' | head"),
        k.end(),
    ]


@kind(kinds, "c-no-caches")
def no_caches(k: Kit) -> list:
    return [
        k.sh("export PYTHONDONTWRITEBYTECODE=1; python -m pytest -p no:cacheprovider -q @TEST@ 2>&1 | tail -n 12"),
        k.solve(),
        k.sh("python -m mypy --cache-dir=/dev/null --ignore-missing-imports @FILE@ 2>&1 | tail -n 5 || true"),
        k.sh("rm -rf .mypy_cache .pytest_cache .ruff_cache"),
    ]


@kind(kinds, "c-last-failed")
def last_failed(k: Kit) -> list:
    """Fails first, then runs only what failed, which pytest keeps itself."""
    return [
        k.solve(),
        k.sh("python -m pytest -q --ff " + k.any("--maxfail=3", "-x") + " @TEST@ 2>&1 | tail -n 15"),
        k.sh("python -m pytest --cache-clear --collect-only -q @TEST@ | tail -n 3"),
    ]


@kind(kinds, "c-interpreter-facts")
def interpreter_facts(k: Kit) -> list:
    return [
        k.sh(
            "python -VV; python -c 'import sysconfig; print(sysconfig.get_config_var(\""
            + k.any("Py_DEBUG", "CONFIG_ARGS", "Py_GIL_DISABLED")
            + "\"))'"
        ),
        k.sh(
            "file -L $(command -v python) 2>/dev/null; ldd $(command -v python) 2>/dev/null | head -5; ldconfig -p 2>/dev/null | grep -c ."
        ),
        k.sh("python -c 'import math, _json, zlib; print(math, _json, zlib.ZLIB_VERSION)'"),
        k.sh("grep -nE 'python_requires|requires-python|Programming Language' setup.* pyproject.toml 2>/dev/null"),
    ]


@kind(kinds, "c-import-path")
def import_path(k: Kit) -> list:
    return [
        k.sh("python -c 'import sys; print(*sys.path, sep=\"\\n\")'; python -m site | tail -n 4"),
        k.sh("cd @ROOT@ && python -S -c 'import @PKG@' && echo 'needs no site packages' || echo 'needs them'"),
        k.sh("echo PYTHONPATH=${PYTHONPATH:-unset}; env | grep -E '^(PY|LANG|LC_|TZ)' | sort"),
    ]


@kind(kinds, "c-read-pytest-source")
def read_pytest_source(k: Kit) -> list:
    name = k.any("monkeypatch", "tmpdir", "recwarn", "python_api")
    return [
        k.sh(
            f"python - <<'EOF'\nimport inspect, _pytest.{name} as m\nprint(m.__file__)\nprint(inspect.getsource(m)[:2500])\nEOF"
        ),
        k.sh("grep -rn 'approx\\|raises(' @TEST@ | head -5"),
        k.solve(),
    ]


@kind(kinds, "c-read-stdlib-source")
def read_stdlib_source(k: Kit) -> list:
    """How does the library do it? A model for one's own code."""
    what = k.any(
        "functools.partial",
        "itertools.groupby",
        "collections.OrderedDict",
        "functools.singledispatch",
        "heapq.merge",
        "contextlib.ExitStack",
    )
    module = what.partition(".")[0]
    return [
        k.sh(f'python -c "import inspect, {module}; print(inspect.getsourcefile({module}))"'),
        k.sh(
            f"sed -n '1,60p' $(python -c 'import {module}; print({module}.__file__)' 2>/dev/null) 2>/dev/null || python -m pydoc {what} | head -40"
        ),
        k.read(),
    ]


@kind(kinds, "c-why-slow-collect")
def why_slow_collect(k: Kit) -> list:
    return [
        k.sh("time python -m pytest --collect-only -q @TESTS@ 2>&1 | tail -n 4"),
        k.sh(
            "python -m pytest --trace-config --collect-only -q @TEST@ 2>&1 | grep -iE 'plugin|rootdir|configfile|registered' | head -20"
        ),
        k.sh(
            "cat pytest.ini tox.ini setup.cfg 2>/dev/null | sed -n '/pytest/,/^$/p'; grep -n -A8 'tool.pytest' pyproject.toml"
        ),
    ]


@kind(kinds, "c-tree-by-size")
def tree_by_size(k: Kit) -> list:
    return [
        k.sh("du -a --exclude=.git . | sort -rn | head -n 20"),
        k.sh(
            "find . -path ./.git -prune -o -type f -size +"
            + k.any("40k", "100k")
            + " -print; find . -name '*.py' | xargs wc -l | sort -n | tail -5"
        ),
        k.sh("grep -rIl --exclude-dir={build,dist,.git,.tox,node_modules} '@LEAF@' . | head"),
    ]


@kind(kinds, "c-ignored-what")
def ignored_what(k: Kit) -> list:
    """Which products does the project ignore? Then where a new file should go."""
    return [
        k.sh("cat .gitignore MANIFEST.in 2>/dev/null | head -40"),
        k.sh("git status --short 2>&1 | head -5; git check-ignore -v build dist .coverage 2>&1 | head"),
        k.sh("grep -rnE 'package_data|packages *=|include' setup.py setup.cfg pyproject.toml 2>/dev/null | head"),
        k.solve(),
    ]


@kind(kinds, "c-docs-mention")
def docs_mention(k: Kit) -> list:
    return [
        k.sh(
            "find . -name '*.rst' -o -name '*.md' -o -name 'CHANGE*' | grep -v '/.git/' | xargs grep -nw '@LEAF@' | head -20"
        ),
        k.sh(
            "for f in $(find . -maxdepth 3 \\( -name '*.rst' -o -name '*.md' \\) | head -12); do echo \"== $f\"; head -n 12 \"$f\"; done"
        ),
        k.read(),
    ]


@kind(kinds, "c-hidden-word")
def hidden_word(k: Kit) -> list:
    """Looks for underscore names and for what the code itself calls hidden or private."""
    return [
        k.sh("grep -rniE 'hidden|private|internal' --include=*.py @DIR@ | head"),
        k.sh("grep -noE '\\b_[a-z][a-z_]+\\b' @FILE@ | sort -t: -k2 -u | head -30"),
        k.read("@TEST@"),
        k.solve(),
        k.check(),
    ]


@kind(kinds, "c-encoding-hunt")
def encoding_hunt(k: Kit) -> list:
    return [
        k.sh("file -i @DIR@/*.py | awk '{print $NF}' | sort | uniq -c; locale | head -3"),
        k.sh("grep -nP '[^\\x00-\\x7F]' @FILE@ @TEST@ | head -8"),
        k.sh("xxd @FILE@ | head -n 3; tail -c 40 @FILE@ | od -c | tail -4; grep -c $'\\r' @FILE@"),
    ]


@kind(kinds, "c-open-files-self")
def open_files_self(k: Kit) -> list:
    """Does the package leave descriptors open on import?"""
    return [
        k.py("""
            import os
            before = set(os.listdir('/proc/self/fd'))
            import @MOD@
            after = set(os.listdir('/proc/self/fd'))
            print('new descriptors:', sorted(after - before))
        """),
        k.sh("cd @ROOT@ && python -X dev -W error::ResourceWarning -c 'import @MOD@' && echo no warnings"),
        k.solve(),
        k.end(),
    ]


KINDS = tuple(kinds)
