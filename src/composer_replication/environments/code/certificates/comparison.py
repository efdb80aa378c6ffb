"""Which hidden tests of a task are compared by the trusted side: lowers them, records the solution, and keeps those
whose meaning stayed.

A lowered test is kept when the solution passes through the same checks with the same known operands under two hash
seeds and all of them hold; when it fails on the start tree; and when, on every changed solution that the gates try
anyway, it passes exactly where the ordinary test does. The others stay as they were, with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from ..grading.challenge import function_of
from ..grading.checks import MAX_TEXT_OF_A_TEST
from ..grading.lowering import LoweredModule, lower
from ..grading.orders import Drawn, beside, shown_texts
from ..grading.overlay import restrict
from ..grading.recorded import Passage, Recorded, RecordedModule, RecordedTest, false_checks, passes
from ..grading.trusted_run import Order, RunOutcome, run_in_turn
from ..tasks.store import gold_submission
from ..tasks.task import TaskFolder
from ..tasks.test_ids import file_of

OTHER_HASH_SEED = 7
MAX_UNLOWERED_SHARE = 0.5
MAX_LEFT_OUT_SHARE = 0.1
"""Of the hidden tests: where no more than this is not lowered, those tests do not count at all."""
NONE_OF_THEM = ("-",)


@dataclass(frozen=True)
class Trial:
    """A changed solution, and the hidden tests that it passes in their ordinary form."""

    texts: Mapping[str, str]
    passed: frozenset[str]
    ended: bool = True
    """False where it hung; that tells nothing of how the tests were lowered."""


@dataclass(frozen=True)
class _Runs:
    collected: tuple[str, ...]
    """Ordinary ids."""
    recordings: tuple[RunOutcome, RunOutcome]
    gold: RunOutcome
    start: RunOutcome
    trials: tuple[tuple[Trial, RunOutcome], ...]
    drawn: Mapping[str, Drawn]


@dataclass(frozen=True)
class _Ids:
    """Of one test in the two lowered texts: parameters that are known are missing in the graded one."""

    recording: str
    graded: str


def record_comparison(task: TaskFolder, trials: Sequence[Trial], backend: str) -> Recorded:
    modules = dict(_lowered(task))
    if not any(module.functions for module in modules.values()):
        return Recorded({}, {}, {test: _why_left(test, modules) for test in task.code_task.hidden_tests})
    runs = _run(task, modules, [trial for trial in trials if trial.ended], backend)
    run_as = _ids(task, modules, runs)
    tests: dict[str, RecordedTest] = {}
    left: dict[str, str] = {}
    for test in task.code_task.hidden_tests:
        module = modules[file_of(test)]
        found = _kept(test, run_as[test], module, runs) if test in run_as else _why_left(test, modules)
        if isinstance(found, str):
            left[test] = found
        else:
            name = run_as[test].graded.partition("::")[2]
            tests[test] = RecordedTest(module.path, name, found, function_of(test)[1] in module.exposed)
    used = {recorded.path for recorded in tests.values()}
    return Recorded(
        {path: RecordedModule(modules[path].graded, modules[path].checks, modules[path].functions) for path in used},
        tests,
        left,
    )


def rewarded(hidden: frozenset[str], recorded: Recorded, fewest: int) -> frozenset[str] | None:
    """The hidden tests that count; None where the trusted side compares too few of them."""
    lowered = hidden & recorded.tests.keys()
    unlowered = len(hidden) - len(lowered)
    if unlowered <= MAX_LEFT_OUT_SHARE * len(hidden) and len(lowered) >= fewest:
        return lowered
    return hidden if unlowered <= MAX_UNLOWERED_SHARE * len(hidden) else None


def counted(recorded: Recorded, left_out: int) -> dict[str, Any]:
    """For the task's record."""
    return {
        "hidden": len(recorded.tests) + len(recorded.left),
        "lowered": len(recorded.tests),
        "exposed": sum(test.exposed for test in recorded.tests.values()),
        "self_compared": sum(_compares_with_itself(test, recorded) for test in recorded.tests.values()),
        "unlowered": dict(Counter(recorded.left.values()).most_common()),
        "left_out": left_out,
    }


def _compares_with_itself(test: RecordedTest, recorded: Recorded) -> bool:
    """Whether each of its comparisons is between two values of the submission's own."""
    checks = recorded.modules[test.path].checks
    return all(len(checks[number].live) > 1 and all(checks[number].live) for number, _ in test.passages)


def _lowered(task: TaskFolder) -> Iterable[tuple[str, LoweredModule]]:
    functions: dict[str, set[str]] = {}
    for test in task.code_task.hidden_tests:
        path, name = function_of(test)
        functions.setdefault(path, set()).add(name)
    for path, names in sorted(functions.items()):
        text = (task.overlay / path).read_bytes().decode()
        yield path, lower(path, text, sorted(names), task.code_task.packages)


def _why_left(test: str, modules: Mapping[str, LoweredModule]) -> str:
    path, name = function_of(test)
    return modules[path].left.get(name, "not found")


def _run(
    task: TaskFolder, modules: Mapping[str, LoweredModule], trials: Sequence[Trial], backend: str
) -> _Runs:
    draw = Random(0)
    drawn = {path: Drawn(beside(path, draw), module.recording) for path, module in modules.items() if module.functions}
    beside_them = shown_texts(task, hidden_too=False)
    recording = _all_of(drawn.values(), beside_them, {})
    graded = [Drawn(drawn[path].path, modules[path].graded) for path in drawn]
    gold = gold_submission(task)
    start = {path: _start_text(task, path) for path in gold.written}
    files = tuple(sorted(modules))
    listing = Order(NONE_OF_THEM, files, shown_texts(task, hidden_too=True), listed=True)
    changed = ({}, start, *(each.texts for each in trials))
    orders = [listing, recording, *(_all_of(graded, beside_them, edits) for edits in changed)]
    accepted = restrict(task, gold)
    listed, first, at_gold, at_start, *tried = run_in_turn(task, accepted, orders, backend)
    (again,) = run_in_turn(task, accepted, [recording], backend, OTHER_HASH_SEED)
    ended = tuple((trial, outcome) for trial, outcome in zip(trials, tried, strict=True) if outcome.ended)
    return _Runs(listed.collected, (first, again), at_gold, at_start, ended, drawn)


def _all_of(modules: Iterable[Drawn], texts: Mapping[str, str], edits: Mapping[str, str | None]) -> Order:
    own = {module.path: module.text for module in modules}
    return Order((), tuple(sorted(own)), {**texts, **own}, edits=edits, listed=True)


def _start_text(task: TaskFolder, path: str) -> str | None:
    return (task.tree / path).read_bytes().decode() if (task.tree / path).is_file() else None


def _ids(task: TaskFolder, modules: Mapping[str, LoweredModule], runs: _Runs) -> dict[str, _Ids]:
    """By hidden test: the same place among the parameter sets of its function."""
    recording, graded = _by_function(runs.recordings[0].collected), _by_function(runs.gold.collected)
    found: dict[str, _Ids] = {}
    for (path, name), tests in _by_function(runs.collected).items():
        if path in runs.drawn and name in modules[path].functions:
            lowered = (runs.drawn[path].path, modules[path].functions[name])
            both = [_Ids(*each) for each in zip(recording.get(lowered, []), graded.get(lowered, []), strict=False)]
            if len(both) == len(tests):
                found.update(zip(tests, both, strict=True))
    return {test: found[test] for test in task.code_task.hidden_tests if test in found}


def _by_function(ids: Iterable[str]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for test in ids:
        found.setdefault(function_of(test), []).append(test)
    return found


def _kept(test: str, run_as: _Ids, module: LoweredModule, runs: _Runs) -> tuple[Passage, ...] | str:
    """What the solution passed through, or why the test is left as it was."""
    if any(run_as.recording not in outcome.passed for outcome in runs.recordings):
        return "the lowered test fails on the solution"
    passages, again = (_passages(outcome.sent[run_as.recording]) for outcome in runs.recordings)
    if not passages:
        return "nothing is compared"
    if passages != again or len(str(passages)) > MAX_TEXT_OF_A_TEST:
        return "what is expected differs between runs, or is too large"
    for outcome, name in (*((each, run_as.recording) for each in runs.recordings), (runs.gold, run_as.graded)):
        false = false_checks(passages, module.checks, outcome.sent.get(name))
        if false is None or false:
            return f"a comparison does not hold outside: {_kinds(false, module)}"
    if _passes(run_as.graded, passages, module, runs.start):
        return "the lowered test passes without the solution"
    for trial, outcome in runs.trials:
        if _passes(run_as.graded, passages, module, outcome) != (test in trial.passed):
            return "differs from the ordinary test on a changed solution"
    return passages


def _kinds(false: frozenset[int] | None, module: LoweredModule) -> str:
    return "another order" if false is None else ", ".join(sorted({module.checks[number].kind for number in false}))


def _passes(run_as: str, passages: tuple[Passage, ...], module: LoweredModule, outcome: RunOutcome) -> bool:
    return run_as in outcome.passed and passes(passages, module.checks, outcome.sent[run_as])


def _passages(sent: object) -> tuple[Passage, ...]:
    """What the recording module sent, with each known operand at the check that it belongs to."""
    found: list[tuple[int, dict[int, Any]]] = []
    for entry in sent if isinstance(sent, list) else ():
        match entry:
            case {"seen": int(number)}:
                found.append((number, {}))
            case {"known": int(number), "operand": int(operand), "form": form}:
                owner = next((known for check, known in reversed(found) if check == number), None)
                if owner is not None:
                    owner[operand] = form
            case _:
                return ()
    return tuple(found)
