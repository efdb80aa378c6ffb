"""The state of unfinished runs, in pieces that travel.

    python -m shared.runner.carry OUT FOLDER... --work WORK --results RESULTS [--piece-mib 15]

Writes OUT/state.000, OUT/state.001, …; `cat state.* | tar -x -C WORK` puts them back. Which files those are says
`carried` of the kind of the experiment; a kind without it has no run that is worth it.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .jobs import Experiment, experiments_in, kind_of


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--piece-mib", type=int, default=15)
    given = parser.parse_args(words)
    number = pack(experiments_in(given.folders, given.work, given.results), given.work, given.out, given.piece_mib)
    print(f"state of unfinished runs in {number} pieces")


def pack(experiments: Sequence[Experiment], work: Path, out: Path, piece_mib: int) -> int:
    files = [
        file
        for experiment in experiments
        if (carried := getattr(kind_of(experiment), "carried", None))
        for file in carried(experiment)
    ]
    names = "".join(f"{file.relative_to(work)}\n" for file in files)
    whole = subprocess.run(["tar", "-cf", "-", "-C", str(work), "-T", "-"], input=names.encode(), stdout=-1, check=True)
    size = piece_mib << 20
    pieces = [whole.stdout[start : start + size] for start in range(0, len(whole.stdout), size)] if names else []
    for old in out.glob("state.*"):  # of another slice of this machine
        old.unlink()
    for number, piece in enumerate(pieces):
        (out / f"state.{number:03d}").write_bytes(piece)
    return len(pieces)


if __name__ == "__main__":
    main(sys.argv[1:])
