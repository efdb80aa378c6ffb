"""`--backend tinker` against a real SkyRL server (JAX on CPU): contract, gradient, plain engine, kill and resume."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from composer_replication.config import Config
from composer_replication.environments.opening import open_environment
from composer_replication.errors import RecomposeError, UsageError
from composer_replication.pipeline import run_stage
from composer_replication.progress import Silent
from composer_replication.runs import Run
from composer_replication.training import train_tinker
from composer_replication.training.backends import lost_by
from composer_replication.training.backends.tinker import server as client
from composer_replication.training.backends.tinker.contract import Contract
from composer_replication.training.backends.tinker.probe import find_contract
from composer_replication.training.backends.tinker.server import Adam, TinkerServer
from composer_replication.training.models.loading import load_policy
from tests.engines.parity import keep
from tests.engines.tinker_server import Server
from tests.golden.composites.reference import sampled_token
from tests.unit.test_sampled_step import ALPHA, BETA, ONE_BATCH, step_of_case

RANK = 4
SKYRL_JAX = Contract("a mean over the tokens of each row, then over rows")
CONFIG = {
    "seed": 3,
    "warmup": {"steps": 20, "batch_size": 8},
    "ingestion": {"rollouts": 24},
    "hardware": {"lora_rank": RANK},
    "training": {
        "steps": 4, "prompts_per_step": 2, "group_size": 4, "traces_per_step": 2, "max_turn_tokens": 16,
        "checkpoint_every": 2, "learning_rate": 5e-3, "error_turn_penalty": 0.2,
    },
    "channels": [{"name": "grpo"}, {"name": "sdpo", "teacher": "frozen"}, {"name": "trdpo"}],
    "evaluation": {"tasks": 4},
}  # fmt: skip
PLAIN = {**CONFIG, "channels": [{"name": "grpo"}, {"name": "sdpo", "weight": 0}, {"name": "trdpo", "weight": 0}]}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A run with all that training reads."""
    run = Run.start(tmp_path_factory.mktemp("runs") / "prepared", Config.model_validate(CONFIG))
    for noun in ("policy", "ingestion", "sites", "hints", "replay", "pairs"):
        run_stage(run, noun, Silent())
    return run.path


@pytest.fixture(scope="module")
def server(prepared, tmp_path_factory):
    server = Server(prepared / "policy" / "model", tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def words(prepared):
    config = Config.model_validate(CONFIG)
    with open_environment(config) as environment:
        return train_tinker.known_text(load_policy("tiny", environment, 3), environment)


def connected(server, seed=0) -> TinkerServer:
    engine = TinkerServer(server.url, SKYRL_JAX)
    engine.begin(engine.models()[0], RANK, seed)
    return engine


def copied(prepared: Path, to: Path) -> Run:
    shutil.copytree(prepared, to)
    return Run.open(to)


def trained(run: Run, server: Server) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    run_stage(run, "training", Silent(), backend="tinker", url=server.url, anyway=True)
    return load_file(run.path / "training" / "adapters" / "adapter_model.safetensors")


def datum(tinker, ids, **inputs):
    return tinker.Datum(tinker.ModelInput.from_ints(ids[:-1]), {"target_tokens": ids[1:], **inputs})


def metrics(run: Run) -> list[dict]:
    return [json.loads(line) for line in (run.path / "training" / "metrics.jsonl").read_text().splitlines()]


def test_how_the_server_averages_is_found_out(server, words):
    assert find_contract(connected(server), words) == SKYRL_JAX


def test_a_server_that_keeps_no_known_contract_is_refused(server, words, monkeypatch):
    engine = connected(server)
    send = engine.send

    def squared(*requests):
        send(*[[replace(row, pulls=[pull * abs(pull) for pull in row.pulls]) for row in rows] for rows in requests])

    monkeypatch.setattr(engine, "send", squared)
    with pytest.raises(UsageError, match="keeps no contract"):
        find_contract(engine, words)


def test_the_servers_gradient_is_that_of_the_sampled_token_composite(server, prepared):
    """Adam with a huge epsilon makes a plain gradient step, so the change of the adapters is the gradient."""
    from peft import LoraConfig, get_peft_model, set_peft_model_state_dict

    engine, scale, epsilon = connected(server), 1e2, 1e7
    plain = Adam(scale * epsilon, beta1=0.0, beta2=0.0, eps=epsilon, grad_clip_norm=0.0)
    # Away from the start, where the gradient of half of the adapters is 0.
    engine.send(step_of_case(ONE_BATCH, engine.read).rows)
    engine.step(Adam(1e-2))
    before = engine.adapters("before")
    engine.send(step_of_case(ONE_BATCH, engine.read, ALPHA, BETA).rows)
    engine.step(plain)
    after = engine.adapters("after")
    model = AutoModelForCausalLM.from_pretrained(prepared / "policy" / "model", dtype=torch.float64)
    lora = LoraConfig(r=RANK, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    model = get_peft_model(model, lora, autocast_adapter_dtype=False)
    set_peft_model_state_dict(model, before)
    model.double().eval()
    terms = sampled_token(model, ONE_BATCH)
    total = terms["policy"] + ALPHA * terms["sdpo"] + BETA * terms["replay"]
    parameters = {
        name.replace(".default", ""): parameter for name, parameter in model.named_parameters() if "lora" in name
    }
    expected = dict(zip(parameters, torch.autograd.grad(total, list(parameters.values())), strict=True))
    assert expected.keys() == before.keys()
    found = {name: (before[name].double() - after[name].double()) / scale for name in before}
    distance = torch.cat([(found[name] - expected[name]).flatten() for name in expected]).norm()
    size = torch.cat([gradient.flatten() for gradient in expected.values()]).norm()
    relative = (distance / size).item()
    keep("tinker", relative_gradient_distance=relative)
    assert relative < 1e-5


def test_without_weights_a_run_is_the_plain_engine(server, prepared, tmp_path, monkeypatch):
    """The same rollouts and rewards through nothing but the SDK: adapters equal to the last bit."""
    import tinker

    run = Run.start(tmp_path / "plain", Config.model_validate(PLAIN))
    shutil.copytree(prepared / "policy", run.path / "policy", dirs_exist_ok=True)
    steps = []
    ours = train_tinker.policy_rows
    monkeypatch.setattr(
        train_tinker, "policy_rows", lambda *given: steps.append((*given[:2], ours(*given))) or steps[-1][2]
    )
    adapters = trained(run, server)
    engine = connected(server, seed=3)
    trainer = engine._trainer
    for number, (rolled, advantages, _) in enumerate(steps[::2]):
        tokens = sum(sum(one.sampled_mask) for one in rolled)
        useful = [(one, advantage) for one, advantage in zip(rolled, advantages, strict=True) if advantage]
        if not useful:
            useful = [
                (rolled[0]._replace(prompt_ids=rolled[0].prompt_ids[:2], completion_ids=[], sampled_mask=[]), 0.0)
            ]
        rows = [one.prompt_ids + one.completion_ids for one, _ in useful]
        rows += [rows[0][:2]] * (-len(rows) % 16)
        ones = [datum(tinker, row, weights=[1.0] * (len(row) - 1)) for row in rows]
        read = trainer.forward(ones, "cross_entropy").result().loss_fn_outputs
        data = []
        for place, row in enumerate(rows):
            one, advantage = useful[place] if place < len(useful) else (None, 0.0)
            factor = (len(row) - 1) * len(rows)
            pulls = [0.0] * len(row)
            if one:
                pulls = [0.0] * len(one.prompt_ids) + [1.0 * advantage / tokens * own for own in one.sampled_mask]
            own = read[place]["logprobs"].tolist() if any(pulls) else [0.0] * (len(row) - 1)
            data.append(datum(tinker, row, logprobs=own, advantages=[factor * pull for pull in pulls[1:]]))
        trainer.forward_backward(data, "importance_sampling").result()
        rate = 5e-3 * min(1.0, number / 3)
        trainer.optim_step(
            tinker.AdamParams(learning_rate=rate, beta1=0.9, beta2=0.99, eps=1e-8, grad_clip_norm=1.0)
        ).result()
    theirs = engine.adapters("plain")
    assert any(advantage for _, advantages, _ in steps for advantage in advantages), "something was learnt"
    assert all(torch.equal(adapters[name], theirs[name]) for name in theirs)


def test_a_killed_server_is_told_and_the_run_goes_on_after_its_restart(server, prepared, tmp_path, monkeypatch):
    whole, torn = copied(prepared, tmp_path / "whole"), copied(prepared, tmp_path / "torn")
    expected = trained(whole, server)
    card = (whole.path / "training" / "model" / "README.md").read_text()
    assert all(sentence in card for sentence in lost_by("tinker"))
    monkeypatch.setattr(client, "SLICE_S", 1.0)
    monkeypatch.setattr(client, "AWAY_S", 3.0)
    step = train_tinker.TinkerRun._step

    def killing(run):
        if run.trainer_state.global_step == 3:
            server.kill()
        return step(run)

    with monkeypatch.context() as patched:
        patched.setattr(train_tinker.TinkerRun, "_step", killing)
        with pytest.raises(RecomposeError, match=r"has not answered|no Tinker server answers"):
            trained(torn, server)
    assert [path.name for path in (torn.path / "training" / "scratch").glob("checkpoint-*")] == ["checkpoint-2"]
    with pytest.raises(UsageError, match="no Tinker server answers"):
        trained(torn, server)
    server.start()
    found = trained(torn, server)
    assert [line["reward"] for line in metrics(torn)] == [line["reward"] for line in metrics(whole)]
    assert max((found[name] - expected[name]).abs().max().item() for name in expected) < 1e-6
    run_stage(torn, "evaluation", Silent())


def test_another_model_than_the_runs_is_refused(server, words):
    config = Config.model_validate({**CONFIG, "seed": 4})
    with open_environment(config) as environment:
        stranger = load_policy("tiny", environment, 4)
    with pytest.raises(UsageError, match="is not this run's starting policy"):
        train_tinker.opened(server.url, stranger, config, words)
