"""Write headline.toml: the cell of the map with the highest mean gain of channel 2, with fresh seeds and more samples.

PYTHONPATH=experiments python experiments/004-ab/headline.py --results experiments/004-ab/results/map
"""

import argparse
import tomllib
from pathlib import Path
from statistics import mean

from shared.result_lines import read_result

HERE = Path(__file__).parent
SEEDS = list(range(301, 313))
MEASURING = """[measuring]
part = "headline"
splits = ["heldout"]
tasks = 256
samples = 8
curve_every = 10
kl_episodes = 128
probe_sites = 256
probe_tries = 4
"""


def success(path: Path) -> float:
    return next(line["success"] for line in read_result(path) if line["line"] == "final")


def gain(cell: Path, seeds: list[int]) -> float:
    """Of channel 2 over GRPO alone, mean over the seeds of the map."""
    return mean(success(cell / f"sdpo-{seed}.jsonl.zst") - success(cell / f"grpo-{seed}.jsonl.zst") for seed in seeds)


def headline(plan: str, cell: str) -> str:
    """The map's plan with one cell in it, under the name `headline`."""
    shared, _, regimes = plan.partition("[regimes.")
    own = next(part for part in ("[regimes." + regimes).split("\n\n") if part.startswith(f"[regimes.{cell}]"))
    config = [line for line in own.splitlines() if line.startswith("config.")]
    before, _, rest = shared.partition("[measuring]\n")
    _, _, after = rest.partition("\n\n")
    about = f"# The headline of PLAN.md: the cell {cell} of map.toml again. Written by headline.py.\n"
    settings = before.partition("\n")[2]
    regime = ["[regimes.headline]", 'arms = ["grpo", "sdpo"]', f"seeds = {SEEDS}", *config]
    return about + settings + MEASURING + "\n" + after + "\n".join(regime) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=HERE / "map.toml")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "map")
    parser.add_argument("--to", type=Path, default=HERE / "headline.toml")
    given = parser.parse_args()
    text = given.plan.read_text(encoding="utf-8")
    gains = {
        name: gain(given.results / name, regime["seeds"]) for name, regime in tomllib.loads(text)["regimes"].items()
    }
    best = max(gains, key=lambda name: gains[name])
    given.to.write_text(headline(text, best), encoding="utf-8")
    print("\n".join(f"{name} {value:+.3f}" for name, value in gains.items()), f"\n{given.to}: {best}")


if __name__ == "__main__":
    main()
