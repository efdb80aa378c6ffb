"""Exports survive the loaders and chat templates of those who read them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from composer_replication.errors import UsageError
from composer_replication.pairs.card import dataset_card
from composer_replication.pairs.export import Exported, export_pairs
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
        "pair_id": f"p{number}", "state_id": f"s{number}", "trace_id": f"t{number}", "turn": 1,
        "chosen": chosen, "rejected": rejected, "tools": TOOLS, "off_policy": True, "provenance": ("k",),
        "agreement": Agreement(tier="exact", votes=2, n=2, families=("a", "b")), "simulated": True,
    }  # fmt: skip
    return PreferencePair(**(values | fields))


def make_trace(pair: PreferencePair, prompt=PROMPT) -> Trace:
    """Whose second turn is the one that the pair is about."""
    turns = (Turn(start=2, end=4), Turn(start=len(prompt), end=len(prompt) + 1))
    return Trace(trace_id=pair.trace_id, source=Source(agent="codex"), messages=(*prompt, pair.rejected), turns=turns)


def export(pairs, format, folder, prompts=None, **choices):
    """Each pair after its own prompt, by pair id, or after the usual one."""
    traces = [make_trace(pair, (prompts or {}).get(pair.pair_id, PROMPT)) for pair in pairs]
    return export_pairs(pairs, traces, format, folder, **choices)


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
    exported = export(PAIRS, "trl", tmp_path)
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
    row = load(export(PAIRS, "trl", tmp_path).path)[0]
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
    dataset = load(export(PAIRS, "trl", tmp_path).path)
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
    exported = export(PAIRS, "kto", tmp_path)
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
    dataset = load(export(PAIRS, "sft", tmp_path).path)
    trainer = SFTTrainer(
        small_model(tokenizer), args=SFTConfig(**options(tmp_path)), train_dataset=dataset, processing_class=tokenizer
    )
    row = trainer.train_dataset[0]
    learnt = [token for token in row["labels"] if token != -100]
    assert '{"path": "a.py"}' in tokenizer.decode(learnt)
    # The actor's own call in the history is read and not learnt.
    assert "ünï.py" in tokenizer.decode(row["input_ids"]) and "ünï.py" not in tokenizer.decode(learnt)


def test_verl_finds_its_columns(tmp_path):
    row, other = load(export(PAIRS, "verl", tmp_path).path)
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
    silent = load(export(PAIRS, "trl", tmp_path / "calls").path)[0]
    assert "read_file" not in apply_chat_template(silent, tokenizer)["chosen"]
    row = load(export(PAIRS, "trl", tmp_path / "text", calls_as_text=True).path)[0]
    text = apply_chat_template(row, tokenizer)
    assert '{"name":"read_file","arguments":{"path":"a.py"}}' in text["chosen"]
    assert 'first I read\n{"name":"read_file"' in text["prompt"]
    assert row["tools"] is None


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [
        (call("f", "{"), "a side's arguments are no JSON object"),
        (call("f", "[]"), "a side's arguments are no JSON object"),
        (call("f", '{"n": 123456789012345678901234567890}'), "no dataset can hold it"),
        (call("f", '{"n": 5e-324}'), "no dataset can hold it"),
        ({"role": "assistant", "content": "\ud800"}, "no dataset can hold it"),
    ],
)  # fmt: skip
def test_what_would_come_back_changed_is_left_out_and_counted(tmp_path, chosen, reason):
    exported = export([PAIRS[1], make_pair(2, chosen, PAIRS[0].rejected)], "trl", tmp_path)
    assert (exported.rows, exported.left_out) == (1, {reason: 1})


@pytest.mark.parametrize("format", ["trl", "kto", "sft", "verl"])
def test_pairs_without_tools_or_calls(tmp_path, format):
    plain = make_pair(0, {"role": "assistant", "content": "yes"}, {"role": "assistant", "content": "no"}, tools=())
    assert len(load(export([plain], format, tmp_path).path)) == (2 if format == "kto" else 1)


LONG = {"role": "tool", "content": "line\n" * 2000, "tool_call_id": "c1"}
LONG_PROMPT = (*PROMPT[:3], LONG, *PROMPT[2:])


def test_a_long_prompt_is_windowed_and_one_that_no_window_fits_is_left_out(tmp_path):
    long = {"p0": LONG_PROMPT}
    exported = export(PAIRS, "trl", tmp_path / "short", long, max_tokens=600)
    assert (exported.rows, exported.left_out, exported.windowed) == (2, {}, 1)
    shown = load(exported.path)[0]["prompt"]
    assert [message["content"] for message in shown[:2]] == [message["content"] for message in PROMPT[:2]]
    assert shown[-1] == {"role": "tool", "content": "no file", "tool_call_id": "c1"}
    assert "characters cut ...]" in shown[3]["content"]
    assert len(json.dumps(shown)) < 4 * 600
    system = {"role": "system", "content": "rule " * 2000}
    some = export(PAIRS, "trl", tmp_path / "some", {"p0": (system, *PROMPT[1:])}, max_tokens=600)
    assert (some.rows, some.left_out, some.windowed) == (1, {"no window fits": 1}, 0)
    whole = export(PAIRS, "trl", tmp_path / "whole", long)
    assert (load(whole.path)[0]["prompt"][3]["content"], whole.windowed) == (LONG["content"], 0)


def test_a_turn_that_is_too_long_by_itself_is_told_apart(tmp_path):
    long = make_pair(2, call("read_file", json.dumps({"path": "a/" * 2000})), PAIRS[0].rejected)
    assert export([PAIRS[1], long], "trl", tmp_path, max_tokens=600).left_out == {
        "its turn and tools alone are too long": 1
    }


def template_lengths(tokenizer):
    from composer_replication.training.models.tokens import ChatTokens
    from composer_replication.training.planning.lengths import TemplateLengths

    return TemplateLengths(ChatTokens(tokenizer), "small")


@pytest.mark.parametrize("format", ["trl", "sft"])
def test_rows_within_the_default_of_trl_are_all_kept_whole(tmp_path, templated, chatml_tokenizer, format):
    """Long rows as they are: TRL drops those of the first trainer, and cuts off what the second would learn."""
    from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

    tokenizer = templated("qwen3", chatml_tokenizer)
    config, trainer, answer = {
        "trl": (DPOConfig, DPOTrainer, "chosen_ids"), "sft": (SFTConfig, SFTTrainer, "input_ids")
    }[format]  # fmt: skip
    settings = {name: value for name, value in options(tmp_path).items() if name != "max_length"}
    long = dict.fromkeys(("p0", "p1"), LONG_PROMPT)

    def tokenized(**choices):
        exported = export(PAIRS, format, tmp_path / f"{len(choices)}", long, **choices)
        arguments = config(**settings)
        assert arguments.max_length == 1024
        models = {name: small_model(tokenizer) for name in ("model", "ref_model")[: 2 if format == "trl" else 1]}
        made = trainer(**models, args=arguments, train_dataset=load(exported.path), processing_class=tokenizer)
        return exported, list(made.train_dataset)

    exported, rows = tokenized(max_tokens=1024, lengths=template_lengths(tokenizer))
    assert (exported.rows, exported.windowed, exported.left_out, len(rows)) == (2, 2, {}, 2)
    for row, tokens in zip(rows, exported.tokens, strict=True):
        longest = max(
            len(row.get("prompt_ids", [])) + len(row[name]) for name in (answer, "rejected_ids") if name in row
        )
        assert longest <= tokens <= 1024
        assert tokenizer.decode(row[answer]).rstrip().endswith("<|im_end|>")
    _, before = tokenized()
    assert [row for row in before if tokenizer.decode(row[answer]).rstrip().endswith("<|im_end|>")] == []


def test_a_template_that_refuses_a_row_is_a_reason_to_lose_it(tmp_path, chatml_tokenizer):
    tokenizer = chatml_tokenizer("<|pad|>")
    lengths = template_lengths(tokenizer)
    lengths._template.source = ""
    tokenizer.chat_template = "{{ raise_exception('no tools') if tools else messages }}"
    plain = make_pair(0, PAIRS[0].chosen, PAIRS[0].rejected, tools=())
    exported = export([plain, PAIRS[1]], "trl", tmp_path, max_tokens=9000, lengths=lengths)
    assert (exported.rows, exported.left_out) == (1, {"the chat template refuses it": 1})


BROKEN = call("read_file", '{"path": "unfinish', "let me see")


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_malformed_call_in_the_history_is_shown_as_text_and_counted(tmp_path, name, templated, chatml_tokenizer):
    from trl.data_utils import apply_chat_template

    prompts = {"p0": (*PROMPT[:2], BROKEN, PROMPT[3])}
    exported = export(PAIRS, "trl", tmp_path, prompts)
    assert (exported.rows, exported.left_out, exported.malformed_histories) == (2, {}, 1)
    row = load(exported.path)[0]
    text = apply_chat_template(row, templated(name, chatml_tokenizer), tools=json.loads(row["tools"]))["prompt"]
    assert 'let me see\n{"name":"read_file","arguments":{"path": "unfinish}' in text
    assert "no file" in text


def test_a_number_that_json_has_not_is_malformed_and_loses_no_pair(tmp_path):
    prompts = {"p0": (*PROMPT[:2], call("set_key", '{"value": NaN}'), PROMPT[3])}
    exported = export(PAIRS, "trl", tmp_path, prompts)
    assert (exported.rows, exported.left_out, exported.malformed_histories) == (2, {}, 1)


def test_a_malformed_side_can_be_written_as_text_alone(tmp_path):
    pair = make_pair(2, PAIRS[0].chosen, BROKEN)
    assert export([PAIRS[1], pair], "trl", tmp_path / "calls").left_out == {"a side's arguments are no JSON object": 1}
    exported = export([pair], "trl", tmp_path / "text", calls_as_text=True)
    assert load(exported.path)[0]["rejected"][0]["content"].endswith(
        '{"name":"read_file","arguments":{"path": "unfinish}'
    )


def test_the_documented_export_is_the_one_that_is_kept():
    root = Path(__file__).parents[2]
    kept = json.loads((root / "benchmarks" / "results" / "pair_export.json").read_text())
    text = (root / "docs" / "pairs.md").read_text()
    for row in kept["exports"]:
        limit = "none" if row["max_tokens"] is None else f"{row['max_tokens']:,}"
        tokens = f"{row['tokens']['median']:,} | {row['tokens']['longest']:,}"
        assert f"| {limit} | {row['kept']} of {kept['pairs']} | {row['windowed']} | {tokens} |" in text
        assert row["kept"] + sum(row["lost"].values()) == kept["pairs"]
    for name, style in (("as the actor wrote them", "as_written"), ("in one style", "in_one_style")):
        shares = " | ".join(f"{sides['rejected']:.1%}" for sides in kept["style"][style].values())
        assert f"| {name} | {shares} |" in text
        assert {sides["chosen"] for sides in kept["style"][style].values()} == {0.0}


def test_nothing_to_export_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="no pair to export"):
        export([], "trl", tmp_path)
    assert not (tmp_path / "train.parquet").exists()


def test_the_card_tells_of_windows():
    assert "3 prompts are windows" in card(simulated=True, windowed=3)
    assert "Every prompt is the whole history." in card(simulated=True)
    assert "4 prompts show a call as text" in card(simulated=True, malformed_histories=4)


def test_the_card_shows_how_the_sides_differ_in_style():
    shown = card(simulated=True)
    assert "| text | 0.0% | 50.0% |" in shown
    assert "| text beside a call | 0.0% | 0.0% |" in shown
    assert "| no call | 0.0% | 50.0% |" in shown


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
    done = Exported(Path("train.parquet"), 2, Counter(), 0, 0, (9, 9))._replace(**fields)
    return dataset_card("trl", pairs, traces, [reply, reply], {"paired": 2, "no_majority": 1}, {"email": 4}, done)


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
