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

from ..grading.checks import MAX_TEXT_OF_A_TEST
from ..grading.lowering import LoweredModule, lower
from ..grading.orders import beside, shown_texts
from ..grading.overlay import Accepted
from ..grading.recorded import Passage, Recorded, RecordedModule, RecordedTest, false_checks, passes
from ..grading.trusted_run import Order, RunOutcome, run_in_turn
from ..tasks.store import gold_submission
from ..tasks.task import TaskFolder
from ..tasks.test_ids import file_of, function_of
from ..tasks.trees import files_of, text_if_there

OTHER_HASH_SEED = 7
MAX_UNLOWERED_SHARE = 0.5
MAX_LEFT_OUT_SHARE = 0.1
"""Of the hidden tests: where no more than this is not lowered, those tests do not count at all."""
NONE_OF_THEM = ("-",)
NO_EDITS: Mapping[str, str | None] = {}
ANSWERABLE = frozenset("eq ne lt le gt ge in not_in is is_not".split())


@dataclass(frozen=True)
class ChangedSolution:
    """A changed solution, and the hidden tests that it passes in their ordinary form."""

    texts: Mapping[str, str]
    passed: frozenset[str]
    ended: bool = True
    """False where it hung; that tells nothing of how the tests were lowered."""


@dataclass(frozen=True)
class _Listed:
    ordinary: tuple[str, ...]
    """Ids in the original test files."""
    graded: tuple[str, ...]
    recording: RunOutcome
    """Under another hash seed, with what was collected."""


@dataclass(frozen=True)
class _Runs:
    recordings: tuple[RunOutcome, RunOutcome]
    gold: RunOutcome
    start: RunOutcome
    trials: tuple[tuple[ChangedSolution, RunOutcome], ...]
    cheap: RunOutcome | None
    """On the solution that gives only cheap answers. What it did not get to does not pass."""


@dataclass(frozen=True)
class _Ids:
    """Of one test in the two lowered texts: parameters that are known are missing in the graded one."""

    recording: str
    graded: str


def record_comparison(
    task: TaskFolder,
    trials: Sequence[ChangedSolution],
    backend: str,
    cheap: Mapping[str, str],
    preload: Sequence[str] = (),
) -> Recorded:
    """`cheap` is the solution that gives only cheap answers, see `strength.py`; empty where there is none. `preload`
    are modules from outside the tree that the tests load anyway."""
    files = map(file_of, task.code_task.hidden_tests)
    modules = _lowered(task, dict.fromkeys(files, frozenset[int]()))
    if not any(module.functions for module in modules.values()):
        return Recorded({}, {}, {test: _why_left(test, modules) for test in task.code_task.hidden_tests})
    bench = _Bench(task, backend, preload)
    listed = bench.listed(modules)
    answered = {
        path: _no_plain_form(module, bench.of_module(path, listed.recording)) for path, module in modules.items()
    }
    if any(answered.values()):
        modules |= _lowered(task, {path: numbers for path, numbers in answered.items() if numbers})
        listed = bench.listed(modules)
    run_as = _ids(task, modules, listed, bench.places)
    runs = bench.tried(modules, [trial for trial in trials if trial.ended], listed.recording, run_as, cheap)
    tests: dict[str, RecordedTest] = {}
    left: dict[str, str] = {}
    passed_cheaply: list[str] = []
    for test in task.code_task.hidden_tests:
        module = modules[file_of(test)]
        found = _kept(test, run_as[test], module, runs) if test in run_as else _why_left(test, modules)
        if isinstance(found, str):
            left[test] = found
        else:
            name = run_as[test].graded.partition("::")[2]
            tests[test] = RecordedTest(module.path, name, found, function_of(test)[1] in module.exposed)
            if runs.cheap and _passes(run_as[test].graded, found, module, runs.cheap):
                passed_cheaply.append(test)
    used = {each.path for each in tests.values()}
    kept = {
        path: RecordedModule(modules[path].graded, modules[path].checks, tuple(sorted(answered[path]))) for path in used
    }
    return Recorded(kept, tests, left, tuple(passed_cheaply))


def rewarded(
    hidden: frozenset[str], recorded: Recorded, fewest: int, lazy: Iterable[ChangedSolution] = ()
) -> frozenset[str] | None:
    """The hidden tests that count; None where the trusted side compares too few of them. Those that it does not
    compare and that a lazy solution passes never do."""
    lowered = hidden & recorded.tests.keys()
    hidden = lowered | hidden.difference(*(trial.passed for trial in lazy))
    unlowered = len(hidden) - len(lowered)
    if unlowered <= MAX_LEFT_OUT_SHARE * len(hidden) and len(lowered) >= fewest:
        return lowered
    enough = len(hidden) >= fewest and unlowered <= MAX_UNLOWERED_SHARE * len(hidden)
    return hidden if enough else None


def telling(hidden: frozenset[str], recorded: Recorded) -> frozenset[str]:
    """Those whose values are compared outside, with values that are not cheap to have."""
    compared = frozenset(test for test in recorded.tests if not recorded.compares_with_itself(test))
    return (hidden & compared).difference(recorded.cheap)


def counted(recorded: Recorded, left_out: int) -> dict[str, Any]:
    """For the task's record."""
    return {
        "hidden": len(recorded.tests) + len(recorded.left),
        "lowered": len(recorded.tests),
        "exposed": sum(test.exposed for test in recorded.tests.values()),
        "self_compared": sum(map(recorded.compares_with_itself, recorded.tests)),
        "cheap": len(recorded.cheap),
        "unlowered": dict(Counter(recorded.left.values()).most_common()),
        "left_out": left_out,
    }


def _lowered(task: TaskFolder, answered: Mapping[str, frozenset[int]]) -> dict[str, LoweredModule]:
    """The test files with hidden tests that are asked for."""
    functions: dict[str, set[str]] = {}
    for test in task.code_task.hidden_tests:
        path, name = function_of(test)
        functions.setdefault(path, set()).add(name)
    files = [path for path in files_of(task.overlay) if path.endswith(".py")]
    texts = {path: (task.overlay / path).read_bytes().decode(errors="replace") for path in files}
    return {
        path: lower(path, texts[path], sorted(functions[path]), task.code_task.packages, own, texts)
        for path, own in sorted(answered.items())
    }


def _no_plain_form(module: LoweredModule, sent: Iterable[object]) -> frozenset[int]:
    """Checks that cannot be made outside, on what the solution sent: the process answers those itself."""
    found: set[int] = set()
    for entries in sent:
        passages = _passages(entries)
        found |= false_checks(passages, module.checks, entries) or set()
    return frozenset(number for number in found if module.checks[number].kind in ANSWERABLE)


def _why_left(test: str, modules: Mapping[str, LoweredModule]) -> str:
    path, name = function_of(test)
    return modules[path].left.get(name, "not found")


class _Bench:
    """The runs of a recording; all of them over trusted code."""

    def __init__(self, task: TaskFolder, backend: str, preload: Sequence[str]) -> None:
        self._task, self._backend, self._preload = task, backend, preload
        self._gold = gold_submission(task)
        self._accepted = Accepted(self._gold.written, self._gold.removed, ())
        self._texts = shown_texts(task, hidden_too=False)
        draw = Random(0)
        files = dict.fromkeys(map(file_of, task.code_task.hidden_tests))
        self.places = {path: beside(path, draw) for path in files}
        """Test file -> path of its lowered module."""

    def listed(self, modules: Mapping[str, LoweredModule]) -> _Listed:
        """All ids, and a recording of all of them under another hash seed."""
        hidden = shown_texts(self._task, hidden_too=True)
        ordinary = Order(NONE_OF_THEM, tuple(sorted(modules)), hidden, listed=True, watched=False)
        graded = self._order(self._graded(modules), NONE_OF_THEM)
        orders = [ordinary, graded, self._order(self._recording(modules), ())]
        of_ordinary, of_graded, recording = self._run(orders, OTHER_HASH_SEED)
        return _Listed(of_ordinary.collected, of_graded.collected, recording)

    def tried(
        self,
        modules: Mapping[str, LoweredModule],
        trials: Sequence[ChangedSolution],
        first: RunOutcome,
        run_as: Mapping[str, _Ids],
        cheap: Mapping[str, str],
    ) -> _Runs:
        """Of the hidden tests alone, as a grade runs them."""
        start = {path: text_if_there(self._task.tree / path) for path in self._gold.written}
        changed = ({}, start, *(trial.texts for trial in trials), *((cheap,) if cheap else ()))
        recorded = tuple(each.recording for each in run_as.values()) or NONE_OF_THEM
        graded = tuple(each.graded for each in run_as.values()) or NONE_OF_THEM
        texts = self._graded(modules)
        orders = [self._order(self._recording(modules), recorded)]
        orders += [self._order(texts, graded, edits) for edits in changed]
        again, gold, at_start, *tried = self._run(orders, 0)
        cheaply = tried.pop() if cheap else None
        ended = tuple((trial, outcome) for trial, outcome in zip(trials, tried, strict=True) if outcome.ended)
        return _Runs((first, again), gold, at_start, ended, cheaply)

    def of_module(self, path: str, outcome: RunOutcome) -> list[object]:
        """What the tests of one lowered module sent."""
        return [sent for test, sent in outcome.sent.items() if file_of(test) == self.places[path]]

    def _recording(self, modules: Mapping[str, LoweredModule]) -> dict[str, str]:
        return {self.places[path]: module.recording for path, module in modules.items() if module.functions}

    def _graded(self, modules: Mapping[str, LoweredModule]) -> dict[str, str]:
        return {self.places[path]: module.graded for path, module in modules.items() if module.functions}

    def _order(
        self, modules: Mapping[str, str], tests: Sequence[str], edits: Mapping[str, str | None] = NO_EDITS
    ) -> Order:
        texts = {**self._texts, **modules}
        is_list = not tests or tests == NONE_OF_THEM
        return Order(tests, tuple(sorted(modules)), texts, edits=edits, listed=is_list, watched=False)

    def _run(self, orders: Sequence[Order], hash_seed: int) -> list[RunOutcome]:
        return run_in_turn(self._task, self._accepted, orders, self._backend, hash_seed, self._preload)


def _ids(
    task: TaskFolder, modules: Mapping[str, LoweredModule], listed: _Listed, places: Mapping[str, str]
) -> dict[str, _Ids]:
    """By hidden test: the same place among the parameter sets of its function."""
    recording, graded = _by_function(listed.recording.collected), _by_function(listed.graded)
    found: dict[str, _Ids] = {}
    for (path, name), tests in _by_function(listed.ordinary).items():
        if path in modules and name in modules[path].functions:
            lowered = (places[path], modules[path].functions[name])
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
