"""Imports go one way, files stay short, and the package starts without the heavy libraries."""

import ast
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from .layers import (
    ABOVE,
    FOUNDATION,
    MAY_IMPORT,
    NAMED_ENVIRONMENTS,
    NAMES_ENVIRONMENTS,
    ROOT,
    children_graph,
    cycle_in,
    dotted,
    head,
    imports,
    modules,
    table,
)

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
MAX_LINES = 600


def test_imports_point_down():
    up = {}
    for path in modules():
        own = head(dotted(path))
        if own not in ABOVE:
            up[path] = {head(name) for name in imports(path)} - {*MAY_IMPORT[own], own, "__init__"}
    assert up and not {path: heads for path, heads in up.items() if heads}


def test_only_environments_know_one_by_name():
    named = {
        path: [name for name in imports(path) if re.match(rf"environments\.({'|'.join(NAMED_ENVIRONMENTS)})\b", name)]
        for path in modules()
        if head(dotted(path)) != "environments" and str(path.relative_to(ROOT)) not in NAMES_ENVIRONMENTS
    }
    assert named and not {path: names for path, names in named.items() if names}


def test_no_package_has_a_cycle_between_its_children():
    cycles = {package: found for package, edges in children_graph().items() if (found := cycle_in(edges))}
    assert cycles == {}


def test_a_cycle_would_be_found():
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
    assert cycle_in({"a": {"b", "c"}, "b": {"c"}}) is None


def test_the_layers_are_told_as_they_are():
    assert table() in CONTRIBUTING.read_text(encoding="utf-8")
    assert {name for name in MAY_IMPORT if name in FOUNDATION} == set(FOUNDATION)


@pytest.mark.parametrize("folder", ["src", "tests", "benchmarks"])
def test_files_stay_short(folder):
    files = modules() if folder == "src" else (CONTRIBUTING.parent / folder).rglob("*.py")
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert lines and not {path: number for path, number in lines.items() if number > MAX_LINES}


def seconds(code):
    """Processor time, best of five, so that a busy machine does not decide."""
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def test_import_is_quick():
    assert seconds("import composer_replication") - seconds("pass") < 0.15


def test_help_is_quick():
    code = "import sys; sys.argv = ['recompose', '--help']; from composer_replication.cli.main import main; main()"
    assert seconds(code) - seconds("pass") < 0.5


def test_help_loads_no_heavy_library():
    code = (
        "import sys; sys.argv = ['recompose', '--help']\n"
        "from composer_replication.cli.main import main\n"
        "main()\n"
        "assert not {'torch', 'transformers', 'trl', 'datasets', 'numpy'} & set(sys.modules), 'heavy'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


FORBIDDEN_ARGUMENTS = {("trust_remote_code", True), ("weights_only", False), ("shell", True)}


def forbidden_in(source):
    """Running text as code, loading objects that run code, and shells. A sandbox's own `exec` is a method."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            yield from (name for name in names if name.split(".")[0] in {"pickle", "cloudpickle", "dill"})
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in {"eval", "exec"}:
                yield node.func.id
            for keyword in node.keywords:
                value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
                if (keyword.arg, value) in FORBIDDEN_ARGUMENTS:
                    yield f"{keyword.arg}={value}"


def test_no_forbidden_calls():
    found = {path: list(forbidden_in(path.read_text(encoding="utf-8"))) for path in modules()}
    assert found and not {path: calls for path, calls in found.items() if calls}


@pytest.mark.parametrize(
    "source",
    ["eval('1')", "import pickle", "from pickle import loads", "run('x', shell=True)", "load(x, weights_only=False)"],
)
def test_forbidden_calls_would_be_found(source):
    assert list(forbidden_in(source))
