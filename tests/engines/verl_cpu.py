"""TEST TOOL, not for use: verl on a machine without an accelerator, so that the wiring can be tried.

    .venv-verl/bin/python -m tests.engines.verl_cpu RANKS RUN [arguments of recompose train]

A platform called `cpu`, and a rollout server that samples one token at a time through transformers. verl samples with
vLLM or SGLang; their kernels, weight transfer and speed are not tried by this.
"""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import ray
import torch
import verl.utils.distributed as verl_distributed
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry
from verl.workers.rollout import base
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

NAME = "composer_cpu_aid"
MODULE = "tests.engines.verl_cpu"
ENVIRONMENT = {
    "VERL_USE_EXTERNAL_MODULES": MODULE,
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",  # the engine is registered for this one and for NPUs
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(Path(__file__).parents[2]),
}


def cpu_overrides(ranks: int, has_cluster: bool = False) -> tuple[str, ...]:
    """No flash attention, no compiler, and GPUs that exist by name alone; a cluster was started with its own."""
    started_here = (
        "ray_kwargs.ray_init.num_cpus=16",
        f"+ray_kwargs.ray_init.num_gpus={ranks}",
        "+ray_kwargs.ray_init.include_dashboard=False",
    )
    return (
        f"actor_rollout_ref.rollout.name={NAME}",
        "actor_rollout_ref.rollout.free_cache_engine=False",
        "actor_rollout_ref.model.use_remove_padding=False",
        "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
        "actor_rollout_ref.actor.use_torch_compile=False",
        "actor_rollout_ref.actor.fsdp_config.use_torch_compile=False",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
        "trainer.device=cpu",
        f"trainer.n_gpus_per_node={ranks}",
        *(() if has_cluster else started_here),
    )


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _device_module() -> ModuleType:
    """What verl asks of `torch.cuda`. That it is not available keeps verl off its memory statistics."""
    module = ModuleType("composer_cpu_device")
    vars(module).update({name: getattr(torch.cpu, name) for name in dir(torch.cpu)})
    for name in ("set_device", "empty_cache", "ipc_collect", "synchronize", "reset_peak_memory_stats"):
        setattr(module, name, _nothing)
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"):
        setattr(module, name, lambda *_: 0)
    vars(module).update(
        is_available=lambda: False,
        current_device=lambda: "cpu",
        device_count=lambda: 1,
        mem_get_info=lambda *_: (1, 1),
        get_device_name=lambda *_: "CPU",
        manual_seed=torch.manual_seed,
        manual_seed_all=torch.manual_seed,
        get_rng_state=lambda *_: torch.get_rng_state(),
        set_rng_state=lambda state, *_: torch.set_rng_state(state),
    )
    return module


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    device_name = vendor_name = "cpu"
    device_module = _device_module()

    is_available = lambda self: True  # noqa: E731
    current_device = lambda self: "cpu"  # noqa: E731
    device_count = lambda self: 1  # noqa: E731
    get_device_capability = lambda self, device=0: (None, None)  # noqa: E731
    communication_backend_name = lambda self: "gloo"  # noqa: E731
    visible_devices_envvar = lambda self: "CUDA_VISIBLE_DEVICES"  # noqa: E731
    # verl's pools count GPUs or NPUs, so Ray is started with GPUs that exist by name alone.
    ray_resource_name = lambda self: "GPU"  # noqa: E731
    ray_noset_envvars = lambda self: []  # noqa: E731
    is_ipc_supported = lambda self: False  # noqa: E731
    nvtx_range = lambda self, message: nullcontext()  # noqa: E731
    set_device = synchronize = set_allocator_settings = empty_cache = _nothing
    profiler_start = profiler_stop = cudart = _nothing

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed


def _join_processes(timeout_second: float | None = None, backend: str | None = None) -> None:
    """verl would ask torch for `cpu:gloo,cpu:gloo`, which torch refuses."""
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group(
            "gloo",
            rank=int(os.environ.get("RANK", 0)),
            world_size=int(os.environ.get("WORLD_SIZE", 1)),
            timeout=timedelta(seconds=timeout_second or 1800),
            init_method=os.environ.get("DIST_INIT_METHOD"),
        )


verl_distributed.initialize_global_process_group_ray = _join_processes


class TransformersServer:
    """A Ray actor. Each request samples with its own seed, so that the order of requests does not matter."""

    def __init__(self, path: str) -> None:
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        self._model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self._version = 0

    def load(self, weights: dict[str, torch.Tensor], version: int | None) -> None:
        found = self._model.load_state_dict({name: value.float() for name, value in weights.items()}, strict=False)
        assert not found.unexpected_keys, found.unexpected_keys
        self._version = version or 0

    @torch.no_grad()
    def generate(self, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any) -> TokenOutput:
        generator = torch.Generator().manual_seed(sampling_params["seed"])
        read, cache = torch.tensor([prompt_ids]), None
        ids: list[int] = []
        logprobs: list[float] = []
        while len(ids) < sampling_params["max_tokens"] and ids[-1:] != sampling_params["stop_token_ids"]:
            out = self._model(read, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            logprobs_V = (out.logits[0, -1] / sampling_params["temperature"]).log_softmax(-1)
            ids.append(int(torch.multinomial(logprobs_V.exp(), 1, generator=generator)))
            logprobs.append(float(logprobs_V[ids[-1]]))
            read = torch.tensor([[ids[-1]]])
        return TokenOutput(
            token_ids=ids, log_probs=logprobs, stop_reason="completed", extra_fields={"global_steps": self._version}
        )

    def pid(self) -> int:
        return os.getpid()

    wake_up = sleep = abort_all_requests = resume_generation = _nothing
    clear_kv_cache = release_kv_cache = resume_kv_cache = start_profile = stop_profile = _nothing


def _name(replica: int) -> str:
    return f"{NAME}_{replica}"


class TransformersReplica(RolloutReplica):
    async def launch_servers(self) -> None:
        name = _name(self.replica_rank)
        server = ray.remote(TransformersServer).options(name=name, num_cpus=0).remote(self.model_config.path)
        print(f"{name} pid {await server.pid.remote()}", flush=True)
        self.servers, self._server_handle, self._server_address = [server], server, name

    def rollout_worker_use_gpu(self) -> bool:
        return False


class TransformersAdapter(base.BaseRollout):
    """In each training process: sends the weights to its server."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        self.replica_rank = int(os.environ["RANK"]) if replica_rank < 0 else replica_rank

    async def resume(self, tags: Any) -> None:
        pass

    async def release(self) -> None:
        pass

    async def update_weights(self, weights: Any, *_: Any, global_steps: int | None = None, **__: Any) -> None:
        whole = {name: getattr(value, "full_tensor", lambda value=value: value)() for name, value in weights}
        sent = {name: value.detach().cpu().clone() for name, value in whole.items()}
        await ray.get_actor(_name(self.replica_rank)).load.remote(sent, global_steps)


RolloutReplicaRegistry.register(NAME, lambda: TransformersReplica)
base._ROLLOUT_REGISTRY[(NAME, "async")] = f"{MODULE}.TransformersAdapter"

if __name__ == "__main__":
    from composer_replication.__main__ import main

    os.environ.update(ENVIRONMENT)
    asked = [part for override in cpu_overrides(int(sys.argv[1])) for part in ("--override", override)]
    sys.argv = ["recompose", "train", *sys.argv[2:], "--backend", "verl", *asked]
    main()
