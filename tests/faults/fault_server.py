"""A loopback provider that misbehaves on purpose and keeps the true bill.

What it does to the n-th request for a question depends on the seed, the question and n alone, so a run can be repeated;
with a fixed cost not even on n.
It answers `/v1/chat/completions`, `/v1/generation?id=`, `/v1/key` as OpenRouter does, and `/bill` for the tests.

    python -m tests.faults.fault_server --seed 1 --rate 0.2 --latency 0.02        prints its port
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import subprocess
import sys
import urllib.request
from collections import Counter, defaultdict
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import parse_qs, urlsplit

import orjson

from composer_replication.replay.requests import request_key

FAULTS = (
    "429", "429 now", "429 date", "429 past", "429 iso", "408", "409", "500", "502", "503", "504", "529", "reset",
    "reset after headers", "slow", "truncated", "error in 200", "choice error", "overload in 200", "empty choices",
    "null choices", "not an object", "bad utf-8", "bomb", "large", "long header", "null content", "length",
    "duplicate id", "wrong model", "no usage", "zero usage", "huge usage", "tokens only",
)  # fmt: skip
NEVER_BILLED = {"429", "429 now", "429 date", "429 past", "429 iso", "409", "503", "529"}
NOT_BUSY = tuple(fault for fault in FAULTS if fault[:3] not in ("429", "503", "529") and "overload" not in fault)
PROMPT_TOKENS, COMPLETION_TOKENS = 40, 12
LARGE_BYTES = 100 << 20
BOMB = gzip.compress(b" " * (64 << 20))
SLOW_S = 30.0


class Provider:
    """The books: what every request did cost, by the key of its question."""

    def __init__(
        self, seed: int, rate: float, latency_s: float, noise: float, only: tuple[str, ...], fixed: int
    ) -> None:
        self.seed, self.rate, self.latency_s, self.noise = seed, rate, latency_s, noise
        self.only = only or FAULTS
        self.fixed_micros = fixed
        self.seen: Counter[str] = Counter()
        self.bill: dict[str, list[int]] = defaultdict(list)
        self.generations: dict[str, int] = {}
        self.faults: Counter[str] = Counter()
        self.in_flight = self.most_in_flight = 0
        self.times: dict[str, list[float]] = defaultdict(list)
        self.keys: Counter[str] = Counter()

    def plan(self, key: str) -> tuple[str | None, int, str]:
        """The fault, the true cost in micros, and the generation's id of the next request for a question."""
        number = self.seen[key]
        self.seen[key] += 1
        rng = random.Random(f"{self.seed}:{key}:{number}")
        fault = rng.choice(self.only) if rng.random() < self.rate else None
        micros = self.fixed_micros or PROMPT_TOKENS + 2 * COMPLETION_TOKENS + rng.randrange(1, 200)
        if fault in ("reset", "500", "502", "504", "408"):
            micros = rng.choice((0, micros))
        if fault in NEVER_BILLED:
            micros = 0
        if fault == "tokens only":
            micros = PROMPT_TOKENS + 2 * COMPLETION_TOKENS
        if self.noise:
            micros = round(micros * rng.uniform(1 - self.noise, 1 + self.noise))
        generation = "gen-same" if fault == "duplicate id" else f"gen-{key[:24]}-{0 if self.fixed_micros else number}"
        if micros:
            self.bill[key].append(micros)
        self.generations[generation] = micros
        self.faults[fault or "none"] += 1
        return fault, micros, generation

    def summary(self) -> dict:
        return {
            "bill": self.bill, "faults": self.faults, "requests": sum(self.seen.values()),
            "most_in_flight": self.most_in_flight, "total": sum(map(sum, self.bill.values())), "times": self.times,
            "keys": self.keys,
        }  # fmt: skip


def body_of(request: dict, fault: str | None, micros: int, generation: str, key: str) -> dict:
    model = request["model"]
    call = {"id": "c", "type": "function", "function": {"name": "get_key", "arguments": json.dumps({"key": key[:8]})}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reason = "tool_calls"
    usage: dict | None = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": COMPLETION_TOKENS, "cost": micros / 1e6}
    if fault == "null content":
        message, reason = {"role": "assistant", "content": None}, "stop"
    elif fault == "length":
        reason = "length"
    elif fault == "wrong model":
        model = "other/model"
    elif fault == "no usage":
        usage = None
    elif fault == "zero usage":
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "cost": 0}
    elif fault == "huge usage":
        usage["cost"] = 1e30
    elif fault == "tokens only":
        del usage["cost"]
    choices = [{"index": 0, "message": message, "finish_reason": reason}]
    body = {"id": generation, "object": "chat.completion", "model": model, "choices": choices, "usage": usage}
    if fault in ("error in 200", "overload in 200"):
        code = 429 if fault == "overload in 200" else 502
        return {"id": generation, "error": {"code": code, "message": "provider returned error"}}
    if fault == "choice error":
        choices[0] = {"index": 0, "finish_reason": "error", "error": {"code": 500, "message": "x"}, "message": {}}
        body["usage"] = None
    elif fault in ("empty choices", "null choices"):
        body["choices"] = [] if fault == "empty choices" else None
    return body


class Connection(asyncio.Protocol):
    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.buffer = b""

    def connection_made(self, transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].decode("latin-1")
            fields = {
                name.lower(): value.strip() for name, _, value in (x.partition(":") for x in head.split("\r\n")[1:])
            }
            length = int(fields.get("content-length", 0))
            if len(self.buffer) < end + 4 + length:
                return
            body, self.buffer = self.buffer[end + 4 : end + 4 + length], self.buffer[end + 4 + length :]
            method, target, _ = head.split(" ", 2)
            if method == "GET":
                self.look_up(target)
            else:
                self.provider.keys[fields.get("authorization", "none")] += 1
                self.ask(orjson.loads(body))

    def look_up(self, target: str) -> None:
        parts = urlsplit(target)
        if parts.path.endswith("/bill"):
            return self.answer(200, orjson.dumps(self.provider.summary()))
        if parts.path.endswith("/key"):
            return self.answer(200, orjson.dumps({"data": {"usage": self.provider.summary()["total"] / 1e6}}))
        micros = self.provider.generations.get(parse_qs(parts.query).get("id", [""])[0])
        if micros is None:
            return self.answer(404, b'{"error": {"code": 404}}')
        return self.answer(200, orjson.dumps({"data": {"total_cost": micros / 1e6}}))

    def ask(self, request: dict) -> None:
        provider, loop = self.provider, asyncio.get_running_loop()
        provider.in_flight += 1
        provider.most_in_flight = max(provider.most_in_flight, provider.in_flight)
        provider.times[request["model"]].append(loop.time())
        key = request_key({name: value for name, value in request.items() if name != "provider"})
        fault, micros, generation = provider.plan(key)
        loop.call_later(provider.latency_s, self.reply, request, fault, micros, generation, key)

    def reply(self, request: dict, fault: str | None, micros: int, generation: str, key: str) -> None:
        self.provider.in_flight -= 1
        if self.transport.is_closing():
            return
        extra = {"X-Generation-Id": generation}
        if fault == "reset":
            self.transport.abort()
        elif fault in ("slow", "reset after headers", "large"):
            length = LARGE_BYTES if fault == "large" else 4000
            self.head(200, length, extra)
            self.transport.write(b'{"id": "' + b"x" * 100)
            if fault == "slow":
                asyncio.get_running_loop().call_later(SLOW_S, self.transport.abort)
            elif fault == "reset after headers":
                asyncio.get_running_loop().call_later(0.01, self.transport.abort)
        elif fault and (fault[:3].isdigit()):
            status = int(fault[:3])
            if fault != "429":
                extra |= {
                    "429 now": {"Retry-After": "0"},
                    "429 past": {"Retry-After": "Fri, 01 Jan 1999 00:00:00 GMT"},
                }.get(fault, {})
                soon = datetime.now(UTC) + timedelta(seconds=0.3)
                extra |= {"Retry-After": format_datetime(soon, usegmt=True)} if fault == "429 date" else {}
                extra |= {"Retry-After": soon.isoformat()} if fault == "429 iso" else {}
            self.answer(status, b'{"error": {"code": %d, "message": "busy"}}' % status, extra)
        elif fault == "bomb":
            self.answer(200, BOMB, extra | {"Content-Encoding": "gzip"})
        elif fault == "bad utf-8":
            self.answer(200, b'{"choices": "\xff\xfe"}', extra)
        elif fault == "not an object":
            self.answer(200, b'["hello"]', extra)
        else:
            if fault == "long header":
                extra["X-Long"] = "x" * 20_000
            body = orjson.dumps(body_of(request, fault, micros, generation, key))
            self.answer(200, body[:-40] if fault == "truncated" else body, extra)

    def answer(self, status: int, body: bytes, extra: dict | None = None) -> None:
        self.head(status, len(body), extra or {})
        self.transport.write(body)

    def head(self, status: int, length: int, extra: dict) -> None:
        lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json", f"Content-Length: {length}"]
        lines += [f"{name}: {value}" for name, value in extra.items()]
        self.transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())


async def serve(provider: Provider) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Connection(provider), "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Served:
    """A provider in a process of its own."""

    def __init__(self, port: int) -> None:
        self.base_url = f"http://127.0.0.1:{port}/v1"

    def books(self) -> dict:
        with urllib.request.urlopen(f"{self.base_url}/bill", timeout=30) as response:
            return json.load(response)


@contextmanager
def serving(seed=0, rate=0.0, latency_s=0.01, noise=0.0, only=(), fixed=0):
    options = {"seed": seed, "rate": rate, "latency": latency_s, "noise": noise, "only": ",".join(only), "fixed": fixed}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    command = [sys.executable, "-m", "tests.faults.fault_server", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Served(int(process.stdout.readline()))
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    for name in ("rate", "latency", "noise"):
        parser.add_argument(f"--{name}", type=float, default=0.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--fixed", type=int, default=0)
    given = parser.parse_args()
    only = tuple(filter(None, given.only.split(",")))
    asyncio.run(serve(Provider(given.seed, given.rate, given.latency, given.noise, only, given.fixed)))


if __name__ == "__main__":
    main()
