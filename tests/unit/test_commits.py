"""The generator of commits, on a small git history that the test writes."""

import json
import os
import subprocess

import pytest

from composer_replication.environments.code.generators.commits import history
from composer_replication.environments.code.generators.commits.change import apply, taken_back
from composer_replication.environments.code.generators.commits.generate import propose
from composer_replication.environments.code.generators.commits.history import GitHistory, earlier_states, repository_at
from composer_replication.environments.code.generators.commits.statement import cleaned, says_something
from composer_replication.environments.code.generators.kinds import GeneratorSettings
from composer_replication.environments.code.tasks.loading import load_repository
from composer_replication.environments.code.tasks.repository import CoverageMap
from composer_replication.environments.code.tasks.store import read_tasks
from composer_replication.environments.code.tasks.task import Candidate, Rejection, Symbol
from composer_replication.errors import UsageError
from tests.command_line import recompose
from tests.tiny_repository import FILES, tiny_repository, write_files

PERIMETER = FILES["shapes/area.py"].index("\n\ndef perimeter")
WITHOUT_PERIMETER = {
    **FILES,
    "shapes/area.py": FILES["shapes/area.py"][:PERIMETER],
    "shapes/__init__.py": FILES["shapes/__init__.py"].replace("perimeter, ", "").replace(" 'perimeter',", ""),
    "tests/test_area.py": FILES["tests/test_area.py"]
    .replace("perimeter, ", "")
    .partition("\n\ndef test_perimeter")[0]
    .rstrip("\n")
    + "\n",
    "README.md": "# tiny-shapes\n\nWords.\n",
}
TALKATIVE = """Add perimeter(), the way around a rectangle (#12)

Closes #12, see https://example.org/issues/12 and 1a2b3c4d5e.

Co-authored-by: Ada Lovelace <ada@example.org>
"""


def git(folder, *arguments):
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
    }
    who = ("-c", "user.name=Ada Lovelace", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, env=env)


def commit(folder, files, message):
    write_files(folder, files)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", message)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """Four changes: a bug that was corrected without a test, a feature, words with a thin message, a later change."""
    folder = tmp_path_factory.mktemp("history") / "shapes"
    folder.mkdir()
    git(folder, "init", "-q")
    loud = {"shapes/words.py": FILES["shapes/words.py"].replace("LOUD", "NOISE")}
    commit(folder, {**WITHOUT_PERIMETER, **loud}, "All there was")
    commit(folder, FILES, TALKATIVE)
    described = FILES["shapes/words.py"].replace("a {kind} of", "one {kind} of")
    tests = FILES["tests/test_words.py"].replace("'a square of 1 by 1'", "'one square of 1 by 1'")
    tests = tests.replace("'a rectangle of", "'one rectangle of")
    commit(folder, {"shapes/words.py": described, "tests/test_words.py": tests}, "wip")
    commit(folder, {"shapes/words.py": FILES["shapes/words.py"], "tests/test_words.py": FILES["tests/test_words.py"]},
           "Say a rectangle again, and not one rectangle")  # fmt: skip
    return folder


def coverage():
    return CoverageMap(
        passing=frozenset(
            f"tests/test_area.py::{name}"
            for name in ("test_square", "test_negative", "test_perimeter", "test_perimeter_of_a_line")
        )
        | {f"tests/test_words.py::{name}" for name in ("test_describe_square", "test_describe_rectangle")},
        unstable=frozenset(),
        by_symbol={
            Symbol(file="shapes/area.py", name="perimeter"): frozenset({"tests/test_area.py::test_perimeter"}),
            Symbol(file="shapes/area.py", name="rectangle"): frozenset({"tests/test_area.py::test_square"}),
        },
        import_time=frozenset(),
        suite_s=0.1,
    )


@pytest.fixture(scope="module")
def proposals(checkout, tmp_path_factory):
    repository = load_repository(checkout, tmp_path_factory.mktemp("clean") / "tree")
    return repository, list(propose(repository, coverage(), GeneratorSettings()))


def test_a_commit_of_source_and_tests_is_taken_back_across_files(proposals):
    _, found = proposals
    feature = next(each for each in found if isinstance(each, Candidate) and "perimeter" in each.name)
    assert feature.edits == {path: WITHOUT_PERIMETER[path] for path in ("shapes/area.py", "shapes/__init__.py")} | {
        "shapes/words.py": FILES["shapes/words.py"].replace("LOUD", "NOISE")
    }
    assert feature.grain == "cross-module"
    assert Symbol(file="shapes/area.py", name="perimeter") in feature.symbols
    assert feature.expected_failing == {
        "tests/test_area.py::test_perimeter",
        "tests/test_area.py::test_perimeter_of_a_line",
    }
    area = FILES["shapes/area.py"].splitlines()
    assert [area[line - 1] for line in sorted(feature.solution_lines["shapes/area.py"])][2] == (
        "def perimeter(width, height):"
    )


def test_the_statement_is_the_message_without_people_links_and_hashes(proposals):
    _, found = proposals
    told = next(each for each in found if isinstance(each, Candidate) and "perimeter" in each.name).statement
    assert "> Add perimeter(), the way around a rectangle" in told["L0"]
    assert "> Rectangles and words." in told["L0"]
    assert "`shapes.area.perimeter`" in told["L0"] and "def perimeter(width, height):" in told["L0"]
    assert "Around it once." in told["L0"] and "return 2 * sum(sides)" not in "".join(told.values())
    for secret in ("#12", "example.org", "Ada", "Lovelace", "1a2b3c4d5e"):
        assert secret not in "".join(told.values())
    assert len(told["L3"]) < len(told["L2"]) < len(told["L1"]) < len(told["L0"])


def test_reasons_of_commits_that_are_no_candidates(proposals):
    _, found = proposals
    reasons = {each.reason for each in found if isinstance(each, Rejection)}
    assert "changed_since" in reasons
    assert all("wip" not in each.name for each in found if isinstance(each, Candidate))


def test_those_of_several_files_come_first(proposals):
    _, found = proposals
    files = [len(each.edits) for each in found if isinstance(each, Candidate)]
    assert files == sorted(files, reverse=True) and len(files) == 2


def test_a_merge_is_one_change_with_the_messages_of_what_was_merged(tmp_path):
    git(tmp_path, "init", "-q")
    commit(tmp_path, {"a.py": "1\n"}, "First")
    git(tmp_path, "checkout", "-q", "-b", "side")
    commit(tmp_path, {"a.py": "2\n"}, "Two instead of one")
    commit(tmp_path, {"b.py": "3\n"}, "And three")
    git(tmp_path, "checkout", "-q", "main")
    git(tmp_path, "merge", "-q", "--no-ff", "-m", "Merge branch 'side'", "side")
    history = GitHistory(tmp_path)
    (merge,) = history.commits
    assert merge.changed == {"a.py": "M", "b.py": "A"}
    assert cleaned(merge.message) == ""
    assert history.merged_messages(merge).strip().split("\n\n") == ["Two instead of one", "And three"]
    assert history.text(merge.id, "b.py") == "3\n" and history.text(merge.parents[0], "b.py") is None


def test_a_folder_without_a_history_is_refused(tmp_path):
    with pytest.raises(UsageError, match="has no git history"):
        next(propose(tiny_repository(tmp_path), coverage(), GeneratorSettings()))


@pytest.mark.parametrize(
    ("before", "after", "current", "without"),
    [
        ("a\nc\n", "a\nb\nc\n", "a\nb\nd\n", "a\nd\n"),  # a neighbour changed since: a merge would refuse
        ("a\nc\n", "a\nb\nc\n", "0\na\nb\nc\n9\n", "0\na\nc\n9\n"),
        ("a\nb\nc\n", "a\nc\n", "0\na\nc\n", "0\na\nb\nc\n"),
        ("a\n", "a\nb\nc\n", "a\nb\nx\nc\n", None),  # something was put into the middle
        ("a\nx\n", "a\ny\n", "a\nz\n", None),
        ("v = 1\n\n__version__ = '1'\n", "v = 2\n\n__version__ = '2'\n", "v = 2\n\n__version__ = '3'\n",
         "v = 1\n\n__version__ = '3'\n"),
        ("a", "a\nb", "a\nb", "a"),
        ("", "a\n", "a\n", ""),
    ],
)  # fmt: skip
def test_what_was_written_must_still_stand(before, after, current, without):
    found = taken_back(current, after, before)
    assert (None if found is None else apply(current, found)) == without


@pytest.mark.parametrize(
    ("message", "left"),
    [
        ("Fixes #12", ""),
        ("Merge pull request #1 from someone/branch\n\nRaise for negative sizes", "Raise for negative sizes"),
        ("Fix the rounding (#329)", "Fix the rounding"),
        ("Fix grouping (issue88, by someone).", "Fix grouping."),
        ("Use `@cache` and @property(x)", "Use `@cache` and @property(x)"),
        ("Undo 1a2b3c4d5e6f, thanks to Ada.", "Undo ,"),
        ("Keep hex words like added and facade", "Keep hex words like added and facade"),
        ("A\n\nSigned-off-by: A B <a@b.org>\nReviewed-by: C\n", "A"),
    ],
)
def test_messages_are_cleaned(message, left):
    assert cleaned(message) == left.strip(" ,")


def test_thin_messages_say_nothing():
    assert not says_something("Fix broken test") and says_something("Raise for negative slice sizes")


def test_a_commit_becomes_a_certified_task(tmp_path):
    folder = tmp_path / "shapes"
    folder.mkdir()
    git(folder, "init", "-q")
    more = """

@pytest.mark.parametrize('side', [1, 2, 3])
def test_perimeter_of_a_square(side):
    assert perimeter(side, side) == 4 * side
"""
    commit(folder, {**WITHOUT_PERIMETER, "shapes/words.py": FILES["shapes/words.py"]}, "All there was")
    commit(folder, {**FILES, "tests/test_area.py": FILES["tests/test_area.py"] + more}, TALKATIVE)
    words = ("env", "make", folder, "-o", tmp_path / "tasks", "--generator", "commits", "--limit", "40")
    result = json.loads(recompose(*words, "--jobs", "1", "--json").stdout)
    assert (result["tried"], result["valid"], result["rejected"]) == (1, 1, {})
    (task,) = read_tasks(tmp_path / "tasks")
    assert task.code_task.generator == "commits" and len(task.code_task.hidden_tests) == 4
    assert "def perimeter" not in (task.tree / "shapes" / "area.py").read_text()
    assert "def test_perimeter():" in task.code_task.task.statement
    assert not (task.tree / ".git").exists()


def test_an_older_commit_is_taken_back_from_an_earlier_state(checkout, tmp_path, monkeypatch):
    """The second `describe` replaced the first, which today's tree no longer has."""
    monkeypatch.setattr(history, "STRETCH", 1)
    today = load_repository(checkout, tmp_path / "today")
    before = (checkout / "shapes" / "words.py").read_text()
    revisions = list(earlier_states(today))
    assert len(revisions) == 2
    earlier = repository_at(today, revisions[1], tmp_path / "earlier")
    assert earlier.revision == revisions[1] and earlier.name == today.name
    (found,) = propose(earlier, coverage(), GeneratorSettings())
    assert isinstance(found, Candidate) and "perimeter" in found.name
    assert (checkout / "shapes" / "words.py").read_text() == before
    assert not (checkout / ".git" / "index.lock").exists()


def test_a_state_that_is_known_has_no_commits_of_others(checkout, tmp_path, monkeypatch):
    monkeypatch.setattr(history, "STRETCH", 1)
    names = [
        each.name if isinstance(each, Candidate) else each.candidate
        for each in propose(load_repository(checkout, tmp_path / "tree"), coverage(), GeneratorSettings())
    ]
    assert len(names) == 1 and "say-a-rectangle" in names[0]
