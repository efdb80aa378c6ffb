"""Training runs whose rollouts are given, so that two processes together see exactly what one process sees alone."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from composer_replication.config import ToolboxConfig
from composer_replication.environments.toolbox import Call, ToolboxEpisode, make_task, next_call, trace_of
from composer_replication.environments.toolbox.oracle import vocabulary
from composer_replication.objective import SdpoSettings
from composer_replication.training import ComposerDataCollator, ComposerReplicationTrainer
from composer_replication.training.channels import SelfDistillation
from composer_replication.training.lessons.online_sites import TraceHinter
from composer_replication.training.models.tiny import build_tokenizer
from composer_replication.training.models.tokens import ChatTokens
from composer_replication.training.running import use_optimizer
from composer_replication.training.stored.examples import PairTokens, SiteTokens, TraceExample

from .toy_environment import environment_trainer

PROMPTS_PER_STEP, GROUP_SIZE, PROMPT_TOKENS = 4, 2, 67
LAYER = "LlamaDecoderLayer"


@dataclass(frozen=True)
class Scene:
    """Errors of rollouts and what stored traces hold are everywhere, or in the half of the first process alone."""

    trainer: type[Any] = ComposerReplicationTrainer
    alpha: float = 0.0
    beta: float = 0.0
    online: bool = False
    errors_everywhere: bool = True
    stored_everywhere: bool = True
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """Of channel 2."""
    cap: float | None = None
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    steps: int = 1
    accumulation: int = 1
    tied: bool = False
    environment: bool = False
    """Let TRL's tool loop run a toy environment, with turns drawn at random, instead of the given rollouts."""
    optimizer: str = "adamw"
    even_prompts: bool = False
    """Prompts of one length: rotary angles are in float32, so a row that gets other padding is rounded otherwise."""


@cache
def chat_tokens() -> ChatTokens:
    return ChatTokens(build_tokenizer(vocabulary(ToolboxConfig())))


def new_model(tied: bool = False) -> LlamaForCausalLM:
    torch.manual_seed(2)
    config = LlamaConfig(
        vocab_size=len(chat_tokens().tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024, initializer_range=0.3,
        pad_token_id=0, bos_token_id=None, eos_token_id=None, tie_word_embeddings=tied,
    )  # fmt: skip
    return LlamaForCausalLM(config)


@cache
def tasks(number: int, even_prompts: bool = False) -> tuple[Any, ...]:
    drawn = (make_task(ToolboxConfig(), "train", seed) for seed in itertools.count(10))
    chosen = (task for task in drawn if not even_prompts or _prompt_tokens(task) == PROMPT_TOKENS)
    return tuple(itertools.islice(chosen, number))


def _prompt_tokens(task: Any) -> int:
    return len(chat_tokens().prompt(task.messages))


def tasks_of(scene: Scene) -> tuple[Any, ...]:
    return tasks(PROMPTS_PER_STEP * scene.steps, scene.even_prompts)


def _turns(task: Any, sample: int, has_errors: bool) -> list[str]:
    right = next_call(ToolboxEpisode(task)).render()
    stale, untyped = Call("zero_gate", {"a": 1}).render(), Call(task.listings[0].name, {}).render()
    if not has_errors:
        return [right] if sample else ["done"]
    return [stale, untyped, right] if sample else [untyped, right]


class GivenRollouts:
    """What `rollout_func` would return, without sampling: the same for a prompt wherever it is asked for."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._places = {task.messages[-1]["content"]: place for place, task in enumerate(tasks_of(scene))}

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        asked: Counter[int] = Counter()
        columns: dict[str, list[Any]] = {
            key: [] for key in ("prompt_ids", "completion_ids", "logprobs", "env_mask", "trace")
        }
        for prompt in prompts:
            place = self._places[prompt[-1]["content"]]
            for key, value in self._played(place, asked[place] % GROUP_SIZE).items():
                columns[key].append(value)
            asked[place] += 1
        return columns

    def _played(self, place: int, sample: int) -> dict[str, Any]:
        tokens, task = chat_tokens(), tasks_of(self._scene)[place]
        in_first_half = place % PROMPTS_PER_STEP < PROMPTS_PER_STEP // 2
        episode, completion, mask = ToolboxEpisode(task), list[int](), list[int]()
        for text in _turns(task, sample, self._scene.errors_everywhere or in_first_half):
            turn = tokens.turn(text)
            completion, mask = completion + turn, mask + [1] * len(turn)
            result = episode.step(text)
            if not episode.finished and result.observation is not None:
                answer = tokens.after_turn(result.observation)
                completion, mask = completion + answer, mask + [0] * len(answer)
        return {
            "prompt_ids": tokens.prompt(task.messages),
            "completion_ids": completion,
            "logprobs": [-0.5] * len(completion),
            "env_mask": mask,
            "trace": trace_of(episode, "policy", sample),
        }


def spread(completion_ids: list[list[int]], **columns: Any) -> list[float]:
    """Differs within a group, so that an untrained policy gets a gradient."""
    return [float(sum(place * token for place, token in enumerate(ids, 1))) for ids in completion_ids]


def stored_examples(number: int, with_sites: range, seed: int = 0) -> list[TraceExample]:
    """Random rows; those in `with_sites` have one or two sites and as many pairs, the others none."""
    draw = torch.Generator().manual_seed(seed)
    words = len(chat_tokens().tokenizer)

    def ids(length: int) -> list[int]:
        return torch.randint(7, words, (length,), generator=draw).tolist()

    examples: list[TraceExample] = []
    for place in range(number):
        row, count = ids(20 + 3 * place), (1 + place % 2) * (place in with_sites)
        sites = [SiteTokens(start, start + 4, row[:start] + ids(6)) for start in (8, 14)[:count]]
        pairs = [PairTokens(ids(5), ids(3 + which), ids(6), -9.0 - which, -11.0, 0.1 * which) for which in range(count)]
        examples.append(TraceExample(row, [1] * len(row), 0.0, sites, pairs))
    return examples


def _stored_batches(scene: Scene, rank: int, world: int) -> Any:
    """Each process reads its part of the examples that one process alone would read."""
    collator, number = ComposerDataCollator(0), 4
    part = slice(rank * number // world, (rank + 1) * number // world)
    for step in itertools.count():
        with_sites = range(number if scene.stored_everywhere else number // 2)
        yield collator(stored_examples(number, with_sites, step)[part])


def build(scene: Scene, folder: str, rank: int = 0, world: int = 1, model: Any = None) -> Any:
    arguments = GRPOConfig(
        output_dir=folder, seed=5, max_steps=scene.steps, num_generations=GROUP_SIZE, learning_rate=1e-2,
        lr_scheduler_type="constant", max_grad_norm=0.0, beta=0.0, use_cpu=True, logging_steps=1, save_strategy="no",
        report_to=[], disable_tqdm=True, shuffle_dataset=False,
        gradient_accumulation_steps=scene.accumulation,
        **{
            "bf16": False, "gradient_checkpointing": False,
            "per_device_train_batch_size": PROMPTS_PER_STEP * GROUP_SIZE // world // scene.accumulation,
            **scene.arguments,
        },
    )  # fmt: skip
    options: dict[str, Any] = {}
    if scene.trainer is not GRPOTrainer:
        sdpo = {"weight": scene.alpha, "require_disfavour": False, "teacher": "live", **scene.settings}
        options = {
            "beta_replay": scene.beta,
            "channels": [SelfDistillation(SdpoSettings.model_validate(sdpo))],
            "gradient_ratio_cap": scene.cap,
            "hinter": TraceHinter() if scene.online else None,
            "batches": _stored_batches(scene, rank, world),
        }
    if scene.environment:
        return environment_trainer(scene.trainer, folder, arguments={"max_steps": scene.steps}, **options)
    trainer = scene.trainer(
        model=model or new_model(scene.tied),
        processing_class=chat_tokens().tokenizer,
        args=arguments,
        reward_funcs=spread,
        train_dataset=Dataset.from_list([{"prompt": task.messages} for task in tasks_of(scene)]),
        rollout_func=GivenRollouts(scene),
        **options,
    )
    trainer.remove_callback(PrinterCallback)
    use_optimizer(trainer, scene.optimizer)
    return trainer


def build_exactly(scene: Scene, folder: str, rank: int = 0, world: int = 1) -> Any:
    """With channels in float64, so that what remains between several processes and one is not rounding."""
    if not (scene.alpha or scene.beta):
        return build(scene, folder, rank, world)
    return build(replace(scene, even_prompts=True), folder, rank, world, new_model(scene.tied).double())


def whole(tensor: Any) -> torch.Tensor:
    return (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().clone()


def run(trainer: Any) -> tuple[dict[str, torch.Tensor], list[dict[str, float]]]:
    """Gradients of the first step as `grad/…`, weights after the last as `weight/…`, and the logged steps."""
    tensors: dict[str, torch.Tensor] = {}

    def watch(*_: Any) -> None:
        if not tensors:
            for name, parameter in trainer.model.named_parameters():
                if parameter.grad is not None:
                    tensors[f"grad/{name}"] = whole(parameter.grad)

    create = trainer.create_optimizer

    def create_and_watch(*arguments: Any, **options: Any) -> Any:
        optimizer = create(*arguments, **options)
        trainer.optimizer.register_step_pre_hook(watch)
        return optimizer

    trainer.create_optimizer = create_and_watch
    trainer.train()
    for name, parameter in trainer.model.named_parameters():
        tensors[f"weight/{name}"] = whole(parameter)
    return tensors, [entry for entry in trainer.state.log_history if "grad_norm" in entry]
