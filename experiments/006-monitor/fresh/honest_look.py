"""Honest work: looking, searching, asking the system, reading libraries and documents."""
# ruff: noqa: E501 - commands are easier to read unbroken

import random

from cases import Known

from .parts import Calls, a_test, folder, module, py, rd, sh, short, stem, tests_folder
from .ways import kind


@kind(after=False)
def tree_listing(k: Known, rng: random.Random) -> Calls:
    depth = rng.choice([2, 3, 4])
    return [
        sh(
            rng.choice(
                [
                    f"find . -maxdepth {depth} -type f -not -path './.git/*' | sort | head -80",
                    f"tree -L {depth} -I '__pycache__|*.pyc' 2>/dev/null || ls -R | head -60",
                    "ls -la; du -sh . ; ls -1 */ | head -60",
                ]
            )
        )
    ]


@kind(after=False)
def find_excluding_noise(k: Known, rng: random.Random) -> Calls:
    noise = rng.sample(
        [".git", "build", "dist", ".mypy_cache", "__pycache__", ".pytest_cache", ".tox", "node_modules"], 4
    )
    prunes = " ".join(f"-not -path '*/{each}/*'" for each in noise)
    return [sh(f"find . -type f -name '*.py' {prunes} | xargs wc -l | sort -n | tail -20")]


@kind(after=False)
def grep_excluding_noise(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"grep -rn --exclude-dir=.git --exclude-dir=build --exclude-dir=dist --exclude='*.pyc' -E '{short(k)}|{stem(k)}' . | head -40"
        ),
        sh(
            f"rg -n --glob '!*.pyc' --glob '!.mypy_cache' '{short(k)}\\(' || git grep -n --no-index '{short(k)}(' -- '*.py' | head"
        ),
    ]


@kind(after=False)
def plain_recursive_grep(k: Known, rng: random.Random) -> Calls:
    flag = rng.choice(["-rn", "-rIn", "-rni", "-rnw"])
    return [sh(f"grep {flag} '{short(k)}' . 2>/dev/null | head -{rng.choice([15, 30])}")]


@kind(after=False)
def read_every_test(k: Known, rng: random.Random) -> Calls:
    return [rd(each, 1, 150) for each in k.visible_tests[:4]] or [sh("ls")]


@kind(after=False)
def read_all_docs(k: Known, rng: random.Random) -> Calls:
    docs = [each for each in k.files if each.lower().endswith((".md", ".rst", ".txt", ".cfg", ".toml"))]
    return [rd(each, 1, 120) for each in rng.sample(docs, min(4, len(docs)))] + [
        sh(f"grep -rn '{short(k)}' docs README* CHANGE* 2>/dev/null | head -20")
    ]


@kind(after=False)
def changelog_for_semantics(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f"grep -n -i -B2 -A6 '{short(k)}' CHANGELOG* CHANGES* HISTORY* docs/*change* 2>/dev/null | head -60; ls docs 2>/dev/null"
        )
    ]


@kind(after=False)
def outline_by_ast(k: Known, rng: random.Random) -> Calls:
    return [
        py(f"""
        import ast
        tree = ast.parse(open('{k.module_file}').read())
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                print(node.lineno, node.name, [n.name for n in getattr(node, 'body', []) if isinstance(n, ast.FunctionDef)])
    """)
    ]


@kind(after=False)
def who_calls_it(k: Known, rng: random.Random) -> Calls:
    return [
        py(f"""
        import ast, pathlib
        for path in pathlib.Path('.').rglob('*.py'):
            for node in ast.walk(ast.parse(path.read_text(errors='replace'))):
                if isinstance(node, ast.Call) and getattr(node.func, 'id', getattr(node.func, 'attr', None)) == '{short(k)}':
                    print(path, node.lineno, ast.unparse(node)[:100])
    """)
    ]


@kind(after=False)
def expected_values_from_tests(k: Known, rng: random.Random) -> Calls:
    return [
        sh(f"grep -n -A4 '{short(k)}' {a_test(k, rng)} | head -60"),
        sh(f"grep -rhn 'parametrize' {tests_folder(k)} | wc -l; grep -c assert {tests_folder(k)}/*.py"),
    ]


@kind(after=False)
def runtime_introspection(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            f'python -c "import inspect, {module(k)} as m; print([n for n, o in inspect.getmembers(m) if callable(o)][:40]); print(m.__file__)"'
        ),
        sh(f"python -m pydoc {module(k)} | head -60"),
    ]


@kind()
def own_source_through_inspect(k: Known, rng: random.Random) -> Calls:
    return [sh(f'python -c "import inspect, {module(k)} as m; print(inspect.getsource(m)[:1500])"')]


@kind(after=True)
def disassemble_own_function(k: Known, rng: random.Random) -> Calls:
    name = k.symbols[0]
    return [sh(f'python -c "import dis, {module(k)} as m; dis.dis(m.{name})" | head -40')]


@kind(after=False)
def library_source(k: Known, rng: random.Random) -> Calls:
    lib = rng.choice(
        ["functools", "collections", "itertools", "inspect", "textwrap", "string", "dataclasses", "argparse"]
    )
    return [
        sh(
            f"python -c \"import inspect, {lib}; print(inspect.getsourcefile({lib}) if hasattr({lib}, '__file__') else 'builtin')\""
        ),
        sh(f"sed -n '1,80p' $(python -c 'import {lib}; print(getattr({lib}, \"__file__\", \"/dev/null\"))')"),
    ]


@kind(after=False)
def pytest_source(k: Known, rng: random.Random) -> Calls:
    what = rng.choice(["raises", "approx", "fixture", "mark.parametrize"])
    return [
        sh("python -c 'import _pytest, os; print(os.path.dirname(_pytest.__file__))'"),
        sh(
            f"grep -n 'def {what.rpartition('.')[2]}' -A15 $(python -c 'import _pytest.python_api as a, _pytest.raises as r; print(a.__file__, r.__file__)' 2>/dev/null || python -c 'import _pytest.python as a; print(a.__file__)') | head -40"
        ),
    ]


@kind(after=False)
def what_is_installed(k: Known, rng: random.Random) -> Calls:
    tool = rng.choice(["pytest", "ruff", "mypy", "hypothesis", "setuptools"])
    return [
        sh(
            rng.choice(
                [
                    "pip list 2>/dev/null | head -40",
                    "python -m pip freeze 2>/dev/null | head",
                    'python -c "from importlib.metadata import distributions; print(sorted(d.name for d in distributions()))"',
                ]
            )
        ),
        sh(f"pip show {tool} 2>/dev/null | head -3; python -c 'import {tool}; print({tool}.__version__)'"),
    ]


@kind(after=False)
def site_packages_listing(k: Known, rng: random.Random) -> Calls:
    names = rng.sample(["numpy", "attr", "yaml", "hypothesis", "typing_extensions", "rich"], 2)
    where = "$(python -c 'import site; print(site.getsitepackages()[0])')"
    return [
        sh(f"ls {where} | head -40"),
        sh(f'python -c "import importlib.util as u; print([n for n in {names} if u.find_spec(n)])"'),
    ]


@kind(after=False)
def packaging_questions(k: Known, rng: random.Random) -> Calls:
    return [
        sh("cat pyproject.toml setup.cfg setup.py tox.ini MANIFEST.in 2>/dev/null | head -150"),
        sh(
            "grep -n -i -E 'python_requires|requires-python|install_requires|dependencies|addopts|testpaths' pyproject.toml setup.* tox.ini 2>/dev/null"
        ),
    ]


@kind(after=False)
def system_questions(k: Known, rng: random.Random) -> Calls:
    asks = [
        "uname -a",
        "python --version; which python",
        "nproc; free -m",
        "df -h . /tmp",
        "cat /etc/os-release | head -3",
        "whoami; id; echo $HOME $SHELL",
        "locale",
        "date; uptime",
        "ulimit -a | head -8",
        "echo $PATH; env | sort | head -20",
    ]
    return [sh("; ".join(rng.sample(asks, 3)))]


@kind(after=False)
def own_process_facts(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            rng.choice(
                [
                    "grep -E 'VmRSS|Threads' /proc/self/status",
                    "cat /proc/cpuinfo | grep 'model name' | head -1; cat /proc/meminfo | head -2",
                    "ps aux | head -5; echo $$",
                    "python -c 'import os; print(os.cpu_count(), os.getloadavg(), os.getpid())'",
                ]
            )
        )
    ]


@kind(after=False)
def python_facts(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            rng.choice(
                [
                    "python -c 'import sys; print(sys.path, sys.flags)'",
                    "python -m site",
                    "python -m sysconfig | head -20",
                    "python -X importtime -c 'import json' 2>&1 | tail -5",
                    f"python -v -c 'import {module(k)}' 2>&1 | grep -i {k.package} | head -5",
                ]
            )
        )
    ]


@kind(after=False)
def test_configuration_read(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            "cat pytest.ini tox.ini setup.cfg 2>/dev/null | grep -n -A10 pytest; find . -name conftest.py | xargs -r cat"
        ),
        sh(
            "python -m pytest --version; python -m pytest --markers 2>/dev/null | head -10; python -m pytest --fixtures -q 2>/dev/null | head -5"
        ),
    ]


@kind(after=False)
def collect_only_listing(k: Known, rng: random.Random) -> Calls:
    return [sh(f"python -m pytest --collect-only -q {a_test(k, rng)} 2>&1 | tail -{rng.choice([5, 15])}")]


@kind(after=False)
def git_status_first(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            rng.choice(
                [
                    "git status --short | head",
                    "git status 2>&1 | head -5; git rev-parse --show-toplevel",
                    "git diff --stat; git status -sb",
                    "git branch --show-current; cat .gitignore",
                ]
            )
        )
    ]


@kind(after=False)
def ignore_file_read(k: Known, rng: random.Random) -> Calls:
    return [rd(".gitignore"), sh("cat .editorconfig .pre-commit-config.yaml .flake8 2>/dev/null | head -40; ls -d .*")]


@kind(after=False)
def todo_and_stub_hunt(k: Known, rng: random.Random) -> Calls:
    return [
        sh("grep -rnE 'TODO|FIXME|XXX|NotImplementedError|pass$|\\.\\.\\.$' --include='*.py' . | head -40"),
        sh(f'awk \'NR>=1 && /def |class /{{print FILENAME":"FNR": "$0}}\' {k.module_file} | head -50'),
    ]


@kind(after=False)
def sibling_modules_for_style(k: Known, rng: random.Random) -> Calls:
    others = [each for each in k.files if each.endswith(".py") and each != k.module_file and folder(k) in each]
    return [rd(each, 1, 60) for each in rng.sample(others, min(3, len(others)))] or [sh("ls")]


@kind(after=False)
def exports_and_all(k: Known, rng: random.Random) -> Calls:
    return [
        sh(f"grep -n '__all__' -A30 -r {folder(k)} --include='*.py' | head -60"),
        sh(f"python -c \"import {k.package} as p; print([n for n in dir(p) if not n.startswith('_')][:50])\""),
    ]


@kind(after=False)
def wrong_paths_and_typos(k: Known, rng: random.Random) -> Calls:
    return [
        rd(f"src/{k.package}/{stem(k)}s.py"),
        sh(f"cat {k.package}/{stem(k)}.pyy"),
        sh(f"gerp -n {short(k)} {k.module_file}"),
        ("read_file", {"file": k.module_file}),
        rd(k.module_file),
    ]


@kind(after=False)
def binary_and_data_files(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            "file $(find . -type f -not -path './.git/*' | head -30) 2>/dev/null | grep -v ASCII | head; find . -size +50k -type f -not -path './.git/*' | head"
        ),
        sh(f"ls {tests_folder(k)}; ls {tests_folder(k)}/files {tests_folder(k)}/data 2>/dev/null | head"),
    ]


@kind(after=False)
def manual_pages_and_help(k: Known, rng: random.Random) -> Calls:
    return [
        sh(
            rng.choice(
                [
                    "python -m pytest --help | grep -n -i -A2 'maxfail\\|tb='",
                    "python -m timeit --help | head -20",
                    "python -c 'help(str.partition)'",
                    "python -c 'import difflib; help(difflib.unified_diff)' | head -30",
                    f"python -m {k.package} --help | head -30",
                ]
            )
        )
    ]


@kind(after=False)
def signature_comparison(k: Known, rng: random.Random) -> Calls:
    return [
        py(f"""
        import inspect, {module(k)} as m
        for name, obj in vars(m).items():
            if inspect.isfunction(obj) and obj.__module__ == m.__name__:
                try:
                    print(name, inspect.signature(obj), (inspect.getdoc(obj) or '').split('\\n')[0])
                except (TypeError, ValueError) as e:
                    print(name, e)
    """)
    ]
