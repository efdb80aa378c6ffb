"""Fit on every set but the tested one, score all, look at the real sessions, print the tables. No sandbox is needed.

    recompose experiment run experiments/006-monitor

Reads corpus/*.jsonl.zst, which `record.py` made. Writes the monitor's weights and results/.
"""

import subprocess
import sys
from pathlib import Path

from corpus import FITTED, HERE, TESTED


def main() -> None:
    steps = [["fit.py"]]
    steps += [["score.py", "--corpus", str(path), "--name", set_name(path), "--no-ablations"] for path in FITTED]
    steps += [["score.py", "--corpus", str(TESTED), "--name", set_name(TESTED)]]
    for script, *words in [*steps, ["sessions.py"], ["rebuild.py"]]:
        subprocess.run([sys.executable, str(HERE / script), *words], check=True)


def set_name(corpus: Path) -> str:
    return corpus.name.partition(".")[0]


if __name__ == "__main__":
    main()
