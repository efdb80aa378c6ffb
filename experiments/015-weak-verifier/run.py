"""Work off the plan with the runner of 014-real-code, which says how; other words are handed to it.

recompose experiment run experiments/015-weak-verifier -- --tasks DIR --slice-s 540 --processes 2
"""

import runpy
import sys
from pathlib import Path

HERE = Path(__file__).parent
RUNNER = HERE.parent / "014-real-code"
DEFAULTS = {"--plan": HERE / "plan.toml", "--work": Path("runs") / HERE.name, "--results": HERE / "results"}

if __name__ == "__main__":
    given = set(sys.argv)
    sys.argv += [word for name, value in DEFAULTS.items() if name not in given for word in (name, str(value))]
    sys.path[0] = str(RUNNER)
    runpy.run_path(str(RUNNER / "run.py"), run_name="__main__")
