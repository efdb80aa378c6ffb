"""The look at the starts that PLAN.md asks for before their arms run; ends with 1 where the setting must be changed.

    PYTHONPATH=experiments python experiments/008-leak/gate.py RESULTS/smollm2

Means over the starts. It reads no arm.
"""

import sys
from pathlib import Path
from statistics import fmean

from rebuild import Lines, final
from shared.result_lines import SUFFIX, read_result

ALLOWED = {
    ("scrubbed", "success_clear"): (0.15, 0.65),
    ("open", "look_tool"): (0.02, 0.25),
    ("open", "look_file"): (0.02, 0.25),
    ("open", "success_after_hit"): (0.70, 1.0),
}


def means(starts: list[Lines]) -> dict[tuple[str, str], float]:
    """A start without a hit has no success after one, and does not count there."""
    found = {
        (world, rate): [value for lines in starts if (value := final(lines, world)[rate]) is not None]
        for world, rate in ALLOWED
    }
    return {key: fmean(values) if values else 0.0 for key, values in found.items()}


def main(results: Path) -> bool:
    starts = [list(read_result(path)) for path in sorted(results.glob(f"start-*{SUFFIX}"))]
    if not starts:
        sys.exit(f"No start in {results}.")
    held = True
    for (world, rate), mean in means(starts).items():
        low, high = ALLOWED[world, rate]
        held &= low <= mean <= high
        print(f"{world:8} {rate:17} {mean:.3f}  allowed {low:.2f} to {high:.2f}  {'' if low <= mean <= high else 'OUT'}")
    print(f"{len(starts)} starts: {'the arms may run' if held else 'change the setting, dated, and make them again'}")
    return held


if __name__ == "__main__":
    sys.exit(0 if main(Path(sys.argv[1])) else 1)
