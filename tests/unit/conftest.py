"""Small models and tokenizers, built here: nothing is downloaded. One thread, so that sums are the same every time."""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace

from composer_replication.environments.toolbox.oracle import vocabulary

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"

import pytest

from composer_replication.config import ToolboxConfig

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_tokens():
    from composer_replication.training.models.tiny import build_tokenizer
    from composer_replication.training.models.tokens import ChatTokens

    return ChatTokens(build_tokenizer(vocabulary(ToolboxConfig())))


def _chatml_tokenizer(pad_token: str):
    """A byte-level BPE tokenizer whose template writes a newline after each end of turn."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|pad|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(['{"name":"read_file","arguments":{"path":"app.py"}} assistant user tool'], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token=pad_token,
        additional_special_tokens=["<|im_start|>"],
        chat_template=CHATML,
        clean_up_tokenization_spaces=False,
    )


@pytest.fixture(scope="session")
def chatml_tokenizer():
    return _chatml_tokenizer


@pytest.fixture(scope="session", params=["tiny", "chatml", "chatml, pad is eos"])
def chat_tokens(request, tiny_tokens):
    from composer_replication.training.models.tokens import ChatTokens

    if request.param == "tiny":
        return tiny_tokens
    return ChatTokens(_chatml_tokenizer("<|pad|>" if request.param == "chatml" else "<|im_end|>"))


@pytest.fixture(scope="session")
def make_model():
    """A random Llama, too small to know anything but large enough that every position and weight matters."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    def make(vocab_size: int, seed: int = 0, hidden: int = 32, layers: int = 2):
        torch.manual_seed(seed)
        config = LlamaConfig(
            vocab_size=vocab_size,
            hidden_size=hidden,
            intermediate_size=2 * hidden,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=1024,
            initializer_range=0.3,
            pad_token_id=0,
            bos_token_id=None,
            eos_token_id=None,
        )
        return LlamaForCausalLM(config).eval()

    return make


@pytest.fixture(scope="session")
def scripted():
    """A rollout whose turns are given, as if the policy had sampled them."""
    from composer_replication.environments.toolbox import ToolboxEpisode
    from composer_replication.training.rollouts.worker import Rollout

    def play(tokens, task, texts):
        rollout = Rollout(ToolboxEpisode(task), tokens.prompt(task.messages))
        for text in texts:
            turn = tokens.turn(text)
            start = len(rollout.completion_ids)
            rollout.completion_ids += turn
            rollout.turn_spans.append((start, start + len(turn)))
            result = rollout.episode.step(text)
            if not rollout.episode.finished and result.observation is not None:
                rollout.completion_ids += tokens.after_turn(result.observation)
        rollout.logprobs = [-0.5 * sampled for sampled in rollout.sampled_mask]
        return rollout

    return play


@pytest.fixture(scope="session")
def stored(tiny_tokens, scripted):
    """Three stored rollouts with what the earlier stages made of them: traces, token rows, sites, hints and pairs.

    The first has two error turns, the second does not parse, the third has one error turn.
    """
    from composer_replication.environments.toolbox import Call, ToolboxEpisode, make_task, next_call, trace_of
    from composer_replication.hints.write import write_hints
    from composer_replication.records import Agreement, PreferencePair
    from composer_replication.sites import find_sites

    traces, rows, sites, hints, pairs = [], [], {}, [], []
    for number in range(3):
        task = make_task(ToolboxConfig(), "train", 10 + number)
        right = next_call(ToolboxEpisode(task)).render()
        stale, untyped = Call("zero_gate", {"a": 1}).render(), Call(task.listings[0].name, {}).render()
        texts = ([stale, untyped, right], [right[:9]], [stale, right])[number]
        rollout = scripted(tiny_tokens, task, texts)
        trace = trace_of(rollout.episode, "policy", number)
        traces.append(trace)
        rows += rollout.stored(trace.trace_id, "tiny")
        found = find_sites(trace)
        sites |= {site.site_id: site for site in found}
        hints += write_hints({trace.trace_id: trace}, found, 96).hints
        call = next_call(ToolboxEpisode(task))
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        pairs.append(
            PreferencePair(
                pair_id=f"pair{number}",
                state_id=trace.state_id(0),
                trace_id=trace.trace_id,
                turn=0,
                chosen={
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"id": "c", "type": "function", "function": function}],
                },
                rejected=trace.messages[trace.turns[0].start],
                agreement=Agreement(tier="exact", votes=2, n=2, families=("a", "b")),
                off_policy=False,
                provenance=(),
                simulated=True,
            )
        )
    return SimpleNamespace(traces=traces, rows=rows, sites=sites, hints=hints, pairs=pairs)


@pytest.fixture(scope="session")
def examples(tiny_tokens, stored):
    from composer_replication.training.stored.examples import build_examples

    built, skipped = build_examples(tiny_tokens, stored.rows, stored.sites, stored.hints, stored.pairs, 2048)
    assert not skipped
    return built


@pytest.fixture
def new_policy(make_model, tiny_tokens):
    from composer_replication.training.models.loading import Policy

    return lambda seed=2: Policy("small", make_model(len(tiny_tokens.tokenizer), seed=seed), tiny_tokens)


@pytest.fixture(scope="session")
def new_chatml_policy(chatml_tokenizer, make_model):
    """A random model under a template that knows no tools, with room for the prompts of code tasks."""
    from composer_replication.training.models.loading import Policy
    from composer_replication.training.models.tokens import ChatTokens

    def make():
        tokens = ChatTokens(chatml_tokenizer("<|pad|>"))
        model = make_model(len(tokens.tokenizer))
        model.config.max_position_embeddings = 1 << 14
        return Policy("random", model, tokens)

    return make


@pytest.fixture
def no_grading(monkeypatch):
    """The grade says whether the solution was handed in; the real grader has tests of its own."""
    from composer_replication.environments.code.episodes import session
    from composer_replication.environments.code.grading.grader import GradingProcesses
    from composer_replication.environments.code.tasks.task import Grade
    from tests.hacks.sample_task import SPANS, SPANS_GOLD

    def grade(task, submission, backend):
        return Grade(float(submission.written.get(SPANS) == SPANS_GOLD.encode()), (), (), ())

    monkeypatch.setattr(session, "_grade", grade)
    monkeypatch.setattr(GradingProcesses, "grade", lambda self, *asked: grade(*asked))


@pytest.fixture
def ledger(tmp_path):
    from composer_replication.llm.ledger import Ledger

    opened = Ledger(tmp_path / "ledger.sqlite")
    yield opened
    opened.close()
