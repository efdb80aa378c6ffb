"""A queue of jobs that several processes work off in slices of time, and that goes on where it stopped.

A job is done when its result file is there, and files appear whole or not at all. Whoever creates the job's claim does
it; a claim whose process is gone counts for nothing. Nobody begins what would not end within the slice.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from composer_replication.errors import UsageError

POLL_S = 0.5


@dataclass(frozen=True)
class Job:
    name: str
    result: Path
    seconds: float
    """How long it takes, as far as one can tell."""
    needs: tuple[str, ...] = ()
    on_demand: bool = False
    """Done only where another job waits for it."""


class Queue:
    """Jobs in the order in which they are wanted."""

    def __init__(self, jobs: Sequence[Job], claims: Path) -> None:
        self._jobs = {job.name: job for job in jobs}
        self._claims = claims
        unknown = {need for job in self.left for need in job.needs} - self._jobs.keys()
        if len(self._jobs) < len(jobs) or unknown:
            raise UsageError(f"jobs twice or never given: {sorted(unknown)}", "check the plan")

    @property
    def left(self) -> list[Job]:
        return [job for job in self._jobs.values() if not job.result.exists()]

    def work(self, do: Callable[[Job], None], until: float, clock: Callable[[], float] = time.monotonic) -> list[str]:
        """Do job after job, until none is left that would end before `until`. Returns what was done here.

        One that fails is left to other processes, and told at the end: the rest of a slice is not to be lost for it.
        """
        self._claims.mkdir(parents=True, exist_ok=True)
        done, failed = list[str](), dict[str, str]()
        while self.left and clock() < until:
            job = next((job for job in self._open(until - clock()) if job.name not in failed), None)
            if job is None:
                if not self._others_at_work():
                    break
                time.sleep(POLL_S)
            elif self._claim(job):
                try:
                    do(job)
                    if not job.result.exists():
                        raise RuntimeError(f"ended without its result {job.result}")
                    done.append(job.name)
                except Exception as error:  # its frames, which may hold memory of the device, go with it
                    failed[job.name] = repr(error)
                finally:
                    self._claim_of(job).unlink(missing_ok=True)
        if failed:
            raise RuntimeError("; ".join(f"{name}: {why}" for name, why in failed.items()))
        return done

    def _open(self, seconds_left: float) -> Iterator[Job]:
        for job in self.left:
            ready = all(self._jobs[need].result.exists() for need in job.needs)
            if ready and job.seconds <= seconds_left and not self._is_claimed(job):
                yield job

    def _claim(self, job: Job) -> bool:
        claim = self._claim_of(job)
        try:
            with claim.open("x") as out:
                out.write(str(os.getpid()))
        except FileExistsError:
            return False
        if job.result.exists():  # done between looking and claiming
            claim.unlink(missing_ok=True)
            return False
        return True

    def _is_claimed(self, job: Job) -> bool:
        claim = self._claim_of(job)
        owner = _owner(claim)
        if owner is None or _is_alive(owner):
            return owner is not None
        claim.unlink(missing_ok=True)
        return False

    def _others_at_work(self) -> bool:
        return any(self._is_claimed(job) for job in self.left)

    def _claim_of(self, job: Job) -> Path:
        return self._claims / job.name.replace("/", "__")


def _owner(claim: Path) -> int | None:
    try:
        return int(claim.read_text() or 0)
    except (FileNotFoundError, ValueError):
        return None


def _is_alive(pid: int) -> bool:
    if pid <= 0:  # its owner has not written its number yet
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
