"""A GGUF file as a folder of safetensors that can be trained: reads one file, writes one folder.

Tensors are dequantised one at a time and written shard by shard, so no whole copy of the model is ever in memory: the
most is the largest tensor in float32 and one shard. Names and the order of rows come from transformers' own tables, and
so do config, tokenizer and chat template, which are read from the file's metadata alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from composer_replication.errors import UsageError

SHARD_BYTES = 1 << 29
BLOCK_BYTES = 1 << 24
"""Of quantised rows that are dequantised at once, by all threads: gguf makes several copies of what it is given."""
MOST_THREADS = 8
DERIVED = (".attn_rot_embd.weight",)
"""Ends of the names of tensors that old files carry though the model computes them from the file's metadata: each
layer's rotary frequencies, from `rope.freq_base`. Not `rope_freqs.weight`: what Llama 3.1 scales its frequencies by
stands in that tensor alone, and without it the model would think otherwise."""


def convert_gguf(gguf: Path, folder: Path, dtype: str = "float32") -> int:
    """Returns the number of tensors written. Needs no quantisation marks, so the result can be trained and saved."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"transformers cannot read {gguf}: {error}", "give a GGUF file that it knows") from error
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config)
    config.architectures = [type(model).__name__]
    folder.mkdir(parents=True)
    written = _write_shards(_tensors(gguf, model, getattr(torch, dtype)), folder)
    _refuse_missing(model, written, gguf)
    config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return len(written)


def _tensors(gguf: Path, model: Any, dtype: Any) -> Iterator[tuple[str, Any]]:
    """Names and values as the model has them."""
    import torch
    from gguf import GGUFReader
    from transformers.modeling_gguf_pytorch_utils import (
        TENSOR_PROCESSORS,
        TensorProcessor,
        get_gguf_hf_weights_map,
        read_field,
    )

    reader = GGUFReader(gguf)
    architecture = str(read_field(reader, "general.architecture")[0])
    processor = TENSOR_PROCESSORS.get(architecture, TensorProcessor)(config=model.config.to_dict())
    names = get_gguf_hf_weights_map(model, processor)
    _refuse_unmapped([tensor.name for tensor in reader.tensors if tensor.name not in names], gguf)
    for tensor in reader.tensors:
        # What a processor puts aside is for mixtures of experts, whose tensors are spread over several.
        found = processor.process(
            _dequantised(tensor), tensor.name, tensor_key_mapping=names, parsed_parameters={"tensors": {}}
        )
        if found.name in names:
            yield names[found.name], torch.from_numpy(found.weights).to(dtype).contiguous()


def _dequantised(tensor: Any) -> Any:
    """In float32, some rows at a time, in threads: numpy works outside the interpreter's lock."""
    import numpy as np
    from gguf import dequantize

    rows, kind = tensor.data, tensor.tensor_type
    whole = np.empty([int(size) for size in reversed(tensor.shape)], dtype=np.float32)
    threads = min(MOST_THREADS, os.cpu_count() or 1)
    step = max(1, BLOCK_BYTES // threads // max(1, rows[:1].nbytes))

    def fill(start: int) -> None:
        whole[start : start + step] = dequantize(rows[start : start + step], kind)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(fill, range(0, len(rows), step)))
    return whole


def _write_shards(tensors: Iterator[tuple[str, Any]], folder: Path) -> dict[str, str]:
    """The file of each tensor."""
    from safetensors.torch import save_file

    files: dict[str, str] = {}
    shard: dict[str, Any] = {}
    total = held = number = 0

    def write() -> None:
        file = f"model-{number:05d}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        files.update(dict.fromkeys(shard, file))
        shard.clear()

    for name, tensor in tensors:
        if shard and held + tensor.nbytes > SHARD_BYTES:
            number, held = number + 1, 0
            write()
        shard[name] = tensor
        held, total = held + tensor.nbytes, total + tensor.nbytes
    number += 1
    write()
    index = {"metadata": {"total_size": total}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    return files


def _refuse_unmapped(names: Sequence[str], gguf: Path) -> None:
    if lost := [name for name in names if not name.endswith(DERIVED)]:
        raise UsageError(
            f"{gguf} has {len(lost)} tensors that would be lost: {', '.join(lost[:8])}",
            "give another file; mixtures of experts and scaled rotary frequencies are not converted",
        )


def _refuse_missing(model: Any, written: dict[str, str], gguf: Path) -> None:
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    if missing := sorted(set(model.state_dict()) - set(written) - tied):
        raise UsageError(
            f"{gguf} lacks {len(missing)} tensors of its architecture, first {missing[0]}",
            "give another file; mixtures of experts are not converted",
        )
