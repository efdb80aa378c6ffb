"""How likely the coding model of 014, untrained, finds the solution behind execution feedback, as PLAN.md says.

    recompose experiment run experiments/018-feedback-gap

Half an hour on two cores. Reads 014's plan, tasks and stored attempts; writes results/sites.jsonl.zst, then
results/part-<n>.jsonl.zst for every few tasks. What is there is kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from likelihood import Reader, is_new
from sites import failed_attempts, stored_attempts, told

from composer_replication.config import Config
from composer_replication.environments.code.environment import CodeEnvironment
from composer_replication.environments.code.episodes.definition import solving_block
from composer_replication.environments.code.tasks.task import AskedTask
from composer_replication.store import hash_of
from composer_replication.training.models.loading import Policy, load_policy
from composer_replication.training.models.tokens import ChatTokens
from composer_replication.training.rollouts.playing import mapped
from shared.code_runs.arm import SIDES, asked_of, machine, opened
from shared.code_runs.plan import Plan, read_plan
from shared.code_runs.queue import unpack_tasks
from shared.result_lines import read_result, write_result
from shared.runner.jobs import experiments_in

HERE = Path(__file__).parent
REAL_CODE = HERE.parent / "014-real-code"
RESULTS, WORK = HERE / "results", Path("build/018-feedback-gap")
TASKS_PER_PART = 8
SANDBOXES = 2
"""At a time: visible tests that wait for a core could run out of their time."""
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
            measure(policy, config, environment, own, {"sites_sha256": hash_of([sites])}, result)


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
    """How likely the solution is at every site in every context."""
    began, reader = time.monotonic(), Reader(policy.model)
    lines = [
        {"line": "read", **{key: site[key] for key in ("task_id", "repository", "said")}, "context": context, **found}
        for site in sites
        for context, found in likelihoods(policy, reader, environment.task(site["task_id"]), site).items()
    ]
    seconds = time.monotonic() - began
    run = {"line": "run", **about, "config": config.model_dump(mode="json"), **machine(), "seconds": seconds}
    write_result(result, [run, *lines])
    print(f"{result.name}: {len(sites)} sites in {seconds:.0f} s", flush=True)


def likelihoods(policy: Policy, reader: Reader, task: AskedTask, site: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Of the solution, by context."""
    answer = f"```python\n{solving_block(task.folder).strip()}\n```"
    shown = "\n".join(str(message["content"]) for message in task.messages)
    turn, new = policy.tokens.turn(answer), is_new(policy.tokens, answer, shown)
    found: dict[str, dict[str, float]] = {}
    for name, context in contexts_of(policy.tokens, task, site).items():
        logprobs = reader.logprobs(context, turn)
        own = [value for value, counts in zip(logprobs, new, strict=True) if counts]
        found[name] = {"solution": fmean(logprobs), "new": fmean(own), "new_tokens": len(own)}
    return found


def contexts_of(tokens: ChatTokens, task: AskedTask, site: dict[str, Any]) -> dict[str, list[int]]:
    plain = tokens.prompt(task.messages)
    answered = f"{site['observation'].removesuffix(LAST_STEP).rstrip()}\n{AGAIN}"
    tried = [*plain, *tokens.turn(site["said"]), *tokens.after_turn(answered)]
    return {
        "plain": plain,
        "feedback": tokens.splice_hint(plain, site["feedback"]),
        "sham": tokens.splice_hint(plain, site["sham"]),
        "retry": tried,
    }


if __name__ == "__main__":
    main()
