"""The state of unfinished runs, in pieces that travel: adapters, optimiser, schedule, random numbers, metrics.

    python carry.py WORK RESULTS PLAN OUT [MIB]

Writes OUT/state.000, OUT/state.001, …; `cat state.* | tar -x -C WORK` puts them back. The tokenizer that a checkpoint
also holds stays behind: every machine has it with the model.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from plan import Plan, read_plan
from run import state_of

from composer_replication.training.backends.trl.checkpoints import latest

LEFT_BEHIND = ("tokenizer", "vocab", "merges", "chat_template", "special_tokens", "added_tokens", "README")
KEPT_BESIDE = ("metrics.jsonl", "alarms.jsonl")
PIECE_MIB = 16


def carried(plan: Plan, work: Path) -> Iterator[Path]:
    """Relative to `work`: the last checkpoint of every run that has begun and is not done."""
    for run in plan.runs():
        state, end = state_of(work, run.name), plan.steps_of(run)[-1]
        checkpoint = latest(state / "scratch")
        if checkpoint is None or plan.file(f"{run.name}@{end}").exists():
            continue
        files = [*checkpoint.iterdir(), *(state / name for name in KEPT_BESIDE)]
        yield from (
            file.relative_to(work) for file in sorted(files) if file.is_file() and not file.name.startswith(LEFT_BEHIND)
        )


def pack(plan: Plan, work: Path, out: Path, piece_mib: int = PIECE_MIB) -> int:
    names = "".join(f"{path}\n" for path in carried(plan, work))
    whole = subprocess.run(["tar", "-cf", "-", "-C", str(work), "-T", "-"], input=names.encode(), stdout=-1, check=True)
    size = piece_mib << 20
    pieces = [whole.stdout[start : start + size] for start in range(0, len(whole.stdout), size)] if names else []
    for number, piece in enumerate(pieces):
        (out / f"state.{number:03d}").write_bytes(piece)
    return len(pieces)


if __name__ == "__main__":
    given_work, given_results, given_plan, given_out = map(Path, sys.argv[1:5])
    number = pack(read_plan(given_plan, given_results), given_work, given_out, int((*sys.argv, PIECE_MIB)[5]))
    print(f"state of unfinished runs in {number} pieces")
