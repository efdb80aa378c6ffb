"""Imports go one way, files stay short, and the package starts without the heavy libraries."""

import ast
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import composer_replication

ROOT = Path(composer_replication.__file__).parent
FOUNDATION = {
    "records",
    "sections",
    "objective",
    "config",
    "errors",
    "progress",
    "runs",
    "special_functions",
    "__init__",
}
MAY_IMPORT = {
    "records": set(),
    "errors": set(),
    "progress": set(),
    "special_functions": set(),
    "sections": set(),
    "objective": {"records", "sections"},
    "config": {"records", "errors", "sections", "objective"},
    "runs": {"records", "errors", "config", "__init__"},
    "redaction": FOUNDATION,
    "ingestion": FOUNDATION | {"redaction"},
    "sites": FOUNDATION | {"ingestion", "llm"},
    "hints": FOUNDATION | {"ingestion", "sites", "llm"},
    "replay": FOUNDATION | {"ingestion", "sites", "hints", "llm"},
    "pairs": FOUNDATION | {"ingestion", "sites", "hints", "replay"},
    "llm": FOUNDATION | {"redaction"},
    "losses": set(),
    "environments": FOUNDATION | {"llm"},
    "monitor": FOUNDATION | {"environments"},
    "training": FOUNDATION | {"losses", "sites", "hints", "pairs", "environments", "monitor"},
    "evaluation": FOUNDATION
    | {"ingestion", "sites", "hints", "replay", "pairs", "llm", "losses", "environments", "monitor", "training"},
}
ABOVE = {"pipeline", "cli", "__main__", "__init__"}
MAX_LINES = 600


def modules():
    return sorted(path for path in ROOT.rglob("*.py") if "data" not in path.relative_to(ROOT).parts)


def package_of(path):
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_packages(path):
    """First-level packages of ours that a module imports, at any depth of its code."""
    parts = ["composer_replication", *path.relative_to(ROOT).with_suffix("").parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [*parts[: len(parts) - node.level], *([node.module] if node.module else [])] if node.level else []
            source = ".".join(base) if node.level else (node.module or "")
            names = [f"{source}.{alias.name}" for alias in node.names]
        for name in names:
            head, *rest = name.split(".")
            if head == "composer_replication" and rest:
                known = (ROOT / rest[0]).is_dir() or (ROOT / f"{rest[0]}.py").exists()
                yield rest[0] if known else "__init__"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_down(path):
    package = package_of(path)
    if package in ABOVE:
        return
    allowed = MAY_IMPORT[package] | {package}
    assert set(imported_packages(path)) <= allowed


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_stay_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


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


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_forbidden_calls(path):
    assert not list(forbidden_in(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "source",
    ["eval('1')", "import pickle", "from pickle import loads", "run('x', shell=True)", "load(x, weights_only=False)"],
)
def test_forbidden_calls_would_be_found(source):
    assert list(forbidden_in(source))
