"""One run of trusted tests over a submission, in a sandbox of its own that is gone afterwards.

Nothing that ran before can reach it: it starts from the task's files and the accepted bytes of the submission. What
comes back is lines on a pipe; whatever is not exactly one well-formed record per test counts against the submission.
"""

from __future__ import annotations

import json
import secrets
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
INSIDE_AT = "/grading"
LIMITS = Limits(memory_bytes=2048 * MIB, processes=128, open_files=1024, disk_bytes=512 * MIB, output_bytes=8 * MIB)
SHORTEST_LIMIT_S = 30.0
TIMES_THE_USUAL = 10


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


@dataclass(frozen=True)
class Order:
    """What one run is asked."""

    tests: Sequence[str]
    """Ids to run; empty: all of `files`."""
    files: Sequence[str]
    trusted_files: Mapping[str, bytes | None]
    """On top of everything; None removes."""


def run_trusted(task: TaskFolder, accepted: Accepted, order: Order, backend: str) -> RunOutcome:
    code_task = task.code_task
    tools = toolchain(code_task.distributions, exclude=code_task.packages)
    token = secrets.token_hex(16)
    env = {
        **tools.env,
        "PYTHONHASHSEED": "0",
        **pytest_environment(code_task.pytest_options, code_task.pytest_plugins),
        "LANG": "C.UTF-8",
    }
    limit_s = max(SHORTEST_LIMIT_S, TIMES_THE_USUAL * code_task.seconds_per_run)
    with tempfile.TemporaryDirectory(prefix="grading-") as scratch:
        tree = Path(scratch) / "tree"
        lay_tree(task, accepted, tree, order.trusted_files)
        spec = SandboxSpec(
            tree=tree,
            read_only={**tools.read_only, INSIDE: INSIDE_AT},
            env=env,
            limits=replace(LIMITS, wall_s=limit_s, cpu_s=int(2 * limit_s)),
        )
        with open_sandbox(spec, backend) as sandbox:
            result = sandbox.exec(
                [tools.python, "-P", "-s", "-B", "-X", "utf8", f"{INSIDE_AT}/launcher.py"],
                stdin=json.dumps(_as_json(order, code_task, token)).encode(),
                timeout_s=limit_s,
            )
    return read_outcome(result, token)


def _as_json(order: Order, code_task: CodeTask, token: str) -> dict[str, Any]:
    return {
        "token": token,
        "tests": list(order.tests),
        "files": list(order.files),
        "source_roots": list(code_task.source_roots),
        "plugins": list(code_task.pytest_plugins),
    }


def read_outcome(result: ExecResult, token: str) -> RunOutcome:
    """Judge the lines that came back. The token shows that a line was not written by chance, no more."""
    notes: list[str] = []
    outcomes: list[tuple[str, str]] = []
    collection_errors: list[str] = []
    ready = False
    for line in result.stdout.splitlines():
        record = _record(line, token)
        match record:
            case {"kind": "test", "id": str(test), "outcome": str(outcome)}:
                outcomes.append((test, outcome))
            case {"kind": "exchanged", "names": [*names]}:
                notes.append(f"exchanged while the tests ran: {', '.join(map(str, names))[:200]}")
            case {"kind": "collection", "id": str(node)}:
                collection_errors.append(node)
            case {"kind": "ready"}:
                ready = True
            case {"kind": "end"}:
                continue
            case _:
                notes.append("a line on the channel that the recorder did not write")
    if not ready and not notes:
        raise GraderFailure(f"the tests could not be started ({result.ending}): {_tail(result.stderr)}")
    times = Counter(test for test, _ in outcomes)
    if any(count > 1 for count in times.values()):
        notes.append("more than one record for a test")
    if result.truncated:
        notes.append("more output than a run may have")
    passed = frozenset(test for test, outcome in outcomes if outcome == "passed" and times[test] == 1)
    return RunOutcome(
        passed=passed,
        not_passed={test: outcome for test, outcome in outcomes if test not in passed},
        collection_errors=tuple(collection_errors),
        timed_out=result.ending == "timeout",
        notes=tuple(dict.fromkeys(notes)),
    )


def _record(line: bytes, token: str) -> object:
    try:
        record = read_json(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and record.get("token") == token else None


def _tail(text: bytes) -> str:
    return text.decode(errors="replace")[-300:]
