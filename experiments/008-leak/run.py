"""Work off the plan with the shared runner, which says how; other words are handed to it.

    recompose experiment run experiments/008-leak -- --slice-s 300 --processes 6 --only 'open-*'

Reads plan.toml; writes results/<policy>/<arm>-<seed>.jsonl.zst. Where the weights of a start are gone and an arm of its
seed is missing, it is made again; arms that began from other weights are set aside and run again.
"""

import sys
from pathlib import Path

from shared.runner.run import alone

if __name__ == "__main__":
    alone(Path(__file__).resolve().parent, sys.argv[1:])
