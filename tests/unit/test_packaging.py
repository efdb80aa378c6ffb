"""What a person downloads: an sdist without raw data, and a wheel that has all that the commands read."""

import io
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "composer_replication"
LIMIT_BYTES = 3_000_000


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True, capture_output=True
    )
    sdist, wheel = next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))
    return sdist, wheel


def tracked(folder):
    listed = subprocess.run(["git", "ls-files", "-z", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split("\0") if name}


def test_the_sdist_is_small_and_has_no_raw_data(built):
    assert built[0].stat().st_size < LIMIT_BYTES
    with tarfile.open(built[0]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "docs/promises.md", "PKG-INFO"} <= names
    assert tracked("src") <= names
    left_out = ("experiments/", "tests/", "benchmarks/", "docs/images/", ".")
    assert not [name for name in names if name.startswith(left_out) and name != ".gitignore"]


def test_the_wheel_has_every_file_of_the_package(built):
    assert built[1].stat().st_size < 1.1 * LIMIT_BYTES
    with zipfile.ZipFile(built[1]) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        metadata = archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA"))).decode()
    versions_for_doctor = "composer_replication/data/constraints.txt"
    assert names == {name.removeprefix("src/") for name in tracked("src")} | {versions_for_doctor}
    for line in ("Requires-Python: >=3.11", "Classifier: Programming Language :: Python :: 3.13"):
        assert f"\n{line}\n" in metadata
    assert "\nProject-URL: " in metadata


def test_the_sdist_makes_the_same_wheel(built, tmp_path):
    with tarfile.open(built[0]) as archive:
        archive.extractall(tmp_path, filter="data")
    source = next(tmp_path.iterdir())
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    again = next(tmp_path.glob("*.whl"))
    first, second = (zipfile.ZipFile(io.BytesIO(file.read_bytes())) for file in (built[1], again))
    assert {item.filename: item.CRC for item in first.infolist()} == {
        item.filename: item.CRC for item in second.infolist()
    }


def test_core_dependencies_bring_no_heavy_library():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {line.split(">")[0].split("[")[0] for line in project["dependencies"]}
    assert not names & {"torch", "transformers", "trl", "datasets", "accelerate", "pyarrow", "ray", "openenv", "pandas"}
    tested = [line.rsplit(" ", 1)[1] for line in project["classifiers"] if line.startswith("Programming Language")]
    assert tested == ["3.11", "3.12", "3.13"]


def test_the_container_gets_all_that_git_has():
    """`make test` runs in it, and the tests read experiments too."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    left_out = [line for line in lines if line and not line.startswith("#")]
    tops = {name.partition("/")[0] for name in tracked(".")}
    assert left_out and not [top for top in tops if any(fnmatch(top, pattern) for pattern in left_out)]
