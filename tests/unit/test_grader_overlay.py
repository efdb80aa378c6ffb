"""What of a submission reaches the graded tree."""

import os

import pytest

from composer_replication.environments.code.grading import overlay
from composer_replication.environments.code.grading.overlay import Accepted, lay_tree, restrict, unseen_texts
from composer_replication.environments.code.tasks.task import Submission
from tests.hacks.sample_task import HIDDEN_FILE, HIDDEN_TESTS, SPANS, VISIBLE_FILE, write_sample_task


@pytest.fixture
def task(tmp_path):
    return write_sample_task(tmp_path / "task", editable=("*",))


def kept(task, *paths):
    return set(restrict(task, Submission(dict.fromkeys(paths, b"x"))).written)


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "/etc/passwd",
        "../outside.py",
        "spanbook/../../outside.py",
        "spanbook/../tests/conftest.py",
        "./spanbook/spans.py",
        "spanbook//spans.py",
        "spanbook/./spans.py",
        "spanbook/spans.py/",
        "spanbook\\spans.py",
        "C:spans.py",
        "spanbook/a\0b.py",
        "spanbook/a\nb.py",
        "spanbook/con\u200bftest.py",
        "spanbook/ｃonftest.py",
        "spanbook/spans.py ",
        "spanbook/spans.py.",
        "spanbook",
        "spanbook/spans.py/deeper.py",
        "spanbook/surrogate\udc80.py",
        f"spanbook/{'n' * 201}.py",
        f"spanbook/{'deep/' * 200}er.py",
    ],
)
def test_odd_paths_are_dropped(task, path):
    assert kept(task, path) == set()


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "spanbook/conftest.py",
        "spanbook/CONFTEST.py",
        "spanbook/Conftest.PY",
        "pytest.ini",
        "spanbook/pytest.ini",
        "pyproject.toml",
        "setup.cfg",
        "tox.ini",
        "spanbook/sitecustomize.py",
        "spanbook/x.pth",
        "spanbook/__pycache__/spans.cpython-311.pyc",
        "spanbook/spans.cpython-311-x86_64-linux-gnu.so",
        "spanbook/.git/config",
        "x.dist-info/entry_points.txt",
        VISIBLE_FILE,
        HIDDEN_FILE,
        "tests/conftest.py",
    ],
)
def test_files_that_steer_are_dropped(task, path):
    assert kept(task, path) == set()


@pytest.mark.parametrize(
    "path", ["random.py", "pytest.py", "_pytest/__init__.py", "tests/json.py", "tests/__init__.py"]
)
def test_new_names_on_the_import_path_are_dropped(task, path):
    assert kept(task, path) == set()


@pytest.mark.parametrize("path", [SPANS, "spanbook/new_helper.py", "spanbook/deep/er/module.py", "README.md"])
def test_plain_files_are_kept(task, path):
    assert kept(task, path) == {path}


def test_only_editable_paths_are_kept(tmp_path):
    narrow = write_sample_task(tmp_path / "narrow", editable=("spanbook/spans.py",))
    accepted = restrict(narrow, Submission({SPANS: b"", "spanbook/text.py": b""}, ("README.md", "spanbook/spans.py")))
    assert set(accepted.written) == {SPANS}
    assert accepted.removed == ("spanbook/spans.py",)
    assert accepted.dropped == ("README.md", "spanbook/text.py")


def test_a_new_module_inside_the_package_counts_as_work(tmp_path):
    narrow = write_sample_task(tmp_path / "narrow", editable=("spanbook/spans.py",))
    assert kept(narrow, "spanbook/helper.py", "spanbook/deep/er/data.json") == {
        "spanbook/helper.py",
        "spanbook/deep/er/data.json",
    }
    assert kept(narrow, "spanbook/text.py", "helper.py", "spanbook/conftest.py", "spanbook/tests/test_new.py") == set()


def test_removing_what_makes_a_package_is_dropped(task):
    assert restrict(task, Submission({}, ("spanbook/__init__.py", "spanbook/text.py"))).removed == ("spanbook/text.py",)


def test_a_path_through_a_link_is_dropped(task):
    os.symlink("../tests", task.tree / "spanbook" / "link")
    assert kept(task, "spanbook/link/helper.py", "spanbook/link") == set()


def test_a_file_cannot_also_be_a_folder(task):
    assert kept(task, "spanbook/a.py", "spanbook/a.py/b.py") == {"spanbook/a.py"}


def test_too_much_is_dropped_whole(task, monkeypatch):
    monkeypatch.setattr(overlay, "MAX_SUBMISSION_BYTES", 10)
    accepted = restrict(task, Submission({SPANS: b"x" * 11}, ("README.md",)))
    assert (accepted.written, accepted.removed) == ({}, ())
    assert set(accepted.dropped) == {SPANS, "README.md"}


def test_a_package_that_the_task_removed_may_come_back(tmp_path):
    task = write_sample_task(tmp_path / "task", editable=("*",), packages=("spanbook", "gone"))
    assert kept(task, "gone/__init__.py", "gone.py", "other.py") == {"gone/__init__.py", "gone.py"}


def test_trusted_files_lie_on_top_and_the_task_stays_as_it_was(task, tmp_path):
    before = {path: path.read_bytes() for path in task.folder.rglob("*") if path.is_file()}
    accepted = Accepted({SPANS: b"agent", HIDDEN_FILE: b"agent"}, ("README.md", "not/there.py"), ())
    lay_tree(task, accepted, tmp_path / "graded", {VISIBLE_FILE: b"challenge"}, [HIDDEN_FILE, SPANS])
    graded = tmp_path / "graded"
    assert (graded / SPANS).read_bytes() == b"agent"
    assert (graded / HIDDEN_FILE).read_bytes() == b""
    assert unseen_texts(task) == {HIDDEN_FILE: HIDDEN_TESTS}
    assert (graded / VISIBLE_FILE).read_bytes() == b"challenge"
    assert not (graded / "README.md").exists()
    assert {path: path.read_bytes() for path in task.folder.rglob("*") if path.is_file()} == before
