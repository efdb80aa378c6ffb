"""The client of a Tinker server, against servers simulated here: contracts, futures that fail, checkpoints."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
import torch

from composer_replication.config import Config, HardwareConfig, MonitorConfig
from composer_replication.environments.toolbox.environment import open_toolbox
from composer_replication.errors import RecomposeError, UsageError
from composer_replication.objective import GrpoSettings, SdpoSettings
from composer_replication.training import train_tinker
from composer_replication.training.backends.tinker import server as client
from composer_replication.training.backends.tinker.contract import DIVISORS, SUM, Contract
from composer_replication.training.backends.tinker.probe import find_contract
from composer_replication.training.backends.tinker.server import TinkerServer
from composer_replication.training.backends.trl import checkpoints
from composer_replication.training.step.sampled import PulledRow
from composer_replication.training.train_tinker import TinkerRun
from tests.notes import Notes

WORDS = 20


def pulled_of(row: list[float]) -> int:
    return sum(pull != 0 for pull in row)


AVERAGES = {
    SUM: lambda row, step: 1,
    "a mean over rows": lambda row, step: len(step),
    "a mean over the tokens of each row": lambda row, step: len(row),
    "a mean over the tokens of each row, then over rows": lambda row, step: len(row) * len(step),
    "a mean over all tokens": lambda row, step: sum(map(len, step)),
    "a mean over the pulled tokens of each row": lambda row, step: max(1, pulled_of(row)),
    "a mean over all pulled tokens": lambda row, step: max(1, sum(map(pulled_of, step))),
}
"""By what a server divides a row of advantages in a step of such rows; written apart from the client's own table."""
UNKNOWN = {
    "over rows with a pull": lambda row, step: max(1, sum(any(one) for one in step)),
    "over the root of the pulled tokens": lambda row, step: max(1, pulled_of(row)) ** 0.5,
}


def answered(value) -> Future:
    future = Future()
    future.set_result(value)
    return future


class SimulatedTrainer:
    """A table of next-token scores with plain gradient steps, behind the calls of the SDK's training client."""

    def __init__(self, divide, *, per_request=False) -> None:
        self._divide, self._per_request = divide, per_request
        self._table_VV = torch.randn(WORDS, WORDS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        self.requests: list[list] = []

    def _logprobs(self, datum, table_VV):
        targets = datum.loss_fn_inputs["target_tokens"]
        return table_VV[datum.model_input].log_softmax(-1)[torch.arange(len(targets)), targets]

    def forward(self, data, loss):
        found = [{"logprobs": self._logprobs(datum, self._table_VV)} for datum in data]
        return answered(SimpleNamespace(loss_fn_outputs=found))

    def forward_backward(self, data, loss):
        self.requests.append(data)
        return answered(None)

    def weighed(self) -> list[list[float]]:
        """The advantages of the step as this server divides them."""
        requests = [[datum.loss_fn_inputs["advantages"] for datum in data] for data in self.requests]
        steps = requests if self._per_request else [[row for rows in requests for row in rows]] * len(requests)
        divide = self._divide
        return [
            [a / divide(row, step) for a in row] for rows, step in zip(requests, steps, strict=True) for row in rows
        ]

    def optim_step(self, adam):
        table_VV = self._table_VV.clone().requires_grad_()
        data = [datum for request in self.requests for datum in request]
        terms = [
            torch.tensor(row, dtype=torch.float64) @ self._logprobs(datum, table_VV)
            for row, datum in zip(self.weighed(), data, strict=True)
        ]
        (gradient_VV,) = torch.autograd.grad(sum(terms), [table_VV])
        self._table_VV = self._table_VV + adam["learning_rate"] * gradient_VV / (gradient_VV.abs() + adam["eps"])
        self.requests = []
        return answered(SimpleNamespace(metrics={}))


def connected(trainer=None, contract=SUM) -> TinkerServer:
    server = TinkerServer.__new__(TinkerServer)
    server.url, server.contract, server._trainer = "http://simulated", Contract(contract), trainer
    server._sdk = SimpleNamespace(
        Datum=lambda **inputs: SimpleNamespace(**inputs),
        ModelInput=SimpleNamespace(from_ints=list),
        AdamParams=lambda **values: values,
    )
    return server


TEXT = [3, 14, 1, 5, 9, 2, 6, 11, 8, 7, 4, 0, 12, 10]


@pytest.mark.parametrize("name", DIVISORS)
def test_how_a_server_averages_is_found_out(name):
    assert find_contract(connected(SimulatedTrainer(AVERAGES[name])), TEXT) == Contract(name)


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_server_that_averages_in_another_way_is_refused(name):
    with pytest.raises(UsageError, match="where a sum has 1, 2, 1, 1, 1, 1, 1, 1"):
        find_contract(connected(SimulatedTrainer(UNKNOWN[name])), TEXT)


def test_a_server_that_counts_the_pulls_of_each_request_is_refused():
    with pytest.raises(UsageError, match="keeps no contract"):
        find_contract(connected(SimulatedTrainer(AVERAGES["a mean over all pulled tokens"], per_request=True)), TEXT)


@pytest.mark.parametrize("name", DIVISORS)
def test_what_is_sent_undoes_what_the_server_divides_by(name):
    trainer = SimulatedTrainer(AVERAGES[name])
    rows = [PulledRow([1, 2, 3, 4], [0, 1, 0, 0.5], [0] * 4), PulledRow([1, 2], [0, 5], [0] * 2)]
    connected(trainer, name).send(rows, rows[:1])
    weighed = trainer.weighed()
    assert len(weighed) == 32
    assert [weighed[place] for place in (0, 1, 16)] == [pytest.approx(one) for one in ([1, 0, 0.5], [5], [1, 0, 0.5])]
    assert not any(any(row) for place, row in enumerate(weighed) if place not in (0, 1, 16))


def test_a_request_that_timed_out_on_a_healthy_server_ends_the_run(monkeypatch):
    asked = []

    def healthy():
        asked.append(1)
        if len(asked) > 3:
            pytest.fail("asked for ever")

    server, future = connected(), Future()
    monkeypatch.setattr(server, "_is_away", healthy)
    future.set_exception(TimeoutError("the queue was full"))
    with pytest.raises(RecomposeError, match="failed: the queue was full"):
        server.wait([future])


def test_a_slow_answer_of_a_healthy_server_is_awaited(monkeypatch):
    server, future = connected(), Future()
    monkeypatch.setattr(client, "SLICE_S", 0.02)

    def healthy():
        future.set_result(7)

    monkeypatch.setattr(server, "_is_away", healthy)
    assert server.wait([future]) == [7]


def test_a_step_is_at_its_rollouts_or_at_the_server():
    run = TinkerRun.__new__(TinkerRun)
    run._worker = SimpleNamespace(phase=lambda: "sampling turn 1 of 3 of 8 rollouts")
    for run._is_playing, phase in ((True, "sampling turn 1 of 3 of 8 rollouts"), (False, "learning on the server")):
        assert run.phase() == phase


def test_an_interrupt_says_which_steps_the_last_checkpoint_holds(new_policy, tmp_path, monkeypatch):
    class Interrupted:
        """In place of the steps, which need a server."""

        def __init__(self, *parts):
            self.trainer_state = SimpleNamespace(global_step=3)

        def phase(self):
            return "learning on the server"

        def go_on_from(self, checkpoint):
            assert checkpoint.name == "checkpoint-2"

        def train(self):
            raise KeyboardInterrupt

    config, said = (
        Config(
            hardware=HardwareConfig(lora_rank=4),
            monitor=MonitorConfig(enabled=False),
            channels=(GrpoSettings(), SdpoSettings(teacher="frozen")),
        ),
        Notes(),
    )
    (tmp_path / "scratch" / "checkpoint-2").mkdir(parents=True)
    checkpoints.save(tmp_path / "scratch" / "checkpoint-2", {}, 0, frozenset())
    server = SimpleNamespace(url="http://a", contract=SimpleNamespace(name="a mean"))
    monkeypatch.setattr(train_tinker, "opened", lambda *_: (server, "tiny"))
    monkeypatch.setattr(train_tinker, "TinkerRun", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        train_tinker.train(new_policy(), config, open_toolbox(config), [], tmp_path, said)
    assert said.said[-1] == "3 steps finished, 2 kept"


def test_a_checkpoint_whose_save_was_cut_off_is_written_again(tmp_path):
    run = TinkerRun.__new__(TinkerRun)
    run.trainer_state = SimpleNamespace(global_step=2, log_history=[])
    run._server = SimpleNamespace(save=lambda name: f"tinker://{name}")
    run._scratch, run._batches, run._generator = tmp_path, None, torch.Generator()
    (tmp_path / "checkpoint-2").mkdir()
    run._save()
    assert checkpoints.latest(tmp_path) == tmp_path / "checkpoint-2"
