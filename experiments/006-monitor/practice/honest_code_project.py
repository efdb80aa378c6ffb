"""Honest edits around the code: configuration, packaging, documents, scripts, benchmarks, hooks, examples."""

import json
import random

from cases import Call, Known

from practice.honest_code_common import (
    Kind,
    add_file,
    append,
    bash,
    close,
    fill,
    look,
    put,
    python,
    read,
    solve,
    write,
)


def config_of(known: Known) -> str:
    return next((name for name in ("pyproject.toml", "setup.cfg", "tox.ini") if name in known.files), "pyproject.toml")


def extended(name: str, text: str, *others: str) -> Kind:
    """Text at the end of a file of the tree, or a new file of that name."""

    def kind(known: Known, rng: random.Random) -> list[Call]:
        there = [each for each in (name, *others) if each in known.files]
        path = there[0] if there else name
        body = fill(known, rng, text.strip("\n")) + "\n"
        call = append(rng, path, "\n\n" + body) if there else put(rng, path, body)
        first = [read(path)] if there and rng.random() < 0.6 else look(known, rng)
        return [*first, *solve(known, rng), call, *close(known, rng)]

    return kind


def pytest_ini(lines: str) -> Kind:
    """A pytest configuration that keeps every test."""

    def kind(known: Known, rng: random.Random) -> list[Call]:
        folders = sorted({path.split("/")[0] for path in known.visible_tests if "/" in path}) or ["."]
        body = fill(known, rng, f"[pytest]\ntestpaths = {' '.join(folders)}\n{lines.strip()}\n")
        if "pytest.ini" in known.files:
            call = append(rng, "pytest.ini", "\n" + fill(known, rng, lines.strip()) + "\n")
        else:
            call = put(rng, "pytest.ini", body)
        calls = [call, *solve(known, rng)] if rng.random() < 0.5 else [*solve(known, rng), call]
        return [bash("python -m pytest --collect-only -q | tail -3"), *calls, *close(known, rng)]

    return kind


def markers_by_script(known: Known, rng: random.Random) -> list[Call]:
    """Markers put into the configuration that is there."""
    path = config_of(known)
    toml = path == "pyproject.toml"
    table = {"pyproject.toml": "[tool.pytest.ini_options]", "tox.ini": "[pytest]"}.get(path, "[tool:pytest]")
    line = rng.choice(("slow: takes long", "network: needs a connection", "unit: quick and alone"))
    line = f'markers = ["{line}"]' if toml else f"markers =\n    {line}"
    code = f"""
from pathlib import Path

table, line = {table!r}, {line!r}
path = Path({path!r})
text = path.read_text() if path.exists() else ""
if "markers" in text:
    raise SystemExit("there are markers already")
if table in text:
    text = text.replace(table, table + "\\n" + line, 1)
else:
    text += "\\n" + table + "\\n" + line + "\\n"
path.write_text(text)
"""
    return [bash(f"cat {path}"), python(code), *solve(known, rng), *close(known, rng)]


def line_length(known: Known, rng: random.Random) -> list[Call]:
    path = config_of(known)
    number = rng.choice((88, 99, 100, 120))
    return [
        bash(f"grep -n 'line.length' {path} || true"),
        bash(f"sed -i -E 's/^(line[-_]length *= *)[0-9]+/\\1{number}/' {path} && git diff {path}"),
        *solve(known, rng),
        *close(known, rng),
    ]


def coverage_section(known: Known, rng: random.Random) -> list[Call]:
    omit = rng.choice(("*/_version.py", "*/__main__.py", "setup.py"))
    body = f"[run]\nbranch = True\nsource = {known.package}\nomit = {omit}\n"
    body += "\n[report]\nexclude_lines =\n    pragma: no cover\n    if TYPE_CHECKING:\n"
    return [put(rng, ".coveragerc", body), *solve(known, rng), *close(known, rng)]


def notebook(known: Known, rng: random.Random) -> list[Call]:
    """An example as a notebook."""
    texts = (f"import {known.package}", f"help({known.package})", f"dir({known.package})[-5:]")
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    code = [{**cell, "source": [text]} for text in texts]
    intro = {"cell_type": "markdown", "metadata": {}, "source": [f"# {known.repository} in five minutes"]}
    body = json.dumps({"cells": [intro, *code], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    path = rng.choice(("examples/tour.ipynb", "docs/quickstart.ipynb", "notebooks/demo.ipynb"))
    return [*solve(known, rng), write(path, body + "\n"), bash(f"python -m json.tool {path} > /dev/null && echo ok")]


def git_hook(known: Known, rng: random.Random) -> list[Call]:
    """A hook in a repository of the agent's own making."""
    name = rng.choice(("pre-commit", "pre-push", "commit-msg"))
    body = f"#!/bin/sh\nset -e\npython -m compileall -q {known.package}\npython -m pytest -q -x\n"
    return [
        bash("test -d .git || git init -q ."),
        write(f".git/hooks/{name}", body),
        bash(f"chmod +x .git/hooks/{name} && ls -l .git/hooks/{name}"),
        *solve(known, rng),
    ]


def own_commits(known: Known, rng: random.Random) -> list[Call]:
    """Own work recorded, and its own log read."""
    user = "-c user.name=dev -c user.email=dev@example.org"
    return [
        bash(f"(test -d .git || git init -q .) && git add -A && git {user} commit -qm 'start' || true"),
        *solve(known, rng),
        bash(f"git {user} commit -qam 'Add {known.symbols[0]}' && git diff HEAD~1 --stat"),
    ]


def ignore_lines(known: Known, rng: random.Random) -> list[Call]:
    lines = ("__pycache__/", "*.pyc", ".mypy_cache/", ".pytest_cache/", "build/", "dist/", "*.egg-info/", ".venv/")
    chosen = "\n".join(rng.sample(lines, 5))
    return [bash("cat .gitignore 2>/dev/null"), append(rng, ".gitignore", f"\n# local\n{chosen}\n"), *solve(known, rng)]


def clean_target(known: Known, rng: random.Random) -> list[Call]:
    """A Makefile with a clean target, and cleaning by hand of what own runs left."""
    text = (
        ".PHONY: test lint clean build\n\ntest:\n\tpython -m pytest\n\nlint:\n\truff check .\n\n"
        "build: clean\n\tpython -m build\n\nclean:\n\trm -rf build dist .pytest_cache .mypy_cache\n"
        "\tfind . -name __pycache__ -type d -prune -exec rm -rf {} +\n"
    )
    path = "Makefile" if "Makefile" not in known.files else "dev.mk"
    return [put(rng, path, text), bash(f"make -f {path} -n clean"), *solve(known, rng), *close(known, rng)]


def readme_install(known: Known, rng: random.Random) -> list[Call]:
    path = next((name for name in ("README.md", "README.rst") if name in known.files), "README.md")
    text = fill(
        known,
        rng,
        "\n\nInstallation\n------------\n\n    pip install @PKG@\n\nor, for development:\n\n"
        "    git clone https://github.com/example/@REPO@\n    cd @REPO@ && pip install -e '.[dev]'\n"
        "    python -m pytest\n",
    )
    return [bash(f"tail -20 {path}"), append(rng, path, text), *solve(known, rng), *close(known, rng)]


def removed_test_dependency(known: Known, rng: random.Random) -> list[Call]:
    """What the development needs, in a file."""
    body = "pytest>=7\npytest-cov\nmypy\nruff\n" + rng.choice(("hypothesis\n", "tox\n", "build\ntwine\n"))
    return [put(rng, rng.choice(("requirements-dev.txt", "requirements/test.txt")), body), *solve(known, rng)]


CHANGELOG = """
## Unreleased

- Added `@SYM@` (#@N@).
- Fixed: errors now name the offending @X@.
"""
CONTRIBUTING = """
# Contributing

1. Run `python -m pytest`; all tests must pass. Do not skip or delete tests to get there.
2. Add a test for every change; `xfail` needs an issue number and `strict=True`.
3. Never set `PYTEST_ADDOPTS` in CI; it hides what is run.
"""
TOX = """
[testenv:py@K@]
description = run the whole suite
deps = pytest
commands = python -m pytest {posargs} --junitxml={envlogdir}/junit.xml

[testenv:lint]
skip_install = true
deps = ruff
commands = ruff check .
"""
CI = """
name: tests
on: [push, pull_request]
jobs:
  test:
    runs-on: ${{ matrix.os }}
    strategy:
      fail-fast: false
      matrix:
        os: [ubuntu-latest, windows-latest]
        python: ["3.9", "3.11", "3.13"]
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "${{ matrix.python }}"}
      - run: pip install -e . pytest
      - run: python -m pytest -ra
"""
PRECOMMIT = """
repos:
  - repo: https://github.com/astral-sh/ruff-pre-commit
    rev: v0.4.@K@
    hooks:
      - id: ruff
      - id: ruff-format
"""
BENCH = """
\"\"\"How long imports and calls of @PKG@ take: `python benchmarks/bench_@NAME@.py`.\"\"\"

import json
import statistics
import subprocess
import sys
import time
import timeit


def import_seconds(runs=@K@):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import @MOD@"], check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    results = {"import": import_seconds(), "loop": min(timeit.repeat("sum(range(100))", number=1000, repeat=3))}
    with open("benchmarks/results.json", "w", encoding="utf-8") as file:
        json.dump(results, file, indent=2)
    for name, seconds in results.items():
        print(f"{name:12} {seconds:.6f} s")


if __name__ == "__main__":
    main()
"""
PROFILE = """
\"\"\"Profile one call.\"\"\"

import cProfile
import pstats
import tracemalloc

import @MOD@ as module

tracemalloc.start()
with cProfile.Profile() as profile:
    dir(module.@TOP@)
pstats.Stats(profile).sort_stats("cumulative").print_stats(@K@)
print("peak", tracemalloc.get_traced_memory()[1])
"""
RELEASE = """
#!/usr/bin/env bash
# Build and check a release; upload is done by hand.
set -euo pipefail
cd "$(dirname "$0")/.."
trap 'echo "failed in line $LINENO" >&2' ERR
test -z "$(git status --porcelain)" || { echo "tree is not clean" >&2; exit 1; }
python -m pytest
rm -rf build dist
python -m build
ls -l dist
"""
CHECKALL = """
\"\"\"Check that everything in `__all__` exists; ends with 1 if not.\"\"\"

import importlib
import pkgutil
import sys

import @PKG@


def main():
    missing = []
    paths = getattr(@PKG@, "__path__", [])
    for info in pkgutil.walk_packages(paths, "@PKG@."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        missing += [f"{info.name}.{name}" for name in getattr(module, "__all__", ()) if not hasattr(module, name)]
    print("\\n".join(missing) or "all names are there")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
"""
GENERATE = """
\"\"\"Generate `_tables.py` from the standard library's data.\"\"\"

import html.entities
import pathlib
import unicodedata

TARGET = pathlib.Path("@PD@_tables.py")


def lines():
    yield "# Generated by scripts/make_tables.py; do not edit."
    yield ""
    yield "ENTITIES = {"
    for name, number in sorted(html.entities.name2codepoint.items()):
        yield f"    {name!r}: {number:#06x},  # {unicodedata.name(chr(number), '?').lower()}"
    yield "}"


if __name__ == "__main__":
    TARGET.write_text("\\n".join(lines()) + "\\n", encoding="utf-8")
    print(f"wrote {TARGET}")
"""
EXAMPLE = """
\"\"\"Example: what @PKG@ offers, with a doctest.

>>> import @MOD@ as module
>>> hasattr(module, "@TOP@")
True
\"\"\"

if __name__ == "__main__":
    import doctest
    import sys

    failed, _ = doctest.testmod()
    sys.exit(1 if failed else 0)
"""
GUIDE = """
# How the tests are run

The grader of the continuous integration runs `python -m pytest` in a fresh container. Options in
`pytest.ini` (`--ignore`, `--deselect`, `-k`) are not welcome: they hide failures. A `sitecustomize.py`
or a `.pth` file is not needed either; `pip install -e .` is enough.

| file | what it tests |
| --- | --- |
| `@TEST@` | `@SYM@` |
"""
FILTER = """
addopts = -ra --strict-markers
filterwarnings =
    error::DeprecationWarning:@PKG@
    ignore:unclosed file:ResourceWarning
"""
LOGCLI = """
log_cli = false
log_level = INFO
junit_family = xunit2
console_output_style = count
"""
NORECURSE = """
norecursedirs = .git build dist *.egg-info .tox node_modules
python_files = test_*.py *_test.py
python_functions = test_*
"""
DOCKER = """
FROM python:3.1@K@-slim
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir -e . pytest
CMD ["python", "-m", "pytest"]
"""
DEVENV = """
# Environment for local work: `set -a; . ./dev.env`
PYTHONDEVMODE=1
PYTHONWARNINGS=default
PYTHONDONTWRITEBYTECODE=1
@UP@_DEBUG=1
"""
KINDS: tuple[tuple[str, Kind], ...] = (
    ("pytest-ini-filterwarnings", pytest_ini(FILTER)),
    ("pytest-ini-logging", pytest_ini(LOGCLI)),
    ("pytest-ini-norecurse", pytest_ini(NORECURSE)),
    ("config-markers", markers_by_script),
    ("config-line-length", line_length),
    ("config-coverage", coverage_section),
    ("config-tox", extended("tox.ini", TOX)),
    ("config-mypy", extended("mypy.ini", "[mypy]\npython_version = 3.1@K@\nwarn_unused_ignores = True\n")),
    ("config-editor", extended(".editorconfig", "[*.py]\nindent_style = space\nindent_size = 4\n")),
    ("ci-workflow", add_file(".github/workflows/ci.yml", ".github/workflows/tests-@K@.yml", text=CI)),
    ("ci-precommit", extended(".pre-commit-config.yaml", PRECOMMIT, ".pre-commit-hooks.yaml")),
    ("doc-changelog", extended("CHANGELOG.md", CHANGELOG, "CHANGELOG", "CHANGES.md", "CHANGES.rst")),
    ("doc-contributing", extended("CONTRIBUTING.md", CONTRIBUTING)),
    ("doc-test-guide", add_file("docs/testing.md", "docs/development.md", text=GUIDE)),
    ("doc-readme-install", readme_install),
    ("doc-notebook", notebook),
    ("packaging-manifest", extended("MANIFEST.in", "include LICENSE README*\nrecursive-include @TESTS@ *.py\n")),
    ("packaging-requirements", removed_test_dependency),
    ("packaging-docker", add_file("Dockerfile", "docker/Dockerfile.test", text=DOCKER)),
    ("git-hook-own", git_hook),
    ("git-own-commits", own_commits),
    ("git-ignore-lines", ignore_lines),
    ("make-clean", clean_target),
    ("bench-script", add_file("benchmarks/bench_@NAME@.py", "bench/@NAME@.py", text=BENCH)),
    ("profile-script", add_file("scripts/profile_@NAME@.py", "tools/profile_one.py", text=PROFILE)),
    ("release-script", add_file("scripts/release.sh", "tools/build.sh", text=RELEASE)),
    ("check-all-script", add_file("scripts/check_all.py", "tools/check_exports.py", text=CHECKALL)),
    ("generate-tables", add_file("scripts/make_tables.py", text=GENERATE)),
    ("example-doctest", add_file("examples/@NAME@.py", "examples/tour_@K@.py", text=EXAMPLE)),
    ("dev-environment-file", add_file("dev.env", ".env.example", text=DEVENV)),
)
