"""The origin's spike 002a: 100 rollouts through TRL's own environment support. Is every one of them complete?

    recompose experiment run experiments/002a-trl-traces        about four minutes of one core; no GPU

TRL's `GRPOTrainer` plays five small code tasks with `environment_factory` and its own tool loop; the policy is sampled,
nothing is given. Writes results/traces.jsonl.zst (`Trace`, one per rollout), results/tokens.jsonl.zst (ids, mask and
what was seen of the rollout), results/trl.json (what TRL itself logs and saves), then the table.
"""

import json
import re
import time
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from policy import small_policy
from rebuild import RESULTS, rebuild
from small_tasks import write_small_tasks
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from composer_replication.cli.common import quiet_libraries
from composer_replication.environments.code.episodes.session import SessionLimits
from composer_replication.environments.code.serving.trl_environment import code_task_environment, rows
from composer_replication.records import StoredRecord
from composer_replication.runs import write_records
from composer_replication.training.backends.trl.environment_traces import trace_of_messages
from composer_replication.training.lessons.online_sites import turn_spans

RUNS = Path("runs/002a-trl-traces")
STEPS, TASKS_PER_STEP, GROUP = 5, 5, 4
SEED = 0
CALL_MARK = re.compile(r"</?tool_call>")


class StoredRollout(StoredRecord):
    """Next to its trace: the ids of the whole rollout, which of them were sampled, and every turn as it was sampled."""

    trace_id: str
    task_id: str
    step: int
    reward: float
    prompt_ids: list[int]
    completion_ids: list[int]
    sampled_mask: list[int]
    end_of_turn_id: int
    sampled_turns: list[list[int]]
    """As `generate` returned them, before TRL put the rollout together."""
    looks_like_a_call: list[bool]
    parsed_calls: list[int]


class Watched(GRPOTrainer):
    """TRL's trainer, with what passes through it noted. Nothing is changed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sampled: list[tuple[list[int], list[int]]] = []
        self.batches: list[dict[str, Any]] = []
        self.scored: list[dict[str, Any]] = []

    def _generate_single_turn(self, prompt_ids: Any, *arguments: Any, **options: Any) -> Any:
        ids, logprobs = super()._generate_single_turn(prompt_ids, *arguments, **options)
        self.sampled += [(list(before), list(new)) for before, new in zip(prompt_ids, ids, strict=True)]
        self.gave_logprobs = logprobs is not None
        return ids, logprobs

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        self.sampled = []
        generated = super()._generate_and_score_completions(inputs)
        self.batches.append({"generated": generated, "sampled": self.sampled, "step": self.state.global_step})
        return generated


def play(tasks: Path) -> tuple[Watched, float]:
    model, tokenizer = small_policy(RUNS / "policy")
    scored: list[dict[str, Any]] = []

    def watch(prompts: Any, completions: Any, environments: Any, task_id: Any, **columns: Any) -> list[float]:
        rewards = [environment.get_reward() for environment in environments]
        scored.append({"prompts": prompts, "completions": completions, "rewards": rewards, "task_ids": task_id})
        return [0.0] * len(prompts)

    arguments = GRPOConfig(
        output_dir=str(RUNS / "trainer"), seed=SEED, max_steps=STEPS, num_generations=GROUP,
        per_device_train_batch_size=TASKS_PER_STEP * GROUP, max_completion_length=512, max_tool_calling_iterations=8,
        temperature=1.0, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[], save_strategy="no",
        logging_steps=1, disable_tqdm=True, log_completions=True, num_completions_to_print=0,
    )  # fmt: skip
    trainer = Watched(
        model=model,
        processing_class=tokenizer,
        args=arguments,
        reward_funcs=watch,
        train_dataset=Dataset.from_list(rows(tasks) * STEPS),
        environment_factory=code_task_environment(tasks, limits=SessionLimits(steps=20)),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.scored = scored
    torch.manual_seed(SEED)
    started = time.monotonic()
    trainer.train()
    return trainer, time.monotonic() - started


def store(trainer: Watched, seconds: float) -> None:
    traces: list[Any] = []
    rollouts: list[StoredRollout] = []
    for batch, scored in zip(trainer.batches, trainer.scored, strict=True):
        generated, waiting = batch["generated"], list(batch["sampled"])
        for row, reward in enumerate(scored["rewards"]):
            made = trace_of_messages(scored["prompts"][row], scored["completions"][row], trainer.tools)
            trace = made.model_copy(update={"task_id": scored["task_ids"][row], "outcome": reward})
            rollout = _rollout(trainer, trace, generated, row, waiting, batch["step"])
            traces.append(trace)
            rollouts.append(rollout)
    write_records(RESULTS / "traces.jsonl.zst", traces)
    write_records(RESULTS / "tokens.jsonl.zst", rollouts)
    saved = sorted((RUNS / "trainer").rglob("*.parquet"))
    logged = {
        "seconds": seconds,
        "log_history": [entry for entry in trainer.state.log_history if "reward" in entry],
        "gave_logprobs": trainer.gave_logprobs,
        "saved_files": [path.name for path in saved],
        "saved_columns": list(Dataset.from_parquet(str(saved[0])).column_names) if saved else [],
        "saved_bytes": sum(path.stat().st_size for path in saved),
    }
    (RESULTS / "trl.json").write_text(json.dumps(logged, indent=1) + "\n")


def _rollout(
    trainer: Watched, trace: Any, generated: Any, row: int, waiting: list[tuple[list[int], list[int]]], step: int
) -> StoredRollout:
    prompt = generated["prompt_ids"][row][generated["prompt_mask"][row].bool()].tolist()
    completion = generated["completion_ids"][row][generated["completion_mask"][row].bool()].tolist()
    mask = generated["tool_mask"][row][: len(completion)].tolist()
    turns: list[list[int]] = []
    for start, _ in turn_spans(mask):
        before = prompt + completion[:start]
        place = next((place for place, (seen, _) in enumerate(waiting) if seen == before), None)
        turns.append(waiting.pop(place)[1] if place is not None else [])
    texts = [trainer.processing_class.decode(ids) for ids in turns]
    said = [trace.messages[turn.start] for turn in trace.turns]
    return StoredRollout(
        trace_id=trace.trace_id,
        task_id=trace.task_id,
        step=step,
        reward=trace.outcome,
        prompt_ids=prompt,
        completion_ids=completion,
        sampled_mask=mask,
        end_of_turn_id=trainer.processing_class.eos_token_id,
        sampled_turns=turns,
        looks_like_a_call=[bool(CALL_MARK.search(text)) for text in texts],
        parsed_calls=[len(message.get("tool_calls", [])) for message in said],
    )


def main() -> None:
    quiet_libraries()
    RESULTS.mkdir(exist_ok=True)
    write_small_tasks(RUNS / "tasks")
    trainer, seconds = play(RUNS / "tasks")
    store(trainer, seconds)
    print(rebuild())


if __name__ == "__main__":
    main()
