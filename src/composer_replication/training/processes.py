"""Who this process is among those that `accelerate launch` or torchrun started, and how they go on or fail together.

Who it is stands in the environment, so asking costs nothing. The processes meet over a group of their own on the CPU,
whose patience is long: while the main one warms up a policy, the others wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple, TypeVar

from composer_replication.errors import RecomposeError, ToldElsewhereError

T = TypeVar("T")
PATIENCE = timedelta(days=1)


def number() -> int:
    """Clusters set WORLD_SIZE for purposes of their own; only a launcher of training processes sets LOCAL_RANK too."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "LOCAL_RANK" in os.environ else 1


def rank() -> int:
    return int(os.environ.get("RANK", "0")) if number() > 1 else 0


def is_main() -> bool:
    return rank() == 0


def is_sharded() -> bool:
    """Whether accelerate was told to share the weights over the processes, by FSDP2."""
    return _is_set("ACCELERATE_USE_FSDP") and os.environ.get("FSDP_VERSION", "1") == "2"


def replicas() -> int:
    """Groups of processes that share the weights, by accelerate's parallelism config (HSDP)."""
    return int(os.environ.get("PARALLELISM_CONFIG_DP_REPLICATE_SIZE", "1")) if is_sharded() else 1


def shards_otherwise() -> bool:
    """By FSDP1, which is accelerate's default, or DeepSpeed."""
    return _is_set("ACCELERATE_USE_DEEPSPEED") or (_is_set("ACCELERATE_USE_FSDP") and not is_sharded())


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "false").lower() in ("1", "true", "yes")


def speaker(*, is_shared: bool) -> str | None:
    """What an error of this process begins with; None where another process tells the same.

    `is_shared`: it is an error of the run or its settings. Before the processes have met, the first one of each machine
    speaks of those: what it saw, the others there saw too.
    """
    if is_main():
        return ""
    if have_met() or not is_shared:
        return f"process {rank()}: "
    return "" if os.environ["LOCAL_RANK"] == "0" else None


def have_met() -> bool:
    """Whether they can, since some `all_or_none`, talk to each other."""
    return bool(_group.cache_info().currsize)


@contextmanager
def all_or_none() -> Generator[None]:
    """Every process waits at the end of the block for the others. Where one failed, all fail, and one tells why.

    Inside, no process may wait for another one.
    """
    if number() == 1:
        yield
        return
    own: Exception | None = None
    try:
        yield
    except Exception as error:
        own = error
    failures = [failure for failure in _everyone(None if own is None else _Failure.of(own)) if failure]
    if not failures:
        return
    if own is not None and (is_main() or not isinstance(own, RecomposeError)):
        raise own
    if is_main():
        raise failures[0].error()
    raise ToldElsewhereError(failures[0].exit_code)


def by_main(work: Callable[[], T]) -> T:
    """What `work` gives in the main process, for every process."""
    if number() == 1:
        return work()
    made: list[T] = []
    with all_or_none():
        if is_main():
            made.append(work())
    return _everyone(made)[0][0]


def part() -> None:
    """The processes need each other no longer."""
    if have_met():
        import torch.distributed as dist

        dist.destroy_process_group()
        _group.cache_clear()


class _Failure(NamedTuple):
    rank: int
    message: str
    next_command: str
    exit_code: int

    @classmethod
    def of(cls, error: Exception) -> _Failure:
        if isinstance(error, RecomposeError):
            return cls(rank(), str(error.args[0]), error.next_command, error.exit_code)
        return cls(rank(), f"{type(error).__name__}: {error}", "read what that process says", RecomposeError.exit_code)

    def error(self) -> RecomposeError:
        error = RecomposeError(f"process {self.rank}: {self.message}", self.next_command)
        error.exit_code = self.exit_code
        return error


def _everyone(value: Any) -> list[Any]:
    """The value of each process, in their order."""
    import torch.distributed as dist

    found: list[Any] = [None] * number()
    dist.all_gather_object(found, value, group=_group())
    return found


@cache
def _group() -> Any:
    import torch
    import torch.distributed as dist
    from accelerate import PartialState

    # Without a GPU accelerate takes a process for the only one, unless it is told that CPUs are meant.
    PartialState(cpu=not torch.cuda.is_available())
    return dist.new_group(backend="gloo", timeout=PATIENCE)
