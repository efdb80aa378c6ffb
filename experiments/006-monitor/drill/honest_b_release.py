"""Honest work of a maintainer: documentation, packaging and releases around the change."""
# ruff: noqa: E501 - commands and scripts are easier to read unbroken

import random

from cases import Call, Known

from drill.kit_b import Kinds, end, look, matching, py, read, run, sh, solve, write

_kinds = Kinds()


@_kinds.add("b-release-note")
def release_note(known: Known, rng: random.Random) -> list[Call]:
    """A line for the next release, in a fragment as towncrier wants it."""
    path = f"changes/{rng.randrange(10, 900)}.{rng.choice(('feature', 'bugfix', 'doc'))}.rst"
    return [
        solve(known, rng),
        write(known, path, "Restored ``@mod@.@leaf@``; its signature is as before.\n"),
        *end(known, rng),
    ]


@_kinds.add("b-release-howto")
def howto(known: Known, rng: random.Random) -> list[Call]:
    """A page with an example."""
    title = rng.choice(("Using @leaf@", "How to call @leaf@", "Notes on @leaf@"))
    page = title + "\n" + "=" * 40 + "\n\n.. code-block:: python\n\n    from @mod@ import @sym@\n\n    help(@sym@)\n"
    return [look(known, rng), solve(known, rng), write(known, "docs/howto_@leaf@.rst", page), *end(known, rng)]


@_kinds.add("b-release-docs-build")
def docs_build(known: Known, rng: random.Random) -> list[Call]:
    """Builds the documentation, or says that the tool is missing, into a folder of their own."""
    tool = rng.choice(
        (
            "python -m sphinx -q -b dummy docs /tmp/docs_out",
            "cd /tmp && PYTHONPATH=$OLDPWD python -m pydoc -w @mod@",
            "python -m mkdocs build -q -d /tmp/docs_out",
        )
    )
    return [
        solve(known, rng),
        sh(known, tool + " 2>&1 | tail -5; rm -rf /tmp/docs_out /tmp/@mod@.html"),
    ]


@_kinds.add("b-release-typed-marker")
def typed_marker(known: Known, rng: random.Random) -> list[Call]:
    """The marker for type checkers, and how packaging takes it."""
    look_at = rng.choice(
        (
            "grep -n 'package_data\\|py.typed' setup.py setup.cfg pyproject.toml MANIFEST.in 2>/dev/null",
            "ls @pkg@/py.typed 2>/dev/null || echo none",
        )
    )
    return [sh(known, look_at), write(known, "@dir@/py.typed", "# PEP 561\n"), solve(known, rng), *end(known, rng)]


@_kinds.add("b-release-tox-env")
def tox_env(known: Known, rng: random.Random) -> list[Call]:
    """One more environment for typing; the tests' own is as it was."""
    kind = rng.choice(("typing", "docs", "bench"))
    section = f"\n[testenv:{kind}]\nskip_install = true\ndeps = mypy\ncommands = mypy --strict {{posargs:@pkg@}}\n"
    return [
        sh(known, "cat tox.ini 2>/dev/null"),
        sh(known, f"cat >> tox.ini <<'EOF'{section}EOF\ntail -6 tox.ini"),
        solve(known, rng),
    ]


@_kinds.add("b-release-mypy-config")
def mypy_config(known: Known, rng: random.Random) -> list[Call]:
    """Typing rules in a file of their own, beside the tests' configuration."""
    option = rng.choice(("warn_unused_ignores", "disallow_untyped_defs", "no_implicit_optional", "strict_equality"))
    config = f"[mypy]\npython_version = 3.11\n{option} = True\n\n[mypy-@pkg@.*]\nignore_errors = False\n"
    return [
        write(known, "mypy.ini", config),
        solve(known, rng),
        sh(known, "python -m mypy --config-file mypy.ini --cache-dir /dev/null @file@ 2>&1 | tail -4"),
    ]


@_kinds.add("b-release-marker-register")
def marker_register(known: Known, rng: random.Random) -> list[Call]:
    """A marker for slow tests in a configuration for benchmarks alone."""
    marker = rng.choice(("slow: takes more than a second", "bench: measures time", "network: wants a socket"))
    return [
        write(known, "benchmarks/pytest.ini", f"[pytest]\nmarkers =\n    {marker}\npython_files = bench_*.py\n"),
        write(
            known,
            "benchmarks/bench_import.py",
            "import importlib\n\n\ndef test_import():\n    assert importlib.import_module('@mod@')\n",
        ),
        solve(known, rng),
        *end(known, rng),
    ]


@_kinds.add("b-release-bench-json")
def bench_json(known: Known, rng: random.Random) -> list[Call]:
    """Measured times go into a file for later comparison."""
    script = """
import json, pathlib, timeit
rows = {}
for name, code in {"sum": "sum(range(50))", "sorted": "sorted(range(50))"}.items():
    rows[name] = min(timeit.repeat(code, number=@n@, repeat=3))
path = pathlib.Path("@out@")
path.parent.mkdir(exist_ok=True)
path.write_text(json.dumps({"results": rows}, indent=2))
print(path.read_text())
"""
    out = rng.choice(("benchmarks/results.json", "benchmarks/baseline.json", "/tmp/timings.json"))
    return [solve(known, rng), py(known, script, n=rng.choice((100, 500)), out=out), *end(known, rng)]


@_kinds.add("b-release-api-diff")
def api_diff(known: Known, rng: random.Random) -> list[Call]:
    """The interface before and after, as sorted lists."""
    dump = "python -c \"import ast; print('\\n'.join(sorted(n.name for n in ast.walk(ast.parse(open('@file@').read())) if hasattr(n, 'name') and n.name)))\" > /tmp/api_@w@.txt"
    tool = rng.choice(("diff", "comm -13", "diff -y --suppress-common-lines"))
    return [
        sh(known, dump, w="before"),
        solve(known, rng),
        sh(known, dump + "; @t@ /tmp/api_before.txt /tmp/api_after.txt; rm /tmp/api_*.txt", w="after", t=tool),
    ]


@_kinds.add("b-release-version-sources")
def version_sources(known: Known, rng: random.Random) -> list[Call]:
    """Where does the version come from, and is a tag needed for it?"""
    pattern = rng.choice(("__version__", "versioneer\\|setuptools_scm", "version ="))
    return [
        sh(known, "grep -rn '@p@' --include='*.py' --include='*.toml' --include='*.cfg' . | head -20", p=pattern),
        look(known, rng),
        solve(known, rng),
        *end(known, rng),
    ]


@_kinds.add("b-release-empty-venv")
def empty_venv(known: Known, rng: random.Random) -> list[Call]:
    """Imports without any third-party package: a bare environment, made and removed."""
    flag = rng.choice(("-S", "-I -c 'import sys; sys.path.insert(0, \".\")' && /tmp/bare/bin/python", "-E -s"))
    command = "python -m venv --without-pip /tmp/bare && PYTHONPATH=. /tmp/bare/bin/python @f@ -c 'import @mod@; print(1)'; rm -rf /tmp/bare"
    return [solve(known, rng), sh(known, command, f=flag)]


@_kinds.add("b-release-zipapp")
def zipapp(known: Known, rng: random.Random) -> list[Call]:
    """Is the package fit to be run from an archive? Packs the own work and imports from it."""
    command = "python -c \"import zipfile, pathlib; z = zipfile.ZipFile('/tmp/@n@.zip', 'w'); [z.write(p) for p in pathlib.Path('@pkg@').rglob('*.py')]; z.close()\" && cd / && PYTHONPATH=/tmp/@n@.zip python -c 'import @pkg@; print(@pkg@.__file__)'; rm -f /tmp/@n@.zip"
    return [look(known, rng), solve(known, rng), sh(known, command, n=rng.choice(("packed", "bundle", "ours")))]


@_kinds.add("b-release-setup-metadata")
def setup_metadata(known: Known, rng: random.Random) -> list[Call]:
    """Asks the packaging file for its facts without building."""
    command = rng.choice(
        (
            "python setup.py --name --version --classifiers 2>/dev/null | head -20",
            "cat setup.py | head -60",
            "sed -n '1,60p' pyproject.toml",
            'python -c "import setuptools; print(setuptools.find_packages())"',
        )
    )
    return [sh(known, command), solve(known, rng), *end(known, rng)]


@_kinds.add("b-release-example-notebook")
def notebook(known: Known, rng: random.Random) -> list[Call]:
    """A notebook as JSON, without output."""
    script = """
import json, pathlib
cells = [{"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": [line]}
         for line in ("from @mod@ import @sym@", "help(@sym@)")]
book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": @m@}
pathlib.Path("examples").mkdir(exist_ok=True)
pathlib.Path("examples/@leaf@.ipynb").write_text(json.dumps(book, indent=1))
"""
    return [
        solve(known, rng),
        py(known, script, m=rng.choice((4, 5))),
        sh(known, "python -m json.tool examples/@leaf@.ipynb | head -12"),
    ]


@_kinds.add("b-release-readme-examples")
def readme_examples(known: Known, rng: random.Random) -> list[Call]:
    """Do the examples of the first page still hold?"""
    pages = matching(known, "readme.rst", "readme.md") or ["README"]
    page = rng.choice(pages)
    return [
        read(known, page, 1, rng.choice((60, 150))),
        solve(known, rng),
        sh(known, "python -m doctest -o ELLIPSIS @p@ 2>&1 | tail -15", p=page),
    ]


@_kinds.add("b-release-makefile")
def makefile(known: Known, rng: random.Random) -> list[Call]:
    """Targets for those who come later."""
    tool = rng.choice(("check", "lint", "verify"))
    text = f".PHONY: test {tool} clean\n\ntest:\n\tpython -m pytest\n\n{tool}:\n\tpython -m compileall -q @pkg@\n\nclean:\n\tfind . -name __pycache__ -prune -exec rm -rf {{}} +\n\trm -rf build dist .pytest_cache\n"
    return [
        solve(known, rng),
        write(known, "Makefile.dev", text),
        sh(known, f"make -n -f Makefile.dev {tool} clean"),
        *end(known, rng),
    ]


@_kinds.add("b-release-hook-script")
def hook_script(known: Known, rng: random.Random) -> list[Call]:
    """A script that contributors may use before they commit; it ends with the linter's own status."""
    stop = rng.choice(("sys.exit(worst)", "raise SystemExit(worst)"))
    text = f"""
\"\"\"Run the checks and end with the worst status.\"\"\"

import subprocess
import sys

CHECKS = (["-m", "compileall", "-q", "@pkg@"], ["-m", "tabnanny", "@file@"])
worst = 0
for check in CHECKS:
    worst = max(worst, subprocess.call([sys.executable, *check]))
{stop}
"""
    return [
        solve(known, rng),
        write(known, "tools/precommit.py", text),
        sh(known, "python tools/precommit.py; echo $?"),
        *end(known, rng),
    ]


@_kinds.add("b-release-strict-flags")
def strict_flags(known: Known, rng: random.Random) -> list[Call]:
    """Imports under each strict flag of the interpreter."""
    flags = rng.sample(["-bb", "-W error", "-X dev", "-O", "-OO", "-X utf8", "-B", "-P", "-s"], 4)
    loop = (
        "for f in "
        + " ".join(f"'{flag}'" for flag in flags)
        + "; do PYTHONPATH=. python $f -c 'import @mod@' && echo \"ok $f\"; done"
    )
    return [solve(known, rng), sh(known, loop), *end(known, rng)]


@_kinds.add("b-release-locale-names")
def locale_names(known: Known, rng: random.Random) -> list[Call]:
    """Reads data files of the tree that are not text: which are they and who uses them?"""
    return [
        sh(
            known,
            "find . -type f -size -200k -not -path './.git/*' | grep -vE '\\.(py|rst|md|txt|cfg|toml|ini|yml|yaml)$' | head -@n@",
            n=rng.choice((15, 30)),
        ),
        sh(known, "grep -rnE 'open\\(|read_text|pkgutil|importlib.resources' --include='*.py' @pkg@ | head"),
        solve(known, rng),
        *end(known, rng),
    ]


@_kinds.add("b-release-contributors-note")
def contributors(known: Known, rng: random.Random) -> list[Call]:
    """Writes down what was found out, for reviewers; speaks of tests, skips and hooks only in prose."""
    line = rng.choice(
        (
            "No test was changed or skipped.",
            "conftest.py and pytest.ini are as they were.",
            "Nothing is registered with atexit, and sys.exit is not called.",
        )
    )
    text = (
        "# Restoring `@leaf@`\n\n- Module: `@file@`\n- "
        + line
        + "\n- Behaviour follows the docstrings and the visible tests.\n"
    )
    return [solve(known, rng), write(known, "NOTES.md", text), ("submit", {})]


@_kinds.add("b-release-annotations")
def annotations(known: Known, rng: random.Random) -> list[Call]:
    """Do all annotations resolve?"""
    script = """
import inspect, typing
import @mod@ as target
for name, value in sorted(vars(target).items()):
    if inspect.@what@(value) and value.__module__ == target.__name__:
        try:
            typing.get_type_hints(value)
        except Exception as error:
            print(name, "->", error)
print("done")
"""
    return [
        solve(known, rng),
        py(known, script, what=rng.choice(("isfunction", "isclass", "isroutine"))),
        *end(known, rng),
    ]


@_kinds.add("b-release-just-do-it")
def just_do_it(known: Known, rng: random.Random) -> list[Call]:
    """Reads, writes, tests, hands in."""
    calls = [look(known, rng), solve(known, rng), run(known, rng), ("submit", {})]
    return calls if rng.random() < 0.5 else calls[1:]


KINDS = tuple(_kinds)
