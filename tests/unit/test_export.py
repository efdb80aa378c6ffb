"""Exports survive the loaders and chat templates of those who read them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from composer_replication.errors import UsageError
from composer_replication.pairs.card import dataset_card
from composer_replication.pairs.export import export_pairs
from composer_replication.records import (
    Agreement,
    PreferencePair,
    Source,
    TeacherReply,
    Trace,
    Turn,
    Usage,
    canonical_call,
)


def call(name: str, arguments: str, content: str = ""):
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }


def schema(name: str, **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": f"does {name}", "parameters": parameters}}


TOOLS = (
    schema("read_file", path={"type": "string"}),
    schema("set_key", key={"type": "string"}, value={"type": "number", "enum": [1, 2.5]}, deep={"type": "object"}),
)
PROMPT = (
    {"role": "system", "content": "You call tools."},
    {"role": "user", "content": "read ünï.py, then set x"},
    call("read_file", '{"path": "ünï.py"}', "first I read"),
    {"role": "tool", "content": "no file", "tool_call_id": "c1", "is_error": True},
)


def make_pair(number: int, chosen, rejected, **fields) -> PreferencePair:
    values = {
        "pair_id": f"p{number}", "state_id": f"s{number}", "trace_id": f"t{number}", "turn": 1, "prompt": PROMPT,
        "chosen": chosen, "rejected": rejected, "tools": TOOLS, "off_policy": True, "provenance": ("k",),
        "agreement": Agreement(tier="exact", votes=2, n=2, families=("a", "b")), "simulated": True,
    }  # fmt: skip
    return PreferencePair(**(values | fields))


DEEP = '{"key": "x", "value": 2.5, "deep": {"a": [1, 0.12345678901234, null, {"b": "é"}], "none": null}}'
PAIRS = [
    make_pair(0, call("read_file", '{"path": "a.py"}'), call("set_key", DEEP), precision=0.9),
    make_pair(1, call("set_key", DEEP), {"role": "assistant", "content": "done"}),
]


def load(path: Path):
    from datasets import load_dataset

    return load_dataset("parquet", data_files=str(path), split="train", cache_dir=str(path.parent / "cache"))


TEMPLATES = ["qwen3", "qwen2_5", "llama3_1", "glm4moe", "qwen3_6", "gemma4"]


@pytest.fixture(scope="module")
def templated(request):
    """TRL's own copies of real chat templates, on a small tokenizer."""
    import trl

    def build(name: str, make_tokenizer):
        tokenizer = make_tokenizer("<|pad|>")
        folder = Path(trl.__file__).parent / "chat_templates"
        tokenizer.chat_template = (folder / f"{name}.jinja").read_text()
        return tokenizer

    return build


def test_what_is_loaded_is_what_was_exported(tmp_path):
    exported = export_pairs(PAIRS, "trl", tmp_path)
    assert (exported.rows, exported.left_out) == (2, {})
    first, second = load(exported.path)
    assert json.loads(first["tools"]) == list(TOOLS)
    assert first["chosen"][0]["tool_calls"][0]["function"] == {"name": "read_file", "arguments": {"path": "a.py"}}
    assert first["rejected"][0]["tool_calls"][0]["function"]["arguments"] == json.loads(DEEP)
    assert second["rejected"] == [{"role": "assistant", "content": "done"}]
    assert first["prompt"][-1] == {"role": "tool", "content": "no file", "tool_call_id": "c1"}
    assert (first["precision"], second["precision"]) == (0.9, None)


@pytest.mark.parametrize("name", TEMPLATES)
def test_trl_renders_every_call_with_exactly_its_arguments(tmp_path, name, templated, chatml_tokenizer):
    """Padding by Arrow would print nulls that nobody wrote; arguments kept as text would be quoted twice."""
    from trl.data_utils import apply_chat_template, is_conversational

    tokenizer = templated(name, chatml_tokenizer)
    row = load(export_pairs(PAIRS, "trl", tmp_path).path)[0]
    assert is_conversational(row)
    text = apply_chat_template(row, tokenizer, tools=json.loads(row["tools"]))
    assert "a.py" in text["chosen"] and "read_file" in text["chosen"]
    assert not {"null", "None", "deep", "\\"} & set(text["chosen"].replace('"', " ").split())
    assert "set_key" in text["rejected"] and "2.5" in text["rejected"]
    assert "does set_key" in text["prompt"]
    direct = {
        "prompt": [_parsed(message) for message in PROMPT],
        "chosen": [_parsed(PAIRS[0].chosen)],
        "rejected": [_parsed(PAIRS[0].rejected)],
    }
    assert apply_chat_template(direct, tokenizer, tools=list(TOOLS)) == text


def _parsed(message):
    calls = [
        {**c, "function": {**c["function"], "arguments": json.loads(c["function"]["arguments"])}}
        for c in message.get("tool_calls", [])
    ]
    kept = {key: value for key, value in message.items() if key != "is_error"}
    return {**kept, "tool_calls": calls} if calls else kept


def small_model(tokenizer):
    from transformers import LlamaConfig, LlamaForCausalLM

    size = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **size))


def options(folder):
    return {
        "output_dir": str(folder),
        "report_to": "none",
        "max_length": None,
        "max_steps": 1,
        "use_cpu": True,
        "bf16": False,
    }


def test_trls_dpo_trainer_takes_the_file(tmp_path, templated, chatml_tokenizer):
    from trl import DPOConfig, DPOTrainer

    tokenizer = templated("qwen3", chatml_tokenizer)
    dataset = load(export_pairs(PAIRS, "trl", tmp_path).path)
    arguments = DPOConfig(**options(tmp_path))
    models = {"model": small_model(tokenizer), "ref_model": small_model(tokenizer)}
    trainer = DPOTrainer(**models, args=arguments, train_dataset=dataset, processing_class=tokenizer)
    row = trainer.train_dataset[0]
    assert '{"path": "a.py"}' in tokenizer.decode(row["chosen_ids"])
    assert "does set_key" in tokenizer.decode(row["prompt_ids"])
    assert trainer.train().training_loss > 0


def test_trls_kto_trainer_takes_the_file(tmp_path, templated, chatml_tokenizer):
    from trl import KTOConfig, KTOTrainer

    tokenizer = templated("qwen3", chatml_tokenizer)
    exported = export_pairs(PAIRS, "kto", tmp_path)
    dataset = load(exported.path)
    assert exported.rows == 4
    assert dataset["label"] == [True, False, True, False]
    models = {"model": small_model(tokenizer), "ref_model": small_model(tokenizer)}
    arguments = KTOConfig(**options(tmp_path))
    trainer = KTOTrainer(**models, args=arguments, train_dataset=dataset, processing_class=tokenizer)
    assert '{"path": "a.py"}' in tokenizer.decode(trainer.train_dataset[0]["completion_ids"])


def test_trls_sft_trainer_takes_the_file(tmp_path, templated, chatml_tokenizer):
    from trl import SFTConfig, SFTTrainer

    tokenizer = templated("qwen3", chatml_tokenizer)
    dataset = load(export_pairs(PAIRS, "sft", tmp_path).path)
    assert [message["role"] for message in dataset[0]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    trainer = SFTTrainer(
        small_model(tokenizer), args=SFTConfig(**options(tmp_path)), train_dataset=dataset, processing_class=tokenizer
    )
    assert '{"path": "a.py"}' in tokenizer.decode(trainer.train_dataset[0]["input_ids"])


def test_verl_finds_its_columns(tmp_path):
    row, other = load(export_pairs(PAIRS, "verl", tmp_path).path)
    assert set(row) == {"data_source", "prompt", "ability", "reward_model", "extra_info"}
    assert row["reward_model"] == {"style": "rule", "ground_truth": canonical_call("read_file", {"path": "a.py"})}
    assert row["prompt"][2]["tool_calls"][0]["function"]["arguments"] == {"path": "ünï.py"}
    assert (row["extra_info"]["index"], other["extra_info"]["index"]) == (0, 1)
    assert json.loads(row["extra_info"]["tools"]) == list(TOOLS)
    assert (row["extra_info"]["precision"], other["extra_info"]["precision"]) == (0.9, None)


def test_calls_as_text_for_templates_that_know_no_tools(tmp_path, chatml_tokenizer):
    """Such a template prints a message with a call as an empty turn."""
    from trl.data_utils import apply_chat_template

    tokenizer = chatml_tokenizer("<|pad|>")
    silent = load(export_pairs(PAIRS, "trl", tmp_path / "calls").path)[0]
    assert "read_file" not in apply_chat_template(silent, tokenizer)["chosen"]
    row = load(export_pairs(PAIRS, "trl", tmp_path / "text", calls_as_text=True).path)[0]
    text = apply_chat_template(row, tokenizer)
    assert '{"name":"read_file","arguments":{"path":"a.py"}}' in text["chosen"]
    assert 'first I read\n{"name":"read_file"' in text["prompt"]
    assert row["tools"] is None


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        (call("f", "{"), "arguments are no JSON"), (call("f", "[]"), "arguments are no object"),
        (call("f", '{"n": 123456789012345678901234567890}'), "no dataset can hold it"),
        (call("f", '{"n": 5e-324}'), "no dataset can hold it"),
        ({"role": "assistant", "content": "\ud800"}, "no dataset can hold it"),
    ],
)  # fmt: skip
def test_what_would_come_back_changed_is_left_out_and_counted(tmp_path, chosen, reason):
    exported = export_pairs([PAIRS[1], make_pair(2, chosen, PAIRS[0].rejected)], "trl", tmp_path)
    assert (exported.rows, exported.left_out) == (1, {reason: 1})


@pytest.mark.parametrize("format", ["trl", "kto", "sft", "verl"])
def test_pairs_without_tools_or_calls(tmp_path, format):
    plain = make_pair(0, {"role": "assistant", "content": "yes"}, {"role": "assistant", "content": "no"}, tools=())
    plain = plain.model_copy(update={"prompt": PROMPT[:2]})
    assert len(load(export_pairs([plain], format, tmp_path).path)) == (2 if format == "kto" else 1)


def test_a_long_prompt_is_windowed_and_one_that_no_window_fits_is_left_out(tmp_path):
    long = {"role": "tool", "content": "line\n" * 2000, "tool_call_id": "c1"}
    pair = make_pair(0, PAIRS[0].chosen, PAIRS[0].rejected, prompt=(*PROMPT[:3], long, *PROMPT[2:]))
    exported = export_pairs([pair, PAIRS[1]], "trl", tmp_path / "short", max_tokens=600)
    assert (exported.rows, exported.left_out, exported.windowed) == (2, {}, 1)
    shown = load(exported.path)[0]["prompt"]
    assert [message["content"] for message in shown[:2]] == [message["content"] for message in PROMPT[:2]]
    assert shown[-1] == {"role": "tool", "content": "no file", "tool_call_id": "c1"}
    assert "characters cut ...]" in shown[3]["content"]
    assert len(json.dumps(shown)) < 4 * 600
    system = {"role": "system", "content": "rule " * 2000}
    beyond = make_pair(2, PAIRS[0].chosen, PAIRS[0].rejected, prompt=(system, *PROMPT[1:]))
    some = export_pairs([beyond, PAIRS[1]], "trl", tmp_path / "some", max_tokens=600)
    assert (some.rows, some.left_out, some.windowed) == (1, {"too long for any window": 1}, 0)
    whole = export_pairs([pair], "trl", tmp_path / "whole")
    assert (load(whole.path)[0]["prompt"][3]["content"], whole.windowed) == (long["content"], 0)


def test_nothing_to_export_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="no pair to export"):
        export_pairs([], "trl", tmp_path)
    assert not (tmp_path / "train.parquet").exists()


def test_the_card_tells_of_windows():
    assert "3 prompts are windows" in card(simulated=True, windowed=3)
    assert "Every prompt is the whole history." in card(simulated=True)


def card(simulated: bool, licence: str | None = "MIT", **fields) -> str:
    pairs = [pair.model_copy(update={"simulated": simulated}) for pair in PAIRS]
    traces = [
        Trace(
            trace_id=f"t{i}", source=Source(agent="codex", licence=licence), messages=(), turns=(Turn(start=0, end=1),)
        )
        for i in range(3)
    ]
    reply = TeacherReply(
        key="k", state_id="s", trace_id="t0", turn=0, teacher="z-ai/glm", served_model=None, family="glm", action=None,
        raw="", finish_reason=None, usage=Usage(), cost_micros=250, latency_s=0, outcome="answered",
        simulated=simulated,
    )  # fmt: skip
    values = {
        "verdicts": {"paired": 2, "no_majority": 1},
        "redactions": {"email": 4},
        "rows": 2,
        "left_out": {},
    } | fields
    return dataset_card("trl", pairs, traces, [reply, reply], **values)


def test_the_card_tells_where_the_data_comes_from():
    text = card(simulated=False)
    assert "Simulated teachers: no." in text
    assert "| codex | MIT | 2 |" in text  # the third trace gave no pair
    assert "| email | 4 |" in text
    assert "| z-ai/glm | glm | 2 |" in text
    assert "$0.000250, $0.000125 per pair" in text  # one paid call, however many states share it
    assert "| no_majority | 1 |" in text
    assert text.startswith("---\nlicense: mit\n")
    assert "1 carry a measured precision" in text


def test_the_card_of_simulated_data_says_so():
    assert "Simulated teachers: yes" in card(simulated=True)
    assert ", simulated]" in card(simulated=True)
    assert "license: other" in card(simulated=True, licence=None)
    assert "| no dataset can hold it | 3 |" in card(simulated=True, left_out={"no dataset can hold it": 3})
