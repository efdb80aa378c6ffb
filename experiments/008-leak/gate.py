"""The look at the starts that PLAN.md asks for before their arms run; ends with 1 where the setting must be changed.

    PYTHONPATH=experiments python experiments/008-leak/gate.py RESULTS/smollm2

Means over the starts. It reads no arm.
"""

import sys
from pathlib import Path
from statistics import fmean

from shared.result_lines import SUFFIX, read_result

ALLOWED = {
    ("scrubbed", "success_clear"): (0.15, 0.65),
    ("open", "look_tool"): (0.02, 0.25),
    ("open", "look_file"): (0.02, 0.25),
    ("open", "success_after_hit"): (0.70, 1.0),
}


def holds(results: Path) -> bool:
    """Prints what it finds. A start without a hit has no success after one, and does not count there."""
    paths = sorted(results.glob(f"start-*{SUFFIX}"))
    finals = [line for path in paths for line in read_result(path) if line["line"] == "final"]
    all_fit = bool(paths)
    for (world, rate), (low, high) in ALLOWED.items():
        found = [line[rate] for line in finals if line["world"] == world and line[rate] is not None]
        mean = fmean(found) if found else 0.0
        fits = low <= mean <= high
        all_fit &= fits
        print(f"{world:8} {rate:17} {mean:.3f}  allowed {low:.2f} to {high:.2f}{'' if fits else '  OUT'}")
    print(f"{len(paths)} starts: {'the arms may run' if all_fit else 'change the setting, dated, and make them again'}")
    return all_fit


if __name__ == "__main__":
    sys.exit(0 if holds(Path(sys.argv[1])) else 1)
