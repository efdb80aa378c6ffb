"""Fit on every set but the tested one, score all, look at the real sessions, print the tables. No sandbox is needed.

    recompose experiment run experiments/006-monitor

Reads corpus/*.jsonl.zst, which `record.py` made. Writes results/, and writes over the weights that the package ships
(src/composer_replication/monitor/weights.json and auditor.json): the same corpora give the same weights.
"""

import subprocess
import sys

from corpus import FITTED, HERE, TESTED


def main() -> None:
    steps = [
        ["fit.py"],
        ["score.py", "--corpus", *map(str, FITTED), "--name", "fitted", "--no-ablations"],
        ["score.py", "--corpus", str(TESTED), "--name", "fresh"],
        ["afterwards.py"],
        ["sessions.py"],
        ["rebuild.py"],
    ]
    for script, *words in steps:
        subprocess.run([sys.executable, str(HERE / script), *words], check=True)


if __name__ == "__main__":
    main()
