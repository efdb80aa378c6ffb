"""Step latency through the real client against a loopback server that waits as long as the origin's teachers did.

SIMULATED: the waits are drawn from log-normal distributions with the median and the 95th percentile that the origin
measured, ten times faster than life. What is measured here is what the client adds, and that nothing fails.
"""

import json
import math
import random
import tempfile
import threading
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from composer_replication.config import ReplayConfig
from composer_replication.llm.ledger import Ledger
from composer_replication.replay import State, Teacher, replay_states

SPEED_UP = 10
ORIGIN_LATENCIES_S = {
    "anthropic/claude-opus-4.7": (3.4, 4.6),
    "openai/gpt-5": (5.0, 10.1),
    "deepseek/deepseek-v4-pro": (7.1, 16.2),
}
SLOWEST = ORIGIN_LATENCIES_S["deepseek/deepseek-v4-pro"]
"""Nobody measured the default teachers; each is given the origin's slowest."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        model = json.loads(raw)["model"]
        median, p95 = ORIGIN_LATENCIES_S.get(model, SLOWEST)
        spread = math.log(p95 / median) / 1.645
        time.sleep(random.Random(raw).lognormvariate(math.log(median), spread) / SPEED_UP)
        call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": '{"command":"pytest"}'}}
        message = {"role": "assistant", "content": "", "tool_calls": [call]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        usage = {"prompt_tokens": 375, "completion_tokens": 24, "cost": 0}
        body = json.dumps({"id": "simulated", "model": model, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def step_latencies(states: Sequence[State], roster: Sequence[Teacher]) -> dict[str, Any]:
    """A step takes as long as its slowest teacher. Seconds as they would be at life's speed."""
    server = Server()
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder) / "ledger.sqlite")
        teachers = [Teacher(teacher.model, url, simulated=True) for teacher in roster]
        replies = replay_states(states, teachers, ledger, ReplayConfig(timeout_s=60))
        ledger.close()
    server.shutdown()
    server.server_close()
    seconds = np.array([reply.latency_s * SPEED_UP for reply in replies])
    steps = seconds.reshape(len(states), len(roster)).max(axis=1)
    return {
        "simulated": True,
        "calls": len(replies),
        "errors": sum(reply.outcome != "answered" for reply in replies),
        "step_s": {f"p{q}": round(float(np.percentile(steps, q)), 2) for q in (50, 95, 99)},
        "teacher_s": {
            teacher.model: {f"p{q}": round(float(np.percentile(seconds[n :: len(roster)], q)), 2) for q in (50, 95, 99)}
            for n, teacher in enumerate(roster)
        },
    }
