"""Work off the plan with the shared runner, which says how; other words are handed to it.

    recompose experiment run experiments/016-who-teaches -- --slice-s 540 --processes 5

Reads plan.toml; writes results/<regime>/<arm>-<seed>.jsonl.zst.
"""

import sys
from pathlib import Path

from shared.runner.run import alone

if __name__ == "__main__":
    alone(Path(__file__).resolve().parent, sys.argv[1:])
