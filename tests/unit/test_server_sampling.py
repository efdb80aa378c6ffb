"""Turns from a server: the same as here, whatever goes wrong on the way, and from the newest weights."""

from __future__ import annotations

import inspect
import itertools
import time
from types import SimpleNamespace

import pytest
import torch

from composer_replication.config import Config, HardwareConfig, SamplingConfig, parse_config
from composer_replication.errors import RecomposeError, UsageError
from composer_replication.training.backends.trl.samplers import ColocatedSampler
from composer_replication.training.planning.refusals import refuse_what_would_do_nothing, tell_missing_vllm
from composer_replication.training.rollouts import wire
from composer_replication.training.rollouts.sampling import DynamicSampler
from composer_replication.training.rollouts.server_sampling import ServerSampler
from composer_replication.training.rollouts.weight_folder import WeightFolder
from composer_replication.training.rollouts.worker import RolloutSettings, RolloutWorker
from tests.token_server import TokenServer
from tests.unit.test_rollout_worker import Echo

GREEDY = RolloutSettings(max_turn_tokens=6, temperature=0.0, max_turns=4)


@pytest.fixture(scope="module")
def model(make_model, tiny_tokens):
    return make_model(len(tiny_tokens.tokenizer), seed=2)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(wire, "FIRST_PAUSE_S", 0.001)


def episodes(number=5):
    return [Echo("abcdefgh"[:each], turns=3) for each in range(1, number + 1)]


def server_of(tokens, model, **options):
    return TokenServer(model, tokens.tokenizer.pad_token_id, **options)


def sampler_of(server, tokens, **options):
    return ServerSampler(SamplingConfig(server=server.url, **options), tokens.end_of_turn_id)


def played(sampler, tokens, settings=GREEDY, seed=0, number=5):
    worker = RolloutWorker(sampler, tokens, settings)
    return worker.run(episodes(number), torch.Generator().manual_seed(seed))


def told(rollouts):
    return [(rollout.completion_ids, rollout.turn_spans, rollout.reward) for rollout in rollouts]


@pytest.mark.parametrize("flavour", ["vllm", "sglang"])
@pytest.mark.parametrize(
    "fault",
    [
        lambda number: None,
        lambda number: {0: "429", 1: "500", 2: "drop", 4: "503", 5: "drop"}.get(number),
        lambda number: 0.02 * (number % 4),
    ],
    ids=["no fault", "busy, broken and dropped", "slow answers"],
)
def test_greedy_turns_are_those_of_the_policy_here(tiny_tokens, model, flavour, fault):
    here = played(DynamicSampler(model, tiny_tokens), tiny_tokens)
    with server_of(tiny_tokens, model, flavour=flavour, fault=fault) as server:
        there = played(sampler_of(server, tiny_tokens), tiny_tokens)
    assert told(there) == told(here)
    assert [turn.text for rollout in there for turn in rollout.turns] == [
        turn.text for rollout in here for turn in rollout.turns
    ]
    for ours, theirs in zip(here, there, strict=True):
        assert theirs.logprobs == pytest.approx(ours.logprobs, abs=1e-5)


def test_what_is_sampled_does_not_depend_on_the_order_of_the_answers(tiny_tokens, model):
    settings = RolloutSettings(max_turn_tokens=6, temperature=1.0, max_turns=4)
    found = []
    for fault in (lambda number: None, lambda number: (0.05, 0.0, 0.02)[number % 3]):
        with server_of(tiny_tokens, model, fault=fault) as server:
            found.append(told(played(sampler_of(server, tiny_tokens), tiny_tokens, settings)))
            assert server.most_in_flight > 1
    assert found[0] == found[1]
    with server_of(tiny_tokens, model) as server:
        assert told(played(sampler_of(server, tiny_tokens), tiny_tokens, settings, seed=1)) != found[0]


def test_a_slow_conversation_keeps_no_other_one_waiting(tiny_tokens, model):
    """Only the first request is slow. With a barrier per turn the others could not ask for their next ones before."""
    with server_of(tiny_tokens, model, fault=lambda number: 1.0 if number == 0 else None) as server:
        rollouts = played(sampler_of(server, tiny_tokens), tiny_tokens)
        answered = [request["number"] for request in server.requests]
    assert {len(rollout.turns) for rollout in rollouts} == {3}
    assert answered.index(0) == 3 * (len(rollouts) - 1)


def test_no_more_requests_are_in_flight_than_allowed(tiny_tokens, model):
    with server_of(tiny_tokens, model, fault=lambda number: 0.01) as server:
        played(sampler_of(server, tiny_tokens, in_flight=2), tiny_tokens)
        assert server.most_in_flight == 2


def test_a_server_that_stays_away_is_told_with_what_it_said(tiny_tokens, model):
    with (
        server_of(tiny_tokens, model, fault=lambda number: "503") as server,
        pytest.raises(RecomposeError, match=r"did not answer /v1/completions in 3 tries: 503 a fault of the test"),
    ):
        played(sampler_of(server, tiny_tokens, max_attempts=3), tiny_tokens)
    with pytest.raises(RecomposeError, match=r"did not answer /v1/models in 2 tries: Client") as told_so:
        sampler_of(server, tiny_tokens, max_attempts=2)
    assert "checkpoint" not in str(told_so.value), "whether there is one, only the backend knows"


def test_what_the_server_refuses_is_not_asked_again(tiny_tokens, model):
    asked = []
    with (
        server_of(tiny_tokens, model, fault=lambda number: asked.append(number) or "400") as server,
        pytest.raises(UsageError, match="refused: 400 a fault of the test"),
    ):
        played(sampler_of(server, tiny_tokens), tiny_tokens, number=1)
    assert asked == [0]


def test_a_timeout_is_tried_again(tiny_tokens, model):
    begun = time.monotonic()
    with server_of(tiny_tokens, model, fault=lambda number: 30.0 if number == 0 else None) as server:
        there = played(sampler_of(server, tiny_tokens, timeout_s=0.5), tiny_tokens, number=1)
    assert told(there) == told(played(DynamicSampler(model, tiny_tokens), tiny_tokens, number=1))
    assert time.monotonic() - begun < 20


def test_the_shorter_context_counts_the_server_s_or_the_task_s(tiny_tokens, model):
    with server_of(tiny_tokens, model) as server:
        served, settings = model.config.max_position_embeddings, SamplingConfig(server=server.url)
        found = [ServerSampler(settings, 2, max_tokens=asked).max_tokens for asked in (None, served + 1, 9)]
        assert found == [served, served, 9]


@pytest.mark.parametrize("flavour", ["vllm", "sglang"])
def test_refreshed_weights_write_the_next_turns_and_are_counted(tiny_tokens, make_model, model, tmp_path, flavour):
    other = make_model(len(tiny_tokens.tokenizer), seed=7)
    with server_of(tiny_tokens, model, flavour=flavour) as server:
        settings = SamplingConfig(server=server.url, weight_transfer="disk")
        sampler = ServerSampler(settings, tiny_tokens.end_of_turn_id, sender=WeightFolder(settings, tmp_path / "w"))
        before = played(sampler, tiny_tokens)
        sampler.refresh(other)
        after = played(sampler, tiny_tokens)
        assert server.versions == ["1"]
    assert told(after) == told(played(DynamicSampler(other, tiny_tokens), tiny_tokens)) != told(before)
    assert {version for rollout in before for version in rollout.versions} == {0}
    assert {version for rollout in after for version in rollout.versions} == {1}
    assert [folder.name.rpartition("-")[2] for folder in (tmp_path / "w").iterdir()] == ["1"]


def test_what_others_keep_in_the_folder_of_weights_stays(tiny_tokens, model, tmp_path):
    shared = tmp_path / "shared"
    (shared / "datasets").mkdir(parents=True)
    (shared / "notes.txt").write_text("mine")
    with server_of(tiny_tokens, model) as server:
        senders = [WeightFolder(SamplingConfig(server=server.url, weight_transfer="disk"), shared) for _ in range(2)]
        for version, sender in itertools.product((1, 2), senders):
            sender.send(model, version)
        assert len(list(shared.glob("recompose-*"))) == 2
        senders[0].close()
        assert len(list(shared.glob("recompose-*-2"))) == 1
        senders[1].close()
    assert {path.name for path in shared.iterdir()} == {"datasets", "notes.txt"}


def test_a_server_is_told_all_that_its_own_settings_could_change(tiny_tokens, model):
    with server_of(tiny_tokens, model) as server:
        played(ServerSampler(SamplingConfig(server=server.url), tiny_tokens.end_of_turn_id), tiny_tokens)
        asked = server.requests[0]
    assert (asked["top_p"], asked["top_k"], asked["min_p"], asked["repetition_penalty"]) == (1.0, -1, 0.0, 1.0)


def test_weights_that_the_server_cannot_read_stop_the_run(tiny_tokens, model, tmp_path):
    with server_of(tiny_tokens, model) as server:
        sender = WeightFolder(SamplingConfig(server=server.url), tmp_path)
        with pytest.raises(UsageError, match="refused: 400"):
            sender.publish(lambda folder: None, 1)


# Colocated vLLM, by TRL


def test_the_colocated_engine_is_asked_as_trl_asks_it(tiny_tokens):
    """A stand-in with the attributes that TRL's class has; the engine itself was not run here."""
    from trl.generation.vllm_generation import VLLMGeneration

    parameters = inspect.signature(VLLMGeneration.generate).parameters
    assert {"prompts", "images", "num_generations"} <= set(parameters)
    written = inspect.getsource(VLLMGeneration)
    for name in ("max_completion_length", "temperature", "generation_kwargs"):
        assert f"self.{name} = " in written

    asked = []

    def generate(prompts, images, num_generations):
        asked.append((prompts, images, num_generations))
        return prompts, [[5, 6]] * len(prompts), [[[-0.5], [-0.25]]] * len(prompts), None

    engine = SimpleNamespace(generation_kwargs={"top_p": 0.9}, generate=generate)
    sampler = ColocatedSampler(engine, end_of_turn_id=6, batch=4, max_tokens=None)
    sampler.refresh(None)
    turns = sampler.sample([0, 1], [[1], [2, 3]], max_new_tokens=7, temperature=0.8)
    assert asked == [([[1], [2, 3]], None, 1)]
    assert (engine.max_completion_length, engine.temperature) == (7, 0.8)
    assert engine.generation_kwargs == {"top_p": 0.9, "stop_token_ids": [6]}
    assert [tuple(turn) for turn in turns] == [([5, 6], [-0.5, -0.25], 1)] * 2


# Settings


def config(**sections):
    return Config.model_validate(sections)


@pytest.mark.parametrize(
    ("sections", "sentence"),
    [
        ({"sampling": {"in_flight": 3}}, "sampling.in_flight does nothing without sampling.server"),
        ({"sampling": {"server": "http://a", "folder": "w"}}, "sampling.folder does nothing without weight_transfer"),
        (
            {"sampling": {"server": "http://a"}, "training": {"rollouts": False}},
            "sampling.server does nothing without rollouts",
        ),
        ({"sampling": {"server": "http://a"}, "hardware": {"vllm": "colocate"}}, "both sample"),
        ({"hardware": {"vllm_memory_share": 0.4}}, "hardware.vllm_memory_share does nothing without hardware.vllm"),
    ],
)
def test_settings_that_would_do_nothing_are_refused(sections, sentence):
    with pytest.raises(UsageError, match=sentence):
        refuse_what_would_do_nothing(config(**sections))


def test_vllm_is_asked_for_only_where_it_takes_part():
    for sections in ({"sampling": {"server": "http://a"}}, {"hardware": {"vllm": "colocate"}}):
        with pytest.raises(UsageError, match="needs vllm here"):
            tell_missing_vllm(config(**sections))
    tell_missing_vllm(config(sampling={"server": "http://a", "weight_transfer": "disk"}))


def test_a_server_without_a_scheme_is_refused():
    with pytest.raises(UsageError, match=r"sampling.server.*http://"):
        parse_config({"sampling": {"server": "vllm-0:8000"}}, "x")


def test_trl_is_told_of_the_server_that_it_sends_weights_to():
    assert SamplingConfig(server="http://a").grpo_arguments()["vllm_server_base_url"] == "http://a"
    assert SamplingConfig(server="http://a", weight_transfer="disk").grpo_arguments() == {}
    machine = HardwareConfig(vllm="colocate", vllm_memory_share=0.4).grpo_arguments(8, 1, on_gpu=True)
    assert (machine["vllm_mode"], machine["vllm_gpu_memory_utilization"]) == ("colocate", 0.4)
