"""The late gates: a candidate whose tests are split becomes a task folder, and has to prove itself.

Asks whether the statement tells enough, tries lazy solutions, records what hidden tests are compared with, writes the
folder, asks for its leak certificate, grades doing nothing (0) and the solution (1) by the real reward, runs the
visible tests as an agent does, has the Harbor folder's verifier grade the same and broken solutions, and repeats every
fifth task under another seed. Tests that a lazy solution passes count only together with one that none does.
What each reason of rejection says is in `tasks/reasons.py`.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from composer_replication.records import Task, content_id

from ..generators.feature_deletion.visible import visible_tests
from ..grading.grader import doubted_gold, grade
from ..grading.recorded import as_text
from ..sandbox.toolchain import toolchain
from ..tasks.allowed_paths import told_paths
from ..tasks.loading import is_test_path
from ..tasks.store import TaskFiles, gold_submission, write_record, write_task
from ..tasks.task import Candidate, CodeTask, Level, Rejected, Rejection, Submission, TaskFolder
from ..tasks.test_ids import file_of
from ..tasks.trees import files_of
from .agents_tests import run_as_agent
from .comparison import ChangedSolution, counted, record_comparison, rewarded, telling
from .cpu_time import cpu_s
from .gates import MIN_HIDDEN, Bench, Split, enough_hidden, filtered, quick_tests, repeat, split_tests
from .leaks import LeakCertificate, leak_certificate
from .strength import cheap_solution, units
from .told import ShownBehaviour, enough_told, run_shown, shown_behaviour, with_examples
from .two_verifiers import (
    DROPPED,
    IN_FULL,
    LAZY,
    NOTHING,
    SOLUTION,
    both_verdicts,
    broken_copies,
    honest_submissions,
    part_for,
)
from .world_index import ShownFolder

MIN_CAUGHT_SHARE = 0.5
MIN_CHEAP_TESTS = 5
"""Where none proves something alone: fewer could be guessed together."""
MIN_NOTICING = 3
"""Tests that no lazy solution passes, the others being counted together with one of them; or, where all are counted
together, tests that each lazy solution fails."""
REPEAT_ONE_IN = 5
GOLD_DRAWS = 5
"""Of what is contradicted, the one of the grade itself among them."""
MIN_AGENTS_S = 120.0
MAX_GUARDS = 200
"""That are graded with each submission; all of them were green when the task was made."""


Trials = Mapping[str, ChangedSolution]
"""By name, as `honest_submissions` calls them."""


class Verdict(NamedTuple):
    """What became of a candidate, and what that cost."""

    result: TaskFolder | Rejection
    cpu_s: float
    wall_s: float
    cpu_to_leak_gate_s: float
    """Up to and with the import, failure, guard, gold/nop and leak gates; all of it where one of them rejected."""
    was_tried: bool = True
    """False where the static filter took the candidate out."""


class _Clock:
    def __init__(self, bench: Bench) -> None:
        self.bench, self.wall = bench, time.monotonic()
        self.cpu = cpu_s() + bench.cpu_s

    def used_s(self) -> float:
        return round(cpu_s(reap=self.bench.owns_process) + self.bench.cpu_s - self.cpu, 3)


def certify(
    candidate: Candidate,
    bench: Bench,
    into: Path,
    level: Level,
    seed: int = 0,
    tell: Callable[[str], None] = lambda gate: None,
) -> Verdict:
    """The task is written under `into` once every gate has been passed, and nothing of it stays otherwise. `tell` hears
    what it is at."""
    clock = _Clock(bench)
    if taken_out := filtered(candidate, bench.repository):
        return Verdict(taken_out, clock.used_s(), round(time.monotonic() - clock.wall, 3), clock.used_s(), False)
    # Of this process: the workers of a call that was killed may still be at theirs.
    staging = into / f".staging-{os.getpid()}"
    shutil.rmtree(staging, ignore_errors=True)
    early: float | None = None
    try:
        tell("tests without the feature")
        split = quick_tests(_unshown(candidate, split_tests(candidate, bench), level), candidate, bench)
        is_full = level == "L0" and candidate.grader == "tests"
        shown = shown_behaviour(candidate, split, bench) if is_full else ShownBehaviour()
        tell("lazy and broken solutions")
        trials = _trials(candidate, split, bench, seed, shown)
        if is_full:
            tell("whether the statement tells enough")
            candidate, split, trials = _told(candidate, split, bench, seed, shown, trials)
        tell("what hidden tests compare")
        task, split = _compared(candidate, split, bench, staging, level, trials)
        tell("leaks, and grading the solution")
        task = _graded(task, bench)
        tell("visible tests as an agent runs them")
        _green_for_agents(task, bench)
        early = clock.used_s()
        tell("a second verifier")
        task = _proven(task, candidate, split, bench, trials, seed)
        result: TaskFolder | Rejection = _publish(task, candidate, into)
    except Rejected as rejected:
        result = Rejection(candidate.name, rejected.reason, rejected.detail)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    used_s = clock.used_s()
    return Verdict(result, used_s, round(time.monotonic() - clock.wall, 3), used_s if early is None else early)


def _unshown(candidate: Candidate, split: Split, level: Level) -> Split:
    """Tests that the statement shows do not count, where enough others are left."""
    unseen = split.hidden - candidate.shown_tests
    return replace(split, hidden=unseen) if level == "L0" and len(unseen) >= enough_hidden(candidate) else split


def _told(
    candidate: Candidate, split: Split, bench: Bench, seed: int, shown: ShownBehaviour, trials: Trials
) -> tuple[Candidate, Split, Trials]:
    """Only the fullest statement claims to say all that is needed."""
    wrong = {name: trial.passed for name, trial in trials.items() if trial.ended and not name.startswith(LAZY)}
    told = enough_told(candidate, split, bench, seed, shown, wrong)
    left = {name: replace(trial, passed=trial.passed & told.hidden) for name, trial in trials.items()}
    fair = replace(split, hidden=told.hidden, left_out=split.left_out + told.left_out)
    return with_examples(candidate, told.examples), fair, left


def recertify_leaks(task: TaskFolder, backend: str = "auto", runtime: ShownFolder | None = None) -> LeakCertificate:
    """The certificate of a task as it lies on disk: the originals are its solution and its trusted tests. `runtime`:
    what a harness brings along."""
    code_task = task.code_task
    gold = {path: (task.gold / path).read_bytes().decode() for path in files_of(task.gold)}
    overlay = [path for path in files_of(task.overlay) if path.endswith(".py")]
    texts = {path: (task.overlay / path).read_bytes().decode(errors="replace") for path in overlay}
    is_about_tests = code_task.grader == "mutants"
    return leak_certificate(
        task.tree,
        deleted={} if is_about_tests else gold,
        symbols=() if is_about_tests else code_task.symbols,
        packages=code_task.packages,
        hidden_tests=code_task.hidden_tests,
        hidden_texts=gold if is_about_tests else _changed(task, texts),
        toolchain=toolchain(code_task.distributions, exclude=code_task.packages),
        backend=backend,
        runtime=runtime,
    )


def _changed(task: TaskFolder, texts: Mapping[str, str]) -> dict[str, str]:
    return {
        path: text
        for path, text in texts.items()
        if not (task.tree / path).is_file() or (task.tree / path).read_bytes() != text.encode()
    }


def _compared(
    candidate: Candidate, split: Split, bench: Bench, folder: Path, level: Level, trials: Trials
) -> tuple[TaskFolder, Split]:
    """The task with what its hidden tests are compared with, and the tests that count then, in units that no lazy
    solution passes."""
    task = _write(candidate, split, bench, folder, level)
    if candidate.grader != "tests":
        return task, split
    cheap = cheap_solution(task, _sources(candidate, bench), candidate.symbols)
    recorded = record_comparison(task, [*trials.values()], bench.setup.backend, cheap, bench.coverage.preload)
    lazy = {name: trial for name, trial in trials.items() if name.startswith(LAZY)}
    hidden = rewarded(split.hidden, recorded, enough_hidden(candidate), lazy.values())
    if hidden is None:
        [(why, _)] = Counter(recorded.left.values()).most_common(1)
        raise Rejected("too_few_compared", f"{len(recorded.left)} of {len(split.hidden)}: {why}")
    shutil.rmtree(folder)
    proving = telling(_noticing(hidden, lazy, candidate), recorded)
    if not proving and len(hidden) < MIN_CHEAP_TESTS and not candidate.few_tests:
        raise Rejected("lazy_solution", f"each of {len(hidden)} tests can pass without the feature")
    kept = replace(split, hidden=hidden, units=units(hidden, proving))
    task = _write(candidate, kept, bench, folder, level, as_text(recorded))
    counts = counted(recorded, left_out=len(split.hidden) - len(hidden))
    return _noted(task, {**task.code_task.task.certificate, "comparison": counts}), kept


def _write(
    candidate: Candidate, split: Split, bench: Bench, folder: Path, level: Level, checks: str | None = None
) -> TaskFolder:
    repository = bench.repository
    touched = [path for path in candidate.edits if bench.exists(path)]
    gold = {path: (repository.tree / path).read_bytes() for path in touched}
    tests = [path for path in files_of(repository.tree) if is_test_path(path)]
    is_about_tests = candidate.grader == "mutants"
    if is_about_tests:
        gold = _steady(gold, bench)
    overlay = {} if is_about_tests else {path: (repository.tree / path).read_bytes() for path in tests}
    best_level = level if level in candidate.statement else min(candidate.statement)
    guards = _nearest_guards(candidate, split, bench)
    measured = {"hidden_tests": len(split.hidden), "guard_tests": len(guards), "survived": split.survived}
    draft = CodeTask(
        task=Task(
            task_id="",
            kind="code",
            statement=candidate.statement[best_level],
            visible_hash="",
            hidden_hash="",
            difficulty={**candidate.difficulty, **measured},
        ),
        repository=repository.name,
        generator=candidate.generator,
        grader=candidate.grader,
        grain=candidate.grain,
        mode=candidate.mode,
        level=best_level,
        symbols=candidate.symbols,
        packages=repository.packages,
        source_roots=repository.source_roots,
        distributions=bench.setup.distributions,
        pytest_plugins=bench.setup.plugins,
        pytest_options=bench.repository.selection,
        test_files=repository.test_files,
        hidden_tests=tuple(sorted(split.hidden)),
        units=split.units,
        guard_tests=guards,
        editable=candidate.editable,
        seconds_per_run=round(split.suite_s, 3),
        provenance={
            "candidate": candidate.name,
            "licence": repository.licence,
            "meta_tests": split.meta,
            "left_out_tests": split.left_out,
            "revision": repository.revision,
        },
    )
    told = f"{draft.task.statement.rstrip()}\n\n{told_paths(draft, repository.tree)}\n"
    draft = draft.model_copy(update={"task": draft.task.model_copy(update={"statement": told})})
    files = TaskFiles(repository.tree, split.edits, overlay, gold, split.mutants, checks)
    task = write_task(folder, draft, files)
    if not is_about_tests and not _restores(task, repository.tree):
        raise Rejected("gold_differs", "the solution does not give back the repository's own files")
    return task


def _steady(tests: Mapping[str, bytes], bench: Bench) -> dict[str, bytes]:
    """Test files without what is red or unsteady in the repository too: tests that are handed in must pass."""
    red = bench.coverage.red_for_agents | bench.coverage.unstable
    kept = visible_tests(bench.repository, {}, red) | dict.fromkeys(red & tests.keys())
    rewritten = {path: text.encode() for path, text in kept.items() if text is not None and path in tests}
    return {path: content for path, content in tests.items() if path not in kept} | rewritten


def _nearest_guards(candidate: Candidate, split: Split, bench: Bench) -> tuple[str, ...]:
    """Whole test files, those that run the edited files first, until there are enough guards. Where there are more than
    enough, slow ones are not among them."""
    slow = frozenset(bench.coverage.slow if len(split.guards) > MAX_GUARDS else ())
    running = {
        file_of(test)
        for symbol, tests in bench.coverage.by_symbol.items()
        if symbol.file in candidate.edits
        for test in tests
    }
    near = running | {file_of(test) for test in split.hidden}
    by_file: dict[str, list[str]] = {}
    for test in sorted(split.guards - slow):
        by_file.setdefault(file_of(test), []).append(test)
    kept: list[str] = []
    for file in sorted(by_file, key=lambda file: (file not in near, content_id(candidate.name, file))):
        if len(kept) < MAX_GUARDS:
            kept += by_file[file]
    return tuple(sorted(kept[:MAX_GUARDS]))


def _restores(task: TaskFolder, original: Path) -> bool:
    """The agent's tree, the solution and the trusted tests together are the repository, byte for byte."""
    layers = (task.overlay, task.gold, task.tree)
    paths = {path for layer in layers for path in files_of(layer)}
    if paths != set(files_of(original)):
        return False
    tops = {path: next(layer for layer in layers if (layer / path).is_file()) for path in paths}
    return all((tops[path] / path).read_bytes() == (original / path).read_bytes() for path in paths)


def _graded(task: TaskFolder, bench: Bench) -> TaskFolder:
    backend = bench.setup.backend
    certificate = recertify_leaks(task, backend)
    if not certificate.passed:
        first = certificate.hard()[0]
        raise Rejected("leak", f"{first.check} {first.path}:{first.line} {first.detail}"[:300])
    nop = grade(task, Submission(), backend)
    if nop.reward != 0:
        raise Rejected("nop_scores", f"{nop.reward:.3f}")
    gold = grade(task, gold_submission(task), backend)
    broken = [*gold.notes, *gold.hidden_failed, *gold.guards_broken]
    if gold.reward == 1 and task.code_task.grader == "tests":
        broken = doubted_gold(task, gold_submission(task), GOLD_DRAWS - 1, backend, bench.coverage.preload)
    if gold.reward != 1 or broken:
        raise Rejected("gold_fails", f"{gold.reward:.3f} {broken[0] if broken else ''}"[:300])
    gates = {"nop": nop.reward, "gold": gold.reward}
    leaks = certificate.model_dump(mode="json")
    return _noted(task, {**task.code_task.task.certificate, "leaks": leaks, "gates": gates})


def _green_for_agents(task: TaskFolder, bench: Bench) -> None:
    """What every statement says: the tests that are left pass."""
    run = run_as_agent(
        task, bench.setup.backend, max(MIN_AGENTS_S, 20 * bench.coverage.suite_s), "-q --tb=no --no-header"
    )
    if run.exit_code != 0:
        raise Rejected("agents_tests_fail", f"exit code {run.exit_code}: {run.last_line}"[:300])


def _proven(
    task: TaskFolder, candidate: Candidate, split: Split, bench: Bench, trials: Trials, seed: int
) -> TaskFolder:
    gates = dict(task.code_task.task.certificate["gates"])
    tags = list(task.code_task.tags)
    gates["verifiers"] = _agreement(task, bench, trials)
    if candidate.grader == "tests":
        dropped = [trial for name, trial in trials.items() if name.startswith(DROPPED)]
        tried, caught = len(dropped), sum(not split.hidden <= trial.passed for trial in dropped)
        gates["dropped_statements"] = {"tried": tried, "caught": caught}
        is_weak = caught < MIN_CAUGHT_SHARE * tried
        if len(split.hidden) < MIN_HIDDEN[candidate.grain] and (is_weak or not tried):
            raise Rejected("weak_tests", f"{len(split.hidden)} tests, {caught} of {tried} dropped statements noticed")
        if is_weak:
            tags.append("weak-tests")
    gates["repeated"] = int(content_id(candidate.name, seed), 16) % REPEAT_ONE_IN == 0
    if gates["repeated"]:
        repeat(split, candidate, bench)
    noted = _noted(task, {**task.code_task.task.certificate, "gates": gates})
    return TaskFolder(noted.code_task.model_copy(update={"tags": tuple(tags)}), task.folder)


def _agreement(task: TaskFolder, bench: Bench, trials: Trials) -> dict[str, list[str]]:
    """On which submissions both verifiers come to the same reward. A test counts as lowered only if it passes exactly
    where the ordinary one does, so what the trials passed is what our grader says of them."""
    graded = task.code_task.task.certificate["gates"]
    ours = {NOTHING: graded["nop"], SOLUTION: graded["gold"]}
    asked = {name: part_for(name, task.code_task) for name in trials if name not in IN_FULL}
    ours |= {name: part.share_of_units(trials[name].passed) for name, part in asked.items()}
    ended = {name: trial.texts for name, trial in trials.items() if trial.ended}
    submissions = honest_submissions(task, ended)
    known = {name: ours[name] for name in submissions if name in ours}
    verdicts = both_verdicts(task, submissions, known, bench.runner.run, bench.setup.backend, bench.coverage.preload)
    if disagreement := verdicts.disagreement():
        raise Rejected("verifiers_disagree", disagreement)
    return {
        "agree_on": sorted(verdicts.harbor),
        "left_out": sorted({*verdicts.left_out, *(trials.keys() - ended.keys())}),
    }


def _trials(
    candidate: Candidate, split: Split, bench: Bench, seed: int, shown: ShownBehaviour
) -> dict[str, ChangedSolution]:
    """Lazy solutions, and broken copies of the true one, with what they pass of the hidden tests and of those that the
    agent sees."""
    if candidate.grader != "tests":
        return {}
    copies = broken_copies(_sources(candidate, bench), candidate.symbols, seed, candidate.solution_lines)
    if candidate.mode.startswith("stub"):
        del copies[f"{LAZY}raise"]
    lazy = {name: _tried(split, copies.pop(name), bench, shown) for name in list(copies) if name.startswith(LAZY)}
    _noticing(split.hidden, lazy, candidate)
    return lazy | {name: _tried(split, texts, bench, shown) for name, texts in copies.items()}


def _noticing(hidden: frozenset[str], lazy: Trials, candidate: Candidate) -> frozenset[str]:
    """The tests that no lazy solution passes. Where they are too few but each lazy solution fails enough tests, none:
    all tests count together then. Otherwise a rejection."""
    fewest = min(MIN_NOTICING, enough_hidden(candidate))
    found = hidden.difference(*(trial.passed for trial in lazy.values()))
    if len(found) >= fewest:
        return found
    worst = max(lazy, key=lambda name: len(hidden & lazy[name].passed))
    passed = len(hidden & lazy[worst].passed)
    if len(hidden) - passed < fewest or len(hidden) < MIN_CHEAP_TESTS:
        detail = f"{worst.removeprefix(LAZY)} passes {passed} of {len(hidden)} tests"
        raise Rejected("lazy_solution", f"{detail}, {len(found)} notice all such answers")
    return frozenset()


def _tried(split: Split, texts: Mapping[str, str], bench: Bench, shown: ShownBehaviour) -> ChangedSolution:
    run = run_shown(split, texts, bench, shown)
    return ChangedSolution(texts, run.passed, ended=not run.timed_out)


def _sources(candidate: Candidate, bench: Bench) -> dict[str, str]:
    """Of what the candidate edits, as it was."""
    return {path: bench.original(path) for path in candidate.edits if path.endswith(".py") and bench.exists(path)}


def _noted(task: TaskFolder, certificate: dict[str, Any]) -> TaskFolder:
    record = task.code_task.task.model_copy(update={"certificate": certificate})
    return TaskFolder(task.code_task.model_copy(update={"task": record}), task.folder)


def _publish(task: TaskFolder, candidate: Candidate, into: Path) -> TaskFolder:
    name = "".join(letter if letter.isalnum() else "-" for letter in candidate.name).strip("-")[:60]
    target = into / f"{name}-{task.code_task.task.task_id[:8]}"
    if not target.exists():
        write_record(task)
        task.folder.rename(target)
    return TaskFolder(task.code_task, target)
