"""Which broken copies the original tests notice: only those can be asked of an agent.

Runs tests through the function that it is given (the engine's warm runner, inside the sandbox); writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from ...running.test_runs import RunRequest, TestRun
from ...tasks.task import Candidate
from ...tasks.test_ids import file_of

TIMEOUT_S = 20.0


def killed_mutants(
    candidate: Candidate, run: Callable[[RunRequest], TestRun], timeout_s: float = TIMEOUT_S
) -> tuple[dict[str, str], ...]:
    """The mutants of a candidate on which one of the removed tests does not pass. One that hangs is left out: it would
    cost every later grading its whole time limit."""
    files = tuple(sorted(set(map(file_of, candidate.expected_failing))))
    kept: list[dict[str, str]] = []
    for mutant in candidate.mutants:
        result = run(
            RunRequest(
                edits={mutant["path"]: mutant["text"]},
                tests=files,
                only=candidate.expected_failing,
                stop_at_failure=True,
                timeout_s=timeout_s,
            )
        )
        if not result.timed_out and not candidate.expected_failing <= result.passed:
            kept.append(mutant)
    return tuple(kept)
