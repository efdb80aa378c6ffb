"""Fit on the tuning corpus, score both corpora, look at the real sessions, print the tables. No sandbox is needed.

    recompose experiment run experiments/006-monitor

Reads corpus/*.jsonl.zst, which `record.py` made. Writes the monitor's weights and results/.
"""

import subprocess
import sys
from pathlib import Path

from corpus import CORPUS

HERE = Path(__file__).parent


def main() -> None:
    steps = [["fit.py"]]
    for name in ("tuning", "testing"):
        if (CORPUS / f"{name}.jsonl.zst").is_file():
            steps.append(["score.py", "--corpus", str(CORPUS / f"{name}.jsonl.zst"), "--name", name])
    for script, *words in [*steps, ["sessions.py"], ["rebuild.py"]]:
        subprocess.run([sys.executable, str(HERE / script), *words], check=True)


if __name__ == "__main__":
    main()
