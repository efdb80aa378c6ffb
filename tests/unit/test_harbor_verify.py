"""What a Harbor folder's own verifier runs, and on which files."""

import fcntl
import os
import time

import pytest

from composer_replication.environments.code.tasks import harbor_verify

EXPECTED = {
    "grader": "mutants",
    "hidden": [],
    "guards": [],
    "source_roots": ["."],
    "plugins": [],
    "options": [],
    "start": ["a.py", "tests/test_a.py", "conftest.py"],
    "editable": [],
    "package_folders": ["pkg/"],
    "test_names": ["test_*.py", "conftest.py"],
    "steering_names": [],
    "steering_suffixes": [],
    "steering_folders": [],
}
TESTS = """import pytest


def test_quick():
    pass


@pytest.mark.parametrize("number", [1, 2])
def test_slow(number):
    pass


class TestOf:
    def test_quick(self):
        pass
"""
FILE = "tests/test_a.py"


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "tree/tests").mkdir(parents=True)
    (tmp_path / "tree" / FILE).write_text(TESTS)
    return tmp_path / "tree"


def test_the_options_by_which_a_repository_chooses_its_tests_hold(tree):
    passed = harbor_verify.run(tree, {**EXPECTED, "options": ["-k", "not slow"]}, [FILE])
    assert passed == {f"{FILE}::test_quick", f"{FILE}::TestOf::test_quick"}
    assert len(harbor_verify.run(tree, EXPECTED, [FILE])) == 4


def test_only_tests_that_count_are_run(tree):
    counted = {"grader": "tests", "hidden": [f"{FILE}::test_slow[2]"], "guards": [f"{FILE}::TestOf::test_quick"]}
    assert harbor_verify.run(tree, {**EXPECTED, **counted}, [FILE]) == {*counted["hidden"], *counted["guards"]}


def written(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def prepared(tmp_path):
    repository, overlay = tmp_path / "repository", tmp_path / "overlay"
    harbor_verify.prepare(repository, tmp_path / "tree", overlay, {**EXPECTED, "grader": "tests"})
    found = harbor_verify.files_of(tmp_path / "tree")
    return {name: path.read_text() for name, path in found.items()}


def test_a_tree_that_was_used_is_made_new_again(tmp_path):
    start = {
        "a.py": "new",
        "b.py": "no part of a solution",
        "conftest.py": "steers",
        "pkg/c.py": "new too",
        FILE: "own",
    }
    repository = written(tmp_path / "repository", start)
    written(tmp_path / "overlay", {FILE: "trusted"})
    first = prepared(tmp_path)
    assert first == {"a.py": "new", "pkg/c.py": "new too", FILE: "trusted"}
    tree = tmp_path / "tree"
    written(tree, {"a.py": "spoilt", FILE: "spoilt", "left/behind.txt": "x", "__pycache__/a.pyc": "x"})
    (tree / "empty").mkdir()
    (tree / "link").symlink_to(tree)
    (repository / "pkg/c.py").unlink()
    assert prepared(tmp_path) == {"a.py": "new", FILE: "trusted"}
    assert sorted(os.listdir(tree)) == ["a.py", "tests"]


def test_a_process_with_a_thousand_open_files_is_answered():
    reader, writer = os.pipe()
    high = fcntl.fcntl(reader, fcntl.F_DUPFD, 1024)
    os.close(reader)
    with os.fdopen(writer, "wb") as told:
        told.write(b"{}\n")
    assert harbor_verify.read_until(high, time.monotonic() + 5) == b"{}\n"
