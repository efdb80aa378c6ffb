"""A loopback server whose answers a test writes: a function from the request to a status and a body."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ScriptedTeachers(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Callable[[dict], tuple[int, dict]]) -> None:
        self.answer = answer
        self.asked: list[dict] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def models(self) -> list[str]:
        return [request["model"] for request in self.asked]

    def __enter__(self) -> ScriptedTeachers:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *args: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedTeachers

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(request)
        status, body = self.server.answer(request)
        self.send(status, body)

    def do_GET(self) -> None:
        self.send(404, {})

    def send(self, status: int, body: dict) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


def calls(model: str, name: str, arguments: dict, **fields: object) -> dict:
    """A chat completion with one tool call."""
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": fields.pop("finish_reason", "tool_calls")}
    usage = {"prompt_tokens": 900, "completion_tokens": 20, "cost": 0.0001}
    return {"model": model, "choices": [choice], "usage": usage, **fields}
