"""Replicas of DiLoCo in processes of their own, over the real torchft: killed, joined, resumed, at odds."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from composer_replication.config import Config
from composer_replication.training.diloco.meeting import open_lighthouse
from tests.distributed.launch import REPOSITORY, free_port

WAIT_S = 200
STEPS = 60


class Fleet:
    """Two replicas and their lighthouse."""

    def __init__(self, folder: Path, command: list[str], **diloco: object) -> None:
        self.folder, self._command = folder, command
        self.sections = {
            "seed": 3,
            "training": {"steps": STEPS},
            "diloco": {
                "lighthouse": f"http://127.0.0.1:{free_port()}", "sync_every": 10, "patience_s": 150,
                "heartbeat_timeout_s": 3, "transfer_timeout_s": 20, **diloco,
            },
        }  # fmt: skip
        self.started: dict[int, subprocess.Popen[bytes]] = {}
        self._lighthouse = open_lighthouse(Config.model_validate(self.sections).diloco)

    def path(self, replica: int) -> Path:
        path = self.folder / f"replica-{replica}"
        path.mkdir(exist_ok=True)
        return path

    def start(self, replica: int, number: int | None = None, **diloco: object) -> None:
        sections = {**self.sections, "diloco": self.sections["diloco"] | diloco}
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "REPLICA_GROUP_ID": str(replica if number is None else number),
        }
        with (self.path(replica) / "said.txt").open("wb") as said:
            self.started[replica] = subprocess.Popen(
                [sys.executable, *self._command, str(self.path(replica)), json.dumps(sections)],
                cwd=REPOSITORY, env=environment, stdout=said, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def kill(self, replica: int) -> None:
        self.started[replica].send_signal(signal.SIGKILL)
        self.started[replica].wait()

    def hold(self, step: int | None, *replicas: int) -> None:
        for replica in replicas:
            if step is None:
                (self.path(replica) / "hold").unlink()
            else:
                (self.path(replica) / "hold").write_text(str(step))

    def lines(self, replica: int) -> list[dict]:
        file = self.path(replica) / "diloco.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def said(self, replica: int) -> str:
        return (self.path(replica) / "said.txt").read_text()

    def until(self, what, timeout_s: float = WAIT_S) -> None:
        ends = time.monotonic() + timeout_s
        while not what():
            assert time.monotonic() < ends, "\n".join(self.said(replica)[-3000:] for replica in self.started)
            time.sleep(0.1)

    def end(self) -> list[dict[str, torch.Tensor]]:
        for process in self.started.values():
            assert process.wait(WAIT_S) == 0, "\n".join(self.said(replica)[-3000:] for replica in self.started)
        return [load_file(self.path(replica) / "weights.safetensors") for replica in self.started]

    def close(self) -> None:
        for process in self.started.values():
            with suppress(OSError):
                process.kill()
            process.wait()
        self._lighthouse.shutdown()


@pytest.fixture
def fleet(tmp_path):
    opened = []

    def make(name: str = "fleet", **diloco: object) -> Fleet:
        folder = tmp_path / name
        folder.mkdir()
        opened.append(Fleet(folder, ["-m", "tests.engines.diloco_worker"], **diloco))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def assert_equal(first, second):
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("fragments", [1, 2])
def test_a_replica_that_is_killed_joins_again_and_both_end_with_the_same_weights(fleet, fragments):
    two = fleet(fragments=fragments)
    two.start(0), two.start(1)
    two.until(lambda: len(two.lines(1)) >= 3)
    two.kill(1)
    two.until(lambda: any(line["replicas"] == [0] for line in two.lines(0)))
    two.hold(0, 0)
    before = len(two.lines(0))
    two.start(1)
    two.until(lambda: "waits for the others" in two.said(1))
    two.hold(None, 0)
    first, second = two.end()
    assert_equal(first, second)
    lines, others = two.lines(0), {line["window"]: line for line in two.lines(1) if line["committed"]}
    assert any(line["replicas"] == [0, 1] for line in lines[before:])
    shared = [line for line in lines if line["window"] in others and line["committed"] and line["replicas"] == [0, 1]]
    assert len(shared) >= 2 and lines[-1] in shared
    assert all(line["fingerprint"] == others[line["window"]]["fingerprint"] for line in shared)
    assert len({line["fingerprint"] for line in lines}) >= STEPS // 10
    assert lines[-1]["state_bytes"] > 0


def test_no_window_is_thrown_away_at_the_start(fleet):
    """torchft's loop would have replica 1 train a window on weights of its own, and then replace them."""
    two = fleet()
    two.start(0), two.start(1)
    two.end()
    for replica in (0, 1):
        first, *others = two.lines(replica)
        assert (first["step"], first["trained"], first["window"]) == (0, 0, 0)
        assert [line["trained"] for line in others] == [2] * (STEPS // 10)


def test_a_fleet_that_is_killed_goes_on_from_its_checkpoints_to_the_same_bits(fleet):
    whole, torn = fleet("whole"), fleet("torn")
    for each in (whole, torn):
        each.sections["training"]["checkpoint_every"] = 20
    whole.start(0), whole.start(1)
    expected, _ = whole.end()
    torn.hold(25, 0, 1)
    torn.start(0), torn.start(1)
    torn.until(lambda: all((torn.path(each) / "scratch/checkpoint-20/trainer_state.json").exists() for each in (0, 1)))
    time.sleep(1)
    torn.kill(0), torn.kill(1)
    torn.hold(None, 0, 1)
    time.sleep(4)  # until the lighthouse has forgotten them
    torn.start(0), torn.start(1)
    first, second = torn.end()
    assert_equal(first, second)
    assert_equal(first, expected)


def test_a_replica_with_other_windows_is_refused(fleet):
    two = fleet()
    two.start(0), two.start(1, sync_every=20)
    two.until(lambda: two.started[1].poll() is not None)
    assert "the other replicas have other settings: diloco" in two.said(1)


def test_a_number_that_is_taken_is_refused(fleet):
    two = fleet()
    two.start(0), two.start(1, number=0)
    two.until(lambda: all(process.poll() is not None for process in two.started.values()))
    assert "there are two replicas 0" in two.said(0) + two.said(1)


@pytest.mark.parametrize(("fragments", "momentum", "how"), [(1, 0.0, "1"), (2, 0.0, "1"), (2, 0.9, "by-hand")])
def test_one_replica_ends_where_training_alone_or_outer_steps_by_hand_end(fleet, fragments, momentum, how, monkeypatch):
    """Its own plain average is where it stands; Nesterov's step moves each fragment on, with a momentum of its own."""
    outer = {"outer_learning_rate": 0.7 if momentum else 1.0, "outer_momentum": momentum, "fragments": fragments}
    one = fleet(replicas=1, **outer)
    one.start(0)
    (averaged,) = one.end()
    monkeypatch.setenv("ALONE", how)
    alone = fleet("alone", **outer)
    alone.start(0)
    (expected,) = alone.end()
    for name, value in expected.items():
        assert torch.allclose(averaged[name], value, atol=1e-6), name
