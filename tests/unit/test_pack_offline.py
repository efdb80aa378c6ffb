"""What travels to a machine without network: all of the package, and no raw results."""

from __future__ import annotations

import importlib.util
import tarfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "experiments" / "pack_offline.py"


@pytest.fixture(scope="module")
def pack_offline():
    spec = importlib.util.spec_from_file_location("pack_offline", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def without_caches(pack_offline):
    return pack_offline.without_caches


@pytest.mark.parametrize(
    ("path", "travels"),
    [
        ("composer_replication/sites/results.py", True),
        ("experiments/shared/result_lines.py", True),
        ("experiments/004-ab/results.md.jinja", True),
        ("experiments/004-ab/results", False),
        ("experiments/004-ab/results/main/grpo-11.jsonl.zst", False),
        ("experiments/006-monitor/corpus/sessions.jsonl.zst", False),
        ("benchmarks/real_model.py", True),
        ("benchmarks/results/memory.json", False),
        ("composer_replication/sites/__pycache__/results.cpython-312.pyc", False),
    ],
)
def test_only_results_of_experiments_and_bytecode_stay_behind(without_caches, path, travels):
    assert (without_caches(tarfile.TarInfo(path)) is not None) == travels


def test_every_module_of_the_package_travels(without_caches, tmp_path):
    source = SCRIPT.parents[1] / "src" / "composer_replication"
    with tarfile.open(tmp_path / "site.tar", "w") as tar:
        tar.add(source, "composer_replication", filter=without_caches)
        packed = {name for name in tar.getnames() if name.endswith(".py")}
    assert packed == {f"composer_replication/{path.relative_to(source)}" for path in source.rglob("*.py")}


def test_what_else_travels_comes_with_what_it_needs_unless_its_version_is_named(pack_offline):
    found = pack_offline.also(["pytest", "freezegun==1.5.5"], {"packaging"})
    assert {one.partition("==")[0] for one in found} >= {"pytest", "pluggy", "iniconfig", "freezegun"}
    assert f"pytest=={pytest.__version__}" in found and not any(one.startswith("packaging") for one in found)
