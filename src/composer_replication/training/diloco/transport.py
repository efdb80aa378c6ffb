"""What a replica that joins gets from one that is there: weights, momenta and counters, over HTTP and without pickle.

torchft's own transport unpickles what it fetches, listens on every interface, gives out the machine's host name, and on
a CPU serves tensors while they change. This one packs them at once as safetensors and JSON, and serves them only where
the replicas meet, at a path that only they are told.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from datetime import timedelta
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from threading import Condition, Thread
from typing import Any, cast
from urllib.parse import urlsplit

from safetensors.torch import load, save
from torch import Tensor

HEADER_BYTES = 8
"""Of safetensors: they say how long the JSON is that follows."""


def packed(state: Any) -> bytes:
    """Of dictionaries, lists, numbers, texts and tensors; tuples become lists."""
    tensors: dict[str, Tensor] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            tensors[name := str(len(tensors))] = value.detach().cpu().contiguous()
            return {"tensor": name}
        if isinstance(value, Mapping):
            # As pairs: the keys of an optimiser's state are numbers.
            return {"items": [[key, plain(each)] for key, each in cast("Mapping[Any, Any]", value).items()]}
        if isinstance(value, list | tuple):
            return [plain(each) for each in cast("list[Any]", value)]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise TypeError(f"{type(value).__name__} is neither plain nor a tensor")

    return save(tensors, metadata={"state": json.dumps(plain(state))})


def unpacked(blob: bytes) -> Any:
    tensors = load(blob)
    end = HEADER_BYTES + int.from_bytes(blob[:HEADER_BYTES], "little")
    header = json.loads(blob[HEADER_BYTES:end])

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(each) for each in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        found = cast("dict[str, Any]", value)
        return tensors[found["tensor"]] if "tensor" in found else {key: whole(each) for key, each in found["items"]}

    return whole(json.loads(header["__metadata__"]["state"]))


class StateServer:
    """Has the methods that torchft's Manager calls of a `CheckpointTransport`."""

    def __init__(self, host: str, timeout: timedelta) -> None:
        self.sent_bytes = 0
        self._secret, self._timeout_s = secrets.token_urlsafe(16), timeout.total_seconds()
        self._staged: tuple[int, bytes] | None = None
        self._changed = Condition()
        ours = self

        class Handler(BaseHTTPRequestHandler):
            timeout = ours._timeout_s

            def do_GET(self) -> None:
                blob = ours._wait_for(self.path)
                if blob is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(blob)))
                self.end_headers()
                ours.sent_bytes += len(blob)
                self.wfile.write(blob)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: the path is a secret."""

        class Server(ThreadingHTTPServer):
            address_family = AF_INET6 if ":" in host else AF_INET
            daemon_threads = True

        self._server = Server((host, 0), Handler)
        shown = f"[{host}]" if ":" in host else host
        self._address = f"http://{shown}:{self._server.server_port}/{self._secret}/"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def metadata(self) -> str:
        return self._address

    def send_checkpoint(self, dst_ranks: list[int], step: int, state_dict: Any, timeout: timedelta) -> None:
        blob = packed(state_dict)
        with self._changed:
            self._staged = step, blob
            self._changed.notify_all()

    def disallow_checkpoint(self) -> None:
        """Whoever needed it has joined the step, so it was fetched; a fetch under way keeps its own hold."""
        self._staged = None

    def recv_checkpoint(self, src_rank: int, metadata: str, step: int, timeout: timedelta) -> Any:
        place = urlsplit(metadata)
        connection = HTTPConnection(place.hostname or "", place.port, timeout=timeout.total_seconds())
        try:
            connection.request("GET", f"{place.path}{step}")
            answer = connection.getresponse()
            blob = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise ConnectionError(f"no state of step {step}: HTTP {answer.status}")
        return unpacked(blob)

    def shutdown(self, wait: bool = True) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _wait_for(self, path: str) -> bytes | None:
        """A peer may ask before this replica has packed."""
        _, secret, step = path.split("/") if path.count("/") == 2 else ("", "", "")
        if not secrets.compare_digest(secret.encode(), self._secret.encode()):
            return None
        with self._changed:
            self._changed.wait_for(lambda: self._staged and str(self._staged[0]) == step, self._timeout_s)
            return self._staged[1] if self._staged and str(self._staged[0]) == step else None
