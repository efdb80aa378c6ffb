"""One run of trusted tests over a submission, in a sandbox of its own that is gone afterwards.

Nothing that ran before can reach it: it starts from the task's files and the accepted bytes of the submission. The
texts of hidden tests go in on standard input with the program that runs them, and never lie on a path. What comes back
is lines on a pipe; whatever is not exactly one well-formed record per test counts against the submission.
"""

from __future__ import annotations

import json
import secrets
import signal
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from composer_replication.errors import RecomposeError

from ...untrusted import read_json
from ..sandbox.interface import MIB, ExecResult, Limits, SandboxSpec
from ..sandbox.open import open_sandbox
from ..sandbox.toolchain import toolchain
from ..tasks.pytest_settings import pytest_environment
from ..tasks.task import CodeTask, TaskFolder
from .overlay import Accepted, lay_tree

INSIDE = Path(__file__).with_name("inside")
MODULES = ("seal", "plain_form", "observing", "memory_modules", "plugin")
"""Of `inside/recompose_grading`, in the order in which they need each other."""
START = "import json,sys;given=json.load(sys.stdin);exec(given.pop('launcher'),globals());main(given)"
LIMITS = Limits(memory_bytes=2048 * MIB, processes=128, open_files=1024, disk_bytes=512 * MIB, output_bytes=16 * MIB)
SHORTEST_LIMIT_S = 30.0
TIMES_THE_USUAL = 10
KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)
"""As the kernel does at the limit of processor time."""


class GraderFailure(RecomposeError):
    """The run broke before any code of the submission was loaded; no grade."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "python -m composer_replication.environments.code.sandbox")


@dataclass(frozen=True)
class RunOutcome:
    passed: frozenset[str]
    not_passed: Mapping[str, str]
    """Id -> outcome, of the others with a record."""
    collection_errors: tuple[str, ...]
    timed_out: bool
    notes: tuple[str, ...]
    """What no honest run says; empty for an honest one."""
    sent: Mapping[str, object] = field(default_factory=dict[str, object])
    """Id -> what the test sent to be compared."""
    collected: tuple[str, ...] = ()
    ended: bool = True
    """Whether the run came to its end."""


@dataclass(frozen=True)
class Order:
    """What one run is asked."""

    tests: Sequence[str]
    """Ids to run; empty: all of `files`."""
    files: Sequence[str]
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """Python files that are imported from memory."""
    trusted_files: Mapping[str, bytes | None] = field(default_factory=dict[str, bytes | None])
    """On disk, on top of everything; None removes. Of the first order, where there are several."""
    edits: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    """Files of the tree that are others for this order; only where there are several."""
    isolated: bool = False
    """Each test in a process of its own."""
    listed: bool = False
    """Whether to tell what was collected, also what is not run."""
    watched: bool = True
    """Whether to look after each test if what judges them was exchanged; needless where no reward comes of the run."""


def run_trusted(task: TaskFolder, accepted: Accepted, order: Order, backend: str) -> RunOutcome:
    (outcome,) = run_in_turn(task, accepted, [order], backend)
    return outcome


def run_in_turn(
    task: TaskFolder,
    accepted: Accepted,
    orders: Sequence[Order],
    backend: str,
    hash_seed: int = 0,
    preload: Sequence[str] = (),
) -> list[RunOutcome]:
    """More than one order only over code that is trusted: they share a sandbox, and what is loaded ahead there."""
    code_task = task.code_task
    tools = toolchain(code_task.distributions, exclude=code_task.packages)
    token = secrets.token_hex(16)
    order_s = max(SHORTEST_LIMIT_S, TIMES_THE_USUAL * code_task.seconds_per_run)
    limit_s = len(orders) * order_s
    settings = pytest_environment(code_task.pytest_options, code_task.pytest_plugins)
    with tempfile.TemporaryDirectory(prefix="recompose-") as scratch:
        tree = Path(scratch) / "tree"
        lay_tree(task, accepted, tree, orders[0].trusted_files, {path for order in orders for path in order.texts})
        spec = SandboxSpec(
            tree=tree,
            read_only=tools.read_only,
            # The launcher sets the import path: the interpreter itself must find nothing of the tree when it starts.
            env={**tools.test_env, **settings, "PYTHONHASHSEED": str(hash_seed)},
            limits=replace(LIMITS, wall_s=limit_s, cpu_s=len(orders) * code_task.cpu_limit_s),
        )
        with open_sandbox(spec, backend) as sandbox:
            result = sandbox.exec(
                [tools.python, "-P", "-s", "-B", "-X", "utf8", "-c", START],
                stdin=json.dumps(_as_json(orders, code_task, token, order_s, preload)).encode(),
                timeout_s=limit_s,
            )
    return read_outcomes(result, token, len(orders))


def _as_json(
    orders: Sequence[Order], code_task: CodeTask, token: str, order_s: float, preload: Sequence[str]
) -> dict[str, Any]:
    package = INSIDE / "recompose_grading"
    return {
        "launcher": (INSIDE / "launcher.py").read_text(encoding="utf-8"),
        "modules": {name: (package / f"{name}.py").read_text(encoding="utf-8") for name in MODULES},
        "token": token,
        "seconds_per_order": int(order_s),
        "orders": [{key: value for key, value in asdict(order).items() if key != "trusted_files"} for order in orders],
        "source_roots": list(code_task.source_roots),
        "plugins": list(code_task.pytest_plugins),
        "preload": list(preload),
    }


@dataclass
class _Said:
    """What the lines of one order said."""

    tests: list[tuple[str, str, object]] = field(default_factory=list[tuple[str, str, object]])
    collection_errors: list[str] = field(default_factory=list[str])
    collected: tuple[str, ...] = ()
    ended: bool = False


def read_outcomes(result: ExecResult, token: str, orders: int = 1) -> list[RunOutcome]:
    """Judge the lines that came back. The token shows that a line was not written by chance, no more."""
    notes: list[str] = []
    said = {number: _Said() for number in range(orders)}
    ready = False
    for line in result.stdout.splitlines():
        record: Any = _record(line, token)
        number: Any = record.get("order") if isinstance(record, dict) else None
        of_order = said.get(number) if isinstance(number, int) else None
        match record:
            case {"kind": "ready"}:
                ready = True
            case {"kind": "exchanged", "names": [*names]}:
                notes.append(f"exchanged while the tests ran: {', '.join(map(str, names))[:200]}")
            case {"kind": "test", "id": str(test), "outcome": str(outcome)} if of_order:
                of_order.tests.append((test, outcome, record.get("seen")))
            case {"kind": "collection", "id": str(node)} if of_order:
                of_order.collection_errors.append(node)
            case {"kind": "collected", "ids": [*ids]} if of_order:
                of_order.collected = tuple(map(str, ids))
            case {"kind": "end"} if of_order:
                of_order.ended = True
            case _:
                notes.append("a line on the channel that the recorder did not write")
    if not ready and not notes:
        said = result.stderr.decode(errors="replace")[-300:]
        raise GraderFailure(f"the tests could not be started ({result.ending}): {said}")
    if result.truncated:
        notes.append("more output than a run may have")
    late = result.ending == "timeout" or result.exit_code in KILLED
    return [_outcome(each, late, notes) for each in said.values()]


def _outcome(said: _Said, timed_out: bool, notes: list[str]) -> RunOutcome:
    times = Counter(test for test, _, _ in said.tests)
    twice = ["more than one record for a test"] if any(count > 1 for count in times.values()) else []
    passed = frozenset(test for test, outcome, _ in said.tests if outcome == "passed" and times[test] == 1)
    return RunOutcome(
        passed=passed,
        not_passed={test: outcome for test, outcome, _ in said.tests if test not in passed},
        collection_errors=tuple(said.collection_errors),
        timed_out=timed_out,
        notes=tuple(dict.fromkeys([*notes, *twice])),
        sent={test: sent for test, _, sent in said.tests if test in passed},
        collected=said.collected,
        ended=said.ended,
    )


def _record(line: bytes, token: str) -> object:
    try:
        record = read_json(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and record.get("token") == token else None
