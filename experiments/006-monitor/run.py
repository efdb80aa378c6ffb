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
    testing, sealed = (str(CORPUS / f"{name}.jsonl.zst") for name in ("testing", "sealed"))
    steps = [
        ["fit.py"],
        ["score.py", "--corpus", str(CORPUS / "tuning.jsonl.zst"), "--name", "tuning", "--no-ablations"],
        ["score.py", "--corpus", testing, "--half", "opened", "--name", "opened", "--no-ablations"],
        ["score.py", "--corpus", testing, sealed, "--half", "sealed", "--name", "sealed"],
    ]
    for script, *words in [*steps, ["sessions.py"], ["rebuild.py"]]:
        subprocess.run([sys.executable, str(HERE / script), *words], check=True)


if __name__ == "__main__":
    main()
