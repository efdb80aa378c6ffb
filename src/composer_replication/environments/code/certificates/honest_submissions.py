"""Submissions without any trick, from a task's own solution: whoever grades them must come to the same reward.

Reads the task's folder; runs and writes nothing. There are nothing at all, the solution, one-line answers, the solution
with a part in a new module of the package, and broken copies: one statement dropped, then one small bug put in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import PurePosixPath

from composer_replication.records import content_id

from ..generators.bug_injection.operators import OPERATORS, mutations
from ..generators.bug_injection.source import read_source
from ..tasks.repository import module_name
from ..tasks.store import gold_submission
from ..tasks.task import CodeTask, Submission, Symbol, TaskFolder
from .strength import dropped_statements, lazy_solutions

MUTANTS = 10
NOTHING, SOLUTION, NEW_MODULE = "nop", "gold", "new_module"
LAZY, DROPPED, BUG = "lazy_", "dropped_", "bug_"


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
