"""What windowing does to channel 2's signal: the divergence at error turns with the whole context and with less of it.

    python benchmarks/windowing.py [--warmup-steps 220] [--rollouts 512] [--json PATH]

A policy is warmed up on the toolbox as in the quickstart, with more tasks of two and three calls, and plays; hints are
written for its error turns. At every error turn with at least one turn before it, the divergence between the policy and
itself with the hint is computed with the whole context and with the last k turns, dropped from both sides.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from composer_replication.config import Config, ToolboxConfig, WarmupConfig
from composer_replication.environments.toolbox import task_stream, trace_of
from composer_replication.environments.toolbox.environment import ToolboxEnvironment
from composer_replication.objective import SdpoSettings
from composer_replication.training.lessons.distillation import SiteStates, distil
from composer_replication.training.lessons.online_sites import TraceHinter
from composer_replication.training.models.loading import Policy, load_policy
from composer_replication.training.models.states import last_hidden, output_head
from composer_replication.training.rollouts.playing import roll_out
from composer_replication.training.warmup import warm_up

# Longer episodes than the quickstart's, so that there is something to drop.
TOOLBOX = ToolboxConfig(call_mix=(0.1, 0.3, 0.6))
FIRST_TASK = 300_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warmup-steps", type=int, default=220)
    parser.add_argument("--rollouts", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    result = measure(options.warmup_steps, options.rollouts, options.seed)
    show(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


def measure(warmup_steps: int, rollouts: int, seed: int) -> dict[str, Any]:
    started = time.monotonic()
    policy = load_policy("tiny", ToolboxEnvironment(TOOLBOX), seed)
    warmup = WarmupConfig(steps=warmup_steps)
    warm_up(policy.model, policy.tokens, ToolboxEnvironment(TOOLBOX), warmup, seed, lambda step, loss: None)
    policy.model.eval()
    sites = error_turns(policy, rollouts, seed)
    full = divergences(policy, [(ids, hint, turn_ids) for ids, _, _, hint, turn_ids in sites])
    rows = [compare(policy, sites, full, keep) for keep in range(max((turn for _, _, turn, _, _ in sites), default=0))]
    return {
        "warmup_steps": warmup_steps,
        "rollouts": rollouts,
        "seed": seed,
        "sites": len(sites),
        "full_divergence": mean(full) if full else None,
        "windows": rows,
        "seconds": round(time.monotonic() - started, 1),
    }


def error_turns(policy: Policy, rollouts: int, seed: int) -> list[tuple[list[int], list[int], int, str, list[int]]]:
    """Context, starts of the turns, number of the turn, hint and ids of every hinted turn that has one before it."""
    config = Config(seed=seed)
    tasks = list(islice(task_stream(TOOLBOX, "train", FIRST_TASK), rollouts))
    played = roll_out(
        policy.model,
        policy.tokens,
        ToolboxEnvironment(TOOLBOX),
        tasks,
        max_turn_tokens=config.training.max_turn_tokens,
        temperature=1.0,
        generator=torch.Generator().manual_seed(seed),
    )
    traces = [trace_of(one.episode, policy.name, number) for number, one in enumerate(played)]
    found = []
    for one, hinted in zip(played, TraceHinter()(traces), strict=True):
        ids, offset = one.prompt_ids + one.completion_ids, len(one.prompt_ids)
        starts = [offset + start for start, _ in one.turn_spans]
        for turn, _, hint in hinted:
            if turn:
                end = offset + one.turn_spans[turn][1]
                found.append((ids[: starts[turn]], starts, turn, hint, ids[starts[turn] : end]))
    return found


def compare(policy: Policy, sites: Sequence[Any], full: Sequence[float], keep: int) -> dict[str, Any]:
    """Only sites that lose something count."""
    chosen = [place for place, (_, _, turn, _, _) in enumerate(sites) if turn > keep]
    shortened = []
    for place in chosen:
        context, starts, turn, hint, turn_ids = sites[place]
        shortened.append((context[: starts[0]] + context[starts[turn - keep] :], hint, turn_ids))
    found, whole = divergences(policy, shortened), [full[place] for place in chosen]
    errors = [abs(one - other) for one, other in zip(found, whole, strict=True)]
    kept = [len(ids) / len(sites[place][0]) for place, (ids, _, _) in zip(chosen, shortened, strict=True)]
    return {
        "keep_turns": keep,
        "sites": len(chosen),
        "context_kept": mean(kept),
        "full_divergence": mean(whole),
        "windowed_divergence": mean(found),
        "mean_absolute_error": mean(errors),
        "relative_error": sum(errors) / sum(whole),
        "correlation": torch.corrcoef(torch.tensor([whole, found]))[0, 1].item() if len(chosen) > 1 else None,
    }


@torch.no_grad()
def divergences(policy: Policy, sites: Sequence[tuple[list[int], str, list[int]]]) -> list[float]:
    """Mean over each turn's tokens, hinted against plain."""
    settings, head, found = SdpoSettings(require_disfavour=False), output_head(policy.model), []
    for context, hint, turn_ids in sites:
        states = [
            hidden_states(policy.model, ids, turn_ids) for ids in (context, policy.tokens.splice_hint(context, hint))
        ]
        one = SiteStates(*states, torch.tensor(turn_ids), torch.tensor([len(turn_ids)]))
        found.append(distil(one, head, head, settings, 1).divergence_K.item())
    return found


def hidden_states(model: Any, context: list[int], turn_ids: list[int]) -> torch.Tensor:
    ids = torch.tensor([context + turn_ids])
    # Position p predicts token p + 1.
    return last_hidden(model, ids, torch.ones_like(ids))[0, len(context) - 1 : -1]


def show(result: dict[str, Any]) -> None:
    print(f"{result['sites']} error turns with a turn before them, in {result['rollouts']} rollouts")
    print(
        "| last turns kept | sites | context kept | D whole | D windowed | mean abs. error | relative | correlation |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in result["windows"]:
        print(
            f"| {row['keep_turns']} | {row['sites']} | {row['context_kept']:.0%} | {row['full_divergence']:.4f} | "
            f"{row['windowed_divergence']:.4f} | {row['mean_absolute_error']:.4f} | {row['relative_error']:.0%} | "
            f"{row['correlation']:.2f} |"
        )


if __name__ == "__main__":
    main()
