"""A loopback OpenAI-compatible server whose replies are given. Standard library only, for any interpreter."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = Callable[[dict[str, Any]], dict[str, Any] | int]


def calls(*made: tuple[str, dict[str, Any] | str], text: str = "") -> dict[str, Any]:
    """An assistant message; arguments that are a string go out as they are."""
    tool_calls = [
        {
            "id": f"made_{number}",
            "type": "function",
            "function": {"name": name, "arguments": args if isinstance(args, str) else json.dumps(args)},
        }
        for number, (name, args) in enumerate(made)
    ]
    return {"role": "assistant", "content": text, **({"tool_calls": tool_calls} if tool_calls else {})}


def by_turn(replies: Sequence[dict[str, Any] | int]) -> Script:
    """The reply of the turn that a request asks for; the last one again after the end."""

    def script(request: dict[str, Any]) -> dict[str, Any] | int:
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        return replies[min(turn, len(replies) - 1)]

    return script


class ScriptedChat:
    """`with ScriptedChat(script) as server: server.base_url, server.requests`. A script may return an HTTP status."""

    def __init__(self, script: Script, model: str = "scripted") -> None:
        self.requests: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(request)
                said = script(request)
                status = said if isinstance(said, int) else 200
                body = {"error": {"code": status}} if isinstance(said, int) else _completion(said, model)
                self._send(status, body)

            def do_GET(self) -> None:
                self._send(200, {"object": "list", "data": [{"id": model, "object": "model"}]})

            def _send(self, status: int, body: dict[str, Any]) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> ScriptedChat:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _completion(message: dict[str, Any], model: str) -> dict[str, Any]:
    reason = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": "completion",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }
