"""The outer step of DiLoCo alone, written by hand: Nesterov's against the plain average, in one and in two fragments.

    python benchmarks/diloco_outer.py [--json benchmarks/results/diloco_outer.json]

No torchft, no rollouts: two replicas fit a small regression with AdamW and meet every 4 steps, as those of
`benchmarks/diloco.py` do, 7 or 28 times. Told is the error on fresh data as a share of the variance, over seeds.
"""

import argparse
import json
import statistics
from pathlib import Path

import torch
from torch import nn

from composer_replication.evaluation.stats import mean_interval
from composer_replication.training.diloco.replica import fragments_of

WIDTH, REPLICAS, SYNC_EVERY = 32, 2, 4
OUTER = {"nesterov": (0.7, 0.9), "plain average": (1.0, 0.0)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--steps", type=int, nargs="+", default=[28, 112])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    measured = [
        {
            "steps": steps,
            "outer": outer,
            "fragments": fragments,
            "error": mean_interval(
                [error_of(seed, steps, asked.learning_rate, fragments, *OUTER[outer]) for seed in range(asked.seeds)]
            ),
        }
        for steps in asked.steps
        for outer in OUTER
        for fragments in (1, 2)
    ]
    told = [{**each, "error": each["error"].model_dump()} for each in measured]
    for each in told:
        print(json.dumps(each))
    if asked.json:
        asked.json.write_text(json.dumps({"learning_rate": asked.learning_rate, "measured": told}, indent=1) + "\n")


def network(layers: int) -> nn.Sequential:
    hidden = [module for _ in range(layers) for module in (nn.Linear(WIDTH, WIDTH), nn.Tanh())]
    return nn.Sequential(*hidden, nn.Linear(WIDTH, 1))


def error_of(seed: int, steps: int, rate: float, fragments: int, outer_rate: float, momentum: float) -> float:
    torch.manual_seed(seed)
    truth, models = network(1), [network(4) for _ in range(REPLICAS)]
    for model in models[1:]:
        model.load_state_dict(models[0].state_dict())
    optimizers = [torch.optim.AdamW(model.parameters(), rate) for model in models]
    parts = [[list(part) for part in fragments_of(model, fragments)] for model in models]
    common = [[weight.detach().clone() for weight in part] for part in parts[0]]
    velocity = [[torch.zeros_like(weight) for weight in part] for part in common]

    @torch.no_grad()
    def meet(place: int) -> None:
        for number, (weight, moved) in enumerate(zip(common[place], velocity[place], strict=True)):
            replicas = [part[place][number] for part in parts]
            move = weight - torch.stack(list(replicas)).mean(0)
            moved.mul_(momentum).add_(move)
            weight.sub_(outer_rate * (move + momentum * moved))
            for replica in replicas:
                replica.copy_(weight)

    meetings = 0
    for step in range(1, steps + 1):
        for model, optimizer in zip(models, optimizers, strict=True):
            x = torch.randn(64, WIDTH)
            loss = (model(x) - truth(x).detach()).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % (SYNC_EVERY // fragments) == 0:
            meet(meetings % fragments)
            meetings += 1
    for last in range(fragments - 1):
        meet((meetings + last) % fragments)
    with torch.no_grad():
        for part, values in zip(parts[0], common, strict=True):
            for weight, value in zip(part, values, strict=True):
                weight.copy_(value)
        x = torch.randn(4096, WIDTH)
        return statistics.fmean((models[0](x) - truth(x)).square().flatten().tolist()) / float(truth(x).var())


if __name__ == "__main__":
    main()
