"""Code tasks as an environment: sides that never mix, tasks that can be asked, and answers in one code block."""

from __future__ import annotations

from itertools import pairwise

import pytest

from composer_replication.config import Config, EnvironmentConfig
from composer_replication.environments.code.environment import CodeEnvironment
from composer_replication.environments.code.episodes.definition import question
from composer_replication.environments.code.episodes.visible_tests import test_report as report_of
from composer_replication.environments.code.episodes.visible_tests import visible_tests
from composer_replication.environments.code.splits import HELDOUT, by_repository, by_symbol, roots, smallest_share
from composer_replication.environments.code.tasks.task import Symbol
from composer_replication.environments.opening import open_environment, tell_tasks
from composer_replication.environments.protocol import TRAIN
from composer_replication.errors import UsageError
from composer_replication.hints.write import write_hints
from composer_replication.sites import find_sites
from tests.command_line import recompose
from tests.e2e.sentences import random_model
from tests.hacks.sample_task import HIDDEN_FILE, SPANS, SPANS_GOLD, code_task, write_files, write_sample_task
from tests.pages import write_toml

STATEMENT = """Write `merge` and `gaps` in spanbook/spans.py.

For example, these tests pass when the work is done:

```python
def test_merge_overlapping():
    assert merge([(6, 9), (1, 3), (2, 7)]) == [(1, 9)]
```

```python
def test_merge_keeps(spans, expected):
    assert merge(spans) == expected
```

Other tests decide.
"""
RIGHT = f"```python\n{SPANS_GOLD[SPANS_GOLD.index('def merge') :]}\n```"
WRONG = RIGHT.replace("sorted(spans)", "spans")


def named(statement=STATEMENT, task_id="shown"):
    return code_task().task.model_copy(update={"task_id": task_id, "statement": statement})


def settings(**changes):
    return EnvironmentConfig(**{"name": "code", "answer": "definition", "heldout_share": 0.0, **changes})


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A task whose statement shows two tests, one of them with hidden parameters."""
    return write_sample_task(tmp_path_factory.mktemp("shown") / "task", task=named())


@pytest.fixture(scope="module")
def environment(shown):
    return CodeEnvironment([shown], settings())


def about(*names, repository="spanbook"):
    return code_task(symbols=[Symbol(file=SPANS, name=name) for name in names], repository=repository)


def test_a_repository_is_on_one_side_whatever_stands_beside_it():
    names = [f"repository-{number}" for number in range(400)]
    sides = [by_repository(about("merge", repository=name), 0.25, ()) for name in names]
    assert 70 < sides.count(HELDOUT) < 130
    assert sides == [by_repository(about("other", repository=name), 0.25, ()) for name in names]
    assert by_repository(about("merge"), 1.0, ("another",)) == TRAIN
    assert by_repository(about("merge"), 0.0, ("spanbook",)) == HELDOUT


def test_no_symbol_is_on_both_sides_of_one_repository():
    tops = [f"f{number}" for number in range(60)]
    tasks = [about(top) for top in tops] + [about(f"{top}.method", f"{top}.other") for top in tops]
    tasks += [about(first, second) for first, second in pairwise(tops)]
    seen = {TRAIN: set(), HELDOUT: set(), None: set()}
    for task in tasks:
        seen[by_symbol(task, 0.4)] |= roots(task)
    assert seen[TRAIN] and seen[HELDOUT] and seen[None]
    assert not seen[TRAIN] & seen[HELDOUT]


def test_the_smallest_share_holds_out_enough_and_none_below_it_does():
    tasks = [about(f"f{number}") for number in range(12)]
    share = smallest_share(tasks, 5, by_symbol)
    below = round(share - 0.01, 2)
    assert [sum(by_symbol(task, one) == HELDOUT for task in tasks) >= 5 for one in (share, below)] == [True, False]
    assert smallest_share(tasks, 12, by_symbol) is None, "some are to train on"


@pytest.fixture(scope="module")
def seven(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seven")
    for number in range(7):
        symbols = [Symbol(file=SPANS, name=f"f{number}")]
        write_sample_task(folder / f"{number}", task=named(f"Write f{number}.", f"t{number}"), symbols=symbols)
    return folder


def test_too_few_held_out_tasks_name_the_share_that_gives_enough(seven):
    def told(share, tasks=256):
        chosen = {"name": "code", "answer": "agent", "tasks": [str(seven / str(n)) for n in range(7)]}
        chosen["heldout_share"] = share
        config = Config.model_validate({"environment": chosen, "evaluation": {"tasks": tasks}})
        with open_environment(config) as environment:
            return tell_tasks(environment, config)

    doubt = told(0.25).doubt
    share = float(doubt.partition("heldout_share = ")[2].partition(",")[0])
    assert share > 0.25 and told(share).doubt == ""
    assert told(share, tasks=4).doubt == (
        "What is measured on the 4 tasks that evaluation.tasks allows can tell nothing, below 5: "
        "set evaluation.tasks to 5 or more"
    )


def test_sides_of_an_environment(tmp_path):
    folders = [
        write_sample_task(tmp_path / name, repository=name, task=named(f"Write {name}.", f"task {name}"))
        for name in ("one", "two", "three")
    ]
    environment = CodeEnvironment(folders, settings(heldout_repositories=("two",)))
    assert {task.labels["repository"] for task in environment.tasks(TRAIN)} == {"one", "three"}
    assert [task.task_id for task in environment.tasks(HELDOUT)] == ["task two"]
    assert environment.heldout == {HELDOUT: "unseen repositories"}
    again = CodeEnvironment([*reversed(folders), *folders], settings(heldout_repositories=("two",)))
    assert [task.task_id for task in again.tasks(TRAIN)] == [task.task_id for task in environment.tasks(TRAIN)]
    with pytest.raises(UsageError, match="no task is of the repository four; next: heldout_repositories are among"):
        CodeEnvironment(folders, settings(heldout_repositories=("four",)))


def test_tasks_that_cannot_be_asked_are_named(tmp_path, shown):
    several = write_sample_task(tmp_path / "several", task=named("a", "a"))
    write_files(several.gold, {"spanbook/text.py": "changed"})
    more = write_sample_task(tmp_path / "more", task=named("b", "b"))
    write_files(more.gold, {SPANS: SPANS_GOLD + "\nEXTRA = 1\n"})
    tests = write_sample_task(tmp_path / "tests", task=named("c", "c"), grader="mutants")
    same = write_sample_task(tmp_path / "same", task=named(task_id="d"))
    symbols = [Symbol(file=SPANS, name=f"f{number}") for number in range(7)]
    many = write_sample_task(tmp_path / "many", task=named("e", "e"), symbols=symbols)
    environment = CodeEnvironment([shown, several, more, tests, same, many], settings())
    assert environment.left_out == {
        "several files": ["several"], "more than definitions": ["more"], "asks for tests": ["tests"],
        "same prompt as another task": ["task"], "too many definitions": ["many"],
    }  # fmt: skip
    assert len(environment.tasks(TRAIN)) == 1
    with pytest.raises(UsageError, match=r"none of 1 tasks of spanbook is in heldout \(.*several files: 1"):
        environment.tasks(HELDOUT)
    assert len(CodeEnvironment([several, more, tests], settings(answer="agent")).tasks(TRAIN)) == 3


def written(folder, model, *folders, **changes):
    """Settings of a training on these tasks."""
    changes = {"completion_tokens": 4096, **changes}
    chosen = settings(tasks=[str(each) for each in folders], **changes).model_dump(mode="json", exclude_none=True)
    values = {"model": {"name": str(model)}, "environment": chosen, "channels": [{"name": "grpo"}]}
    write_toml(folder / "my.toml", values)
    return folder / "my.toml"


@pytest.mark.parametrize("verb", [("train",), ("train", "--dry-run"), ("doctor",)])
def test_an_empty_side_is_told_before_any_work(tmp_path, shown, verb):
    model = random_model(tmp_path / "model")
    run = ["run", "--config"] if verb[0] == "train" else []

    def told(*folders, **changes):
        path = written(tmp_path, model, *folders, **changes)
        ended = recompose(verb[0], *run, path, *verb[1:], cwd=tmp_path)
        assert ended.returncode == (2 if run else 1) and not (tmp_path / "run").exists(), ended.stderr
        return ended.stdout + ended.stderr

    unmeasured = told(shown.folder, heldout_share=0.25)
    assert "none of 1 tasks of spanbook is in heldout (none left out); next: recompose env make REPO" in unmeasured
    assert "0 to train without measuring" in unmeasured
    assert "none of 1 tasks of spanbook is in train" in told(shown.folder, heldout_share=1.0)
    several = write_sample_task(tmp_path / "several", task=named("a", "a"))
    write_files(several.gold, {"spanbook/text.py": "changed"})
    unsuited = told(several.folder)
    assert 'can be asked with answer = "definition" (several files: 1 (several)); next: recompose env' in unsuited
    other = write_sample_task(tmp_path / "other", repository="other", task=named("b", "b"))
    assert "choose heldout_repositories among other, spanbook" in told(shown.folder, other.folder, heldout_share=0.1)


def test_a_rollout_of_tasks_that_cannot_be_asked_begins_nothing(tmp_path):
    several = write_sample_task(tmp_path / "several", task=named("a", "a"))
    write_files(several.gold, {"spanbook/text.py": "changed"})
    words = ("env", "rollout", several.folder, "--scripted", "nop", "--answer", "definition", "-o", tmp_path / "run")
    ended = recompose(*words)
    assert ended.returncode == 2 and "(several files: 1 (several)); next: recompose env make" in ended.stderr
    assert not (tmp_path / "run").exists()


def test_a_plan_and_a_doctor_say_how_many_tasks_there_are(tmp_path, shown):
    several = write_sample_task(tmp_path / "several", task=named("a", "a"))
    write_files(several.gold, {"spanbook/text.py": "changed"})
    path = written(tmp_path, random_model(tmp_path / "model"), shown.folder, several.folder)
    for words in (("train", tmp_path / "run", "--config", path, "--dry-run"), ("doctor", path)):
        ended = recompose(*words)
        assert ended.returncode == 0 and "1 in train; not asked: several files: 1 (several)" in ended.stdout


def test_so_few_held_out_tasks_that_they_tell_nothing_are_no_tick(tmp_path, shown):
    other = write_sample_task(tmp_path / "other", repository="other", task=named("b", "b"))
    model = random_model(tmp_path / "model")
    path = written(tmp_path, model, shown.folder, other.folder, heldout_repositories=("other",))
    told = "1 in train, 1 in heldout. What is measured on 1 in heldout can tell nothing, below 5: make more tasks"
    planned = recompose("train", tmp_path / "run", "--config", path, "--dry-run")
    assert planned.returncode == 0 and f"Tasks: {told}" in planned.stdout
    assert f"· {'tasks':<20} {told}" in recompose("doctor", path).stdout


def test_before_the_tasks_are_made_the_doctor_says_so_once(tmp_path):
    printed = recompose("doctor", written(tmp_path, random_model(tmp_path / "model"), tmp_path / "none")).stdout
    assert printed.count("✗") == 1 and f"✗ {'tasks':<20}" in printed and printed.endswith("1 problem\n")


@pytest.mark.parametrize(
    ("tokens", "told"),
    [
        (30, "one turn of training.max_turn_tokens = 40 does not fit environment.completion_tokens = 30"),
        (10**6, "and 1000000 more do not fit the "),
    ],
)
def test_episodes_that_cannot_be_played_are_refused_before_training(tmp_path, shown, tokens, told):
    path = written(tmp_path, random_model(tmp_path / "model"), shown.folder, completion_tokens=tokens)
    planned = recompose("train", tmp_path / "run", "--config", path, "--dry-run")
    assert planned.returncode == 2 and told in planned.stderr
    looked = recompose("doctor", path)
    assert looked.returncode == 1 and f"✗ {'episodes':<20}" in looked.stdout and told in looked.stdout


def test_folders_that_hold_nothing_are_refused(tmp_path, shown):
    def opened(*folders):
        with open_environment(Config(environment=settings(tasks=folders))) as environment:
            return environment

    assert opened(str(shown.folder)).task("shown").labels["mode"] == "stub"
    for missing in ((), (str(tmp_path),), (str(tmp_path / "nowhere"),)):
        with pytest.raises(UsageError, match="recompose env make"):
            opened(*missing)


def test_labels_tell_results_apart(environment):
    labels = environment.task("shown").labels
    assert labels["difficulty"] == "1 easy" and labels["repository"] == "spanbook" and labels["grain"] == "symbol"
    assert labels["family"] == f"spanbook/{SPANS}:gaps+{SPANS}:merge" and labels["rung"].startswith("0 0 ")


def test_the_question_says_what_is_there_in_one_line(environment):
    system, asked = environment.task("shown").messages
    assert "one code block" in system["content"] and asked["content"].startswith("Write `merge`")
    assert f"Other names in `{SPANS}`: length, shift, contains." in asked["content"]
    assert "complete definitions of `merge`, `gaps`" in asked["content"] and "3 blocks" in asked["content"]
    once = question(environment.task("shown").folder, tries=1)
    assert once[-1]["content"].endswith("and tests run on it.")


def test_visible_tests_hold_nothing_that_is_hidden(shown):
    found = visible_tests(shown, "auto")
    assert found.covering == ("tests/test_shown_spans_merge.py::test_merge_overlapping",)
    assert set(found.laid_in) == {"tests/test_shown_spans_merge.py"} and HIDDEN_FILE not in found.laid_in
    assert "test_merge_touching" not in str(found.laid_in) and "expected" not in str(found.laid_in)
    assert set(found.others) <= set(shown.code_task.guard_tests) and found.others


def test_examples_of_the_documentation_are_run_where_they_can_be_seen(tmp_path):
    gold = SPANS_GOLD.replace(
        "empty spans vanish.", "empty spans vanish.\n\n    >>> merge([(1, 2), (2, 3)])\n    [(1, 3)]\n    "
    )
    task = write_sample_task(tmp_path / "task", task=named("Write them."))
    write_files(task.gold, {SPANS: gold})
    assert visible_tests(task, "auto").covering == ()
    start = (task.tree / SPANS).read_text()
    write_files(
        task.tree,
        {
            SPANS: start.replace(
                "empty spans vanish.", "empty spans vanish.\n\n    >>> merge([(1, 2), (2, 3)])\n    [(1, 3)]\n    "
            )
        },
    )
    assert visible_tests(task, "auto").covering == ("tests/test_documentation.py::test_documentation_of_merge",)
    environment = CodeEnvironment([task], settings())
    episode = environment.start(environment.task("shown"))
    answer = episode.step(RIGHT.replace("max(furthest_end, end)", "None"))
    episode.close()
    assert answer.failed and "merge([(1, 2), (2, 3)])" in answer.observation and "Got:" in answer.observation
    episode = environment.start(environment.task("shown"))
    raising = episode.step(RIGHT.replace("merged = []", "merged = absent"))
    episode.close()
    assert "NameError: name 'absent' is not defined" in raising.observation
    assert "/toolchain" not in raising.observation and "Traceback" not in raising.observation


PRINTED = """\
.F                                                                       [100%]
=================================== FAILURES ===================================
_________________________ test_documentation_of_merge __________________________
tests/test_documentation.py:22: in test_documentation_of_merge
    check('merge')
tests/test_documentation.py:15: in check
    assert not told, "".join(told)
E   AssertionError: **********
E     Line 3, in it
E     Failed example:
E         merge([])
E     Expected:
E         []
E     Got:
E         0
E     
E   assert not ['**********\\nLine 3, in it\\nFailed example:\\n    merge([])\\nExpected:\\n    []\\nGot:\\n    0\\n']
==================================== PASSES ====================================
__________________________________ test_shown __________________________________
----------------------------- Captured stdout call -----------------------------
a test that passes may print
=========================== short test summary info ============================
PASSED tests/test_spans.py::test_shown
FAILED tests/test_documentation.py::test_documentation_of_merge - AssertionError: *...
1 failed, 1 passed in 0.33s
"""


def test_what_passed_is_not_told_with_what_failed_and_a_failed_example_only_once():
    assert report_of(PRINTED, ["tests/test_documentation.py::test_documentation_of_merge"]).text == (
        "The block was put in, and 1 of 2 visible tests fail.\n"
        "test_documentation_of_merge:\n  Failed example:\n  merge([])\n  Expected:\n  []\n  Got:\n  0"
    )


def test_a_wrong_block_is_answered_with_what_fails_and_a_right_one_ends_it(environment, no_grading):
    episode = environment.start(environment.task("shown"))
    first = episode.step(WRONG)
    assert first.failed and not episode.finished
    assert first.observation.startswith(
        "The block was put in, and 1 of 10 visible tests fail.\ntest_merge_overlapping:"
    )
    assert "assert merge([(6, 9), (1, 3), (2, 7)]) == [(1, 9)]" in first.observation
    assert "seconds" not in first.observation and "in 0." not in first.observation
    lacking = episode.step("```python\ndef merge(spans):\n    return []\n```")
    assert lacking.failed and lacking.observation.startswith("Your response did not define `gaps`")
    last = episode.step(RIGHT)
    assert (last.failed, episode.finished, episode.reward) == (False, True, 1.0)
    assert last.observation == "The block was put in, and 10 visible tests pass. The work is handed in."
    trace, evidence = episode.trace("policy", 0), episode.evidence
    episode.close()
    assert [(site.turn, site.error_kind) for site in find_sites(trace)] == [(0, "runtime_error"), (1, "no_action")]
    assert list(evidence.written) == [SPANS] and evidence.removed == () and evidence.grade.reward == 1.0


def test_tries_are_counted_and_the_last_block_that_fitted_is_graded(environment, no_grading):
    episode = environment.start(environment.task("shown"))
    for turn in (WRONG, "Hm.", "Still nothing."):
        assert not episode.finished
        answer = episode.step(turn)
    episode.close()
    assert episode.finished and episode.reward == 0.0 and "the work is handed in as it is" in answer.observation
    assert "sorted(spans)" not in episode.evidence.written[SPANS]
    trace = episode.trace("policy", 0)
    hints, dropped = write_hints({trace.trace_id: trace}, find_sites(trace), 96)
    assert not dropped and [hint.text.count("one code block") for hint in hints] == [0, 1, 1]
    assert not any("JSON" in hint.text or "tool" in hint.text for hint in hints)
    assert hints[0].text == (
        "Reminder: visible tests run on the code block, and here 1 of 10 visible tests fail: "
        "assert merge([(6, 9), (1, 3), (2, 7)]) == [(1, 9)]. Write the definition so that they pass."
    )


def test_without_a_visible_test_the_first_block_decides(tmp_path, no_grading):
    task = write_sample_task(tmp_path / "task", task=named("Write them."))
    environment = CodeEnvironment([task], settings())
    episode = environment.start(environment.task("shown"))
    answer = episode.step(WRONG)
    episode.close()
    assert answer.observation == "The block was put in; no visible test covers it. The work is handed in."
    assert (answer.failed, episode.finished, episode.reward) == (False, True, 0.0)


def test_what_cannot_be_imported_is_told(environment, no_grading):
    episode = environment.start(environment.task("shown"))
    answer = episode.step(RIGHT.replace("```python", "```python\nimport numpy_of_tomorrow"))
    episode.close()
    assert answer.failed and "No module named 'numpy_of_tomorrow'" in answer.observation
    assert len(answer.observation) <= 1200


def test_a_turn_is_judged_by_visible_and_hidden_tests(environment):
    task = environment.task("shown")
    state = {"state_id": "s", "messages": list(task.messages), "student_action": ""}
    assert environment.judge(state, RIGHT) == (True, True)
    lucky = RIGHT.replace("left[1], right[0]", "0, 0")
    assert environment.judge(state, lucky) == (True, False)
    assert environment.judge(state, WRONG) == (False, False)
