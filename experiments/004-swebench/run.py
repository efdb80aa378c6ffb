"""The origin's spike 004 as it wrote it: config checked, cost computed, power computed. NOTHING IS TRAINED.

    recompose experiment run experiments/004-swebench        seconds, no GPU, no key

Reads config.toml and assumptions.toml, writes results/{plan,cost,power}.json and results/table.md.
"""

import itertools
import json
import math
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from composer_replication.config import Config, load_config
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.evaluation.power import mcnemar_power, minimum_detectable_effect, minimum_detectable_share
from composer_replication.evaluation.tests_of_difference import ALPHA, sign_flip
from composer_replication.objective import TrdpoSettings
from composer_replication.runs import Run
from composer_replication.training.planning.plan import Machine, plan_training

HERE = Path(__file__).parent
RESULTS = HERE / "results"
ORIGIN_SEEDS = 3
MOST_EXACT = 20
DRAWS = 400
SECONDS_PER_HOUR = 3600


def arms(config: Config) -> dict[str, Config]:
    """They differ in one weight and nothing else."""
    without = config.with_channels(config.channel(TrdpoSettings).model_copy(update={"weight": 0.0}))
    return {"A: GRPO": without, "B: GRPO + TR-DPO": config}


def plan(config: Config) -> dict[str, Any]:
    """What `recompose train RUN --dry-run --processes 8 --gpu` tells of each arm."""
    told: dict[str, Any] = {}
    for name, arm in arms(config).items():
        with tempfile.TemporaryDirectory() as folder:
            found = plan_training(
                Run.start(Path(folder) / "run", arm), open_toolbox(arm), (), Machine(processes=8, on_gpu=True)
            )
        kept = ("steps", "rollouts_per_step", "processes", "accumulation", "memory")
        told[name] = {key: found[key] for key in kept} | {"config_hash": arm.hash}
    return told


def cost(config: Config, assumed: dict[str, Any]) -> dict[str, Any]:
    hardware, rollout, model = assumed["hardware"], assumed["rollout"], assumed["model"]
    rollouts = config.training.steps * config.training.prompts_per_step * config.training.group_size
    evaluated = assumed["evaluation"]["tasks"] * assumed["evaluation"]["samples"]

    def sampling_h(number: int) -> float:
        decode_s = number * rollout["generated_tokens"] / hardware["decode_tokens_per_s"]
        prefill_flops = 2 * model["parameters"] * number * rollout["context_tokens"]
        prefill_s = prefill_flops / (hardware["peak_flops"] * hardware["prefill_utilisation"])
        return (decode_s + prefill_s) / SECONDS_PER_HOUR

    def training_h(number: int, more: float) -> float:
        tokens = number * rollout["context_tokens"] * (1 + more)
        flops = assumed["training"]["forward_and_backward"] * model["parameters"] * tokens
        return flops / (hardware["peak_flops"] * hardware["training_utilisation"]) / SECONDS_PER_HOUR

    rows: dict[str, Any] = {}
    for name, more in (("A: GRPO", 0.0), ("B: GRPO + TR-DPO", assumed["training"]["replay_share"])):
        hours = {
            "sampling": sampling_h(rollouts),
            "training": training_h(rollouts, more),
            "evaluation": sampling_h(evaluated),
        }
        rows[name] = {
            "gpu_hours": hours | {"all": sum(hours.values())},
            "generated_tokens": (rollouts + evaluated) * rollout["generated_tokens"],
            "trained_tokens": rollouts * rollout["context_tokens"] * (1 + more),
            "sandbox_hours": (rollouts + evaluated) * rollout["sandbox_s"] / SECONDS_PER_HOUR,
            "dollars": sum(hours.values()) * hardware["dollars_per_gpu_hour"],
        }
    teachers = assumed["teachers"]
    states = teachers["traces"] * teachers["steps_per_trace"]
    return {
        "rollouts_per_run": rollouts,
        "per_run": rows,
        "pair_of_runs_dollars": sum(row["dollars"] for row in rows.values()),
        "teachers_once_dollars": {name: states / 50 * usd for name, usd in teachers["dollars_per_50_steps"].items()},
    }


def power(assumed: dict[str, Any], tasks: int) -> dict[str, Any]:
    effect = assumed["power"]["effect"]
    rows: list[dict[str, Any]] = []
    for discordance in assumed["power"]["discordance"]:
        for seed_sd in assumed["power"]["seed_sd"]:
            # One evaluation of both arms on the same tasks: differences of -1, 0 and 1.
            measured_sd = math.sqrt((discordance - effect**2) / tasks)
            sd = math.hypot(seed_sd, measured_sd)
            needed = next(n for n in itertools.count(2) if minimum_detectable_effect(sd, n) <= effect)
            rows.append(
                {
                    "discordance": discordance,
                    "seed_sd": seed_sd,
                    "paired_sd": sd,
                    "detectable_with_3_seeds": minimum_detectable_effect(sd, ORIGIN_SEEDS),
                    "seeds_needed_t_test": needed,
                    "exact_power_at_that_many": _sign_flip_power(effect, sd, needed)
                    if needed and needed <= 20
                    else None,
                }
            )
    one_pair = {
        str(discordance): {
            "power_on_the_300": mcnemar_power(effect, discordance, tasks),
            "detectable_on_the_300": minimum_detectable_share(discordance, tasks),
            "tasks_needed": _tasks_needed(effect, discordance),
        }
        for discordance in assumed["power"]["discordance"]
    }
    floors = {str(n): sign_flip([1.0] * n).p for n in range(3, 9)}
    return {"effect": effect, "exact_floor_by_seeds": floors, "seeds": rows, "one_pair_of_models": one_pair}


def _sign_flip_power(effect: float, sd: float, seeds: int) -> float:
    """How often the exact test rejects, by simulation: normal differences."""
    rng = np.random.default_rng(0)
    drawn = rng.normal(effect, sd, size=(DRAWS, seeds)).tolist()
    return sum(sign_flip(differences).p <= ALPHA for differences in drawn) / DRAWS


def _tasks_needed(effect: float, discordance: float) -> int:
    low, high = 100, 100
    while minimum_detectable_share(discordance, high) > effect:
        low, high = high, high * 2
    while high - low > high // 50:
        middle = (low + high) // 2
        low, high = (middle, high) if minimum_detectable_share(discordance, middle) > effect else (low, middle)
    return high


def table(spent: dict[str, Any], powered: dict[str, Any]) -> str:
    parts = [_run_table(spent), _seed_table(spent), _teacher_table(spent), _power_table(spent, powered)]
    return "\n".join([*parts, _task_table(powered)])


def _run_table(spent: dict[str, Any]) -> str:
    rows: list[list[Any]] = []
    for name, row in spent["per_run"].items():
        hours = row["gpu_hours"]
        parts = ", ".join(f"{hours[part]:.1f}" for part in ("sampling", "training", "evaluation"))
        rows.append([name, parts, f"{hours['all']:.1f}", f"{row['dollars']:.0f}", f"{row['sandbox_hours']:.0f}"])
    heads = ["arm, one run", "GPU hours: sampling, training, evaluation", "all", "dollars", "sandbox hours"]
    return _markdown(heads, rows)


def _seed_table(spent: dict[str, Any]) -> str:
    rows = [[n, f"{n * spent['pair_of_runs_dollars']:.0f}", f"{2.0 ** (1 - n):.3f}"] for n in (3, 6, 8)]
    return _markdown(["seeds", "both arms, dollars", "smallest p of the exact sign-flip test"], rows)


def _teacher_table(spent: dict[str, Any]) -> str:
    rows = [[name, f"{usd:.0f}"] for name, usd in spent["teachers_once_dollars"].items()]
    return _markdown(["teachers, once, 100 traces of 50 steps", "dollars"], rows)


def _power_table(spent: dict[str, Any], powered: dict[str, Any]) -> str:
    heads = [
        "tasks that one model solves alone", "SD of true differences between seeds, points",
        "SD of a measured difference", "detectable with 3 seeds, t-test", "seeds for 2 points, 80 %",
        "power of the exact test then", "dollars for them",
    ]  # fmt: skip
    rows: list[list[Any]] = []
    for row in powered["seeds"]:
        exact, seeds = row["exact_power_at_that_many"], row["seeds_needed_t_test"]
        rows.append(
            [
                f"{row['discordance']:.2f}",
                f"{100 * row['seed_sd']:.0f}",
                f"{100 * row['paired_sd']:.1f}",
                f"{100 * row['detectable_with_3_seeds']:.1f}",
                seeds,
                "–" if exact is None else f"{exact:.2f}",
                f"{seeds * spent['pair_of_runs_dollars']:.0f}",
            ]
        )
    return _markdown(heads, rows)


def _task_table(powered: dict[str, Any]) -> str:
    rows = [
        [share, f"{row['power_on_the_300']:.2f}", f"{100 * row['detectable_on_the_300']:.1f}", row["tasks_needed"]]
        for share, row in powered["one_pair_of_models"].items()
    ]
    heads = ["one pair of models: solved by one alone", "power for 2 points on 300 tasks", "detectable there, points"]
    return _markdown([*heads, "tasks for 2 points"], rows)


def _markdown(heads: list[str], rows: list[list[Any]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def main() -> None:
    config = load_config(HERE / "config.toml")
    assumed = tomllib.loads((HERE / "assumptions.toml").read_text())
    told, spent = plan(config), cost(config, assumed)
    powered = power(assumed, assumed["evaluation"]["tasks"])
    RESULTS.mkdir(exist_ok=True)
    for name, found in (("plan", told), ("cost", spent), ("power", powered)):
        (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    (RESULTS / "table.md").write_text(table(spent, powered))
    print(table(spent, powered))


if __name__ == "__main__":
    main()
