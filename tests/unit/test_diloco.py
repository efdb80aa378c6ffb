"""What DiLoCo's replicas do without torchft: pack their state, choose what they send, refuse what would go wrong."""

import socket
import sys
from datetime import timedelta
from http.client import HTTPConnection
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
import torch
from torch.distributed import TCPStore
from transformers import DefaultFlowCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import CallbackHandler

from composer_replication.config import Config, DilocoConfig
from composer_replication.errors import RecomposeError, UsageError
from composer_replication.training.diloco.meeting import (
    lighthouse_of,
    open_lighthouse,
    open_store,
    own_address,
    replica_number,
)
from composer_replication.training.diloco.replica import OuterOptimizer, Replica, fragments_of
from composer_replication.training.diloco.train import of_this_replica, overshoots
from composer_replication.training.diloco.transport import StateServer, packed, unpacked
from composer_replication.training.planning import refusals
from composer_replication.training.running import training_tasks

SECOND = timedelta(seconds=1)


@pytest.fixture
def server():
    opened = StateServer("127.0.0.1", SECOND)
    yield opened
    opened.shutdown()


def test_state_travels_bit_for_bit_and_with_its_keys():
    weight = torch.nn.Parameter(torch.randn(3, 2))
    optimizer = torch.optim.AdamW([weight], lr=0.1)
    weight.grad = torch.randn(3, 2)
    optimizer.step()
    state = unpacked(packed({"inner": optimizer.state_dict(), "windows": 3, "nothing": None, "list": [1.5, "a"]}))
    other = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(3, 2))], lr=0.5)
    other.load_state_dict(state["inner"])
    assert torch.equal(other.state_dict()["state"][0]["exp_avg"], optimizer.state_dict()["state"][0]["exp_avg"])
    assert other.param_groups[0]["lr"] == 0.1
    assert (state["windows"], state["nothing"], state["list"]) == (3, None, [1.5, "a"])


def test_an_object_that_only_pickle_could_send_is_refused():
    with pytest.raises(TypeError, match="neither plain nor a tensor"):
        packed({"schedule": object()})


def test_what_is_sent_is_what_it_was_when_it_was_sent(server):
    weight = torch.zeros(4)
    server.send_checkpoint([1], 7, {"weight": weight}, SECOND)
    weight += 1
    received = server.recv_checkpoint(0, server.metadata(), 7, SECOND)
    assert torch.equal(received["weight"], torch.zeros(4))
    assert server.sent_bytes > 0


def test_only_who_was_told_the_path_gets_the_state_and_only_where_replicas_meet(server):
    server.send_checkpoint([1], 7, {"weight": torch.zeros(4)}, SECOND)
    place = urlsplit(server.metadata())
    assert place.hostname == "127.0.0.1"
    for path in ("/checkpoint/7", "/wrong/7", "/", "/a/b/c"):
        connection = HTTPConnection(place.hostname, place.port, timeout=5)
        connection.request("GET", path)
        assert connection.getresponse().status == 404
    with pytest.raises(ConnectionError):
        server.recv_checkpoint(0, server.metadata(), 8, 5 * SECOND)


def test_a_replicas_store_listens_at_one_address():
    store = open_store("127.0.0.1")
    store.set("key", "value")
    assert TCPStore("127.0.0.1", store.port, is_master=False).get("key") == b"value"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", store.port), 5)


def test_a_checkpoint_that_counts_has_the_outer_state(tmp_path):
    """By transformers' own order of events: what a kill right after the trainer's last file leaves is whole."""
    replica = Replica.__new__(Replica)
    replica.windows, replica._total = 1, 9
    replica._manager, replica._outer, replica._fragments = SimpleNamespace(state_dict=lambda: {"step": 1}), [], []
    handler = CallbackHandler([DefaultFlowCallback(), replica], None, None, None, None)
    arguments = TrainingArguments(str(tmp_path), save_strategy="steps", save_steps=2, report_to=[])
    control = TrainerControl()
    for step in (1, 2):
        control = handler.on_step_end(arguments, TrainerState(global_step=step, max_steps=9, save_steps=2), control)
        assert (tmp_path / f"checkpoint-{step}" / "diloco.safetensors").exists() == control.should_save == (step == 2)


def test_fragments_hold_every_trainable_weight_once_and_no_other():
    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(6)))
    model[5].weight = model[0].weight  # tied
    model[1].requires_grad_(False)
    parts = fragments_of(model, 3)
    held = [id(parameter) for part in parts for parameter in part]
    assert sorted(held) == sorted(id(each) for each in model.parameters() if each.requires_grad)
    sizes = [sum(parameter.numel() for parameter in part) for part in parts]
    assert max(sizes) <= 2 * min(sizes)
    with pytest.raises(UsageError, match="do not fill 99 fragments"):
        fragments_of(model, 99)


def test_momentum_does_not_move_replicas_that_only_meet():
    weight = torch.nn.Parameter(torch.zeros(2))
    optimizer = OuterOptimizer([weight], 0.7, 0.9, nesterov=True)
    weight.grad = torch.ones(2)
    optimizer.step()
    moved = weight.detach().clone()
    weight.grad, optimizer.counts = torch.zeros(2), False
    optimizer.step()
    assert torch.equal(weight, moved)


def test_weights_that_are_not_finite_are_never_sent():
    replica = Replica.__new__(Replica)
    replica._trained, replica._number = [torch.nn.Parameter(torch.tensor([1.0, float("nan")]))], 1
    replica._meet = lambda: pytest.fail("met the others")
    with pytest.raises(RecomposeError, match="not finite"):
        replica._sync(4)


def test_every_replica_plays_tasks_of_its_own(monkeypatch):
    from composer_replication.environments.opening import open_environment

    config, seen = Config(training={"steps": 2, "prompts_per_step": 4}), []
    for number in range(3):
        monkeypatch.setenv("REPLICA_GROUP_ID", str(number))
        own = of_this_replica(config)
        with open_environment(own) as environment:
            seen.append({task.task_id for task in training_tasks(environment, own)})
    assert len(set.union(*seen)) == sum(map(len, seen))
    monkeypatch.delenv("REPLICA_GROUP_ID")
    with pytest.raises(UsageError, match="REPLICA_GROUP_ID"):
        replica_number()


def test_the_lighthouse_waits_for_slow_replicas_and_listens_at_one_address(monkeypatch):
    """torchft's own defaults are a minute, and every interface."""
    made = SimpleNamespace()
    module = SimpleNamespace(LighthouseServer=lambda **options: vars(made).update(options))
    monkeypatch.setitem(sys.modules, "torchft", SimpleNamespace(coordination=module))
    monkeypatch.setitem(sys.modules, "torchft.coordination", module)
    open_lighthouse(DilocoConfig(lighthouse="http://127.0.0.1:29510"))
    assert made.bind == "127.0.0.1:29510"
    assert made.join_timeout_ms == 3_600_000
    assert (made.heartbeat_timeout_ms, made.min_replicas) == (30_000, 1)


def test_where_the_lighthouse_is_comes_from_the_settings_or_torchfts_variable(monkeypatch):
    monkeypatch.setenv("TORCHFT_LIGHTHOUSE", "http://10.0.0.2:29510")
    assert lighthouse_of(DilocoConfig()) == ("10.0.0.2", 29510)
    assert lighthouse_of(DilocoConfig(lighthouse="http://site-a:1")) == ("site-a", 1)
    with pytest.raises(UsageError, match="no address"):
        lighthouse_of(DilocoConfig(lighthouse="site-a"))
    with pytest.raises(UsageError, match=r"no lighthouse at 127\.0\.0\.1:9"):
        own_address(("127.0.0.1", 9))


@pytest.mark.parametrize(
    ("settings", "backend", "processes", "said"),
    [
        ({}, "trl_async", 1, "does nothing with --backend trl_async"),
        ({}, "trl", 2, "one process"),
        ({"training": {"steps": 20, "rollouts": False}}, "trl", 1, "without rollouts"),
        ({"training": {"steps": 25}}, "trl", 1, "training.steps must be a multiple"),
        ({"training": {"steps": 20, "checkpoint_every": 5}}, "trl", 1, "training.checkpoint_every must be a multiple"),
        ({"training": {"steps": 20}, "hardware": {"weights": "bfloat16"}}, "trl", 1, "bfloat16 rounds away"),
    ],
)
def test_what_would_go_wrong_silently_is_refused(monkeypatch, settings, backend, processes, said):
    monkeypatch.setattr(refusals, "find_spec", lambda name: True)
    config = Config.model_validate({"training": {"steps": 20}, **settings})
    with pytest.raises(UsageError, match=said):
        refusals.refuse_for_diloco(config, backend, processes)
    refusals.refuse_for_diloco(Config.model_validate({"training": {"steps": 20}}), "trl", 1)


def test_without_torchft_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(refusals, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="needs torchft") as told:
        refusals.refuse_for_diloco(Config(), "trl", 1)
    assert "composer-replication[diloco]" in told.value.next_command


def test_windows_are_cut_into_whole_parts_and_the_hash_of_other_runs_stays():
    with pytest.raises(ValueError, match="must be a multiple of fragments"):
        DilocoConfig(sync_every=10, fragments=3)
    assert "diloco" not in Config().model_dump()
    assert Config(diloco={"sync_every": 20}).hash != Config().hash


@pytest.mark.parametrize(
    ("steps", "momentum", "is_told"), [(28, 0.9, True), (28, 0.0, False), (500, 0.9, False), (499, 0.9, True)]
)
def test_a_short_run_is_told_that_nesterovs_step_overshoots(steps, momentum, is_told):
    config = Config.model_validate({"training": {"steps": steps}, "diloco": {"outer_momentum": momentum}})
    assert ("plain average" in (overshoots(config) or "")) == is_told
