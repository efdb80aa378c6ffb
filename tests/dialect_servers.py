"""Strict servers of four dialects on loopback: they answer a request with a call of its first tool, or refuse it.

The OpenAI and the Anthropic one have their batch endpoints too. A batch is done after `polls` looks at it.
"""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.dialect_rules import CHECKS, Refused, Request

PROMPT_TOKENS, CACHED_TOKENS, WRITTEN_TOKENS, ANSWER_TOKENS = 1000, 600, 200, 50


class DialectServer(ThreadingHTTPServer):
    """`accepted` and `refused` count; `requests` keeps what came, with its headers in small letters."""

    daemon_threads = True

    def __init__(self, dialect: str, keep: bool = True, polls: int = 1) -> None:
        self.dialect = dialect
        self.keep = keep
        self.polls = polls
        self.accepted = 0
        self.refused: list[str] = []
        self.requests: list[tuple[str, dict[str, str], Request]] = []
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.broken_items: set[str] = set()
        """Custom ids of a batch that end in an error."""
        super().__init__(("127.0.0.1", 0), _Handler)

    def __enter__(self) -> DialectServer:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *args: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def judge(self, request: Request) -> tuple[int, dict[str, Any]]:
        try:
            CHECKS[self.dialect](request)
        except Refused as error:
            self.refused.append(str(error))
            kind = {"type": "invalid_request_error", "message": str(error)}
            return 400, {"type": "error", "error": kind} if self.dialect == "anthropic" else {"error": kind}
        self.accepted += 1
        return 200, _message(request) if self.dialect == "anthropic" else _completion(request)


class _Handler(BaseHTTPRequestHandler):
    server: DialectServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: two would wait for each other

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        path = self.path.partition("?")[0]
        if path.endswith("/files"):
            return self._upload(body)
        request = json.loads(body)
        if self.server.keep:
            self.server.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, request))
        if path.endswith("/batches"):
            return self._begin_batch(request)
        wanted = "/v1/messages" if self.server.dialect == "anthropic" else "/v1/chat/completions"
        if not path.endswith(wanted.removeprefix("/v1")):
            return self._answer(404, {"error": {"message": f"no {path}"}})
        if self.server.dialect == "anthropic" and self.headers.get("anthropic-version") != "2023-06-01":
            return self._answer(400, {"type": "error", "error": {"message": "anthropic-version: header is required"}})
        return self._answer(*self.server.judge(request))

    def do_GET(self) -> None:
        if found := re.search(r"/batches/([\w-]+)(/results)?$", self.path):
            batch = self.server.batches.get(found[1])
            if batch is None:
                return self._answer(404, {"error": {"message": "no such batch"}})
            return self._lines(batch["results"]) if found[2] else self._look(batch)
        if found := re.search(r"/files/([\w-]+)/content$", self.path):
            return self._send(200, self.server.files[found[1]])
        return self._answer(404, {"error": {"message": "not here"}})

    def _upload(self, body: bytes) -> None:
        boundary = self.headers["Content-Type"].partition("boundary=")[2].encode()
        parts = dict(_part(part) for part in body.split(b"--" + boundary)[1:-1])
        if parts.get("purpose") != b"batch":
            return self._answer(400, {"error": {"message": "purpose: batch"}})
        name = f"file-{len(self.server.files)}"
        self.server.files[name] = parts["file"]
        return self._answer(200, {"id": name, "object": "file"})

    def _begin_batch(self, request: Request) -> None:
        server, name = self.server, f"batch_{len(self.server.batches)}"
        batch: dict[str, Any] = {"looks": 0, "results": [], "id": name}
        if server.dialect == "anthropic":
            for item in request["requests"]:
                status, answer = server.judge(item["params"])
                broken = item["custom_id"] in server.broken_items or status != 200
                wrong = answer if status != 200 else {"type": "error", "error": {"type": "api_error", "message": "x"}}
                result = {"type": "errored", "error": wrong} if broken else {"type": "succeeded", "message": answer}
                batch["results"].append({"custom_id": item["custom_id"], "result": result})
        else:
            if (request.get("endpoint"), request.get("completion_window")) != ("/v1/chat/completions", "24h"):
                return self._answer(400, {"error": {"message": "endpoint, completion_window"}})
            for line in server.files[request["input_file_id"]].splitlines():
                item = json.loads(line)
                status, answer = server.judge(item["body"])
                if item["custom_id"] in server.broken_items:
                    status, answer = 500, {"error": {"message": "x"}}
                response = {"status_code": status, "body": answer}
                batch["results"].append({"custom_id": item["custom_id"], "response": response, "error": None})
        server.batches[name] = batch
        return self._look(batch)

    def _look(self, batch: dict[str, Any]) -> None:
        done = batch["looks"] >= self.server.polls
        batch["looks"] += 1
        if self.server.dialect == "anthropic":
            return self._answer(200, {"id": batch["id"], "processing_status": "ended" if done else "in_progress"})
        if not done:
            return self._answer(200, {"id": batch["id"], "status": "in_progress"})
        good, bad = f"out-{batch['id']}", f"bad-{batch['id']}"
        for name, is_good in ((good, True), (bad, False)):
            chosen = [one for one in batch["results"] if (one["response"]["status_code"] == 200) is is_good]
            self.server.files[name] = b"\n".join(json.dumps(one).encode() for one in chosen)
        answer = {"id": batch["id"], "status": "completed", "output_file_id": good, "error_file_id": bad}
        return self._answer(200, answer)

    def _lines(self, results: list[Request]) -> None:
        self._send(200, b"\n".join(json.dumps(one).encode() for one in results))

    def _answer(self, status: int, answer: dict[str, Any]) -> None:
        self._send(status, json.dumps(answer).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _part(raw: bytes) -> tuple[str, bytes]:
    head, _, content = raw.strip(b"\r\n").partition(b"\r\n\r\n")
    found = re.search(rb'name="(\w+)"', head)
    assert found
    return found[1].decode(), content


def _completion(request: Request) -> dict[str, Any]:
    tools = request.get("tools", [])
    function = {"name": tools[0]["function"]["name"], "arguments": '{"x": 1}'} if tools else None
    calls = [{"id": "abc123xyz", "type": "function", "function": function}] if function else []
    message = {"role": "assistant", "content": None if calls else "hello", "tool_calls": calls}
    details = {"cached_tokens": CACHED_TOKENS}
    usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": ANSWER_TOKENS, "prompt_tokens_details": details}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    return {"id": "chatcmpl-1", "model": request["model"], "choices": [choice], "usage": usage}


def _message(request: Request) -> dict[str, Any]:
    tools = request.get("tools", [])
    blocks: list[dict[str, Any]] = [{"type": "text", "text": "hello"}]
    if tools:
        blocks.append({"type": "tool_use", "id": "toolu_1", "name": tools[0]["name"], "input": {"x": 1}})
    usage = {
        "input_tokens": PROMPT_TOKENS - CACHED_TOKENS - WRITTEN_TOKENS,
        "cache_read_input_tokens": CACHED_TOKENS,
        "cache_creation_input_tokens": WRITTEN_TOKENS,
        "output_tokens": ANSWER_TOKENS,
    }
    stop = "tool_use" if tools else "end_turn"
    fields = {"id": "msg_1", "type": "message", "role": "assistant", "model": request["model"], "stop_reason": stop}
    return {**fields, "content": blocks, "usage": usage}
