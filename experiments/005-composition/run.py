"""Do the channels compose? Exact ablation, the sum of the parts, finite gradients, falling losses; then 120 steps.

    recompose experiment run experiments/005-composition          CPU; tiny, and SmolLM2 if it was fetched

Writes results/composition.json: gradients of the first step of toolbox rollouts with error turns and stored pairs are
compared, and for the tiny policy losses over six steps. `results/` also holds the run of 120 steps on a GPU, which
README.md describes.
"""

import json
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from composer_replication.cli.common import quiet_libraries
from composer_replication.config import Config, ModelConfig, ToolboxConfig, TrainingConfig
from composer_replication.environments.toolbox import ToolboxEpisode, next_call, task_stream
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.objective import SdpoSettings
from composer_replication.training import ComposerDataCollator, ComposerReplicationTrainer
from composer_replication.training.backends.trl.rollouts import EnvironmentRollouts
from composer_replication.training.channels import SelfDistillation
from composer_replication.training.lessons.online_sites import TraceHinter
from composer_replication.training.models.embedded import folder_of
from composer_replication.training.models.loading import Policy, load_policy
from composer_replication.training.stored.batches import StoredBatches
from composer_replication.training.stored.examples import PairTokens, TraceExample
from composer_replication.training.train import prompts_of

HERE = Path(__file__).parent
PROMPTS, GROUP = 1, 4
STEPS = {"tiny": 6, "smollm2": 1}
LEARNING_RATES = {"tiny": 1e-3, "smollm2": 1e-4}
ARMS = {"policy": (0.0, 0.0), "alpha": (1.0, 0.0), "beta": (0.0, 1.0), "full": (1.0, 1.0)}


def spread(completion_ids: list[list[int]], **columns: Any) -> list[float]:
    """A reward that differs within a group, so that there is a policy gradient whatever the policy can do."""
    return [float(sum(place * token for place, token in enumerate(ids, 1)) % 7) for ids in completion_ids]


def trainer_of(
    kind: Callable[..., Any], policy: Policy, config: Config, folder: str, steps: int, **options: Any
) -> Any:
    tasks = list(islice(task_stream(config.toolbox, "train", 7), PROMPTS))
    arguments = GRPOConfig(
        output_dir=folder, seed=0, max_steps=steps, per_device_train_batch_size=PROMPTS * GROUP, num_generations=GROUP,
        learning_rate=LEARNING_RATES[policy.name], lr_scheduler_type="constant", max_grad_norm=0.0, beta=0.0,
        use_cpu=True, bf16=False, gradient_checkpointing=False, logging_steps=1, save_strategy="no", report_to=[],
        disable_tqdm=True,
    )  # fmt: skip
    trainer = kind(
        model=policy.model,
        processing_class=policy.tokenizer,
        args=arguments,
        reward_funcs=spread,
        train_dataset=prompts_of(tasks),
        rollout_func=EnvironmentRollouts(policy, open_toolbox(config), tasks, config.training, seed=config.seed),
        **options,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def stored(policy: Policy, config: Config) -> Any:
    """The oracle's first call over a call that does not exist, for a few tasks."""
    examples: list[TraceExample] = []
    for task in islice(task_stream(config.toolbox, "train", 99), 4):
        prompt, call = policy.tokens.prompt(task.messages), next_call(ToolboxEpisode(task))
        assert call is not None
        pair = PairTokens(
            prompt, policy.tokens.turn(call.render()), policy.tokens.turn('{"name":"run","arguments":{}}')
        )
        examples.append(TraceExample(prompt, [0] * len(prompt), 0.0, [], [pair]))
    return StoredBatches(examples, ComposerDataCollator(policy.tokenizer.pad_token_id), 4, 0)


def composer(alpha: float, beta: float, policy: Policy, config: Config) -> Callable[..., Any]:
    return partial(
        ComposerReplicationTrainer,
        channels=[SelfDistillation(SdpoSettings(weight=alpha, teacher="live", require_disfavour=False))],
        beta_replay=beta, gradient_ratio_cap=None, hinter=TraceHinter(), batches=stored(policy, config),
    )  # fmt: skip


def run(
    kind: Callable[..., Any], policy: Policy, config: Config, steps: int
) -> tuple[list[torch.Tensor], list[dict[str, Any]]]:
    """Gradients of the first step, by parameter, and the log."""
    seen: list[list[torch.Tensor]] = []
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_of(kind, policy, config, folder, steps)
        create = trainer.create_optimizer

        def create_and_watch(*arguments: Any, **options: Any) -> Any:
            optimizer = create(*arguments, **options)
            trainer.optimizer.register_step_pre_hook(
                lambda *_: seen.append([p.grad.clone() for p in trainer.model.parameters()]) if not seen else None
            )
            return optimizer

        trainer.create_optimizer = create_and_watch
        trainer.train()
    return seen[0], [entry for entry in trainer.state.log_history if "grad_norm" in entry]


def check(name: str) -> dict[str, Any]:
    config = Config(model=ModelConfig(name=name), toolbox=ToolboxConfig(), training=TrainingConfig(max_turn_tokens=16))
    load = partial(load_policy, name, open_toolbox(config), 0)
    plain = load()
    plain_gradient, plain_log = run(GRPOTrainer, plain, config, STEPS[name])
    gradients, logs, ended = {}, {}, {}
    for arm, (alpha, beta) in ARMS.items():
        policy = load()
        gradients[arm], logs[arm] = run(composer(alpha, beta, policy, config), policy, config, STEPS[name])
        ended[arm] = policy
    flat = {arm: torch.cat([grad.flatten() for grad in found]) for arm, found in gradients.items()}
    parts = flat["alpha"] + flat["beta"] - flat["policy"]
    return {
        "model": name,
        "ablation_is_bit_identical": all(map(torch.equal, plain.model.parameters(), ended["policy"].model.parameters()))
        and all(map(torch.equal, plain_gradient, gradients["policy"])),
        "sum_of_parts_relative_error": ((flat["full"] - parts).norm() / flat["full"].norm()).item(),
        "parameters": len(gradients["full"]),
        "parameters_with_a_finite_nonzero_gradient": sum(
            bool(grad.isfinite().all() and grad.abs().max() > 0) for grad in gradients["full"]
        ),
        "sites_in_the_first_step": logs["full"][0]["sdpo/sites"],
        "sdpo_by_step": [entry["channel/sdpo"] for entry in logs["alpha"]],
        "replay_by_step": [entry["channel/replay"] for entry in logs["beta"]],
        "reward_by_step_plain": [entry["reward"] for entry in plain_log],
    }


def main() -> None:
    quiet_libraries()
    torch.set_num_threads(2)
    names = ["tiny", *(["smollm2"] if folder_of("smollm2").exists() else [])]
    (HERE / "results").mkdir(exist_ok=True)
    results: list[dict[str, Any]] = []
    for name in names:
        results.append(check(name))
        print(json.dumps(results[-1]))
        (HERE / "results" / "composition.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
