"""The provider that a harness sees: openenv's capture server, on a socket of our own, with the policy behind it.

openenv speaks the dialects (OpenAI chat and Responses, Anthropic Messages; with and without streaming) and keeps each
call with its token ids in a graph. Its own server listens on every address without a key and forwards over HTTP; here
its application is served on a unix socket alone, the key of a session is random, and its upstream is a function of this
process. What openenv's routes manage besides model calls cannot be reached.

Limits: bytes of a request and calls of a session. How long a turn and a conversation may be is the `Writer`'s to say; a
call may ask for a shorter turn. A harness that is over a limit is told so in the words of its dialect; one that goes on
asking is ended by whoever started it (`on_loop`).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from openenv.core.harness.capture.server import create_app
from openenv.core.harness.capture.sessions import Session, Upstream, extract_api_key
from openenv.core.harness.capture.upstream import UpstreamError, UpstreamHTTPError
from starlette.types import Message, Receive, Scope, Send

from composer_replication.errors import RecomposeError
from composer_replication.records import JsonObject

from ...self_played import CallRefused, ContextFull, Writer, WrittenTurn
from ...untrusted import encodable
from ..serving.guard import replayed
from .calls import Conversations, plain_messages, plain_tools, reply_message

Refusal = tuple[int, str]

SOCKET = "proxy.sock"
CALLS_AT_ONCE = 256
READ_TIMES = 4
START_S, STOP_S = 20.0, 5.0
MODEL_ROUTES = ("/chat/completions", "/messages", "/messages/count_tokens", "/responses")
MOST_TOKENS = ("max_tokens", "max_completion_tokens")
"""openenv puts what the other dialects call it under the first of them."""
FULL = {"error": {"code": "context_length_exceeded", "message": "maximum context length: no tokens are left"}}
"""openenv answers its harness with an ordinary last message then, so that it ends in peace."""
MOST_STOPS = 8
"""Calls beyond the limits that are still answered, with a word that the budget is used up."""


class Capture:
    """What one harness asks. openenv takes it for a client of an inference server."""

    def __init__(
        self,
        session: Session,
        write: Writer,
        pool: ThreadPoolExecutor,
        on_call: Callable[[], None],
        on_loop: Callable[[], None],
    ) -> None:
        self.session, self.provider = session, "openai"
        self._write, self._pool = write, pool
        self._on_call, self._on_loop = on_call, on_loop
        self._said = Conversations()
        self._calls = 0
        self._lock = threading.Lock()
        self.failure: Exception | None = None
        """Of the policy, not of the harness."""
        self.refusal: str | None = None
        """Why the last request that could not be asked of the policy was refused. The harness is at fault, or a command
        that called the proxy; what else was captured stays."""

    @property
    def key(self) -> str:
        return self.session.session_id

    async def completion(self, request: JsonObject) -> JsonObject:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._complete, request)

    def look(self) -> None:
        """Before each call: whether the harness goes on although it was told to stop."""
        if self.session.budget_stop_count >= MOST_STOPS:
            self._on_loop()

    def _complete(self, request: JsonObject) -> JsonObject:
        self._on_call()
        with self._lock:
            self._calls += 1
            name = self._calls
        try:
            messages, tools = plain_messages(request["messages"]), plain_tools(request.get("tools") or ())
            call = self._said.call(messages, tools, _most_tokens(request))
        except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
            raise self._refused(f"it cannot be read: {type(error).__name__}: {error}") from error
        try:
            turn = self._write(call)
        except ContextFull as error:
            raise UpstreamHTTPError(400, FULL) from error
        except CallRefused as error:
            raise self._refused(str(error)) from error
        except Exception as error:
            self.failure = self.failure or error
            raise UpstreamError(f"the policy failed: {type(error).__name__}") from error
        reply = reply_message(turn.text, str(name))
        self._said.keep(messages, tools, reply, turn)
        return _response(name, str(request.get("model")), turn, reply)

    def _refused(self, why: str) -> UpstreamHTTPError:
        self.refusal = f"the request was refused: {encodable(why)}"
        return UpstreamHTTPError(400, {"error": {"message": self.refusal}})


def _most_tokens(request: JsonObject) -> int | None:
    """Of this turn, where the harness asks for a limit."""
    most = next((each for key in MOST_TOKENS if (each := request.get(key)) is not None), None)
    if most is not None and (type(most) is not int or most < 1):
        raise ValueError(f"max_tokens is a number of 1 or more, not {most!r:.40}")
    return most


def _response(name: int, model: str, turn: WrittenTurn, reply: Any) -> JsonObject:
    """A turn that was cut says so, even where a whole call stands in it."""
    ended = "tool_calls" if reply.get("tool_calls") else "stop"
    scored = [
        {"token": f"token_id:{token}", "logprob": logprob, "bytes": None, "top_logprobs": []}
        for token, logprob in zip(turn.ids, turn.logprobs, strict=True)
    ]
    choice = {
        "index": 0,
        "message": reply,
        "finish_reason": ended if turn.ended else "length",
        "token_ids": turn.ids,
        "logprobs": {"content": scored},
    }
    used = {"prompt_tokens": len(turn.prompt_ids), "completion_tokens": len(turn.ids)}
    return {
        "id": f"chatcmpl-{name}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "prompt_token_ids": turn.prompt_ids,
        "choices": [choice],
        "usage": {**used, "total_tokens": sum(used.values())},
    }


class _Policies:
    """In place of openenv's pool of inference servers: each session has its own."""

    default = (None, "tokens")

    def __init__(self) -> None:
        self.captures: dict[str, Capture] = {}

    async def resolve(self, upstream: Upstream) -> tuple[Capture, str]:
        return self.captures[upstream.llm_url], "tokens"

    def known(self) -> list[JsonObject]:
        return []


class CaptureProxy(AbstractContextManager["CaptureProxy", None]):
    """One for all sessions. `folder` holds its socket and nothing else, to be shown in sandboxes."""

    def __init__(self, model: str, *, body_bytes: int = 8 << 20) -> None:
        self.model, self._body_bytes = model, body_bytes
        self._holder = tempfile.TemporaryDirectory(prefix="recompose-capture-")
        self.folder = Path(self._holder.name)
        self._socket = _unix_socket(self.folder / SOCKET)
        self._pool = ThreadPoolExecutor(CALLS_AT_ONCE, "policy-call")
        self._app: Any = create_app(model=model, require_registered=True, max_output_tokens=None)
        self._policies = _Policies()
        self._app.state.upstreams = self._policies
        config = uvicorn.Config(
            self._guarded, log_level="error", access_log=False, lifespan="off", ws="none", interface="asgi3"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="capture-proxy", daemon=True)
        self._thread.start()
        deadline = time.monotonic() + START_S
        while not self._server.started:
            if time.monotonic() > deadline:
                raise RecomposeError(f"the capture proxy did not start in {START_S:g} s", "run the same command again")
            time.sleep(0.01)

    @contextmanager
    def session(
        self,
        write: Writer,
        max_calls: int,
        on_call: Callable[[], None] = lambda: None,
        on_loop: Callable[[], None] = lambda: None,
    ) -> Generator[Capture]:
        """Its key is good inside. Its tokens are bounded by its calls and the length of a turn. `on_call` hears of each
        call before it is answered."""
        registry = self._app.state.registry
        session: Session = registry.create(capture_level="tokens", max_model_calls=max_calls)
        session.upstream = Upstream(llm_url=session.session_id, model=self.model)
        capture = Capture(session, write, self._pool, on_call, on_loop)
        self._policies.captures[session.session_id] = capture
        try:
            yield capture
        finally:
            registry.delete(session.session_id)
            self._policies.captures.pop(session.session_id)

    def close(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(STOP_S)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._socket.close()
        self._holder.cleanup()

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _serve(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    async def _guarded(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Model calls under a known key and of a bounded size reach openenv; nothing else does. Of what is refused a
        bounded part is read too: a connection that is closed over unread bytes is reset, and its answer is lost."""
        refused = self._refusal(scope)
        body, read = bytearray(), 0
        more = scope["type"] == "http" and scope["method"] == "POST"
        while more and read <= READ_TIMES * self._body_bytes:
            message = await receive()
            if message["type"] != "http.request":
                return
            part = message.get("body", b"")
            more, read = bool(message.get("more_body")), read + len(part)
            if refused is None and read > self._body_bytes:
                refused = 413, f"a request has at most {self._body_bytes} bytes"
            body += part if refused is None else b""
        refuse = partial(_refuse, send, "/messages" in scope.get("path", ""))
        if refused:
            await refuse(*refused)
            return
        await self._app(scope, replayed(bytes(body), receive), _with_refusals(send, refuse))

    def _refusal(self, scope: Scope) -> Refusal | None:
        if scope["type"] != "http":
            return 404, "there is no such route"
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        capture = self._policies.captures.get(extract_api_key(headers) or "")
        if capture is None:
            return 401, "the key is missing or wrong"
        is_models = scope["method"] == "GET" and scope["path"].endswith("/models")
        if not is_models and not (scope["method"] == "POST" and scope["path"].endswith(MODEL_ROUTES)):
            return 404, "there is no such route"
        capture.look()
        return None


def _unix_socket(path: Path) -> socket.socket:
    """Root's sandboxes run as other users, who must reach it; others keep it to themselves."""
    opened = socket.socket(socket.AF_UNIX)
    opened.bind(str(path))
    if os.getuid() == 0:
        os.chmod(path.parent, 0o755)  # noqa: S103 - its name is random, and a session's key is needed
        os.chmod(path, 0o666)  # noqa: S103
    opened.listen(CALLS_AT_ONCE)
    return opened


def _with_refusals(send: Send, refuse: Callable[[int, str], Awaitable[None]]) -> Send:
    """openenv refuses in one form, whatever the dialect."""
    status = 0

    async def send_on(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start" and message["status"] >= 400:
            status = message["status"]
        elif status:
            await refuse(status, _why(message["body"]))
        else:
            await send(message)

    return send_on


def _why(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, LookupError, TypeError):  # a failure that openenv did not foresee is plain text
        return body.decode("utf-8", "replace")


async def _refuse(send: Send, to_anthropic: bool, status: int, why: str) -> None:
    error = {"error": {"message": why, "type": "api_error" if status >= 500 else "invalid_request_error"}}
    content = json.dumps({"type": "error", **error} if to_anthropic else error).encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    with suppress(OSError):
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": content})
