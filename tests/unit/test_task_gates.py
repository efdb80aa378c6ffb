"""The gates on a small repository: one candidate passes all, and each gate rejects what it is there for."""

import json
import os
import shutil
from contextlib import closing
from dataclasses import replace

import pytest

from composer_replication.environments.code.certificates import certify as certifying
from composer_replication.environments.code.certificates.certify import certify, recertify_leaks
from composer_replication.environments.code.certificates.gates import Bench, Split, repeat, split_tests
from composer_replication.environments.code.certificates.two_verifiers import Verdicts
from composer_replication.environments.code.certificates.verify import verify_task
from composer_replication.environments.code.grading.grader import grade
from composer_replication.environments.code.running.coverage import survey
from composer_replication.environments.code.running.warm import TestSetup
from composer_replication.environments.code.tasks.store import gold_submission, read_task, unchanged
from composer_replication.environments.code.tasks.task import Rejected, Rejection, Submission, Symbol, TaskFolder
from composer_replication.environments.code.tasks.trees import files_of
from tests.tiny_repository import BODY, FILES, RECTANGLE_TESTS, stubbed_rectangle, tiny_repository

AREA, WORDS = "shapes/area.py", "shapes/words.py"
AREA_TESTS = "tests/test_area.py"


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    repository = tiny_repository(tmp_path_factory.mktemp("bench"))
    with closing(Bench(repository, survey(repository), TestSetup())) as opened:
        yield opened


@pytest.fixture(scope="module")
def made(bench, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    verdict = certify(stubbed_rectangle(), bench, folder, "L0")
    assert isinstance(verdict.result, TaskFolder), verdict.result
    return verdict


def reason_of(bench, tmp_path, **changes):
    result = certify(stubbed_rectangle(**changes), bench, tmp_path, "L0").result
    assert isinstance(result, Rejection), result
    assert list(tmp_path.iterdir()) == [], "a rejected candidate leaves nothing"
    return result.reason


def test_a_good_candidate_becomes_a_task(made):
    task = made.result
    record = task.code_task
    assert set(record.hidden_tests) == RECTANGLE_TESTS
    assert len(record.guard_tests) == 8 and not set(record.guard_tests) & RECTANGLE_TESTS
    assert record.task.certificate["leaks"]["passed"] and record.task.certificate["gates"]["gold"] == 1
    assert record.task.certificate["gates"]["dropped_statements"]["caught"] >= 2
    assert read_task(task.folder) == task and unchanged(task)
    assert 0 < made.cpu_to_leak_gate_s <= made.cpu_s


def test_the_agents_tree_shows_neither_the_solution_nor_the_hidden_tests(made):
    tree = made.result.tree
    assert "NotImplementedError" in (tree / AREA).read_text() and BODY not in (tree / AREA).read_text()
    visible = (tree / AREA_TESTS).read_text()
    assert "test_perimeter_of_a_line" in visible and "test_square" not in visible and "test_rectangle" not in visible
    assert set(files_of(tree)) == set(FILES)


def test_the_trusted_parts_are_the_originals(made):
    task = made.result
    assert (task.overlay / AREA_TESTS).read_text() == FILES[AREA_TESTS]
    assert (task.gold / AREA).read_text() == FILES[AREA]


def test_the_reward_of_nothing_and_of_the_solution(made):
    assert grade(made.result, Submission()).reward == 0
    assert grade(made.result, gold_submission(made.result)).reward == 1


def test_verify_passes_and_notices_a_changed_tree(made, tmp_path):
    assert verify_task(made.result).failed == {}
    shutil.copytree(made.result.folder, tmp_path / "changed")
    task = read_task(tmp_path / "changed")
    (task.tree / AREA).write_text(FILES[AREA])
    assert set(verify_task(task).failed) == {"files", "nop"}


def test_the_harbor_folder_comes_to_the_same_rewards(made):
    compared = set(made.result.code_task.task.certificate["gates"]["verifiers"]["agree_on"])
    assert {"nop", "gold", "new_module", "lazy_none", "lazy_constant"} < compared
    assert sum(name.startswith(("dropped", "bug")) for name in compared) >= 8, "the function is short"


def test_verifiers_that_disagree_are_noticed(made, tmp_path):
    """The Harbor folder of before: only files that are named may be new."""
    shutil.copytree(made.result.folder, tmp_path / "strict")
    rules = tmp_path / "strict" / "tests" / "expected.json"
    rules.write_text(json.dumps(json.loads(rules.read_text()) | {"package_folders": ["no/"], "editable": [AREA]}))
    failed = verify_task(read_task(tmp_path / "strict")).failed
    assert failed.keys() == {"files", "verifiers"}
    assert failed["verifiers"] == "new_module: 1.000 here, 0.000 by the Harbor folder"


def test_a_candidate_on_which_the_verifiers_disagree_is_rejected(bench, made, monkeypatch):
    told = Verdicts({"gold": 1.0}, {"gold": 0.5})
    monkeypatch.setattr(certifying, "both_verdicts", lambda *arguments: told)
    with pytest.raises(Rejected) as raised:
        certifying._agreement(made.result, bench, {})
    seen = (raised.value.reason, raised.value.detail)
    assert seen == ("verifiers_disagree", "gold: 1.000 here, 0.500 by the Harbor folder")
    assert Verdicts({"gold": 1.0}, {}).disagreement() == "gold: 1.000 here, no reward by the Harbor folder"
    assert Verdicts({"slow": 0.0}, {}, left_out=("slow",)).disagreement() == ""


def test_does_not_parse(bench, tmp_path):
    assert reason_of(bench, tmp_path, edits={AREA: "def"}) == "does_not_parse"


def test_import_broken(bench, tmp_path):
    assert reason_of(bench, tmp_path, edits={WORDS: "1 / 0\n"}) == "import_broken"
    assert reason_of(bench, tmp_path, edits={WORDS: "import os\nos._exit(0)\n"}) == "import_broken"


def test_too_few_fail(bench, tmp_path):
    edits = {AREA: FILES[AREA].replace("raise ValueError", "return ValueError")}
    assert reason_of(bench, tmp_path, edits=edits) == "too_few_fail"
    edits = stubbed_rectangle().edits
    assert reason_of(
        bench, tmp_path, edits=edits, grain="cluster", expected_failing=frozenset(list(RECTANGLE_TESTS)[:4])
    ) == ("too_few_fail")


def test_too_few_guards(bench, tmp_path):
    everything = {AREA: "def rectangle(*a): raise OSError\nperimeter = rectangle\n"}
    edits = {**everything, WORDS: FILES[WORDS].replace("text.upper() + LOUD", "None")}
    assert reason_of(bench, tmp_path, edits=edits, expected_failing=bench.coverage.passing) == "too_few_guards"


def test_a_failing_test_that_nothing_foresaw_is_hidden_too(bench):
    edits = {AREA: stubbed_rectangle().edits[AREA].replace("2 * sum(sides)", "None")}
    split = split_tests(stubbed_rectangle(edits=edits), bench)
    assert split.hidden == RECTANGLE_TESTS | {
        f"{AREA_TESTS}::test_perimeter",
        f"{AREA_TESTS}::test_perimeter_of_a_line",
    }
    assert split.meta == 0


def test_a_file_that_could_not_be_collected_before_is_nobodys_fault(tmp_path):
    repository = tiny_repository(tmp_path, {"tests/test_more.py": "import absent_library\n"})
    with closing(Bench(repository, survey(repository), TestSetup())) as bench:
        assert split_tests(stubbed_rectangle(), bench).hidden == RECTANGLE_TESTS


def test_a_verbatim_twin_is_a_leak(bench, tmp_path, monkeypatch):
    twin = FILES[AREA][FILES[AREA].index("def rectangle") :].replace("def rectangle", "def quadrangle")
    repository = tiny_repository(tmp_path / "made", {"shapes/other.py": "from .area import checked\n" + twin})
    with closing(Bench(repository, bench.coverage, TestSetup())) as with_twin:
        (tmp_path / "tasks").mkdir()
        assert reason_of(with_twin, tmp_path / "tasks") == "twin_elsewhere"
        monkeypatch.setattr(certifying, "filtered", lambda *arguments: None)
        assert reason_of(with_twin, tmp_path / "tasks") == "leak"


def test_tests_that_a_lazy_solution_passes_count_only_with_one_that_none_does(bench, tmp_path):
    lenient = (
        FILES[AREA_TESTS]
        .replace("    assert rectangle(5) == 25\n", "    rectangle(5)\n")
        .replace(
            "    with pytest.raises(ValueError):\n        rectangle(-1)\n",
            "    assert rectangle(1) in (1, None, True)\n",
        )
    )
    repository = tiny_repository(tmp_path / "made", {AREA_TESTS: lenient})
    with closing(Bench(repository, bench.coverage, TestSetup())) as with_lenient:
        task = certify(stubbed_rectangle(), with_lenient, tmp_path, "L0").result
    assert isinstance(task, TaskFolder), task
    units = task.code_task.units
    assert {test for unit in units for test in unit} == set(task.code_task.hidden_tests)
    assert all(unit[0].partition("[")[0] == f"{AREA_TESTS}::test_rectangle" for unit in units)
    assert f"{AREA_TESTS}::test_square" not in task.code_task.hidden_tests, "nothing of it is compared"
    assert f"{AREA_TESTS}::test_negative" in task.code_task.hidden_tests
    lazy = gold_submission(task).written[AREA].decode().replace(BODY, "    return None\n")
    graded = grade(task, Submission({AREA: lazy.encode()}))
    assert graded.hidden_passed == (f"{AREA_TESTS}::test_negative",) and graded.reward == 0
    visible = (task.tree / AREA_TESTS).read_text()
    assert "test_square" not in visible and "test_negative" not in visible


def test_a_lazy_solution_that_most_tests_pay_for(bench, tmp_path):
    lenient = FILES[AREA_TESTS].replace("== area", "or True")
    repository = tiny_repository(tmp_path / "made", {AREA_TESTS: lenient})
    with closing(Bench(repository, bench.coverage, TestSetup())) as with_lenient:
        (tmp_path / "tasks").mkdir()
        assert reason_of(with_lenient, tmp_path / "tasks") == "lazy_solution"


def test_weak_tests_are_tagged_and_the_level_falls_back_to_what_there_is(bench, tmp_path):
    idle = "".join(f"    unused_{number} = {number}\n" for number in range(4))
    repository = tiny_repository(tmp_path / "made", {AREA: FILES[AREA].replace(BODY, idle + BODY)})
    candidate = stubbed_rectangle(statement={"L1": "less"})
    with closing(Bench(repository, bench.coverage, TestSetup())) as weak:
        (tmp_path / "tasks").mkdir()
        result = certify(candidate, weak, tmp_path / "tasks", "L3").result
    assert isinstance(result, TaskFolder) and result.code_task.tags == ("weak-tests",)
    assert result.code_task.level == "L1" and (result.folder / "instruction.md").read_text() == (
        "less\n\nYou may change `shapes/*` and add files below `shapes/`; other changes are not graded.\n"
    )


def test_graded_guards_are_those_next_to_the_feature(bench, monkeypatch):
    candidate = stubbed_rectangle()
    split = split_tests(candidate, bench)
    assert set(certifying._nearest_guards(candidate, split, bench)) == split.guards
    monkeypatch.setattr(certifying, "MAX_GUARDS", 2)
    near = {f"{AREA_TESTS}::test_perimeter", f"{AREA_TESTS}::test_perimeter_of_a_line"}
    assert set(certifying._nearest_guards(candidate, split, bench)) == near
    monkeypatch.setattr(certifying, "MAX_GUARDS", 3)
    assert near < set(certifying._nearest_guards(candidate, split, bench))


def test_a_gold_that_the_reward_does_not_take(bench, tmp_path):
    assert reason_of(bench, tmp_path, editable=("docs/*",)) == "gold_fails"


def test_an_edit_that_adds_a_file_cannot_be_undone_by_the_solution(bench, tmp_path):
    edits = {**stubbed_rectangle().edits, "shapes/more.py": "MORE = 1\n"}
    assert reason_of(bench, tmp_path, edits=edits) == "gold_differs"


def test_a_nop_that_scores_is_rejected(bench, tmp_path, monkeypatch):
    paid = grade_of(1.0)
    monkeypatch.setattr(certifying, "grade", lambda *arguments: paid)
    assert reason_of(bench, tmp_path) == "nop_scores"


def grade_of(reward):
    from composer_replication.environments.code.tasks.task import Grade

    return Grade(reward, (), (), ())


def test_a_task_that_is_there_is_left_as_it_is(bench, made, monkeypatch):
    """The gates that only look at the folder are left out: they were passed once."""
    staged = set()
    for gate in ("_graded", "_green_for_agents", "_proven"):
        monkeypatch.setattr(certifying, gate, lambda task, *arguments: staged.add(task.folder.name) or task)
    result = certify(stubbed_rectangle(), bench, made.result.folder.parent, "L0").result
    assert staged == {f".staging-{os.getpid()}"}, "workers of a killed call have folders of their own"
    assert result.folder == made.result.folder and unchanged(read_task(made.result.folder))


def test_repeat_notices_what_depends_on_the_order(bench):
    candidate = stubbed_rectangle()
    split = split_tests(candidate, bench)
    repeat(split, candidate, bench)
    spoiled = replace(split, guards=split.guards | {"tests/test_area.py::test_absent"})
    with pytest.raises(Rejected, match="not_repeatable"):
        repeat(spoiled, candidate, bench)
    with pytest.raises(Rejected, match="not_repeatable"):
        repeat(Split(split.hidden | {"tests/test_words.py::test_shout"}, split.guards, split.edits), candidate, bench)


def test_a_test_writing_task(bench, tmp_path):
    def broken(old, new):
        assert old in FILES[AREA]
        return {"path": AREA, "text": FILES[AREA].replace(old, new)}

    kept = FILES[AREA_TESTS][FILES[AREA_TESTS].index("def test_perimeter") :]
    noticed = [
        broken("height = width", "height = 1"),
        broken("* checked", "+ checked"),
        broken("side < 0", "side < -5"),
    ]
    candidate = stubbed_rectangle(
        generator="test_writing",
        mode="mutants",
        grader="mutants",
        edits={AREA_TESTS: "from shapes import perimeter\n\n\n" + kept},
        editable=("tests/*",),
        mutants=(*noticed, {"path": AREA, "text": FILES[AREA] + "# harmless\n"}),
    )
    result = certify(candidate, bench, tmp_path, "L0").result
    assert isinstance(result, TaskFolder), result
    stored = [json.loads(path.read_text()) for path in sorted((result.folder / "tests" / "mutants").iterdir())]
    assert stored == noticed
    assert verify_task(result).failed == {}
    few = replace(candidate, name="few", mutants=candidate.mutants[2:])
    assert certify(few, bench, tmp_path, "L0").result.reason == "too_few_mutants"


def test_a_certificate_made_again_is_the_same(made):
    task = made.result
    again = recertify_leaks(task).model_dump(mode="json")
    assert again == task.code_task.task.certificate["leaks"]
    assert Symbol(file=AREA, name="rectangle") in task.code_task.symbols
