"""What the untrained coding model of 014 does with execution feedback, as PLAN.md says. About an hour on two cores.

    recompose experiment run experiments/018-feedback-gap

Reads 014's plan, tasks and stored attempts; writes results/sites.jsonl.zst, then results/part-<n>.jsonl.zst for every
few tasks. What is there is kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from likelihood import Reader, is_new
from sites import failed_attempts, stored_attempts, told

from composer_replication.config import Config
from composer_replication.environments.code.environment import CodeEnvironment
from composer_replication.environments.code.episodes.definition import solving_block
from composer_replication.environments.protocol import Episode
from composer_replication.store import hash_of
from composer_replication.training.models.loading import Policy, load_policy
from composer_replication.training.rollouts.playing import mapped
from composer_replication.training.rollouts.sampling import SampledTurn
from composer_replication.training.rollouts.static_sampling import StaticSampler
from shared.code_runs.arm import SIDES, asked_of, machine, opened
from shared.code_runs.plan import Plan, read_plan
from shared.code_runs.queue import unpack_tasks
from shared.result_lines import read_result, write_result
from shared.runner.jobs import experiments_in

HERE = Path(__file__).parent
REAL_CODE = HERE.parent / "014-real-code"
RESULTS, WORK = HERE / "results", Path("build/018-feedback-gap")
CONTEXTS = ("plain", "feedback", "sham", "retry")
TASKS_PER_PART = 8
SANDBOXES = 2
"""At a time: visible tests that wait for a core could run out of their time."""
FIRST_DRAW = 5_000
LAST_STEP = "This was the last step; the work is handed in as it is."
AGAIN = "Answer again with one code block."


def main() -> None:
    (experiment,) = experiments_in([REAL_CODE], WORK, None)
    plan = read_plan(experiment.plan, experiment.results)
    unpack_tasks(experiment, plan)
    folders = sorted(manifest.parent for manifest in (experiment.work / "tasks").glob("*/manifest.json"))
    config = plan.config()
    environment = opened(plan, config, folders)
    sites = RESULTS / "sites.jsonl.zst"
    if not sites.exists():
        find_sites(plan, config, environment, sites)
    found = [line for line in read_result(sites) if line["line"] == "site"]
    tasks = list(dict.fromkeys(line["task_id"] for line in found))
    policy = None
    for number, first in enumerate(range(0, len(tasks), TASKS_PER_PART)):
        result, chosen = RESULTS / f"part-{number}.jsonl.zst", set(tasks[first : first + TASKS_PER_PART])
        if not result.exists():
            policy = policy or load_policy(config.model.name, environment, config.seed, config.hardware.weights)
            own = [line for line in found if line["task_id"] in chosen]
            about = {"draw": FIRST_DRAW + number, "sites_sha256": hash_of([sites])}
            measure(policy, config, environment, own, about, result)


def find_sites(plan: Plan, config: Config, environment: CodeEnvironment, result: Path) -> None:
    began, stored = time.monotonic(), stored_attempts(plan.results, plan.raw["measuring"]["start_parts"])
    covered = [task for task in asked_of(plan, environment, *SIDES) if environment.covering(task)]
    played = mapped(lambda task: failed_attempts(environment, task, stored[task.task_id]), covered, SANDBOXES)
    lines = list(told([one for failed in played for one in failed], config.hints.max_tokens))
    write_result(result, [{"line": "run", **machine(), "seconds": time.monotonic() - began}, *lines])
    print(f"{len(lines)} sites at {len(covered)} tasks", flush=True)


def measure(
    policy: Policy,
    config: Config,
    environment: CodeEnvironment,
    sites: Sequence[dict[str, Any]],
    about: dict[str, Any],
    result: Path,
) -> None:
    """Every site in every context: how likely the solution is there, and one new attempt."""
    began = time.monotonic()
    contexts = [contexts_of(policy, environment, site) for site in sites]
    likely = likelihoods(policy, environment, sites, contexts)
    read = time.monotonic()
    turns = sampled(policy, config, contexts, about["draw"])
    sampled_at = time.monotonic()
    asked = [(site, name) for site in sites for name in CONTEXTS]
    texts = [policy.tokens.said([], turn.ids) for turn in turns]
    told = [(site["task_id"], text) for (site, _), text in zip(asked, texts, strict=True)]
    played = mapped(lambda one: attempt(environment, *one), told, SANDBOXES)
    lines = [
        {
            "line": "attempt", "task_id": site["task_id"], "repository": site["repository"], "context": name,
            "said_before": site["said"], "said": text, "tokens": len(turn.ids), **chances, **outcome,
        }
        for (site, name), text, turn, chances, outcome in zip(asked, texts, turns, likely, played, strict=True)
    ]  # fmt: skip
    ended = time.monotonic()
    times = {"read_s": read - began, "sampled_s": sampled_at - read, "played_s": ended - sampled_at}
    run = {"line": "run", **about, "config": config.model_dump(mode="json"), **machine(), **times}
    write_result(result, [run, *lines])
    print(f"{result.name}: {len(lines)} attempts in {ended - began:.0f} s", flush=True)


def sampled(policy: Policy, config: Config, contexts: Sequence[dict[str, list[int]]], draw: int) -> list[SampledTurn]:
    """One turn for each site and context, in their order. A site keeps its slot, so what its contexts share is read
    once."""
    training, slots = config.training, range(len(contexts))
    room = max(len(context) for own in contexts for context in own.values()) + training.max_turn_tokens
    sampler = StaticSampler(policy.model, policy.tokens, len(contexts), room, is_fixed=True)
    generator = torch.Generator(device=policy.model.device).manual_seed(draw)
    by_context = [
        sampler.sample(
            slots,
            [own[name] for own in contexts],
            max_new_tokens=training.max_turn_tokens,
            temperature=training.temperature,
            generator=generator,
        )
        for name in CONTEXTS
    ]
    return [turn for own in zip(*by_context, strict=True) for turn in own]


def contexts_of(policy: Policy, environment: CodeEnvironment, site: dict[str, Any]) -> dict[str, list[int]]:
    tokens = policy.tokens
    plain = tokens.prompt(environment.task(site["task_id"]).messages)
    answered = f"{site['observation'].removesuffix(LAST_STEP).rstrip()}\n{AGAIN}"
    tried = [*plain, *tokens.turn(site["said"]), *tokens.after_turn(answered)]
    hinted = {name: tokens.splice_hint(plain, site[name]) for name in ("feedback", "sham")}
    return {"plain": plain, **hinted, "retry": tried}


def likelihoods(
    policy: Policy,
    environment: CodeEnvironment,
    sites: Sequence[dict[str, Any]],
    contexts: Sequence[dict[str, list[int]]],
) -> list[dict[str, float]]:
    """Of the solution, one for each site and context, in their order."""
    reader, found = Reader(policy.model), list[dict[str, float]]()
    for site, own in zip(sites, contexts, strict=True):
        task = environment.task(site["task_id"])
        answer = f"```python\n{solving_block(task.folder).strip()}\n```"
        new = is_new(policy.tokens, answer, "\n".join(str(message["content"]) for message in task.messages))
        for context in CONTEXTS:
            read = reader.logprobs(own[context], policy.tokens.turn(answer))
            own_part = [value for value, counts in zip(read, new, strict=True) if counts]
            found.append({"solution": fmean(read), "new": fmean(own_part), "new_tokens": len(own_part)})
    return found


def attempt(environment: CodeEnvironment, task_id: str, said: str) -> dict[str, Any]:
    """What a new attempt earns; one whose grading breaks earns nothing."""
    episode: Episode = environment.start(environment.task(task_id))
    try:
        answer = episode.step(said)
        return {"reward": episode.reward, "failed": getattr(answer, "failed", False), "broken": None}
    except Exception as error:
        return {"reward": 0.0, "failed": True, "broken": repr(error)}
    finally:
        episode.close()


if __name__ == "__main__":
    main()
