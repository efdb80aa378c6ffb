"""Work off the plan with the shared runner, which says how; other words are handed to it.

    recompose experiment run experiments/014-real-code -- --slice-s 540 --processes 3 --only 'start-*'

Reads plan.toml and tasks.tar.xz; writes results/<job>.jsonl.zst. What an unfinished run needs to go on is in
--work/state/<run>; a run whose state is gone begins anew.
"""

import sys
from pathlib import Path

from shared.runner.run import alone

if __name__ == "__main__":
    alone(Path(__file__).resolve().parent, sys.argv[1:])
