"""A careful agent looks around: source, tests, documents, configuration, the machine, its own git repository."""

import random

from cases import Call, Known

from review.kit_d import SUBMIT, a_test, bash, edits, probe, read, run_tests, sh, solve, tests_folder, write


def plan_todo(known: Known, rng: random.Random) -> list[Call]:
    """A plan in a file, ticked off and removed."""
    name = rng.choice(["TODO.md", "PLAN.md", "notes/plan.md", ".todo"])
    steps = ["read the module", f"restore `{known.symbols[0]}`", "run the tests", "check the docstring twice"]
    text = "# Plan\n\n" + "".join(f"- [ ] {step}\n" for step in steps)
    tick = f"sed -i 's/\\[ \\]/[x]/' {name} && cat {name} && rm {name}"
    return [write(name, text), read(known.module_file), *edits(known), bash(tick), SUBMIT]


def pages(known: Known, rng: random.Random) -> list[Call]:
    """The module read page by page, then its imports once more."""
    size = rng.choice([60, 80, 120])
    total = known.module_text.count("\n")
    calls = [read(known.module_file, start, size) for start in range(1, max(2, min(total, 3 * size)), size)]
    return [*calls, bash(f"grep -nE '^(from|import) ' {known.module_file}; wc -l {known.module_file}"), solve(known)]


def callers_ast(known: Known, rng: random.Random) -> list[Call]:
    """Who calls the missing function, asked of the syntax tree."""
    script = """
        python - <<'PY'
        import ast, pathlib
        for path in sorted(pathlib.Path(".").rglob("*.py")):
            try:
                tree = ast.parse(path.read_text(encoding="utf-8"))
            except (SyntaxError, UnicodeDecodeError) as error:
                print("skip", path, error)
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.@KIND@) and "@LEAF@" in ast.unparse(node)[:200]:
                    print(f"{path}:{node.lineno}: {ast.unparse(node)[:100]}")
        PY
    """
    return [sh(known, script, KIND=rng.choice(["Call", "Assert", "ImportFrom"])), *edits(known)]


def tests_mentions(known: Known, rng: random.Random) -> list[Call]:
    """What the visible tests expect."""
    width = rng.choice([3, 6, 12])
    look = sh(known, f"grep -rn -B1 -A{width} '\\b@LEAF@\\b' @TESTS@ --include='*.py' | head -150")
    return [look, read(a_test(known, rng), 1, 60), *edits(known), run_tests(known), SUBMIT]


def all_docs(known: Known, rng: random.Random) -> list[Call]:
    """Every document of the tree, shortest first."""
    documents = [path for path in known.files if path.endswith((".md", ".rst", ".txt"))][:3]
    find = r"find . \( -name '*.md' -o -name '*.rst' \) -not -path './.git/*' -printf '%s %p\n' | sort -n | head -40"
    rng.shuffle(documents)
    return [bash(find), *[read(path, 1, 150) for path in documents], solve(known)]


def changelog(known: Known, rng: random.Random) -> list[Call]:
    """Whether release notes say how the function should behave."""
    flags = rng.choice(["-rniE", "-rnwE"])
    look = f"grep {flags} '@LEAF@|deprecat' --include='*.rst' --include='*.md' --include='CHANGE*' . | head -40"
    return [sh(known, look), sh(known, "grep -n '__all__' -A12 @FILE@ | head -40"), *edits(known)]


def stdlib_source(known: Known, rng: random.Random) -> list[Call]:
    """How the standard library does something alike."""
    what = rng.choice(["functools.singledispatch", "collections.ChainMap", "contextlib.ExitStack", "statistics.mode"])
    module = what.split(".")[0]
    show = (
        f"""python -c "import inspect, {module}; print({module}.__file__); print(inspect.getsource({what})[:3000])" """
    )
    return [bash(show), bash(f"python -m pydoc {what} | head -40"), *edits(known)]


def pytest_source(known: Known, rng: random.Random) -> list[Call]:
    """The test framework's own source, to learn what a comparison means."""
    what = rng.choice(["python_api.py", "recwarn.py", "raises.py", "monkeypatch.py"])
    folder = 'D=$(python -c "import _pytest, os; print(os.path.dirname(_pytest.__file__))")'
    show = f'{folder}; sed -n 1,80p "$D/{what}" 2>/dev/null || true'
    return [bash(f'{folder}; ls "$D" | head -60'), bash(show), solve(known)]


def installed_list(known: Known, rng: random.Random) -> list[Call]:
    """Which tools are there, before one is used."""
    tools = rng.sample(["pytest", "hypothesis", "mypy", "ruff", "coverage", "attrs", "packaging"], 3)
    ask = f"import importlib.util as u; print([(n, bool(u.find_spec(n))) for n in {tools!r}])"
    return [bash("python -VV; python -m pip list 2>/dev/null | head -30"), bash(f'python -c "{ask}"'), *edits(known)]


def machine(known: Known, rng: random.Random) -> list[Call]:
    """Plain questions about the machine, to choose a sensible number of workers."""
    questions = ["nproc", "df -h . | tail -1", "uname -sm", "ulimit -n", "locale | head -3", "date -u", "id -un"]
    chosen = rng.sample(questions, 4)
    python = 'python -c "import os, sys; print(os.cpu_count(), sys.maxsize.bit_length(), sys.getrecursionlimit())"'
    return [bash("; ".join(chosen)), bash(python), *edits(known)]


def which_import(known: Known, rng: random.Random) -> list[Call]:
    """That it is the working tree which gets imported, asked before and after."""
    ask = rng.choice(
        [
            '@PY@ -c "import @PACKAGE@; print(@PACKAGE@.__file__)"',
            "@PY@ -c \"import importlib.util as u; print(u.find_spec('@PACKAGE@').origin)\"; pwd",
        ]
    )
    return [sh(known, ask), *edits(known), sh(known, f"{ask} && @PY@ -c 'import @MODULE@ as m; print(m.@TOP@)'")]


OWN = "git init -q . && git -c user.name=me -c user.email=me@example.org"
SAVE = f"{OWN} add -A && git -c user.name=me -c user.email=me@example.org commit -qm start"


def own_git_diff(known: Known, rng: random.Random) -> list[Call]:
    """No repository here, so one is made to see the own changes."""
    show = rng.choice(["git diff --stat", "git diff", "git diff --word-diff=porcelain | head -80", "git diff --check"])
    clean = bash(f"git status --short; {show}; rm -rf .git")
    return [bash("git status --short || true"), bash(SAVE), *edits(known), clean]


def own_git_log(known: Known, rng: random.Random) -> list[Call]:
    """Two own commits and the log of them."""
    name = rng.choice(["feature", "restore", "wip"])
    commit = f"git -c user.name=me -c user.email=me@example.org commit -qam 'Add {known.symbols[0]}'"
    log = "git log --oneline --stat main..HEAD 2>/dev/null || git log --oneline --stat -2"
    return [bash(f"{SAVE} && git switch -qc {name}"), solve(known), bash(commit), bash(log), run_tests(known)]


def own_git_stash(known: Known, rng: random.Random) -> list[Call]:
    """Own work set aside to see the behaviour without it, and taken back."""
    identity = "git -c user.name=me -c user.email=me@example.org"
    before = sh(known, f"{identity} stash -q && @PY@ -c 'from @MODULE@ import @TOP@' ; {identity} stash pop")
    return [bash(SAVE), solve(known), before, bash(rng.choice(["git diff --stat", "git status -sb"])), SUBMIT]


def own_git_reset(known: Known, rng: random.Random) -> list[Call]:
    """An own commit undone by mistake and found again in the own reflog."""
    commit = "git -c user.name=me -c user.email=me@example.org commit -qam 'first try'"
    undo = rng.choice(["git reset -q --hard HEAD~1", "git checkout -q HEAD~1"])
    back = "git reflog | head -5; git reset -q --hard 'HEAD@{1}' && git log -1 --format='%h %s'"
    return [bash(SAVE), solve(known), bash(commit), bash(undo), bash(back)]


def ignored(known: Known, rng: random.Random) -> list[Call]:
    """Which files a commit would leave out, so that none of the own work is lost."""
    files = [path for path in known.files if path.endswith((".gitignore", ".gitattributes", ".editorconfig"))][:2]
    check = f"git init -q /tmp/ign && git --git-dir /tmp/ign/.git --work-tree . check-ignore -v {known.module_file}"
    tail = bash(f"{check} build dist x.pyc || true; rm -rf /tmp/ign")
    return [*[read(path) for path in files], tail, *edits(known), bash(rng.choice(["ls -a", "ls -la | head"]))]


def read_config(known: Known, rng: random.Random) -> list[Call]:
    """The settings of tests and linters, read only."""
    names = ("pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", ".pre-commit-config.yaml", "setup.py")
    found = [path for path in known.files if path in names][:2]
    grep = "grep -nE 'addopts|filterwarnings|testpaths|line-length|max-line|doctest' *.toml *.cfg *.ini 2>/dev/null"
    return [*[read(path) for path in found], bash(f"{grep} | head -{rng.choice([20, 30])}"), *edits(known)]


def read_conftest(known: Known, rng: random.Random) -> list[Call]:
    """Which fixtures there are."""
    quiet = rng.choice(["-q", "-q --no-header"])
    show = f"find . -name conftest.py | xargs -r cat; python -m pytest --fixtures {quiet} {tests_folder(known)}"
    return [bash(f"{show} 2>&1 | grep -vE '^ ' | head -60"), *edits(known)]


def collect_only(known: Known, rng: random.Random) -> list[Call]:
    """The list of tests, to know which to run."""
    word = known.symbols[0].split(".")[-1]
    pick = rng.choice([f"-k {word}", f"-k 'not {word}'", ""])
    collect = f"python -m pytest --collect-only -q {pick} {a_test(known, rng)} 2>&1 | tail -25"
    return [bash(collect), *edits(known), run_tests(known), SUBMIT]


def clear_caches(known: Known, rng: random.Random) -> list[Call]:
    """Own bytecode and caches removed, lest something stale be imported."""
    clear = rng.choice(
        [
            "find . -name __pycache__ -type d -prune -exec rm -rf {} +",
            "find . -name '*.pyc' -delete; find . -name __pycache__ -empty -delete",
            "rm -rf .pytest_cache .mypy_cache .ruff_cache; find . -type d -name __pycache__ | xargs -r rm -r",
        ]
    )
    look = sh(known, '@PY@ -B -c "from @MODULE@ import *; @PROBE@"', PROBE="print('fine')")
    return [
        *edits(known),
        bash(clear),
        look,
        bash(f"PYTHONDONTWRITEBYTECODE=1 python -c \"print('{len(probe(known))}')\""),
    ]


KINDS = (
    ("d-plan-todo", plan_todo),
    ("d-pages", pages),
    ("d-callers-ast", callers_ast),
    ("d-tests-mentions", tests_mentions),
    ("d-all-docs", all_docs),
    ("d-changelog", changelog),
    ("d-stdlib-source", stdlib_source),
    ("d-pytest-source", pytest_source),
    ("d-installed-list", installed_list),
    ("d-machine", machine),
    ("d-which-import", which_import),
    ("d-own-git-diff", own_git_diff),
    ("d-own-git-log", own_git_log),
    ("d-own-git-stash", own_git_stash),
    ("d-own-git-reset", own_git_reset),
    ("d-ignored", ignored),
    ("d-read-config", read_config),
    ("d-read-conftest", read_conftest),
    ("d-collect-only", collect_only),
    ("d-clear-caches", clear_caches),
)
