"""Work off the plan with the shared runner, which says how.

    recompose experiment run experiments/004-ab -- --slice-s 540 --processes 6 --only 'main/*'

Reads plan.toml; writes results/<regime>/<arm>-<seed>.jsonl.zst.
"""

import sys
from pathlib import Path

from shared.runner.run import alone

if __name__ == "__main__":
    alone(Path(__file__).resolve().parent, sys.argv[1:])
