"""Simulated teachers: noisy oracles of the toolbox behind a loopback OpenAI-compatible server.

They stand in for external models where no key is at hand. A teacher finds the task by its prompt, replays the calls of
the conversation, asks the oracle for the next call, and at its error rate says something plausible but wrong instead.
A conversation that is not from the toolbox gets a plain refusal, which never counts as a vote.
"""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from composer_replication.records import Message, canonical_json

from .episode import FINISH, Call, replay_history
from .oracle import next_call
from .tasks import ToolboxTask, prompt_key

REFUSAL = "I know only the toolbox."


def teacher_names(error_rates: Sequence[float]) -> list[str]:
    """One model name per simulated family."""
    return [f"simulated-{chr(ord('a') + i)}/noisy-oracle-{round(rate * 100)}" for i, rate in enumerate(error_rates)]


class SimulatedTeachers:
    """Context manager around the server; `base_url` is valid inside."""

    def __init__(self, tasks: Iterable[ToolboxTask], error_rates: Sequence[float], seed: int) -> None:
        self._tasks = {prompt_key(task.messages): task for task in tasks}
        self._error_rates = dict(zip(teacher_names(error_rates), error_rates, strict=True))
        self._seed = seed
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> SimulatedTeachers:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The chat completion for one request body; the same request always gets the same answer."""
        teacher: str = request["model"]
        messages: list[Message] = request["messages"]
        message = self._reply(teacher, messages)
        reason = "tool_calls" if "tool_calls" in message else "stop"
        return {
            "id": "simulated",
            "object": "chat.completion",
            "model": teacher,
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": len(canonical_json(messages)) // 4, "completion_tokens": 24, "cost": 0},
        }

    def _reply(self, teacher: str, messages: list[Message]) -> Message:
        task = self._tasks.get(prompt_key(messages))
        if task is None:
            return {"role": "assistant", "content": REFUSAL}
        episode = replay_history(task, messages)
        rng = random.Random(f"{self._seed}:{teacher}:{canonical_json(messages)}")
        try:
            call = next_call(episode)
        except LookupError:
            return {"role": "assistant", "content": REFUSAL}
        if call is None:
            return {"role": "assistant", "content": FINISH}
        if rng.random() < self._error_rates[teacher]:
            call = _spoil(call, task, rng)
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        return {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call_0", "type": "function", "function": function}],  # type: ignore[typeddict-item]
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        teachers = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # headers and body in one packet

            def do_POST(self) -> None:
                try:
                    request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                    status, body = 200, teachers.answer(request)
                except (ValueError, KeyError, TypeError) as error:
                    status, body = 400, {"error": {"message": f"{type(error).__name__}: {error}"}}
                payload = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


def _spoil(call: Call, task: ToolboxTask, rng: random.Random) -> Call:
    """A wrong call of the kind that a careless model makes: another tool, an old name, or a wrong value."""
    listing = next(entry for entry in task.listings if entry.name == call.name)
    others = [entry for entry in task.listings if entry.tool != listing.tool]
    wrong_name = rng.choice([rng.choice(others).name, listing.tool if listing.tool != listing.name else "run"])
    if rng.random() < 0.5:
        return Call(wrong_name, call.arguments)
    param, shift = rng.choice(list(call.arguments)), rng.randint(1, 9)
    value = call.arguments[param]
    wrong = value + shift if isinstance(value, int) else f"{value}{shift}"
    return Call(call.name, {**call.arguments, param: wrong})
