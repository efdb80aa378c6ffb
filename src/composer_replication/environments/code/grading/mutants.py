"""Grade tests that an agent wrote: the share of broken copies of the code that they notice.

Reads `TASK/tests/mutants/*.json` ({"path", "text"}: a file of the tree and its broken text). The tests must pass on
several copies of the true code. Each run has a sandbox of its own and nothing in it says which copy it holds: the
tested files are there in compiled form only, each compiled a little differently (see `equivalent`). Not stopped:
tests that read compiled code and know every harmless difference, and, for a few points, tests that fail by chance.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import marshal
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

from composer_replication.errors import UsageError, quoted
from composer_replication.syntax import parse

from ..tasks.symbols import FunctionNode, docstring_node
from ..tasks.task import Grade, TaskFolder
from ..tasks.test_ids import is_test_file
from .overlay import Accepted
from .trusted_run import Order, RunOutcome, run_trusted

TRUE_COPIES = 4
WORKERS = 2
NEITHER = frozenset({"skipped", "expected"})
"""Outcomes that say nothing about the code."""


@dataclass(frozen=True)
class _Copy:
    name: str
    texts: dict[str, str]
    """Of the files under test."""


def grade_tests(task: TaskFolder, accepted: Accepted, backend: str, chance: Random) -> Grade:
    started = time.monotonic()
    mutants = read_mutants(task)
    texts = {path: _true_text(task, path) for path in sorted({path for mutant in mutants for path in mutant.texts})}
    files = tuple(sorted(path for path in accepted.written if is_test_file(path)))
    with ThreadPoolExecutor(WORKERS) as pool:

        def run_all(copies: list[_Copy]) -> list[RunOutcome]:
            orders = [Order((), files, trusted_files=_without_source(texts | copy.texts, chance)) for copy in copies]
            return list(pool.map(lambda order: run_trusted(task, accepted, order, backend), orders))

        true_runs = run_all([_Copy("true", {})] * TRUE_COPIES) if files else []
        objections = _objections(true_runs)
        runs = [] if objections else run_all(mutants)
    tests = frozenset(test for run in true_runs for test in run.passed)
    killed = tuple(mutant.name for mutant, run in zip(mutants, runs, strict=False) if not tests <= run.passed)
    return Grade(
        reward=len(killed) / len(mutants),
        hidden_passed=killed,
        hidden_failed=tuple(mutant.name for mutant in mutants if mutant.name not in killed),
        guards_broken=(),
        dropped=accepted.dropped,
        notes=objections,
        wall_s=time.monotonic() - started,
    )


def read_mutants(task: TaskFolder) -> list[_Copy]:
    folder = task.folder / "tests" / "mutants"
    found: list[_Copy] = []
    for path in sorted(folder.glob("*.json")):
        entry = json.loads(path.read_bytes())
        found.append(_Copy(f"mutants/{path.name}", {entry["path"]: entry["text"]}))
    if not found:
        check = f"recompose env verify {quoted(task.folder)}"
        raise UsageError(f"{task.folder} has no mutants to grade tests with", check)
    return found


def _without_source(texts: Mapping[str, str], chance: Random) -> dict[str, bytes | None]:
    """Each file as `name.pyc` in its place, which Python imports where there is no `name.py`."""
    files: dict[str, bytes | None] = dict.fromkeys(texts)
    return files | {f"{path}c": compiled(equivalent(text, chance), path) for path, text in texts.items()}


def _true_text(task: TaskFolder, path: str) -> str:
    trusted = task.overlay / path
    return (trusted if trusted.is_file() else Path(task.tree / path)).read_text(encoding="utf-8")


def _objections(true_runs: list[RunOutcome]) -> tuple[str, ...]:
    """Why the tests are no tests of the true code; empty: they are."""
    if not true_runs or not all(run.passed for run in true_runs):
        return ("no test passes on the true code",)
    objections: list[str] = [note for run in true_runs for note in run.notes]
    if any(run.timed_out for run in true_runs):
        objections.append("the tests did not end in time on the true code")
    if any(run.collection_errors or not set(run.not_passed.values()) <= NEITHER for run in true_runs):
        objections.append("a test does not pass on the true code")
    if len({run.passed for run in true_runs}) > 1:
        objections.append("the tests differ between runs of the true code")
    return tuple(dict.fromkeys(objections))


class _AddLocals(ast.NodeTransformer):
    def __init__(self, chance: Random) -> None:
        self._chance = chance

    def visit_FunctionDef(self, node: FunctionNode) -> FunctionNode:
        """An unused local after the docstring."""
        self.generic_visit(node)
        name, number = f"_spare_{self._chance.randrange(10**6)}", self._chance.randrange(10**6)
        node.body.insert(1 if docstring_node(node) else 0, parse(f"{name} = {number}").body[0])
        return node

    visit_AsyncFunctionDef = visit_FunctionDef


def equivalent(text: str, chance: Random) -> str:
    """The same program, compiled a little differently each time: what it does stays.

    A test that tells the true code from a broken copy by its text, its hash or its compiled form fails on it too.
    """
    tree = _AddLocals(chance).visit(parse(text))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def compiled(text: str, path: str) -> bytes:
    """The content of a `.pyc` that is imported whatever its source; for the interpreter that runs this."""
    code = compile(text, path, "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code)
