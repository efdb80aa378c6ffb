"""`recompose train --lighthouse` and `--diloco` as two sites would type them, one of them killed in the middle."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.distributed.launch import REPOSITORY, free_port

WAIT_S = 240
CONFIG = """
seed = 3
[warmup]
steps = 0
[environment]
name = "tests.engines.distinct_letters:open_letters"
settings = {{ hold = "{hold}" }}
[training]
steps = 24
prompts_per_step = 2
group_size = 4
max_turn_tokens = 8
learning_rate = 1e-3
[[channels]]
name = "grpo"
[diloco]
lighthouse = "http://127.0.0.1:{port}"
sync_every = 2
heartbeat_timeout_s = 3
patience_s = 200
transfer_timeout_s = 20
"""


@pytest.fixture
def started():
    processes = []

    def start(*words, **variables):
        command = [sys.executable, "-m", "composer_replication", "train", *map(str, words)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", **variables}
        processes.append(
            subprocess.Popen(
                command, cwd=REPOSITORY, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        )
        return processes[-1]

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()


def lines(run):
    file = run / "training" / "diloco.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def until(what):
    ends = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < ends
        time.sleep(0.1)


def test_two_sites_train_one_policy_though_one_is_killed(tmp_path, started):
    config, hold, runs = tmp_path / "config.toml", tmp_path / "hold", [tmp_path / "a", tmp_path / "b"]
    config.write_text(CONFIG.format(hold=hold, port=free_port()))
    lighthouse = started(runs[0], "--config", config, "--lighthouse")
    assert lighthouse.stdout.readline().startswith("lighthouse at http://127.0.0.1:")
    first, second = (
        started(run, "--config", config, "--diloco", "--json", REPLICA_GROUP_ID=str(number))
        for number, run in enumerate(runs)
    )
    until(lambda: len(lines(runs[1])) >= 3)
    second.send_signal(signal.SIGKILL)
    second.wait()
    until(lambda: any(line["replicas"] == [0] for line in lines(runs[0])))
    hold.touch()  # the first one waits in its environment, so that it does not end before the other is back
    alone = len(lines(runs[0]))
    again = started(runs[1], "--diloco", "--json", REPLICA_GROUP_ID="1")
    until(lambda: (runs[1] / "training" / "diloco.jsonl").exists() and not lines(runs[1]))
    time.sleep(1)
    hold.unlink()
    assert (first.wait(WAIT_S), again.wait(WAIT_S)) == (0, 0)
    models = [(run / "training" / "model" / "model.safetensors").read_bytes() for run in runs]
    assert models[0] == models[1]
    assert models[0] != (runs[0] / "policy" / "model" / "model.safetensors").read_bytes()
    joined = lines(runs[1])[0]
    assert joined["replicas"] == [0, 1] and joined["window"] > 2
    assert any(line["replicas"] == [0, 1] for line in lines(runs[0])[alone:])
    assert len({line["fingerprint"] for line in lines(runs[0])}) == 1 + 24 // 2
    counts = json.loads(first.stdout.read())
    assert counts["diloco"]["windows"] == 12
    lighthouse.terminate()
    assert lighthouse.wait(20) == 143
