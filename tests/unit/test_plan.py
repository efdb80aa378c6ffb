"""The plan of a training: memory against what torch really holds, lengths against what training really takes."""

import copy
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from composer_replication.cli.train import train
from composer_replication.cli.train_report import show_plan
from composer_replication.config import Config, HardwareConfig, TrainingConfig
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.errors import UsageError
from composer_replication.hints.write import write_hints
from composer_replication.objective import GrpoSettings, SdpoSettings
from composer_replication.runs import Run
from composer_replication.sites import find_sites
from composer_replication.training.models.loading import Policy
from composer_replication.training.models.muon import muon_with_adamw
from composer_replication.training.models.shape import find_config, shape_of
from composer_replication.training.models.tokens import ChatTokens
from composer_replication.training.planning.doubts import doubts
from composer_replication.training.planning.lengths import ByBytes, ByTokenizer, Item, RunLengths
from composer_replication.training.planning.memory import Workload, estimate_memory, layer_activations
from composer_replication.training.planning.plan import Machine, plan_training, shares
from composer_replication.training.planning.refusals import refuse_uneven_replicas
from composer_replication.training.stored.contexts import Contexts
from composer_replication.training.stored.examples import build_examples
from composer_replication.training.stored.sessions import RenderedSessions
from tests.ingested import stored_lines
from tests.samples import SAMPLES

WORK = Workload(rows=4, row_tokens=128, sampled_rows=4)


def llama(layers=2, key_value_heads=2, **changes):
    from transformers import LlamaConfig

    sizes = {"vocab_size": 512, "hidden_size": 256, "intermediate_size": 640, "num_attention_heads": 4}
    return LlamaConfig(num_hidden_layers=layers, num_key_value_heads=key_value_heads, **{**sizes, **changes})


def qwen3(layers=2):
    from transformers import Qwen3Config

    sizes = {"vocab_size": 512, "hidden_size": 256, "intermediate_size": 640, "num_attention_heads": 4, "head_dim": 64}
    return Qwen3Config(num_hidden_layers=layers, num_key_value_heads=2, **sizes)


def parts(hardware=None, sdpo=None, shape=None, work=WORK, optimizer="adamw"):
    config = Config(
        hardware=hardware or HardwareConfig(),
        channels=(GrpoSettings(), sdpo or SdpoSettings()),
        training=TrainingConfig(optimizer=optimizer),
    )
    found = estimate_memory(shape or shape_of(llama()), config, work)
    return {part.name: part.bytes for part in found.parts}, found


def kept_for_backward(config, dtype):
    """Bytes of all tensors that autograd holds after a forward pass, weights aside."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(config).to(dtype).train()
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    storages, alive = {}, []

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            storages[storage.data_ptr()] = storage.nbytes()
        alive.append(tensor)
        return tensor

    ids = torch.randint(0, 512, (2, 128))
    mask = torch.ones_like(ids)
    mask[0, :5] = 0
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
    return sum(storages.values()) / ids.numel()


@pytest.mark.parametrize("make", [llama, qwen3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_activations_of_a_layer_are_what_autograd_keeps(make, dtype):
    measured = kept_for_backward(make(3), dtype) - kept_for_backward(make(2), dtype)
    size = dtype.itemsize
    assert layer_activations(shape_of(make()), size, size) == pytest.approx(measured, rel=0.06)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_weights_gradients_and_optimiser_are_exact(optimizer):
    from transformers import AutoModelForCausalLM

    config = llama()
    model = AutoModelForCausalLM.from_config(config)
    optimiser = muon_with_adamw(model, {}, {}) if optimizer == "muon" else torch.optim.AdamW(model.parameters())
    model(torch.zeros(1, 2, dtype=torch.long)).logits.sum().backward()
    optimiser.step()
    held = [tensor for state in optimiser.state.values() for tensor in state.values() if tensor.ndim]
    found, _ = parts(optimizer=optimizer)
    assert found["weights"] == sum(parameter.nbytes for parameter in model.parameters())
    assert found["gradients"] == sum(parameter.grad.nbytes for parameter in model.parameters())
    assert found["optimiser"] == sum(tensor.nbytes for tensor in held)


def test_the_cache_is_exact():
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(llama())
    with torch.no_grad():
        cache = model(torch.zeros(4, 128, dtype=torch.long), use_cache=True).past_key_values
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert parts()[0]["key-value cache"] == held


def test_adapters_are_those_of_peft():
    peft = pytest.importorskip("peft", reason="peft is not installed")
    from transformers import AutoModelForCausalLM

    hardware = HardwareConfig(lora_rank=8, weights="bfloat16")
    model = peft.get_peft_model(AutoModelForCausalLM.from_config(llama()), hardware.lora_config())
    adapters = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    found, _ = parts(hardware)
    assert found["gradients"] == 4 * adapters
    assert found["optimiser"] == 8 * adapters
    assert parts(hardware, optimizer="muon")[0]["optimiser"] == 4 * adapters
    assert found["weights"] == 2 * shape_of(llama()).parameters + 4 * adapters


@pytest.mark.parametrize(("teacher", "copies"), [("live", 0), ("frozen", 1), ("ema", 1)])
@pytest.mark.parametrize("source", ["rollouts", "stored"])
def test_a_teacher_is_kept_where_the_channel_has_a_weight(teacher, copies, source):
    weights = 4 * shape_of(llama()).parameters
    assert parts(sdpo=SdpoSettings(source=source, teacher=teacher))[0].get("teacher", 0) == copies * weights
    assert "teacher" not in parts(sdpo=SdpoSettings(source=source, teacher=teacher, weight=0.0))[0]


def test_shards_and_checkpoints_save_what_they_should():
    one, whole = parts()
    sharded, _ = parts(work=Workload(rows=4, row_tokens=128, sampled_rows=4, processes=4, is_sharded=True))
    for name in ("weights", "gradients", "optimiser"):
        assert sharded[name] == one[name] // 4
    replicated, _ = parts(
        work=Workload(rows=4, row_tokens=128, sampled_rows=4, processes=4, is_sharded=True, replicas=2)
    )
    for name in ("weights", "gradients", "optimiser"):
        assert replicated[name] == one[name] // 2
    assert sharded["whole copy to sample from"] == one["weights"]
    assert "whole copy to sample from" not in one
    again, lean = parts(HardwareConfig(gradient_checkpointing=True))
    assert again["activations"] == whole.checkpointed_bytes < one["activations"] == whole.activations_bytes
    assert lean.peak_bytes < whole.peak_bytes


def test_the_peak_is_one_phase_at_a_time():
    _, found = parts(sdpo=SdpoSettings(source="rollouts"))
    always = sum(part.bytes for part in found.parts if part.when == "always")
    assert found.peak_bytes == always + max(found.phases().values())
    assert len(found.phases()) == 3


@pytest.mark.parametrize(("name", "parameters"), [("Qwen/Qwen3-8B", 8_190_735_360), ("Qwen/Qwen3-32B", 32_762_123_264)])
def test_known_models_have_their_published_size(name, parameters):
    assert shape_of(find_config(name)).parameters == parameters


def test_an_unknown_model_has_no_shape():
    assert find_config("nobody/nothing") is None


def test_the_peak_of_a_real_step_is_near_the_estimate():
    """Resident memory of a process of its own, one step of forward, backward and AdamW."""
    script = """
import json, torch
from transformers import AutoModelForCausalLM, LlamaConfig
from composer_replication.training.machine import MemoryMeter
config = LlamaConfig(vocab_size=4096, hidden_size=384, intermediate_size=1024, num_hidden_layers=8,
                     num_attention_heads=6, num_key_value_heads=2)
ids = torch.zeros(8, 256, dtype=torch.long)
torch.nn.functional.scaled_dot_product_attention(*[torch.ones(1, 1, 2, 8)] * 3)
meter = MemoryMeter()
model = AutoModelForCausalLM.from_config(config).train()
optimiser = torch.optim.AdamW(model.parameters())
for _ in range(2):
    model.base_model(ids, attention_mask=torch.ones_like(ids), use_cache=False).last_hidden_state.sum().backward()
    optimiser.step()
    optimiser.zero_grad()
print(json.dumps(meter.peak_bytes()))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    from transformers import LlamaConfig

    config = LlamaConfig(
        vocab_size=4096,
        hidden_size=384,
        intermediate_size=1024,
        num_hidden_layers=8,
        num_attention_heads=6,
        num_key_value_heads=2,
    )
    _, found = parts(shape=shape_of(config), work=Workload(rows=8, row_tokens=256, sampled_rows=0))
    expected = sum(part.bytes for part in found.parts if part.when == "always" or part.name == "activations")
    assert 0.7 < json.loads(done.stdout) / expected < 1.4


def lengths_of(stored, tokens):
    """Stored rows are measured, so of a trace only its turns are looked at."""
    from composer_replication.records import Trace, Turn

    traces = []
    for row, pair, acted in zip(stored.rows, stored.pairs, stored.traces, strict=True):
        prompt = acted.history(0)
        turns = tuple(Turn(start=len(prompt) + i, end=len(prompt) + i) for i in range(len(row.turn_spans)))
        messages = (*prompt, *[pair.rejected] * len(turns))
        traces.append(Trace(trace_id=row.trace_id, source={"agent": "toolbox"}, messages=messages, turns=turns))
    return RunLengths(ByTokenizer(tokens), "tiny", traces, stored.rows)


@pytest.mark.parametrize("max_tokens", [75, 80, 85, 90, 105, 110, 115, 120, 135, 140, 2048])
def test_usable_sites_and_pairs_are_those_that_training_takes(tiny_tokens, stored, max_tokens):
    built, _ = build_examples(tiny_tokens, stored.rows, stored.sites, stored.hints, stored.pairs, max_tokens)
    lengths = lengths_of(stored, tiny_tokens)
    hinted = {hint.site_id for hint in stored.hints}
    sites = shares(lengths.sites([stored.sites[name] for name in hinted], stored.hints), max_tokens, None)
    pairs = shares(lengths.pairs(stored.pairs), max_tokens, None)
    assert sites["trainable"] == sum(len(example.sites) for example in built)
    assert pairs["trainable"] == sum(len(example.pairs) for example in built)


def test_a_stored_site_is_as_long_as_its_hinted_context(tiny_tokens, stored):
    rows = {row.trace_id: row for row in stored.rows}
    items = lengths_of(stored, tiny_tokens).sites([stored.sites[hint.site_id] for hint in stored.hints], stored.hints)
    windowed = 0
    for item, hint in zip(items, stored.hints, strict=True):
        site = stored.sites[hint.site_id]
        row, (start, end) = rows[site.trace_id], rows[site.trace_id].turn_spans[site.turn]
        hinted = len(tiny_tokens.splice_hint(row.ids[:start], hint.text)) + end - start
        assert item.tokens == hinted
        assert item.least_tokens(10) <= hinted
        windowed += item.least_tokens(10) < hinted
    assert 0 < windowed < len(items)


def item(tokens, least, blocker=None):
    return Item(tokens, lambda room: least, blocker)


def test_an_item_is_blamed_for_one_thing_and_counted_once():
    items = [item(10, 5), item(100, 20, "unknown_tokens"), item(10, 5, "no_hint"), item(100, 100), item(100, 20)]
    found = shares(items, 50, None)
    assert found == {
        "n": 5,
        "fit": 2,
        "fit_windowed": 4,
        "trainable": 2,
        "why_not": {"unknown_tokens": 1, "no_hint": 1, "too_long": 1},
        "tools_not_shown": 0,
    }


def test_more_room_is_not_named_where_it_would_not_help():
    shape = SimpleNamespace(max_positions=30)
    for length in (20, 50, 200):
        assert shares([item(100, 20, "unknown_tokens")], length, shape)["why_not"] == {"unknown_tokens": 1}


def planned_run(tmp_path, rows=(), **training):
    run = Run.start(tmp_path / "run", Config(training=TrainingConfig(**training)))
    return plan_training(run, open_toolbox(run.config), rows, Machine())


def test_without_rollouts_none_are_planned(tmp_path, stored):
    found = planned_run(tmp_path, rows=stored.rows, rollouts=False, traces_per_step=4)
    assert (found["rollouts_per_step"], found["rollout_tokens"], found["accumulation"]) == (0, None, 1)
    lengths = [len(row.ids) for row in stored.rows]
    assert found["tokens_per_step"] == round(4 * sum(lengths) / len(lengths))
    parts = {part["part"]: part for part in found["memory"]["parts"]}
    assert {part["when"] for part in parts.values()} == {"always", "teacher pass", "stored pass"}
    assert "key-value cache" not in parts
    assert parts["activations of stored rows"]["mib"] == found["memory"]["activations_mib"]["plain"] > 0
    with_rollouts = planned_run(tmp_path / "other", rows=stored.rows, traces_per_step=4)
    assert with_rollouts["rollouts_per_step"] == 128
    assert with_rollouts["memory"]["peak_mib"] > found["memory"]["peak_mib"]


def test_a_dry_run_refuses_what_training_refuses(tmp_path):
    config = Config.model_validate({"training": {"rollouts": False, "sdpo_from": "rollouts"}})
    run = Run.start(tmp_path / "run", config).path
    with pytest.raises(UsageError, match=r"source of the channel sdpo does nothing without training.rollouts = true"):
        train(run, dry_run=True)
    alone = Run.start(tmp_path / "alone", Config(training=TrainingConfig(rollouts=False))).path
    with pytest.raises(UsageError, match="without rollouts runs in one process"):
        train(alone, dry_run=True, processes=2)


def test_a_plan_with_vllm_says_that_the_command_refuses_it_where_it_is_not_installed(tmp_path, capsys):
    run = Run.start(tmp_path / "run", Config(hardware=HardwareConfig(vllm="colocate"))).path
    train(run, dry_run=True, json=True)
    assert "needs vllm here, and it is not installed" in json.loads(capsys.readouterr().out)["refused"]
    train(run, dry_run=True)
    assert "`recompose train` refuses these settings: hardware.vllm" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("processes", "is_sharded", "replicas"), [(4, False, 2), (4, True, 3), (4, True, 4), (4, True, -1)]
)
def test_replicas_are_groups_of_processes_that_share_the_weights(processes, is_sharded, replicas):
    with pytest.raises(UsageError, match="replicas"):
        refuse_uneven_replicas(processes, is_sharded, replicas)
    refuse_uneven_replicas(4, True, 2)
    refuse_uneven_replicas(4, False, 1)


@pytest.mark.parametrize("processes", [0, -2])
def test_a_plan_needs_a_process(tmp_path, processes):
    run = Run.start(tmp_path / "run", Config()).path
    with pytest.raises(UsageError, match="--processes 1 or more"):
        train(run, dry_run=True, processes=processes)


def test_the_report_marks_the_length_of_the_run_and_tells_none_from_none_yet(tmp_path, capsys):
    found = planned_run(tmp_path)
    found["finished"], found["max_positions"] = ["pairs"], 32_768
    show_plan(found)
    out = capsys.readouterr().out
    rows = [line for line in out.splitlines() if re.match(r"│ +[\d,]+\*? +│", line)]
    assert [re.findall(r"[\d,]+\*?", row)[0] for row in rows][:3] == ["2,048*", "4,096", "8,192"]
    assert len(rows) == 5, "no row is longer than the model"
    assert [cell.strip() for cell in rows[0].split("│")[2:5]] == ["none yet", "none yet", "none"]
    assert "*: training.max_tokens of this run" in " ".join(out.split())


def test_the_report_of_a_training_without_rollouts_speaks_of_stored_traces(tmp_path, capsys):
    found = planned_run(tmp_path, rollouts=False, max_tokens=3000)
    show_plan({**found, "max_positions": None})
    out = " ".join(capsys.readouterr().out.split())
    assert "28 steps of up to 8 stored traces" in out
    assert "128 rollouts" not in out
    assert "tokens per step; no rollouts" in out and "rollouts at once" not in out
    assert out.index("2,048") < out.index("3,000*") < out.index("4,096")


def test_beyond_the_model_is_told_apart_from_beyond_the_length():
    shape = SimpleNamespace(max_positions=30)
    found = shares([item(20, 5), item(40, 40), item(60, 60), item(60, 30)], 50, shape)
    assert found["why_not"] == {"beyond_the_model": 1, "too_long": 1}


@pytest.fixture(scope="module")
def session():
    """The session that ships with the package."""
    from composer_replication.ingestion import Ingestion, Inputs
    from composer_replication.ingestion.inputs import embedded_session
    from composer_replication.records import Trace

    inputs = Inputs()
    with embedded_session() as file:
        inputs.files.append(file)
        [line] = stored_lines(Ingestion(inputs, True))
    return Trace.model_validate_json(line)


def test_most_sites_of_the_sample_sessions_can_be_used_at_8k():
    from composer_replication.ingestion import Ingestion, find_inputs
    from composer_replication.records import Trace

    lines = stored_lines(Ingestion(find_inputs([SAMPLES], None), False))
    traces = [Trace.model_validate_json(line) for line in lines]
    sites = {trace.trace_id: find_sites(trace) for trace in traces}
    every = [site for found in sites.values() for site in found]
    lengths = RunLengths(ByBytes(), None, [trace for trace in traces if sites[trace.trace_id]], [], every)
    found = shares(lengths.sites(every, None), 8192, None)
    assert found["n"] > 150
    assert found["fit"] / found["n"] < 0.4
    assert found["fit_windowed"] / found["n"] > 0.9
    assert found["trainable"] / found["n"] > 0.8


@pytest.mark.parametrize(("hinted", "said"), [(True, "50% at 2,048, 100% at 8,192, 100% at 32,768"), (False, "none")])
def test_the_report_tells_how_many_sites_can_be_used(tmp_path, capsys, hinted, said):
    found = planned_run(tmp_path)
    items = [item(1000, 500), item(9000, 4000), item(100, 100, "no_hint")] if hinted else []
    found["max_positions"] = None
    for row in (*found["contexts"], found["at_max_tokens"]):
        row["sites"] = shares(items, row["max_tokens"], None)
    show_plan(found)
    told = " ".join(capsys.readouterr().out.split())
    assert f"Usable sites{', of those with a hint' if hinted else ''}: {said}" in told


def test_counting_by_message_is_close_to_rendering(chatml_tokenizer, session):
    tokens = ChatTokens(chatml_tokenizer("<|pad|>"))
    policy = Policy("chatml", None, tokens)
    items = RunLengths(ByTokenizer(tokens), policy.tokenizer_fingerprint, [session], []).states()
    contexts = Contexts(policy, [], 10**9)
    for turn, item in enumerate(items):
        rendered = contexts.before(session.state_id(turn), session.history(turn), session.tools)
        own = contexts.turn(session.messages[session.turns[turn].start])
        assert item.tokens == pytest.approx(len(rendered) + len(own), rel=0.03)
        assert item.shows_tools == (not session.tools)


@pytest.mark.parametrize("says_everything", [True, False])
def test_usable_sites_of_a_session_are_those_that_are_rendered(tiny_tokens, chatml_tokenizer, session, says_everything):
    tokens = ChatTokens(chatml_tokenizer("<|pad|>")) if says_everything else tiny_tokens
    policy = Policy("policy", None, tokens)
    sites = {site.site_id: site for site in find_sites(session)}
    hints = write_hints({session.trace_id: session}, sites.values(), 96).hints
    sessions = RenderedSessions(policy, 10**9)
    examples, _ = build_examples(tokens, [], sites, hints, [], 10**9, traces=[session], sessions=sessions)
    lengths = RunLengths(ByTokenizer(tokens), policy.tokenizer_fingerprint, [session], [], sites.values())
    found = shares(lengths.sites(sites.values(), hints), 10**9, None)
    assert found["n"] == len(sites) > 0
    assert found["trainable"] == sum(len(example.sites) for example in examples)
    assert bool(found["trainable"]) == says_everything
    assert ("unknown_tokens" in found["why_not"]) == (not says_everything)


def test_a_broken_call_is_refused_where_it_would_be_written(chatml_tokenizer, session):
    tokens = ChatTokens(chatml_tokenizer("<|pad|>"))
    turn = next(i for i, turn in enumerate(session.turns) if session.messages[turn.start].get("tool_calls"))
    messages = copy.deepcopy(list(session.messages))
    messages[session.turns[turn].start]["tool_calls"][0]["function"]["arguments"] = '{"a": '
    broken = session.model_copy(update={"messages": tuple(messages)})
    blockers = [item.blocker for item in RunLengths(ByTokenizer(tokens), "", [broken], []).states()]
    # A template without calls shows the broken text to later turns, as it was.
    assert [place for place, blocker in enumerate(blockers) if blocker] == [turn]
    everywhere = [item.blocker for item in RunLengths(ByBytes(), "", [broken], []).states()]
    assert everywhere[turn] == everywhere[turn + 1] == "refused_by_the_template"


def test_bytes_are_rounded_up():
    assert [counted.tokens for counted in ByBytes().count(["", "abcd", "abcde", "ü"])] == [0, 1, 2, 1]


def test_micro_steps_must_divide_a_step():
    assert HardwareConfig(rollouts_per_device=2).accumulation(128, 8) == 8
    assert HardwareConfig().accumulation(128, 8) == 1
    for rollouts, processes, size in ((128, 3, None), (128, 8, 3), (4, 8, 1), (8, 1, 16)):
        with pytest.raises(UsageError, match="cannot be split"):
            HardwareConfig(rollouts_per_device=size).accumulation(rollouts, processes)


@pytest.mark.parametrize("section", [TrainingConfig, HardwareConfig])
def test_the_page_lists_every_setting_with_its_default(section):
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text()
    cells = [[cell.strip(" `") for cell in line.split("|")] for line in page.splitlines() if line.startswith("| `")]
    rows = {row[1]: row[2] for row in cells if row[1] in section.model_fields}
    for name, field in section.model_fields.items():
        default = None if rows[name] == "none" else tomllib.loads(f"x = {rows[name]}")["x"]
        assert default == (list(field.default) if isinstance(field.default, tuple) else field.default), name


def told_of(run, capsys, **training):
    show_plan(planned_run(run, **training))
    return capsys.readouterr().out


def test_the_report_tells_only_settings_that_were_set(tmp_path, capsys):
    out = told_of(tmp_path, capsys, rollouts=False, steps=30)
    (line,) = (line for line in out.splitlines() if line.startswith("Set: "))
    assert "training.rollouts=False" in line and "training.steps=30" in line
    assert "prompts_per_step" not in out and "lora_alpha" not in out


@pytest.mark.parametrize(
    ("training", "doubted"),
    [({"steps": 4}, True), ({"steps": 4, "rate_warmup_steps": 0}, False), ({"steps": 20}, False)],
)
def test_a_short_run_is_told_that_its_first_step_moves_nothing(tmp_path, capsys, training, doubted):
    out = told_of(tmp_path, capsys, **training)
    assert doubted == ("Doubtful: the first of 4 steps has a learning rate of 0" in out)


def test_stored_sessions_are_doubted_for_tools_that_are_not_written_and_for_gates():
    training = {"rollouts": False, "traces_per_step": 4}
    config = Config.model_validate({"training": training, "channels": [{"name": "sdpo"}]})
    tools, gate = doubts(config, states_without_tools=1459)
    assert "does not write tools: at 1,459 states" in tools and "may be left without any" in gate
    channels = [{"name": "sdpo", "require_disfavour": False}]
    assert list(doubts(Config.model_validate({"training": training, "channels": channels}), 0)) == []


def test_the_report_is_ordered_by_what_a_reader_needs_first(tmp_path, capsys):
    out = told_of(tmp_path, capsys, steps=4)
    places = [out.index(words) for words in (": 4 steps of", "Set: ", "Time: ", "Memory: ", "Doubtful: ", "what fits")]
    assert places == sorted(places)


def test_a_plan_of_stored_sessions_ends_as_training_would_where_a_stage_is_missing(tmp_path, capsys):
    config = Config.model_validate({"training": {"rollouts": False}, "channels": [{"name": "sdpo"}]})
    run = Run.start(tmp_path / "run", config)
    with pytest.raises(UsageError, match="has no finished ingestion stage"):
        train(run.path, dry_run=True)
    assert capsys.readouterr().out.startswith("Nothing can be trained on: ")
