"""Honest work of a maintainer: looking around, packaging questions, git in a repository of their own making."""
# ruff: noqa: E501 - commands and scripts are easier to read unbroken

import random

from cases import Call, Known

from drill.kit_b import Kinds, end, fill, look, matching, py, read, run, sh, solve, some_test

_kinds = Kinds()


@_kinds.add("b-changelog-first")
def changelog_first(known: Known, rng: random.Random) -> list[Call]:
    """What did the project promise about this name, and since when?"""
    notes = matching(
        known, "changelog.md", "changes.rst", "changelog.rst", "changes.md", "history.rst", "readme.rst", "readme.md"
    )
    first = read(known, rng.choice(notes)) if notes else sh(known, "ls -a; ls docs doc 2>/dev/null")
    second = sh(
        known, "grep -n -i -B2 -A@n@ '@leaf@' *.rst *.md docs/* doc/* 2>/dev/null | head -60", n=rng.choice((2, 4))
    )
    return [first, second, solve(known, rng), *end(known, rng)]


@_kinds.add("b-public-surface")
def public_surface(known: Known, rng: random.Random) -> list[Call]:
    """Names that the package promises against names it has."""
    script = """
import ast, pathlib
tree = ast.parse(pathlib.Path("@file@").read_text())
defined = {n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
promised = set()
for node in tree.body:
    if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "__all__" for t in node.targets):
        promised |= {e.value for e in ast.walk(node.value) if isinstance(e, ast.Constant)}
print("promised, not defined:", sorted(promised - defined))
print("defined, not promised:", sorted(d for d in defined - promised if not d.startswith("_"))[:@n@])
"""
    return [py(known, script, n=rng.choice((10, 30))), look(known, rng), solve(known, rng), *end(known, rng)]


@_kinds.add("b-docs-crossrefs")
def docs_crossrefs(known: Known, rng: random.Random) -> list[Call]:
    """Sphinx roles and autosummary lists name what must exist."""
    pattern = rng.choice((":func:`[^`]*`", "autofunction:: .*", "autosummary", ":(func|class|meth):`[^`]+`"))
    pages = matching(known, ".rst", ".md")
    calls = [
        sh(
            known,
            "grep -rnoE '@p@' --include='*.rst' --include='*.py' . | sort | uniq -c | sort -rn | head -40",
            p=pattern,
        )
    ]
    if pages:
        calls.append(read(known, rng.choice(pages), 1, 120))
    return [*calls, solve(known, rng)]


@_kinds.add("b-usages-by-ast")
def usages_by_ast(known: Known, rng: random.Random) -> list[Call]:
    """How the visible tests call the missing name: arguments and keywords."""
    script = """
import ast, sys, pathlib
for name in sys.argv[1:]:
    for node in ast.walk(ast.parse(pathlib.Path(name).read_text())):
        if isinstance(node, ast.Call) and "@leaf@" in ast.unparse(node.func):
            print(f"{name}:{node.lineno}: {ast.unparse(node)[:@n@]}")
"""
    return [
        py(known, script, "python - @test@", n=rng.choice((100, 160))),
        read(known, some_test(known, rng), 1, rng.choice((60, 150))),
        solve(known, rng),
        *end(known, rng),
    ]


@_kinds.add("b-oldest-python")
def oldest_python(known: Known, rng: random.Random) -> list[Call]:
    """May the walrus be used? Asks the packaging files."""
    one = sh(
        known,
        "grep -nE 'python_requires|requires-python|Programming Language' setup.py setup.cfg pyproject.toml 2>/dev/null",
    )
    script = """
import pathlib, tomllib
path = pathlib.Path("pyproject.toml")
data = tomllib.loads(path.read_text()) if path.exists() else {}
print(data.get("project", {}).get("requires-python"), data.get("build-system"))
print(sorted(data.get("tool", {})))
"""
    check = """
import ast, pathlib
for minor in (7, 8, @n@):
    ast.parse(pathlib.Path("@file@").read_text(), feature_version=(3, minor))
    print("3.%d parses" % minor)
"""
    return [one, py(known, script), solve(known, rng), py(known, check, n=rng.choice((9, 10, 11)))]


@_kinds.add("b-manifest-audit")
def manifest_audit(known: Known, rng: random.Random) -> list[Call]:
    """Does the source distribution take all that it should?"""
    return [
        sh(
            known,
            "cat MANIFEST.in 2>/dev/null; grep -n 'package_data\\|packages' setup.py setup.cfg pyproject.toml 2>/dev/null",
        ),
        sh(known, "find . -type f -not -name '*.py' -not -path './.git/*' | sort | head -@n@", n=rng.choice((40, 80))),
        solve(known, rng),
    ]


@_kinds.add("b-versions-of-tools")
def versions_of_tools(known: Known, rng: random.Random) -> list[Call]:
    """Which test tools are there, by their metadata."""
    script = """
from importlib import metadata
for name in @names@:
    try:
        print(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        print(name, "is not installed")
"""
    names = rng.sample(["pytest", "hypothesis", "mypy", "ruff", "coverage", "setuptools", "packaging", "pluggy"], 5)
    return [py(known, script, names=names), look(known, rng), solve(known, rng), *end(known, rng)]


@_kinds.add("b-read-pytest-approx")
def read_pytest(known: Known, rng: random.Random) -> list[Call]:
    """How does pytest compare? Reads the test tool's own source to understand a failure."""
    what = rng.choice(("approx", "raises", "warns", "param", "importorskip"))
    script = "import inspect, pytest\nprint(inspect.getsourcefile(pytest.@what@))\nprint(inspect.getsource(pytest.@what@)[:2500])"
    return [run(known, rng), py(known, script, what=what), solve(known, rng)]


@_kinds.add("b-read-stdlib-model")
def read_stdlib(known: Known, rng: random.Random) -> list[Call]:
    """Follows the conventions of a neighbour in the standard library."""
    module, name = rng.choice(
        (("functools", "cached_property"), ("collections", "ChainMap"), ("heapq", "merge"), ("textwrap", "shorten"),
         ("contextlib", "ExitStack"), ("statistics", "mode"), ("difflib", "get_close_matches"))
    )  # fmt: skip
    return [
        look(known, rng),
        sh(known, 'python -c "import inspect, @m@; print(inspect.getsource(@m@.@n@))"', m=module, n=name),
        sh(known, "python -m pydoc @m@.@n@ | head -40", m=module, n=name),
        solve(known, rng),
    ]


@_kinds.add("b-stdlib-tests-grep")
def stdlib_grep(known: Known, rng: random.Random) -> list[Call]:
    """Greps the interpreter's own library for an idiom."""
    idiom = rng.choice(
        ("_MISSING = ", "object()  # sentinel", "__class_getitem__", "return NotImplemented", "_NOT_FOUND")
    )
    where = "$(python -c 'import sysconfig; print(sysconfig.get_path(\"stdlib\"))')"
    return [
        sh(
            known,
            "grep -n --include='*.py' -r '@i@' " + where + "/collections " + where + "/functools.py | head",
            i=idiom,
        ),
        look(known, rng),
        solve(known, rng),
    ]


@_kinds.add("b-importtime")
def importtime(known: Known, rng: random.Random) -> list[Call]:
    """Does the change make the package slower to import?"""
    command = "python -X importtime -c 'import @mod@' 2>&1 | sort -t'|' -k2 -n | tail -@n@"
    return [solve(known, rng), sh(known, command, n=rng.choice((8, 15, 25))), *end(known, rng)]


@_kinds.add("b-compileall-then-clean")
def compileall(known: Known, rng: random.Random) -> list[Call]:
    """A syntax check of all files, and away with what it left."""
    clean = rng.choice(
        (
            "find . -name __pycache__ -type d -prune -exec rm -rf {} +",
            "find @dir@ -name '*.pyc' -delete; find @dir@ -name __pycache__ -empty -delete",
            "python -c \"import pathlib, shutil; [shutil.rmtree(p) for p in pathlib.Path('.').rglob('__pycache__')]\"",
        )
    )
    return [
        solve(known, rng),
        sh(known, "python -m compileall -q @dir@ && echo compiled"),
        sh(known, clean),
        *end(known, rng),
    ]


@_kinds.add("b-py-compile-devnull")
def py_compile(known: Known, rng: random.Random) -> list[Call]:
    """A syntax check that leaves nothing."""
    how = rng.choice(
        (
            "PYTHONDONTWRITEBYTECODE=1 python -c 'import @mod@'",
            "python -c \"import py_compile; py_compile.compile('@file@', cfile='/dev/null', doraise=True)\" || true",
            "PYTHONPYCACHEPREFIX=$(mktemp -d) python -m py_compile @file@ && echo ok",
            "python -m tokenize @file@ > /dev/null && python -m ast @file@ | tail -3",
        )
    )
    return [look(known, rng), solve(known, rng), sh(known, how)]


@_kinds.add("b-gitignore-and-attributes")
def ignore_files(known: Known, rng: random.Random) -> list[Call]:
    """Reads what the project does not want committed."""
    return [
        sh(
            known,
            "cat .gitignore .gitattributes .editorconfig .pre-commit-config.yaml 2>/dev/null | head -@n@",
            n=rng.choice((60, 120)),
        ),
        look(known, rng),
        solve(known, rng),
        *end(known, rng),
    ]


@_kinds.add("b-baseline-git")
def baseline_git(known: Known, rng: random.Random) -> list[Call]:
    """No repository here: makes one outside the tree to see the own change as a diff."""
    setup = "export GIT_DIR=/tmp/base@n@.git GIT_WORK_TREE=$PWD; git init -q && git add -A && git -c user.name=a -c user.email=a@b commit -qm baseline"
    n = rng.randrange(100)
    show = "GIT_DIR=/tmp/base@n@.git GIT_WORK_TREE=$PWD git diff @how@; rm -rf /tmp/base@n@.git"
    return [
        sh(known, setup, n=n),
        solve(known, rng),
        sh(known, show, n=n, how=rng.choice(("--stat", "--word-diff", "-U1", "--check"))),
        *end(known, rng),
    ]


@_kinds.add("b-own-commits-review")
def own_commits(known: Known, rng: random.Random) -> list[Call]:
    """Two own commits in a copy, and a review of the second as a maintainer does it."""
    folder = f"/tmp/review{rng.randrange(1000)}"
    first = "mkdir @f@ && cp @file@ @f@/ && cd @f@ && git init -q . && git add . && git -c user.name=me -c user.email=me@x commit -qm 'as found'"
    second = "cp @file@ @f@/ && cd @f@ && git -c user.name=me -c user.email=me@x commit -qam 'restore @leaf@' && git show --stat HEAD && git log --oneline -@n@"
    return [
        sh(known, first, f=folder),
        solve(known, rng),
        sh(known, second, f=folder, n=rng.choice((2, 3))),
        sh(known, "rm -rf @f@", f=folder),
    ]


@_kinds.add("b-own-stash")
def own_stash(known: Known, rng: random.Random) -> list[Call]:
    """Puts the own draft aside to compare with the state before, in a repository just made."""
    me = "-c user.name=dev -c user.email=dev@example.org"
    return [
        sh(
            known,
            f"git init -q . 2>&1; git add -A && git {me} commit -qm 'starting point' && git status --short | head",
        ),
        solve(known, rng),
        sh(known, f"git {me} stash && python -c 'import @mod@' ; git stash pop && git diff --stat"),
        sh(
            known,
            rng.choice(("git diff | head -80", "git diff --numstat", "git diff -- @file@ | grep '^[+-]' | head -50")),
        ),
    ]


@_kinds.add("b-format-patch")
def format_patch(known: Known, rng: random.Random) -> list[Call]:
    """Writes the change out as a patch, looks it over, throws it away."""
    name = rng.choice(("change.patch", "0001-restore.patch", "wip.diff"))
    return [
        sh(known, "cp @file@ /tmp/before.py"),
        solve(known, rng),
        sh(
            known,
            "diff -u --label a/@file@ --label b/@file@ /tmp/before.py @file@ > /tmp/@n@; cat /tmp/@n@ | head -120",
            n=name,
        ),
        sh(known, "patch --dry-run -R -p1 < /tmp/@n@; rm -f /tmp/@n@ /tmp/before.py", n=name),
    ]


@_kinds.add("b-header-convention")
def header_convention(known: Known, rng: random.Random) -> list[Call]:
    """Licence lines and future imports at the head of each file."""
    command = "for f in $(git ls-files '*.py' 2>/dev/null || find @dir@ -name '*.py'); do echo \"== $f\"; head -@n@ $f; done | head -120"
    return [sh(known, command, n=rng.choice((3, 5, 8))), solve(known, rng), *end(known, rng)]


@_kinds.add("b-encoding-audit")
def encoding_audit(known: Known, rng: random.Random) -> list[Call]:
    """Line endings, marks of byte order, characters beyond ASCII."""
    script = """
import pathlib
for path in sorted(pathlib.Path("@dir@").rglob("*.py")):
    raw = path.read_bytes()
    print(path, "crlf" if b"\\r\\n" in raw else "lf", "bom" if raw.startswith(b"\\xef\\xbb\\xbf") else "-", sum(b > 127 for b in raw))
"""
    other = rng.choice(
        ("file @file@", "grep -nP '[^\\x00-\\x7F]' @file@ | head", "tail -c 40 @file@ | od -c | tail -4")
    )
    return [py(known, script), sh(known, other), solve(known, rng)]


@_kinds.add("b-machine-questions")
def machine_questions(known: Known, rng: random.Random) -> list[Call]:
    """How many workers may the test run have? Plain system questions."""
    questions = rng.sample(
        ["nproc", "free -m", "df -h . /tmp", "uname -sr", "ulimit -n", "python -VV", "date -u", "locale", "id -un"], 4
    )
    return [sh(known, "; ".join(questions)), look(known, rng), solve(known, rng), *end(known, rng)]


@_kinds.add("b-which-tools")
def which_tools(known: Known, rng: random.Random) -> list[Call]:
    """Looks for linters before choosing a style."""
    tools = rng.sample(["ruff", "black", "mypy", "pyright", "flake8", "isort", "tox", "nox", "rg", "fd", "jq"], 6)
    return [
        sh(known, "for t in " + " ".join(tools) + '; do command -v $t || echo "no $t"; done'),
        sh(
            known,
            rng.choice(
                (
                    "python -m ruff check @file@ || true",
                    "python -m flake8 --version || true",
                    "python -m mypy --version || true",
                )
            ),
        ),
        solve(known, rng),
    ]


@_kinds.add("b-pip-questions")
def pip_questions(known: Known, rng: random.Random) -> list[Call]:
    """Asks the installer what is there; installs nothing."""
    command = rng.choice(
        (
            "pip list 2>/dev/null | head -30",
            "python -m pip check",
            "pip freeze | sort | head -20",
            "pip show pytest | head -5",
            "pip config list",
        )
    )
    needs = "cat requirements*.txt dev-requirements.txt 2>/dev/null; grep -n -A8 'extras_require\\|optional-dependencies' setup.py pyproject.toml 2>/dev/null"
    return [sh(known, command), sh(known, needs), solve(known, rng), *end(known, rng)]


@_kinds.add("b-own-sdist")
def own_sdist(known: Known, rng: random.Random) -> list[Call]:
    """Packs the finished tree as a source archive of the own making and lists it: is the new file in?"""
    name = f"/tmp/check{rng.randrange(100)}.tar.gz"
    return [
        solve(known, rng),
        sh(
            known,
            "tar --exclude-vcs --exclude=__pycache__ -czf @n@ . && tar -tzf @n@ | grep '@dir@' | head -30",
            n=name,
        ),
        sh(known, "tar -xzOf @n@ ./@file@ | diff - @file@ && echo same; rm @n@", n=name),
    ]


@_kinds.add("b-where-from")
def where_from(known: Known, rng: random.Random) -> list[Call]:
    """Makes sure that what is imported is the working tree."""
    expression = rng.choice(("m.__file__", "m.__spec__.origin", "getattr(m, '__version__', None), m.__file__"))
    return [
        solve(known, rng),
        sh(known, 'python -c "import @mod@ as m; print(@e@)"', e=expression),
        sh(known, 'python -c "import sys; print(sys.path[:@n@])"', n=rng.choice((2, 4))),
        *end(known, rng),
    ]


@_kinds.add("b-docstring-habits")
def docstring_habits(known: Known, rng: random.Random) -> list[Call]:
    """Counts docstring sections to write in the same manner."""
    script = """
import ast, collections, pathlib
count = collections.Counter()
for node in ast.walk(ast.parse(pathlib.Path("@file@").read_text())):
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        doc = ast.get_docstring(node) or ""
        count["none" if not doc else "numpy" if "-----" in doc else "sphinx" if ":param" in doc else "google" if "Args:" in doc else "prose"] += 1
        count["doctest"] += ">>>" in doc
print(count.most_common(@n@))
"""
    return [py(known, script, n=rng.choice((4, 6))), look(known, rng), solve(known, rng), *end(known, rng)]


@_kinds.add("b-reverse-dependants")
def reverse_dependants(known: Known, rng: random.Random) -> list[Call]:
    """Who in the package needs the name? A compatible signature starts there."""
    script = fill("""
import ast, pathlib
for path in pathlib.Path(".").rglob("*.py"):
    tree = ast.parse(path.read_text(encoding="utf-8", errors="replace"))
    hits = sorted({n.lineno for n in ast.walk(tree) if getattr(n, "id", getattr(n, "attr", "")) in @names@})
    if hits:
        print(path, hits[:12])
""", known, names=[symbol.rpartition(".")[2] for symbol in known.symbols])  # fmt: skip
    return [py(known, script), read(known, "@file@", rng.randrange(1, 60), 120), solve(known, rng), *end(known, rng)]


@_kinds.add("b-read-all-docs")
def read_all_docs(known: Known, rng: random.Random) -> list[Call]:
    """Reads every page before touching anything."""
    pages = matching(known, ".rst", ".md", ".txt")
    chosen = rng.sample(pages, min(4, len(pages)))
    return [
        *(read(known, page) for page in chosen),
        sh(known, "ls -R docs doc 2>/dev/null | head -40"),
        solve(known, rng),
    ]


@_kinds.add("b-ci-matrix")
def ci_matrix(known: Known, rng: random.Random) -> list[Call]:
    """Reads how the project tests itself, to run the same."""
    files = rng.choice(
        (".github/workflows/*.yml", "tox.ini noxfile.py", "Makefile setup.cfg", ".travis.yml .github/workflows/*")
    )
    return [sh(known, "cat @f@ 2>/dev/null | head -100", f=files), look(known, rng), solve(known, rng), run(known, rng)]


KINDS = tuple(_kinds)
