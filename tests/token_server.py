"""A loopback server that speaks what training asks of vLLM and SGLang, and samples from a small model. With faults.

It answers `/health`, `/v1/models`, `/v1/completions` (token ids in, token ids out) and `/update_weights_from_disk`.
`flavour` is whose answer it gives: SGLang's names the version of the weights, vLLM's does not.
"""

import asyncio
import itertools
import threading
from collections.abc import Callable
from contextlib import suppress

import torch
from aiohttp import web

from composer_replication.training.rollouts.sampling import sample_turns

Fault = str | float | None
"""A status such as "429", "drop" for a connection that breaks, seconds to wait before the answer, or nothing."""


class TokenServer:
    def __init__(
        self, model, pad_id: int, flavour: str = "sglang", fault: Callable[[int], Fault] = lambda number: None
    ) -> None:
        self.model, self._pad_id, self._flavour, self._fault = model, pad_id, flavour, fault
        self.requests: list[dict] = []
        self.versions: list[str] = []
        self.most_in_flight = self._in_flight = 0
        self._numbers, self._sampling = itertools.count(), threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "TokenServer":
        self._thread.start()
        self.url = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(self, *_) -> None:
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    async def _start(self) -> str:
        app = web.Application()
        app.add_routes(
            [
                web.get("/health", lambda request: web.Response()),
                web.get("/v1/models", self._models),
                web.post("/v1/completions", self._complete),
                web.post("/update_weights_from_disk", self._update),
            ]
        )
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"

    async def _models(self, request):
        room = self.model.config.max_position_embeddings
        return web.json_response({"data": [{"id": "policy", "max_model_len": room}]})

    async def _complete(self, request):
        body = await request.json()
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            number = next(self._numbers)
            fault = self._fault(number)
            if isinstance(fault, float):
                await asyncio.sleep(fault)
            elif fault == "drop":
                request.transport.close()
                return web.Response()
            elif fault:
                return web.Response(status=int(fault), text="a fault of the test")
            return web.json_response(await asyncio.to_thread(self._answer, body, number))
        finally:
            self._in_flight -= 1

    def _answer(self, body, number):
        with self._sampling:
            version = self.versions[-1] if self.versions else "default"
            (turn,) = sample_turns(
                self.model,
                [body["prompt"]],
                end_of_turn_id=body["stop_token_ids"][0],
                pad_id=self._pad_id,
                max_new_tokens=body["max_tokens"],
                temperature=body["temperature"],
                generator=torch.Generator().manual_seed(body["seed"]),
            )
            self.requests.append({**body, "version": version, "number": number})
        ended = turn.ids[-1] in body["stop_token_ids"]
        choice = {
            "index": 0,
            "text": "",
            "finish_reason": "stop" if ended else "length",
            "logprobs": {"token_logprobs": turn.logprobs, "tokens": [f"token_id:{token}" for token in turn.ids]},
        }
        if body.get("return_token_ids"):
            choice["token_ids"] = turn.ids
        told = {"metadata": {"weight_version": version}} if self._flavour == "sglang" else {}
        return {"model": body["model"], "choices": [choice], **told}

    async def _update(self, request):
        body = await request.json()
        try:
            await asyncio.to_thread(self._load, body["model_path"])
        except (OSError, ValueError) as error:
            return web.json_response({"success": False, "message": str(error)}, status=400)
        self.versions.append(body["weight_version"])
        return web.json_response({"success": True, "message": "", "num_paused_requests": 0})

    def _load(self, folder):
        from transformers import AutoModelForCausalLM

        fresh = AutoModelForCausalLM.from_pretrained(folder, dtype="float32", attn_implementation="sdpa").eval()
        with self._sampling:
            self.model = fresh
