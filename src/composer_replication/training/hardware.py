"""What a machine needs of a run: precision, micro-batches, adapters, who samples. Sharding is accelerate's own file.

Nothing here changes the objective; LoRA and bfloat16 change what can be reached and how it rounds.
"""

from __future__ import annotations

from typing import Any, Literal

from composer_replication.config import Config, Fraction, Positive, Section
from composer_replication.errors import UsageError


class HardwareConfig(Section):
    rollouts_per_device: Positive | None = None
    """Rollouts of one forward and backward pass on one device; the rest of a step is accumulated. None: all at once."""
    weights: Literal["float32", "bfloat16"] = "float32"
    """What the weights are kept in. With LoRA only the frozen ones: adapters stay in float32."""
    autocast: Literal["auto", "off", "bfloat16"] = "auto"
    """Precision of products. `auto` is bfloat16 on a GPU and float32 on a CPU."""
    gradient_checkpointing: bool = False
    """Keep only the input of each layer and compute the rest again: less memory, about a third more time."""
    lora_rank: Positive | None = None
    """Train adapters of this rank and leave the weights alone. None trains the weights."""
    lora_alpha: Positive = 32
    lora_targets: str = "all-linear"
    """Which layers get adapters; TRL refuses the output head."""
    vllm: Literal["off", "colocate", "server"] = "off"
    """Sample through vLLM: inside the training processes, or on a server of its own."""
    vllm_memory_share: Fraction = 0.3
    """Of each GPU's memory, what vLLM may take when colocated."""
    vllm_tensor_parallel: Positive = 1
    """GPUs that share one colocated engine."""
    vllm_server_url: str | None = None

    def autocasts(self, on_gpu: bool) -> bool:
        return on_gpu if self.autocast == "auto" else self.autocast == "bfloat16"

    def accumulation(self, rollouts_per_step: int, processes: int) -> int:
        """Micro-steps per optimiser step."""
        per_process, rest = divmod(rollouts_per_step, processes)
        micro, left_over = divmod(per_process, self.rollouts_per_device or per_process or 1)
        if rest or left_over or not micro:
            raise UsageError(
                f"{rollouts_per_step} rollouts per step cannot be split over {processes} processes in parts of "
                f"{self.rollouts_per_device or 'equal size'}",
                "change training.prompts_per_step, training.group_size or hardware.rollouts_per_device",
            )
        return micro

    def grpo_arguments(self, rollouts_per_step: int, processes: int, on_gpu: bool) -> dict[str, Any]:
        """Arguments of `GRPOConfig` that follow from the machine."""
        micro = self.accumulation(rollouts_per_step, processes)
        arguments: dict[str, Any] = {
            "per_device_train_batch_size": rollouts_per_step // processes // micro,
            "gradient_accumulation_steps": micro,
            "use_cpu": not on_gpu,
            "bf16": self.autocasts(on_gpu),
            "gradient_checkpointing": self.gradient_checkpointing,
        }
        if self.vllm == "off":
            return arguments
        arguments |= {"use_vllm": True, "vllm_mode": self.vllm}
        if self.vllm == "server":
            return arguments | {"vllm_server_base_url": self.vllm_server_url}
        return arguments | {
            "vllm_gpu_memory_utilization": self.vllm_memory_share,
            "vllm_tensor_parallel_size": self.vllm_tensor_parallel,
        }

    def lora_config(self) -> Any | None:
        """What `GRPOTrainer` takes as `peft_config`."""
        if self.lora_rank is None:
            return None
        try:
            from peft import LoraConfig  # pyright: ignore[reportMissingImports]
        except ModuleNotFoundError as error:
            raise UsageError("hardware.lora_rank needs peft", "pip install peft") from error
        return LoraConfig(
            task_type="CAUSAL_LM", r=self.lora_rank, lora_alpha=self.lora_alpha, target_modules=self.lora_targets
        )


class MachineConfig(Config):
    """A run's settings and those of its machine."""

    hardware: HardwareConfig = HardwareConfig()


def hardware_of(config: Config) -> HardwareConfig:
    return config.hardware if isinstance(config, MachineConfig) else HardwareConfig()
