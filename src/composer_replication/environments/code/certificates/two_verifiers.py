"""Two verifiers, one verdict: our grader and the Harbor folder's `verify.py` on honest submissions.

Honest submissions come from a task's own solution, without any trick: nothing at all, the solution, one-line answers,
the solution with a part in a new module, and broken copies (one statement dropped, then one small bug put in). Rewards
that whoever asks has found already are handed in: of nothing and of the solution, and of broken copies that the
comparison was tried on. The others pass our own rules about paths, then run once over a warm process, without the
second run: that one is about fakes. Harbor's verifier runs on all of them, in one
sandbox, one fork each. Of broken copies, but for one, both run only the hidden tests: guards tell nothing new there. Of
very many hidden tests each copy runs another part. One that does not end in time is left out: it earns 0 by definition.
Writes below the temporary folder.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path, PurePosixPath
from random import Random

from composer_replication.records import content_id

from ..generators.bug_injection.operators import OPERATORS, mutations
from ..generators.bug_injection.source import read_source
from ..grading.overlay import restrict
from ..running.warm import LIMITS, RunRequest, TestRun, TestSetup, WarmRunner
from ..sandbox.interface import SandboxSpec
from ..sandbox.open import open_sandbox
from ..sandbox.toolchain import toolchain
from ..tasks.repository import Repository, module_name
from ..tasks.store import gold_submission
from ..tasks.task import CodeTask, Submission, Symbol, TaskFolder
from ..tasks.test_ids import file_of
from ..tasks.trees import files_of, text_if_there, write_tree
from .strength import dropped_statements, lazy_solutions

MUTANTS = 10
NOTHING, SOLUTION, NEW_MODULE = "nop", "gold", "new_module"
LAZY, DROPPED, BUG = "lazy_", "dropped_", "bug_"
SAME = 1e-5
"""Harbor's reward has six digits."""
SHORTEST_LIMIT_S = 5.0
IN_FULL = (NOTHING, SOLUTION, NEW_MODULE, f"{LAZY}none")
"""With the guards; the last one breaks them where anything does."""
MAX_TESTS_OF_A_COPY = 60
"""Hidden tests that a broken copy is compared on; unless one unit has more."""
Run = Callable[[RunRequest], TestRun]


def broken_copies(
    sources: Mapping[str, str],
    symbols: tuple[Symbol, ...],
    seed: int = 0,
    lines: Mapping[str, Collection[int]] | None = None,
) -> dict[str, dict[str, str]]:
    """By name: one-line answers, then at most `MUTANTS` others. With `lines` statements are dropped only there."""
    found = {f"{LAZY}{kind}": texts for kind, texts in lazy_solutions(sources, symbols)}
    dropped = dropped_statements(sources, symbols, MUTANTS, seed, lines)
    found |= {f"{DROPPED}{number}": texts for number, texts in enumerate(dropped)}
    bugs = islice(_bugs(sources, symbols), MUTANTS - len(dropped))
    return found | {f"{BUG}{number}": texts for number, texts in enumerate(bugs)}


def own_copies(task: TaskFolder) -> dict[str, dict[str, str]]:
    """Broken copies of a finished task's solution."""
    known = task.code_task
    return {} if known.grader == "mutants" else broken_copies(_sources(gold_submission(task)), known.symbols)


def honest_submissions(task: TaskFolder, copies: Mapping[str, Mapping[str, str]]) -> dict[str, Submission]:
    gold = gold_submission(task)
    found = {NOTHING: Submission(), SOLUTION: gold}
    if task.code_task.grader == "mutants":
        return found
    found[NEW_MODULE] = _submitted(gold, with_new_module(_sources(gold), task.code_task))
    return found | {name: _submitted(gold, texts) for name, texts in copies.items()}


def with_new_module(sources: Mapping[str, str], code_task: CodeTask) -> dict[str, str]:
    """The first of the files needs a module next to it that the repository does not have."""
    path = min(sources)
    name = f"part_{content_id(path, code_task.task.task_id)[:8]}"
    module = PurePosixPath(path).with_name(f"{name}.py").as_posix()
    needed = f"\nfrom {module_name(module, code_task.source_roots)} import READY as _ready\n"
    return {path: sources[path] + needed, module: "READY = True\n"}


def _sources(gold: Submission) -> dict[str, str]:
    return {path: content.decode() for path, content in gold.written.items() if path.endswith(".py")}


def _submitted(gold: Submission, texts: Mapping[str, str]) -> Submission:
    return Submission({**gold.written, **{path: text.encode() for path, text in texts.items()}})


def _bugs(sources: Mapping[str, str], symbols: tuple[Symbol, ...]) -> Iterator[dict[str, str]]:
    for operator in OPERATORS:
        for symbol in symbols:
            source = read_source(sources[symbol.file]) if symbol.file in sources else None
            function = source.functions.get(symbol.name) if source else None
            if source is not None and function is not None:
                yield from ({symbol.file: text} for _, text in mutations(source, function, operator))


@dataclass(frozen=True)
class Verdicts:
    ours: dict[str, float]
    harbor: dict[str, float]
    left_out: tuple[str, ...] = ()

    def disagreement(self) -> str:
        """Empty where there is none."""
        for name in sorted(self.ours.keys() - set(self.left_out)):
            theirs = self.harbor.get(name)
            if theirs is None or abs(theirs - self.ours[name]) > SAME:
                said = "no reward" if theirs is None else f"{theirs:.3f}"
                return f"{name}: {self.ours[name]:.3f} here, {said} by the Harbor folder"
        return ""


def both_verdicts(
    task: TaskFolder,
    submissions: Mapping[str, Submission],
    graded: Mapping[str, float],
    run: Run,
    backend: str = "auto",
    preload: Sequence[str] = (),
) -> Verdicts:
    """`graded` are rewards of our grader that are known already. `run` is of a warm process over the whole repository:
    the start tree with solution and trusted tests."""
    ours = dict(graded)
    left_out: list[str] = []
    for name in submissions.keys() - graded.keys():
        asked = part_for(name, task.code_task)
        counted = frozenset((*asked.hidden_tests, *asked.guard_tests))
        result = run(_request(task, submissions[name], counted))
        ours[name] = 0.0 if result.timed_out else _reward(asked, result.passed)
        if result.timed_out:
            left_out.append(name)
    compared = {name: each for name, each in submissions.items() if name not in left_out}
    return Verdicts(ours, harbor_rewards(task, compared, backend, preload), tuple(sorted(left_out)))


@contextmanager
def warm_run(task: TaskFolder, backend: str = "auto") -> Generator[Run]:
    """For a task whose repository is not at hand: it is put together again from the folder."""
    known = task.code_task
    with tempfile.TemporaryDirectory(prefix="recompose-") as scratch:
        tree = Path(scratch, "tree")
        for layer in (task.tree, task.gold, task.overlay):
            write_tree(layer, tree, {})
        repository = Repository(
            known.repository, tree, known.packages, known.source_roots, (), known.test_files, licence=""
        )
        with WarmRunner(repository, TestSetup(known.distributions, backend)) as runner:
            yield runner.run


def harbor_rewards(
    task: TaskFolder, submissions: Mapping[str, Submission], backend: str = "auto", preload: Sequence[str] = ()
) -> dict[str, float]:
    """By the task's own `tests/verify.py`. One that it did not get to has none. `preload` are modules from outside the
    tree that the tests load anyway."""
    known = task.code_task
    tools = toolchain(known.distributions, exclude=known.packages)
    run_s = _limit_s(known)
    whole_s = 30 + run_s * len(submissions)
    spec = SandboxSpec(
        tree=task.tree,
        read_only={**tools.read_only, task.folder / "tests": "/tests"},
        env={**tools.env, "PYTHONHASHSEED": "0"},
        limits=replace(LIMITS, wall_s=whole_s, cpu_s=int(whole_s)),
    )
    source = Path(__file__).with_name("harbor_batch.py").read_text(encoding="utf-8")
    orders = [
        {"changes": _changes(submission), "tests": None if name in IN_FULL else part_for(name, known).hidden_tests}
        for name, submission in submissions.items()
    ]
    with open_sandbox(spec, backend) as sandbox:
        result = sandbox.exec(
            [tools.python, "-s", "-P", "-X", "utf8", "-c", source, spec.workdir, "/tests", str(run_s)],
            stdin=json.dumps({"preload": list(preload), "orders": orders}).encode(),
            timeout_s=whole_s,
        )
    return dict(zip(submissions, map(float, result.stdout.split()), strict=False))


def _changes(submission: Submission) -> dict[str, str | None]:
    written = {path: content.decode(errors="replace") for path, content in submission.written.items()}
    return {**written, **dict.fromkeys(submission.removed)}


def part_for(name: str, known: CodeTask) -> CodeTask:
    """The tests and units that a submission is compared on."""
    if name in IN_FULL:
        return known
    units = list(known.units or ((test,) for test in known.hidden_tests))
    if len(known.hidden_tests) > MAX_TESTS_OF_A_COPY:
        Random(name).shuffle(units)
    kept = units[:1]
    for unit in units[1:]:
        if sum(map(len, kept)) + len(unit) <= MAX_TESTS_OF_A_COPY:
            kept.append(unit)
    hidden = tuple(sorted({test for unit in kept for test in unit}))
    return known.model_copy(update={"units": tuple(kept), "hidden_tests": hidden, "guard_tests": ()})


def _request(task: TaskFolder, submission: Submission, counted: frozenset[str]) -> RunRequest:
    """What our grader would run: the start tree, what it accepts of the submission, the trusted tests."""
    accepted = restrict(task, submission)
    edits: dict[str, str | None] = {path: text_if_there(task.tree / path) for path in files_of(task.gold)}
    edits |= {path: content.decode(errors="replace") for path, content in accepted.written.items()}
    edits |= dict.fromkeys(accepted.removed)
    files = tuple(sorted(set(map(file_of, counted))))
    return RunRequest(edits, files, counted, timeout_s=_limit_s(task.code_task))


def _limit_s(known: CodeTask) -> float:
    return max(SHORTEST_LIMIT_S, 5 * known.seconds_per_run)


def _reward(known: CodeTask, passed: frozenset[str]) -> float:
    if not set(known.guard_tests) <= passed:
        return 0.0
    return known.share_of_units(passed)
