"""Real agents and a load client through the capture proxy: are the kept token ids those that a model writes?

    python benchmarks/harness.py RUNTIME --work DIR [--agents 16] [--connections 64] [--calls 4] [--json FILE]

RUNTIME is a virtual environment with mini-swe-agent. Two parts, both with SmolLM2-135M at temperature 0:

1. `--agents` processes of mini-swe-agent at once on the sample repository's tasks, graded as always. SmolLM2 writes no
   tool call, so it solves nothing. Every second agent of a task therefore gets **scripted** turns (a failing command,
   the solution, the hand-in) in place of sampled ones: they show grading, error sites and a group with different
   rewards. In the end `recompose sites`, `hint` and one step of `train` run on what was kept.
2. `--connections` clients at once on its socket: both dialects, with and without streaming, `--rounds` calls each.

Every sampled call is then compared with `model.generate` on the very ids of its prompt.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import torch

from composer_replication.config import Config, EnvironmentConfig, ModelConfig, TrainingConfig, WarmupConfig
from composer_replication.environments.code.environment import CodeEnvironment
from composer_replication.environments.code.harness.proxy import SOCKET, CaptureProxy
from composer_replication.environments.code.quickstart import make_sample_tasks
from composer_replication.environments.code.tasks.store import read_tasks
from composer_replication.environments.code.tasks.task import TaskFolder
from composer_replication.objective import GrpoSettings
from composer_replication.progress import Silent
from composer_replication.runs import Run, read_records
from composer_replication.stages.attempts import planned
from composer_replication.stages.ingestion import ROLLOUT_TOKENS
from composer_replication.stages.rollouts import collect, play_locally
from composer_replication.training.models.loading import Policy, load_policy
from composer_replication.training.rollouts.sampling import SampledTurn, sample_turns
from composer_replication.training.rollouts.self_played import TurnDesk, writer
from composer_replication.training.stored.records import TokenizedTrace

TURN_TOKENS, ROOM = 8, 3000
VERBS = (("sites",), ("hint",), ("replay", "--no-teachers"), ("pair",), ("train",))
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
SHORT = "Solve this in the current folder with the bash tool: {{task}} Then run: " + SUBMIT
COMMAND = (
    "MSWEA_CONFIGURED=true MSWEA_COST_TRACKING=ignore_errors LITELLM_LOCAL_MODEL_COST_MAP=True mini --yolo"
    f" --exit-immediately --cost-limit 0 -c mini.yaml -c agent.instance_template='{SHORT}'"
    ' --model "openai/$MODEL" --task "$TASK"'
)
"""mini-swe-agent as it is, but for a shorter first message: a processor reads it many times over."""


class HalfScripted:
    """SmolLM2 one call at a time, as `generate` would; every second agent of a task reads from a script."""

    max_tokens, batch = None, 1

    def __init__(self, policy: Policy, tasks: list[TaskFolder]) -> None:
        self._policy, self._tasks = policy, tasks
        self._scripts: dict[tuple[int, ...], list[str]] = {}
        self._met: Counter[str] = Counter()
        self.sampled: list[tuple[list[int], list[int]]] = []
        self.scripted = 0

    def sample(self, slots: Any, contexts: list[list[int]], **options: Any) -> list[SampledTurn]:
        return [self._turn(list(context)) for context in contexts]

    def _turn(self, context: list[int]) -> SampledTurn:
        script = self._script(context)
        if not script:
            turn = greedy(self._policy, context)
            self.sampled.append((context, turn.ids))
            return turn
        said = f"<tool_call>{json.dumps({'name': 'bash', 'arguments': {'command': script[0]}})}</tool_call>"
        ids = self._policy.tokens.turn(said)
        self.scripted += 1
        self._scripts[tuple(context + ids)] = script[1:]
        return SampledTurn(ids, scored(self._policy, context, ids))

    def _script(self, context: list[int]) -> list[str]:
        for known, left in self._scripts.items():
            if tuple(context[: len(known)]) == known:
                return left
        text = self._policy.tokens.tokenizer.decode(context)
        task = next(task for task in self._tasks if task.code_task.task.statement[:200] in text)
        said_before = "<|im_start|>assistant" in text[: text.rindex("<|im_start|>")]
        if said_before or "Tool call error" in text or "previous response" in text:
            return []
        name = task.code_task.task.task_id
        self._met[name] += 1
        return solving(task) if self._met[name] % 2 else []


def solving(task: TaskFolder) -> list[str]:
    files = sorted(path for path in task.gold.rglob("*") if path.is_file())
    written = [
        f"cat > {path.relative_to(task.gold)} <<'END_OF_FILE'\n{path.read_text(encoding='utf-8')}END_OF_FILE"
        for path in files
    ]
    return ["cat no_such_file.py", *written, SUBMIT]


def greedy(policy: Policy, context: list[int]) -> SampledTurn:
    (turn,) = sample_turns(
        policy.model,
        [context],
        end_of_turn_id=policy.tokens.end_of_turn_id,
        pad_id=policy.tokenizer.pad_token_id,
        max_new_tokens=TURN_TOKENS,
        temperature=0.0,
    )
    return turn


@torch.no_grad()
def scored(policy: Policy, context: list[int], ids: list[int]) -> list[float]:
    logits_TV = policy.model(torch.tensor([context + ids]), logits_to_keep=len(ids) + 1).logits[0, :-1]
    return logits_TV.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0].tolist()


def equal_to_generate(policy: Policy, calls: list[tuple[list[int], list[int]]]) -> int:
    """How many of the sampled turns `generate` writes too, from the same ids."""
    equal = 0
    for context, ids in calls:
        made = policy.model.generate(
            torch.tensor([context]),
            attention_mask=torch.ones(1, len(context), dtype=torch.long),
            max_new_tokens=TURN_TOKENS,
            do_sample=False,
            eos_token_id=policy.tokens.end_of_turn_id,
            pad_token_id=policy.tokenizer.pad_token_id,
            repetition_penalty=1.0,
        )
        equal += made[0, len(context) :].tolist()[: len(ids)] == ids
    return equal


def agents(options: argparse.Namespace, policy: Policy) -> dict[str, Any]:
    folder = make_sample_tasks(options.work / "tasks", Silent())
    tasks = read_tasks(folder)
    section = EnvironmentConfig(
        name="code", tasks=(str(folder),), harness=COMMAND, harness_runtime=str(options.runtime), heldout_share=0.0,
        concurrency=options.agents, completion_tokens=ROOM, max_steps=options.calls,
    )  # fmt: skip
    config = Config(
        model=ModelConfig(name="smollm2"), environment=section, warmup=WarmupConfig(steps=0),
        training=TrainingConfig(rollouts=False, steps=1, traces_per_step=2, gradient_ratio_cap=None),
        channels=(GrpoSettings(),),
    )  # fmt: skip
    began = time.monotonic()
    environment = CodeEnvironment(tasks, section, wall_s=options.wall_s)
    opening_s, left_out = time.monotonic() - began, dict(environment.left_out)
    played = environment.tasks("train")[: max(1, options.agents // 4)]
    plan = planned([task.task_id for task in played], -(-options.agents // len(played)))[: options.agents]
    sampler, run = HalfScripted(policy, tasks), Run.start(options.work / "run", config)
    settings = {"tasks": "sample", "max_turn_tokens": 64, "temperature": 0.0}
    began = time.monotonic()
    try:
        collect(
            run, plan, settings,
            lambda kept, progress: play_locally(
                run, policy, environment, plan, settings, kept, progress, sampler=sampler
            ),
            Silent(),
        )  # fmt: skip
    finally:
        environment.close()
    played_s = time.monotonic() - began
    rows = list(read_records(run.path / ROLLOUT_TOKENS, TokenizedTrace))
    kept = [(row.ids[:start], row.ids[start:end]) for row in rows for start, end in row.turn_spans]
    counts = run.stage("ingestion").require()["counts"]
    return {
        "agents": len(plan),
        "left_out": left_out,
        "opening_s": round(opening_s, 1),
        "played_s": round(played_s, 1),
        "sampled_calls": len(sampler.sampled),
        "scripted_calls": sampler.scripted,
        "sampled_and_kept": sum((tuple(context), tuple(ids)) in kept for context, ids in sampler.sampled),
        "equal_to_generate": equal_to_generate(policy, sampler.sampled),
        "segments": len(rows),
        "attempts": counts,
        "rewards": json.loads((run.path / "ingestion" / "rewards.json").read_text()),
    }


def stages(options: argparse.Namespace, policy: Policy) -> dict[str, Any]:
    """On what the agents left, as a person would run them."""
    return {verb: told(options.work / "run", verb, *more) for verb, *more in VERBS}


def told(run: Path, verb: str, *more: str) -> Any:
    command = [sys.executable, "-m", "composer_replication", verb, str(run), "--json", *more]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode not in (0, 4):
        return {"exit_code": ended.returncode, "said": ended.stderr[-600:]}
    return json.loads(ended.stdout)


def load(options: argparse.Namespace, policy: Policy) -> dict[str, Any]:
    desk, over = TurnDesk(1, 0.05), threading.Event()
    write = writer(policy.tokens, desk.ask, TURN_TOKENS, ROOM, {})
    sampled: list[tuple[list[int], list[int]]] = []

    def sample(contexts: list[list[int]]) -> list[SampledTurn]:
        turns = [greedy(policy, context) for context in contexts]
        sampled.extend((context, turn.ids) for context, turn in zip(contexts, turns, strict=True))
        return turns

    with CaptureProxy("policy") as proxy, proxy.session(write, 10**6) as capture:

        def clients() -> None:
            try:
                asyncio.run(_clients(proxy.folder / SOCKET, capture.key, options, statuses))
            finally:
                over.set()

        statuses: list[int] = []
        thread, began = threading.Thread(target=clients), time.monotonic()
        thread.start()
        desk.serve(sample, over.is_set)
        wall_s = time.monotonic() - began
        desk.close()
        thread.join()
        nodes = capture.session.graph.nodes()
    kept = [(node.prompt_ids, node.sampled_ids) for node in nodes]
    return {
        "connections": options.connections,
        "calls": len(sampled),
        "statuses": dict(Counter(statuses)),
        "wall_s": round(wall_s, 1),
        "kept": sum(pair in kept for pair in sampled),
        "goes_on_from_a_call": sum(node.parent_id is not None for node in nodes),
        "equal_to_generate": equal_to_generate(policy, sampled),
    }


async def _clients(place: Path, key: str, options: argparse.Namespace, statuses: list[int]) -> None:
    limits = httpx.Limits(max_connections=options.connections)
    transport = httpx.AsyncHTTPTransport(limits=limits, uds=str(place))
    async with httpx.AsyncClient(timeout=3600.0, transport=transport, base_url="http://proxy") as client:
        each = (_client(client, key, number, options.rounds, statuses) for number in range(options.connections))
        await asyncio.gather(*each)


async def _client(client: httpx.AsyncClient, key: str, number: int, rounds: int, statuses: list[int]) -> None:
    streams, asked = number % 4 >= 2, [{"role": "user", "content": f"What is {number} plus one?"}]
    for _ in range(rounds):
        body = {"model": "policy", "messages": asked, "stream": streams, "max_tokens": 2000}
        if number % 2:
            headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
            answer = await client.post("/v1/messages", json=body, headers=headers)
        else:
            answer = await client.post("/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"})
        statuses.append(answer.status_code)
        asked = [
            *asked,
            {"role": "assistant", "content": _said(answer.text, streams, bool(number % 2))},
            {"role": "user", "content": "Are you sure?"},
        ]


def _said(text: str, streams: bool, is_anthropic: bool) -> str:
    if streams:
        lines = [line[6:] for line in text.splitlines() if line.startswith("data: ") and line != "data: [DONE]"]
        events = [json.loads(line) for line in lines]
        if is_anthropic:
            return "".join(event.get("delta", {}).get("text", "") for event in events)
        return "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])
    found = json.loads(text)
    return (
        "".join(part["text"] for part in found["content"])
        if is_anthropic
        else found["choices"][0]["message"]["content"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runtime", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--agents", type=int, default=16)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=2, help="calls of one connection")
    parser.add_argument("--calls", type=int, default=4, help="of one agent")
    parser.add_argument("--wall-s", type=float, default=1800.0, help="of one agent")
    parser.add_argument("--stages", type=int, default=1, help="0: leave out sites, hint and one step of train")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    policy = load_policy("smollm2", None, 0)
    result = {"cores": len(os.sched_getaffinity(0)), "load_before": round(os.getloadavg()[0], 1)}
    for name, part in (("agents", agents), ("connections", load), ("stages", stages)):
        if getattr(options, name):
            result[name] = part(options, policy)
            if options.json:
                options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
