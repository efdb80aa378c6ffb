"""The estimates beside what a process really takes, at a small size on a CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from composer_replication.config import Config, HardwareConfig
from composer_replication.training.models.shape import shape_of
from composer_replication.training.planning.memory import Workload, estimate_memory, estimate_playing, sampling_parts
from composer_replication.training.rollouts.static_sampling import StaticSampler

ROOT = Path(__file__).parents[2]
TOKENS = SimpleNamespace(end_of_turn_id=2, tokenizer=SimpleNamespace(pad_token_id=0))
WORK = Workload(rows=4, row_tokens=100, sampled_rows=4, slot_tokens=300, prompt_tokens=60)


def named(parts):
    return {part.name: part.bytes for part in parts}


def test_slots_and_copy_are_those_of_the_sampler(make_model):
    model = make_model(64)
    sampler = StaticSampler(model, TOKENS, 4, 300, graphs=False)
    sampler.sample([0], [[5, 6]], max_new_tokens=2, temperature=0.0)
    slots = sum(tensor.nbytes for layer in sampler._slots._layers.values() for tensor in layer)
    found = named(sampling_parts(shape_of(model.config), replace(WORK, is_sharded=True, processes=2), 4))
    assert found["key-value cache"] == slots
    assert found["whole copy to sample from"] == sum(parameter.nbytes for parameter in sampler._model.parameters())


def test_on_a_gpu_training_keeps_a_copy_and_playing_only_where_the_type_differs(make_model):
    shape, on_gpu = shape_of(make_model(64).config), replace(WORK, on_gpu=True)
    for weights, copies in (("float32", 1), ("bfloat16", 0)):
        config = Config(hardware=HardwareConfig(weights=weights))
        trained = named(estimate_memory(shape, config, on_gpu).parts)
        played = named(estimate_playing(shape, config, on_gpu).parts)
        assert trained["whole copy to sample from"] == 2 * shape.parameters
        assert played.get("whole copy to sample from", 0) == copies * 2 * shape.parameters
        assert played["key-value cache"] == trained["key-value cache"]


def test_a_process_that_plays_takes_about_what_the_estimate_says():
    """Within a third either way: the allocator and the libraries' own buffers are not estimated."""
    command = [sys.executable, str(ROOT / "benchmarks" / "memory.py"), "--case", "small, played"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert 0.75 < found["measured_mib"] / found["estimate_mib"] < 1.33, found
