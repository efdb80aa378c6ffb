"""The tests of a feature are taken out, its broken copies put in: through the real gates, and as pure proposals."""

from __future__ import annotations

import ast
import json
import re
import sys
import textwrap
from pathlib import Path

import pytest

from composer_replication.environments.code.certificates.gates import killed_mutants
from composer_replication.environments.code.generators.kinds import GeneratorSettings
from composer_replication.environments.code.generators.test_writing import generate
from composer_replication.environments.code.generators.test_writing.generate import MAX_MUTANTS, MIN_MUTANTS, propose
from composer_replication.environments.code.grading.grader import grade
from composer_replication.environments.code.running.warm import RunRequest, TestRun
from composer_replication.environments.code.tasks.repository import CoverageMap, Repository
from composer_replication.environments.code.tasks.store import read_task
from composer_replication.environments.code.tasks.task import Submission, Symbol, TaskFolder
from tests.command_line import recompose

GENERATORS_PAGE = Path(__file__).parents[2] / "docs" / "generators.md"
SOURCE = textwrap.dedent(
    '''
    """Numbers as people write them."""


    def clamp(value, low=0, high=10):
        """Keep a value between two bounds."""
        if low > high:
            raise ValueError("the bounds are in the wrong order", low, high)
        if value < low:
            return low
        if value > high:
            return high
        return value


    def ordinal(number):
        """1st, 2nd, 3rd, 4th."""
        if number % 100 in (11, 12, 13):
            return str(number) + "th"
        endings = {1: "st", 2: "nd", 3: "rd"}
        return str(number) + endings.get(number % 10, "th")


    def listed(names):
        """In order, with commas."""
        return ", ".join(sorted(names))
    '''
).lstrip()
TESTS = textwrap.dedent(
    """
    import pytest

    from numerals.words import clamp, ordinal


    @pytest.mark.parametrize("value, kept", [(-1, 0), (0, 0), (5, 5), (10, 10), (11, 10)])
    def test_clamp(value, kept):
        assert clamp(value) == kept


    def test_clamp_bounds():
        assert clamp(3, 4, 6) == 4
        assert clamp(9, 4, 6) == 6
        assert clamp(4, 4, 4) == 4


    def test_clamp_order():
        with pytest.raises(ValueError, match="wrong order"):
            clamp(1, 3, 2)


    @pytest.mark.parametrize("number, word", [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th")])
    def test_ordinal(number, word):
        assert ordinal(number) == word


    @pytest.mark.parametrize("number", range(20))
    def test_ordinal_starts_with_the_number(number):
        assert ordinal(number).startswith(str(number))
    """
).lstrip()


MORE_TESTS = textwrap.dedent(
    """
    import pytest

    from numerals.words import listed


    @pytest.mark.parametrize("names", ["ba", "cab", "dcba", "edcba", "fedcba", "zyx"])
    def test_listed(names):
        assert listed(names) == ", ".join(sorted(names))


    def test_of_another_day():
        assert listed(["a", "b"]) == "a and b"
    """
).lstrip()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project") / "numerals"
    for path, text in {
        "numerals/__init__.py": "",
        "numerals/words.py": SOURCE,
        "tests/test_words.py": TESTS,
        "tests/test_listed.py": MORE_TESTS,
        "LICENSE": "MIT License\n",
        "pyproject.toml": "[project]\nname = 'numerals'\nversion = '1'\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def ids(name: str, *parameters: str) -> list[str]:
    return [f"tests/test_words.py::{name}" + (f"[{one}]" if one else "") for one in parameters or ("",)]


@pytest.fixture
def repository(project: Path) -> Repository:
    sources = ("numerals/__init__.py", "numerals/words.py")
    tests = ("tests/test_listed.py", "tests/test_words.py")
    return Repository("numerals", project, ("numerals",), (".",), sources, tests, "MIT")


CLAMP = frozenset(
    [*ids("test_clamp", "-1-0", "0-0", "5-5", "10-10", "11-10"), *ids("test_clamp_bounds"), *ids("test_clamp_order")]
)
ORDINAL = frozenset(
    [
        *ids("test_ordinal", "1-1st", "2-2nd", "3-3rd", "4-4th", "11-11th"),
        *ids("test_ordinal_starts_with_the_number", *map(str, range(20))),
    ]
)


@pytest.fixture
def coverage() -> CoverageMap:
    words = "numerals/words.py"
    by_symbol = {Symbol(file=words, name="clamp"): CLAMP, Symbol(file=words, name="ordinal"): ORDINAL}
    return CoverageMap(
        passing=CLAMP | ORDINAL, unstable=frozenset(), by_symbol=by_symbol, import_time=frozenset(), suite_s=0.1
    )


def test_a_proposal_takes_the_tests_out_and_leaves_the_code(repository: Repository, coverage: CoverageMap):
    (found,) = propose(repository, coverage, GeneratorSettings())
    assert found.symbols == (Symbol(file="numerals/words.py", name="clamp"),)
    assert found.grader == "mutants"
    assert found.expected_failing == CLAMP
    assert set(found.edits) == {"tests/test_words.py"}
    visible = found.edits["tests/test_words.py"]
    assert visible is not None
    assert "def test_clamp" not in visible
    assert "def test_ordinal" in visible
    assert found.editable == ("tests/test_*.py", "tests/test_words.py")


def test_every_mutant_is_another_small_change_of_the_feature(repository: Repository, coverage: CoverageMap):
    (found,) = propose(repository, coverage, GeneratorSettings())
    assert MIN_MUTANTS <= len(found.mutants) <= MAX_MUTANTS
    texts = [mutant["text"] for mutant in found.mutants]
    assert len({ast.dump(ast.parse(text)) for text in [*texts, SOURCE]}) == len(texts) + 1
    after = SOURCE[SOURCE.index("def ordinal") :]
    assert all(mutant["path"] == "numerals/words.py" and mutant["text"].endswith(after) for mutant in found.mutants)


def test_proposals_repeat_with_the_seed(repository: Repository, coverage: CoverageMap):
    first, again, other = (list(propose(repository, coverage, GeneratorSettings(seed=seed))) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_a_cluster_is_what_one_test_file_tests_of_one_source_file(repository: Repository, coverage: CoverageMap):
    others = {f"tests/test_other.py::test_{number}" for number in range(60)}
    more = CoverageMap(**{**vars(coverage), "passing": coverage.passing | others})
    found = list(propose(repository, more, GeneratorSettings(grains=("cluster",))))
    assert [{symbol.name for symbol in one.symbols} for one in found] == [{"clamp", "ordinal"}]
    assert found[0].expected_failing >= CLAMP | ORDINAL
    assert found[0].edits == {"tests/test_words.py": None}
    assert {one.grain for one in propose(repository, more, GeneratorSettings())} == {"symbol", "cluster"}


def test_a_feature_that_most_tests_test_is_left_alone(repository: Repository, coverage: CoverageMap):
    others = {f"tests/test_other.py::test_{number}" for number in range(35)}
    more = CoverageMap(**{**vars(coverage), "passing": coverage.passing | others})
    assert {one.grain for one in propose(repository, more, GeneratorSettings())} == {"symbol"}


def test_a_feature_whose_tests_would_stay_visible_is_left_alone(
    repository: Repository, coverage: CoverageMap, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(generate, "gone_tests", lambda *_: CLAMP - {"tests/test_words.py::test_clamp_order"})
    assert list(propose(repository, coverage, GeneratorSettings())) == []


def test_only_mutants_that_a_removed_test_notices_are_kept(repository: Repository, coverage: CoverageMap):
    (found,) = propose(repository, coverage, GeneratorSettings())
    asked: list[RunRequest] = []

    def run(request: RunRequest) -> TestRun:
        asked.append(request)
        outcomes = dict.fromkeys(CLAMP, "passed")
        if len(asked) % 3 == 0:
            outcomes["tests/test_words.py::test_clamp_order"] = "failed"
        return TestRun(outcomes, {}, {}, {}, frozenset(), (), timed_out=len(asked) == 3, output="", cpu_s=0, wall_s=0)

    kept = killed_mutants(found, run)
    assert len(asked) == len(found.mutants)
    assert kept == found.mutants[5::3]  # the third of the first three hangs
    assert all(request.only == CLAMP and set(request.edits) == {"numerals/words.py"} for request in asked)


@pytest.fixture(scope="module")
def made(project: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TaskFolder]:
    """One task of each of the two generators and of the documented fourth, through all gates."""
    [fourth] = re.findall(r"```python\n(.*?)```", GENERATORS_PAGE.read_text(), re.DOTALL)
    modules = tmp_path_factory.mktemp("modules")
    (modules / "documented_fourth.py").write_text(fourth)
    out = tmp_path_factory.mktemp("made") / "tasks"
    chosen = [f"--generator={name}" for name in ("test_writing", "bug_injection", "documented_fourth:propose")]
    sys.path.insert(0, str(modules))
    ended = recompose("env", "make", project, "-o", out, *chosen, "--limit", "1", "--jobs", "1", "--json")
    assert ended.returncode == 0, ended.stderr
    tasks = [read_task(path.parent) for path in sorted((out / "tasks").glob("*/task.json"))]
    return {task.code_task.generator: task for task in tasks}


def test_the_gates_let_the_generators_and_the_documented_fourth_pass(made: dict[str, TaskFolder]):
    assert set(made) == {"test_writing", "bug_injection", "forgotten_call"}
    for task in made.values():
        assert task.code_task.task.certificate["leaks"]["passed"]
        assert task.code_task.task.certificate["gates"]["gold"] == 1
        assert task.code_task.task.certificate["gates"]["nop"] == 0
    bug = made["bug_injection"]
    assert (bug.tree / "numerals/words.py").read_text() != SOURCE
    assert (bug.gold / "numerals/words.py").read_text() == SOURCE
    assert set(bug.code_task.hidden_tests).isdisjoint(bug.code_task.guard_tests)


def test_a_red_test_of_the_repository_is_not_part_of_the_solution(made: dict[str, TaskFolder]):
    """One such test anywhere failed the solution of every task of this kind."""
    solution = made["test_writing"].gold
    assert "test_clamp" in (solution / "tests/test_words.py").read_text()
    assert "another_day" not in (solution / "tests/test_listed.py").read_text()


def test_the_reward_of_tests_is_the_share_of_mutants_that_they_kill(made: dict[str, TaskFolder]):
    task = made["test_writing"]
    mutants = [json.loads(path.read_text()) for path in sorted((task.folder / "tests/mutants").glob("*.json"))]
    assert len(mutants) >= 3
    assert all(set(mutant) == {"path", "text"} for mutant in mutants)
    assert (task.tree / "numerals/words.py").read_text() == SOURCE
    name = task.code_task.symbols[0].name
    weak = f"from numerals.words import {name}\n\n\ndef test_exists():\n    assert callable({name})\n"
    wrong = f"from numerals.words import {name}\n\n\ndef test_wrong():\n    assert {name}(5) == 'five'\n"
    assert grade(task, Submission(written={"tests/test_weak.py": weak.encode()})).reward == 0
    assert grade(task, Submission(written={"tests/test_wrong.py": wrong.encode()})).reward == 0
