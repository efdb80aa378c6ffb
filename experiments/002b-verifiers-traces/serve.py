"""The small policy of 002a on loopback, twice: token ids as vLLM's `/inference/v1/generate`, text as chat completions.

The first is what verifiers' client for training asks, the second what its client for evaluation relays to. Chat
completions name their calls as our agent loop does, so that the loop hands them back under the name they came with.
"""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "002a-trl-traces"))

from policy import CONTEXT_TOKENS, small_policy
from trl.chat_template_utils import add_response_schema, parse_response

MAX_TURN_TOKENS = 512
MODEL = "small"


class PolicyServer:
    """`with PolicyServer(folder, seed) as server: server.url, server.sampled`. One request is sampled at a time."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.model, tokenizer = small_policy(folder)
        self.tokenizer = add_response_schema(tokenizer)
        self.sampled: list[tuple[list[int], list[int]]] = []
        self._turn = threading.Lock()
        torch.manual_seed(seed)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._send(outer.generate(request) if self.path == "/inference/v1/generate" else outer.chat(request))

            def do_GET(self) -> None:
                card = {"id": MODEL, "object": "model", "max_model_len": CONTEXT_TOKENS}
                self._send({"object": "list", "data": [card]})

            def _send(self, body: dict[str, Any]) -> None:
                content = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> "PolicyServer":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def generate(self, request: dict[str, Any]) -> dict[str, Any]:
        ids, logprobs = self._sample(request["token_ids"])
        content = [
            {"token": f"token_id:{token}", "logprob": logprob} for token, logprob in zip(ids, logprobs, strict=True)
        ]
        choice = {"token_ids": ids, "logprobs": {"content": content}, "finish_reason": self._reason(ids)}
        return {"request_id": "small", "choices": [choice]}

    def chat(self, request: dict[str, Any]) -> dict[str, Any]:
        rendered = self.tokenizer.apply_chat_template(
            [_read(message) for message in request["messages"]], tools=request.get("tools"),
            add_generation_prompt=True, tokenize=False,
        )  # fmt: skip
        before = self.tokenizer.encode(rendered, add_special_tokens=False)
        ids, _ = self._sample(before)
        turn = sum(message["role"] == "assistant" for message in request["messages"])
        said = parse_response(self.tokenizer, ids, prefix=before, tools=request.get("tools"))
        calls = [
            {
                "id": f"call_{turn}_{number}",
                "type": "function",
                "function": {"name": made["function"]["name"], "arguments": json.dumps(made["function"]["arguments"])},
            }
            for number, made in enumerate(said.get("tool_calls") or [])
        ]
        message = {
            "role": "assistant",
            "content": said.get("content") or "",
            **({"tool_calls": calls} if calls else {}),
        }
        reason = "tool_calls" if calls else self._reason(ids)
        usage = {"prompt_tokens": len(before), "completion_tokens": len(ids), "total_tokens": len(before) + len(ids)}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        answer = {"id": "small", "object": "chat.completion", "created": 0, "model": MODEL}
        return {**answer, "choices": [choice], "usage": usage}

    def _sample(self, before: list[int]) -> tuple[list[int], list[float]]:
        with self._turn, torch.no_grad():
            ids_BT = torch.tensor([before])
            made = self.model.generate(
                ids_BT, attention_mask=torch.ones_like(ids_BT), do_sample=True, temperature=1.0, top_k=0, top_p=1.0,
                max_new_tokens=min(MAX_TURN_TOKENS, CONTEXT_TOKENS - len(before)), output_logits=True,
                return_dict_in_generate=True,
            )  # fmt: skip
            ids = made.sequences[0, len(before) :].tolist()
            logprobs = [
                logits_BV[0].log_softmax(-1)[token].item() for logits_BV, token in zip(made.logits, ids, strict=True)
            ]
            self.sampled.append((before, ids))
        return ids, logprobs

    def _reason(self, ids: list[int]) -> str:
        return "stop" if ids[-1] == self.tokenizer.eos_token_id else "length"


def _read(message: dict[str, Any]) -> dict[str, Any]:
    """Arguments as objects: the template would quote a JSON text once more."""
    calls = [
        {**made, "function": {**made["function"], "arguments": json.loads(made["function"]["arguments"])}}
        for made in message.get("tool_calls") or []
    ]
    return {**message, "content": message.get("content") or "", **({"tool_calls": calls} if calls else {})}
