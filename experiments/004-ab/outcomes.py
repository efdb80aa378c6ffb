"""The held-out episodes of a regime as files for `recompose evaluate --compare`: one folder per arm, one file per seed.

PYTHONPATH=experiments python experiments/004-ab/outcomes.py experiments/004-ab/results/headline /tmp/headline
recompose evaluate --compare /tmp/headline/grpo /tmp/headline/sdpo
"""

import argparse
import json
from pathlib import Path

from shared.result_lines import SUFFIX, read_result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="of one regime, as results/main")
    parser.add_argument("to", type=Path)
    given = parser.parse_args()
    for path in sorted(given.results.glob(f"*{SUFFIX}")):
        arm, _, seed = path.name.removesuffix(SUFFIX).rpartition("-")
        if arm not in ("start", "data"):
            written = given.to / arm / f"seed-{seed}.jsonl"
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_text("".join(json.dumps(line) + "\n" for line in episodes(path, int(seed))), encoding="utf-8")


def episodes(path: Path, seed: int) -> list[dict]:
    tasks = [line for line in read_result(path) if line["line"] == "task" and line["split"] == "heldout"]
    return [
        {"task_id": task["task_id"], "seed": seed, "reward": reward, "turns": turns, "errors": len(errors)}
        for task in tasks
        for reward, turns, errors in zip(task["rewards"], task["turns"], task["errors"], strict=True)
    ]


if __name__ == "__main__":
    main()
