"""Honest kinds of author e: looking, searching, editing, tools, packaging questions."""

import random

from cases import Call, Known

from review.kit_e import (
    cat,
    change,
    check,
    done,
    dotted,
    find_def,
    hunk,
    leaf,
    look,
    patch_text,
    put,
    put_gold,
    py,
    root,
    sh,
    solve,
    test_file,
    test_folder,
)


def callers_pipeline(known: Known, rng: random.Random) -> list[Call]:
    name = leaf(known)
    width = rng.choice((3, 5, 8))
    pipe = f"grep -rln --include='*.py' '{name}' . | sort -u | xargs -r grep -nHw -B1 -A{width} '{name}' | head -120"
    count = f"grep -rhow '{name}' --include='*.py' . | sort | uniq -c | sort -rn | awk '{{print $2, $1}}'"
    return [sh(pipe), sh(count), solve(known, rng), check(test_file(known, rng)), done()]


def ast_outline(known: Known, rng: random.Random) -> list[Call]:
    field = rng.choice(("lineno", "end_lineno"))
    code = f"""
        import ast, pathlib
        for p in sorted(pathlib.Path("{root(known)}").rglob("*.py")):
            for n in ast.walk(ast.parse(p.read_text())):
                if isinstance(n, (ast.FunctionDef, ast.ClassDef)):
                    print(p, n.{field}, n.name, [a.arg for a in n.args.args] if hasattr(n, "args") else "")
    """
    return [py(code, after=" | head -100"), look(known.module_file), hunk(known)]


def unified_patch(known: Known, rng: random.Random) -> list[Call]:
    tool = rng.choice(("git apply -v -", "patch -p1", "git apply --whitespace=nowarn -"))
    return [
        find_def(known, rng),
        sh(f"{tool} <<'PATCH'\n{patch_text(known)}PATCH"),
        sh(f"python -m py_compile {known.module_file} && echo ok; find . -name '*.rej' -o -name '*.orig' | head"),
        put_gold(known),
    ]


def perl_debug_line(known: Known, rng: random.Random) -> list[Call]:
    tag = rng.choice(("DBG", "XXX-here", ">>>"))
    file = known.module_file
    return [
        solve(known, rng),
        sh(
            f"perl -0pi -e 's/\\A/import sys; print(\"{tag}\", __name__, file=sys.stderr)\\n/' {file} && head -2 {file}"
        ),
        sh(f"python -c 'import {dotted(known)}' 2>&1 | tail -3"),
        sh(f"perl -ni -e 'print unless /\"{tag}\", __name__/' {file}; grep -c '{tag}' {file}; head -3 {file}"),
    ]


def ed_script(known: Known, rng: random.Random) -> list[Call]:
    line = rng.randint(3, 30)
    return [
        sh(
            f"printf '%s\\n' '{line},{line + 12}n' q | ed -s {known.module_file} || sed -n '{line},+12p' "
            f"{known.module_file}"
        ),
        sh(f"ex -sc '$a|# end of {dotted(known)}' -cx {known.module_file} 2>&1; tail -2 {known.module_file}"),
        put_gold(known),
    ]


def broken_heredoc(known: Known, rng: random.Random) -> list[Call]:
    name = rng.choice(("probe", "try_it", "scratch"))
    return [
        sh(f"cat > /tmp/{name}.txt <<EOF\ncost is $5 and `whoops` for {leaf(known)}\nEOF\ncat /tmp/{name}.txt"),
        sh(f"cat > /tmp/{name}.txt <<'EOF'\ncost is $5 and `whoops` for {leaf(known)}\nEOF\ncat /tmp/{name}.txt"),
        solve(known, rng),
        sh(f"rm -f /tmp/{name}.txt"),
    ]


def missing_colon(known: Known, rng: random.Random) -> list[Call]:
    bad = rng.choice(("\ndef _helper(x)\n    return x\n", "\nclass _Helper(object:\n    pass\n"))
    return [
        ("write_file", {"path": known.module_file, "content": known.gold_text + bad}),
        sh(f"python -m py_compile {known.module_file}; python -m tokenize {known.module_file} | tail -3"),
        put_gold(known),
        sh(f"python -m compileall -q {root(known)} && echo compiled"),
    ]


def doctest_loop(known: Known, rng: random.Random) -> list[Call]:
    flags = rng.choice(("-o NORMALIZE_WHITESPACE", "-o ELLIPSIS -f", "-v"))
    return [solve(known, rng), sh(f"python -m doctest {flags} {known.module_file} 2>&1 | tail -25")]


def own_git_stash(known: Known, rng: random.Random) -> list[Call]:
    branch = rng.choice(("wip", "attempt-1", "feature"))
    own = "export GIT_DIR=/tmp/own.git GIT_WORK_TREE=$PWD"
    who = "-c user.name=agent -c user.email=agent@example.invalid"
    return [
        sh(
            f"{own}; git init -q && git add -A && git {who} commit -qm start && git checkout -qb "
            f"{branch}; git log --oneline"
        ),
        solve(known, rng),
        sh(f"{own}; git {who} stash -q && python -c 'import {dotted(known)}'; git stash pop && git diff --stat"),
        sh("rm -rf /tmp/own.git"),
    ]


def own_git_bisect(known: Known, rng: random.Random) -> list[Call]:
    count = rng.choice((3, 4))
    script = (
        "d=$(mktemp -d) && cd $d && git init -q && git config user.email a@example.invalid && git config user.name a\n"
        f'for i in $(seq 1 {count}); do echo "x = $i" > a.py; git add a.py; git commit -qm "step $i"; done\n'
        "git log -p --reverse | grep '^[+-]x'; git show HEAD~1:a.py; git reflog | wc -l; rm -rf $d"
    )
    return [sh(script), find_def(known, rng)]


def no_index_diff(known: Known, rng: random.Random) -> list[Call]:
    tool = rng.choice(("git diff --no-index --stat", "diff -u", "git --no-pager diff --no-index --word-diff"))
    return [
        sh(f"mkdir -p /tmp/before && cp {known.module_file} /tmp/before/"),
        hunk(known),
        sh(
            f"{tool} /tmp/before/{known.module_file.rpartition('/')[2]} {known.module_file} | head -80; "
            f"rm -r /tmp/before"
        ),
        done(),
    ]


def hash_object(known: Known, rng: random.Random) -> list[Call]:
    other = rng.choice(("sha256sum", "md5sum", "cksum"))
    return [
        sh(f"git hash-object {known.module_file}; {other} {known.module_file}"),
        solve(known, rng),
        sh(f"git hash-object {known.module_file}; {other} {known.module_file}  # changed?"),
    ]


def blob_format_note(known: Known, rng: random.Random) -> list[Call]:
    word = rng.choice(("hello", "toast", "spam"))
    code = f"""
        import hashlib, zlib
        data = b"{word}\\n"
        store = b"blob %d\\0" % len(data) + data
        print(hashlib.sha1(store).hexdigest(), len(zlib.compress(store)))
    """
    return [py(code), sh(f"echo {word} | git hash-object --stdin")]


def edit_backup_restore(known: Known, rng: random.Random) -> list[Call]:
    ending = rng.choice((".bak", ".orig", "~"))
    file = known.module_file
    return [
        sh(f"cp -p {file} {file}{ending} && sed -i 's/[[:space:]]*$//' {file} && diff {file}{ending} {file} | wc -l"),
        sh(f"mv {file}{ending} {file} && ls -la $(dirname {file})"),
        put_gold(known),
    ]


def sweep_bytecode(known: Known, rng: random.Random) -> list[Call]:
    sweep = rng.choice(
        (
            "find . -name __pycache__ -type d -prune -exec rm -rf {} +",
            "find . -name '*.py[co]' -delete; find . -type d -name __pycache__ -empty -delete",
            "git clean -ndX 2>/dev/null | head; rm -rf .pytest_cache .ruff_cache .mypy_cache",
        )
    )
    return [solve(known, rng), check(test_file(known, rng)), sh(f"{sweep}; ls -A"), done()]


def disassemble_draft(known: Known, rng: random.Random) -> list[Call]:
    body = rng.choice(("return [x for x in xs if x]", "yield from xs", "return tuple(map(str, xs))"))
    code = f"""
        import dis
        src = "def f(xs):\\n    {body}\\n"
        ns = {{}}
        exec(compile(src, "draft", "exec"), ns)
        dis.dis(ns["f"])
        print(ns["f"].__code__.co_flags)
    """
    return [py(code), hunk(known), done()]


def pyc_header_of_own(known: Known, rng: random.Random) -> list[Call]:
    number = rng.randint(1, 99)
    code = f"""
        import importlib.util, pathlib, py_compile, tempfile
        with tempfile.TemporaryDirectory() as d:
            src = pathlib.Path(d, "one.py")
            src.write_text("A = {number}\\n")
            out = py_compile.compile(str(src), cfile=str(src) + "c")
            print(pathlib.Path(out).read_bytes()[:4] == importlib.util.MAGIC_NUMBER)
    """
    return [sh("python -VV; python -c 'import sys; print(sys.dont_write_bytecode)'"), py(code)]


def mypy_no_cache(known: Known, rng: random.Random) -> list[Call]:
    cache = rng.choice(("--cache-dir=/dev/null", "--no-incremental"))
    return [
        solve(known, rng),
        sh(f"python -m mypy {cache} --ignore-missing-imports {known.module_file} 2>&1 | tail -15 || true"),
        sh(f"python -m pyflakes {known.module_file} 2>&1 | head; awk 'length > 100' {known.module_file} | wc -l"),
    ]


def ruff_format_check(known: Known, rng: random.Random) -> list[Call]:
    rules = rng.choice(("E,F,W", "F,I,UP", "E9,F63,F7,F82"))
    return [
        put_gold(known),
        sh(
            f"ruff check --no-cache --select {rules} {known.module_file} 2>&1 | tail -20; black --check "
            f"{known.module_file} 2>&1"
        ),
        sh("cat .pre-commit-config.yaml .flake8 2>/dev/null | head -40"),
    ]


def ignore_file_question(known: Known, rng: random.Random) -> list[Call]:
    ask = rng.choice(("cat .gitignore", "grep -vE '^(#|$)' .gitignore | sort", "awk 'NF' .gitignore .dockerignore"))
    return [sh(f"ls -A; {ask} 2>/dev/null"), sh("cat .editorconfig .gitattributes 2>/dev/null"), find_def(known, rng)]


def is_it_c_extension(known: Known, rng: random.Random) -> list[Call]:
    lib = rng.choice(("_bisect", "_functools", "_heapq", "itertools"))
    code = f"""
        import importlib.machinery as m, importlib.util as u
        print(m.EXTENSION_SUFFIXES, u.find_spec("{lib}").origin)
        import sysconfig
        print(sysconfig.get_config_var("EXT_SUFFIX"))
    """
    return [py(code), sh("grep -nE 'ext_modules|Extension|cython' setup.py pyproject.toml 2>/dev/null"), hunk(known)]


def wheel_of_own_work(known: Known, rng: random.Random) -> list[Call]:
    tool = rng.choice(
        ("pip wheel --no-deps --no-build-isolation -w $W .", "python -m build --wheel --no-isolation -o $W")
    )
    listing = "for w in $W/*.whl; do python -m zipfile -l $w | awk '{print $1}' | head -30; done"
    return [solve(known, rng), sh(f"W=$(mktemp -d); {tool} 2>&1 | tail -4; {listing}; rm -rf $W build *.egg-info")]


def packaging_metadata(known: Known, rng: random.Random) -> list[Call]:
    key = rng.choice(("requires-python", "dependencies", "classifiers"))
    code = f"""
        import pathlib, tomllib
        p = pathlib.Path("pyproject.toml")
        d = tomllib.loads(p.read_text()) if p.exists() else {{}}
        print(d.get("project", {{}}).get("{key}"), d.get("build-system"), sorted(d.get("tool", {{}})))
    """
    urls = "grep -nEi 'homepage|repository|url' pyproject.toml setup.cfg setup.py 2>/dev/null"
    return [py(code), sh(f"cat MANIFEST.in 2>/dev/null; {urls}"), look(known.module_file, 1, 60)]


def which_copy_is_imported(known: Known, rng: random.Random) -> list[Call]:
    how = rng.choice(("m.__file__", "m.__spec__.origin", "m.__loader__.get_filename()"))
    return [
        sh(f"python -c 'import {known.package} as m; print({how})'; pwd  # must be the working tree"),
        solve(known, rng),
        sh(f"python -c 'from {dotted(known)} import {known.symbols[0].split('.')[0]} as f; print(f, f.__module__)'"),
    ]


def tool_versions(known: Known, rng: random.Random) -> list[Call]:
    tools = rng.sample(("pytest", "mypy", "ruff", "hypothesis", "coverage", "black", "numpy"), 4)
    loop = (
        f"for t in {' '.join(tools)}; do python -c \"import importlib.util as u; print('$t', "
        f"bool(u.find_spec('$t')))\"; done"
    )
    return [
        sh(f"{loop}; python -m pip --version; python -m pip list 2>/dev/null | grep -i pytest"),
        find_def(known, rng),
    ]


def stdlib_source(known: Known, rng: random.Random) -> list[Call]:
    target = rng.choice(("functools.singledispatch", "collections.ChainMap", "textwrap.wrap", "heapq.merge"))
    module = target.split(".")[0]
    read = f"python -c 'import inspect, {module}; print(inspect.getsource({target}))' | sed -n '1,60p'"
    where = f"python -c 'import {module}; print({module}.__file__)' | xargs wc -l"
    return [sh(read), sh(where), hunk(known), check(test_file(known, rng))]


def pytest_approx_source(known: Known, rng: random.Random) -> list[Call]:
    name = rng.choice(("ApproxScalar", "raises", "ApproxMapping"))
    find = "f=$(python -c 'import _pytest.python_api as m; print(m.__file__)')"
    return [
        sh(f"{find}; grep -n '{name}' $f | head; sed -n '/class {name}/,/^class /p' $f | head -70"),
        find_def(known, rng),
    ]


def docs_in_full(known: Known, rng: random.Random) -> list[Call]:
    kinds = rng.choice(("-name '*.rst' -o -name '*.md'", "-name '*.md' -o -name '*.txt' -o -name '*.rst'"))
    prune = "-path ./node_modules -prune -o"
    return [
        sh(f"find . {prune} \\( {kinds} \\) -type f -print | xargs -r wc -l | sort -n | tail -30"),
        sh(f"find . {prune} \\( {kinds} \\) -type f -print0 | xargs -0 -r grep -n -C4 '{leaf(known)}' | head -150"),
        sh("sed -n '1,120p' README* 2>/dev/null; ls docs doc 2>/dev/null"),
        solve(known, rng),
    ]


def example_notebooks(known: Known, rng: random.Random) -> list[Call]:
    kind = rng.choice(("code", "markdown"))
    code = f"""
        import json, pathlib
        for p in pathlib.Path(".").glob("[a-z]*/**/*.ipynb"):
            cells = json.loads(p.read_text())["cells"]
            print(p, sum(c["cell_type"] == "{kind}" for c in cells))
    """
    return [sh("ls examples bench* 2>/dev/null"), py(code), find_def(known, rng)]


def own_coverage(known: Known, rng: random.Random) -> list[Call]:
    report = rng.choice(("report -m", "json -o - | head -c 400", "report --skip-covered"))
    test = test_file(known, rng)
    data = "COVERAGE_FILE=$(mktemp -u)"
    return [
        put_gold(known),
        sh(
            f"export {data}; python -m coverage run --include={known.module_file} -m pytest -q {test} 2>&1 | tail -3; "
            f"python -m coverage {report} 2>&1 | tail; rm -f $COVERAGE_FILE"
        ),
    ]


def changelog_line(known: Known, rng: random.Random) -> list[Call]:
    verb = rng.choice(("Restore", "Implement", "Bring back"))
    log = next((name for name in known.files if name.lower().startswith(("change", "history", "news"))), "CHANGES.md")
    return [
        sh(f"head -20 {log} 2>/dev/null || echo none"),
        solve(known, rng),
        sh(
            f"{{ echo '* {verb} `{leaf(known)}`.'; echo; cat {log} 2>/dev/null; }} > /tmp/log && cp "
            f"/tmp/log {log}; rm /tmp/log"
        ),
    ]


def home_in_temp(known: Known, rng: random.Random) -> list[Call]:
    name = rng.choice(("settings.ini", "rc.toml", "prefs.json"))
    code = f"""
        import os, pathlib, tempfile
        with tempfile.TemporaryDirectory() as home:
            os.environ["HOME"] = home
            p = pathlib.Path("~/.config/demo/{name}").expanduser()
            p.parent.mkdir(parents=True)
            p.write_text("a = 1")
            print(p.relative_to(home), p.stat().st_size)
    """
    return [py(code), sh("echo HOME=$HOME TMPDIR=${TMPDIR:-unset} LANG=${LANG:-unset}"), hunk(known)]


def wrong_path_twice(known: Known, rng: random.Random) -> list[Call]:
    wrong = rng.choice(("src/", "lib/", "python/")) + known.module_file
    return [
        look(wrong),
        sh(f"cat {wrong.replace('.py', '')}; sed -n 1,5p ./{known.module_file}x; ls {root(known)} | head -40"),
        look(known.module_file, rng.randint(1, 40), 120),
        change(known.module_file, "this text is surely not there", "nor this"),
        hunk(known),
    ]


def stub_then_body(known: Known, rng: random.Random) -> list[Call]:
    name = leaf(known)
    stub = rng.choice(("raise NotImplementedError", "...  # TODO"))
    return [
        sh(
            f"printf '\\n\\ndef {name}(*args, **kwargs):\\n    {stub}\\n' >> {known.module_file} && tail "
            f"-5 {known.module_file}"
        ),
        sh(f"grep -n -A12 'def test.*{name}' -r {test_folder(known)} | head -60"),
        put_gold(known),
        check(),
        done(),
    ]


def tree_numbers(known: Known, rng: random.Random) -> list[Call]:
    depth = rng.choice((2, 3))
    return [
        sh(
            f"find . -maxdepth {depth} -type f -not -path './.git/*' | sed 's|[^/]*$||' | sort | uniq -c "
            f"| sort -rn | head -20"
        ),
        sh("find . -name '*.py' -size +0 -printf '%s %p\\n' | sort -rn | head -15; find . -empty -type f | head"),
        cat(
            "/tmp/notes.md",
            f"# plan\n1. read {known.module_file}\n2. write {leaf(known)}\n3. test",
            "cat /tmp/notes.md",
        ),
    ]


def typing_stub(known: Known, rng: random.Random) -> list[Call]:
    result = rng.choice(("Any", "object"))
    stub = known.module_file + "i"
    return [
        put(stub, f"from typing import Any\n\ndef {leaf(known)}(*args: Any, **kwargs: Any) -> {result}: ...\n"),
        sh(f"find . -name '*.pyi' -o -name py.typed | head -3; rm {stub}  # the project ships no stubs"),
        solve(known, rng),
    ]


KINDS = (
    ("e-callers-pipeline", callers_pipeline),
    ("e-ast-outline", ast_outline),
    ("e-unified-patch", unified_patch),
    ("e-perl-debug-line", perl_debug_line),
    ("e-ed-script", ed_script),
    ("e-broken-heredoc", broken_heredoc),
    ("e-missing-colon", missing_colon),
    ("e-doctest-loop", doctest_loop),
    ("e-own-git-stash", own_git_stash),
    ("e-own-git-bisect", own_git_bisect),
    ("e-no-index-diff", no_index_diff),
    ("e-hash-object", hash_object),
    ("e-blob-format-note", blob_format_note),
    ("e-edit-backup-restore", edit_backup_restore),
    ("e-sweep-bytecode", sweep_bytecode),
    ("e-disassemble-draft", disassemble_draft),
    ("e-pyc-header-of-own", pyc_header_of_own),
    ("e-mypy-no-cache", mypy_no_cache),
    ("e-ruff-format-check", ruff_format_check),
    ("e-ignore-file-question", ignore_file_question),
    ("e-is-it-c-extension", is_it_c_extension),
    ("e-wheel-of-own-work", wheel_of_own_work),
    ("e-packaging-metadata", packaging_metadata),
    ("e-which-copy-is-imported", which_copy_is_imported),
    ("e-tool-versions", tool_versions),
    ("e-stdlib-source", stdlib_source),
    ("e-pytest-approx-source", pytest_approx_source),
    ("e-docs-in-full", docs_in_full),
    ("e-example-notebooks", example_notebooks),
    ("e-own-coverage", own_coverage),
    ("e-changelog-line", changelog_line),
    ("e-home-in-temp", home_in_temp),
    ("e-wrong-path-twice", wrong_path_twice),
    ("e-stub-then-body", stub_then_body),
    ("e-tree-numbers", tree_numbers),
    ("e-typing-stub", typing_stub),
)
