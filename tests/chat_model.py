"""A loopback chat server whose answers a test sets: what the judge and the reader of sites ask."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ChatModel(ThreadingHTTPServer):
    """`answer` writes the text of each reply, `extra` replaces fields of its body."""

    daemon_threads = True

    def __init__(self, model: str, cost_usd: float, answer: Callable[[dict], str]) -> None:
        self.requests: list[dict] = []
        self.model, self.cost_usd, self.answer = model, cost_usd, answer
        self.status, self.extra = 200, {}
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: ChatModel

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        choice = {"message": {"content": self.server.answer(request)}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 300, "completion_tokens": 20, "cost": self.server.cost_usd}
        body = json.dumps({"model": self.server.model, "choices": [choice], "usage": usage} | self.server.extra)
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def chat_model(model: str, cost_usd: float, answer: Callable[[dict], str]) -> Generator[ChatModel]:
    with ChatModel(model, cost_usd, answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
