"""Loading a repository: what is kept, what is named, and what is refused."""

import subprocess
import tarfile
import zipfile

import pytest

from composer_replication.environments.code.tasks.loading import load_repository
from composer_replication.environments.code.tasks.trees import files_of, tree_hash
from composer_replication.errors import UsageError
from tests.tiny_repository import FILES, tiny_repository, write_files


def test_a_folder_is_described(tmp_path):
    found = tiny_repository(tmp_path)
    assert found.name == "tiny-shapes"
    assert (found.packages, found.source_roots) == (("shapes",), (".",))
    assert found.source_files == ("shapes/__init__.py", "shapes/area.py", "shapes/words.py")
    assert found.test_files == ("tests/test_area.py", "tests/test_words.py")
    assert found.licence == "MIT"


JUNK = (
    ".git/config", "shapes/__pycache__/area.cpython-311.pyc", "build/lib/shapes/area.py", "dist/shapes.whl",
    "shapes.egg-info/SOURCES.txt", ".pytest_cache/v/x", "PKG-INFO", "shapes/fast.so", ".mypy_cache/a.json",
    "shapes/vendored/.git",
)  # fmt: skip


def test_history_caches_and_build_products_stay_out(tmp_path):
    found = tiny_repository(tmp_path, dict.fromkeys(JUNK, "x"))
    assert set(files_of(found.tree)) == set(FILES)


def test_links_are_left_out(tmp_path):
    source = write_files(tmp_path / "source", FILES)
    (source / "shapes" / "secret.py").symlink_to("/etc/passwd")
    found = load_repository(source, tmp_path / "clean")
    assert "shapes/secret.py" not in set(files_of(found.tree)) and found.links == ("shapes/secret.py",)


def test_of_a_git_checkout_only_tracked_files_count(tmp_path):
    source = write_files(tmp_path / "source", FILES)
    for argv in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", str(source), *argv], check=True)
    write_files(source, {"shapes/untracked.py": "", ".git/info/exclude": "secret.txt", "secret.txt": "", "a.pyc": ""})
    found = load_repository(source, tmp_path / "clean")
    assert set(files_of(found.tree)) == set(FILES)
    assert found.unknown_to_git == ("shapes/untracked.py",), "what is ignored, and caches, are meant to stay out"


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_an_archive_gives_the_same_tree(tmp_path, kind):
    source = write_files(tmp_path / "tiny-1.0", FILES)
    archive = tmp_path / f"tiny-1.0.{kind}"
    if kind == "tar":
        with tarfile.open(archive, "w:gz") as out:
            out.add(source, "tiny-1.0")
    else:
        with zipfile.ZipFile(archive, "w") as out:
            for path in FILES:
                out.write(source / path, f"tiny-1.0/{path}")
    loaded = load_repository(archive, tmp_path / "clean")
    assert tree_hash(loaded.tree) == tree_hash(source)


def test_src_layout_and_tests_inside_the_package(tmp_path):
    files = {
        "src/shapes/__init__.py": "",
        "src/shapes/area.py": "",
        "src/shapes/tests/__init__.py": "",
        "src/shapes/tests/helper.py": "",
        "src/shapes/tests/test_area.py": "",
        "docs/conf.py": "",
    }
    found = load_repository(write_files(tmp_path / "source", files), tmp_path / "clean")
    assert (found.packages, found.source_roots) == (("shapes",), ("src",))
    assert found.source_files == ("src/shapes/__init__.py", "src/shapes/area.py")
    assert found.test_files == ("src/shapes/tests/test_area.py",)


def test_a_single_module_is_a_package(tmp_path):
    files = {"shapes.py": "", "setup.py": "", "test_shapes.py": ""}
    found = load_repository(write_files(tmp_path / "source", files), tmp_path / "clean")
    assert (found.packages, found.source_files) == (("shapes",), ("shapes.py",))


def test_test_files_of_the_repositorys_own_pattern(tmp_path):
    files = {"shapes.py": "", "tests/check_area.py": "", "setup.cfg": "[tool:pytest]\npython_files = check_*.py\n"}
    found = load_repository(write_files(tmp_path / "source", files), tmp_path / "clean")
    assert found.test_files == ("tests/check_area.py",)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"shapes/__init__.py": ""}, "no test files"),
        ({"tests/test_a.py": ""}, "no importable package"),
        ({"pluggy/__init__.py": "", "tests/test_a.py": ""}, "test runner itself needs pluggy"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path, files, message):
    with pytest.raises(UsageError, match=message):
        load_repository(write_files(tmp_path / "source", files), tmp_path / "clean")


def test_what_is_no_repository_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    for path in (tmp_path / "absent", tmp_path / "notes.txt"):
        with pytest.raises(UsageError):
            load_repository(path, tmp_path / "clean")
