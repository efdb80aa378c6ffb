"""Where the replicas meet: the lighthouse, the address by which this machine is reached, the group that sums."""

from __future__ import annotations

import logging
import os
import socket
from contextlib import suppress
from datetime import timedelta
from threading import Event
from typing import Any
from urllib.parse import urlsplit

from composer_replication.config import DilocoConfig
from composer_replication.errors import UsageError, quoted

NUMBER, LIGHTHOUSE = "REPLICA_GROUP_ID", "TORCHFT_LIGHTHOUSE"
"""Environment variables, by torchft's names."""
CONNECT_S = 10


def replica_number() -> int:
    number = os.environ.get(NUMBER, "")
    if not number.isdigit():
        raise UsageError(f"{NUMBER} does not say which replica this is", f"set {NUMBER}=0 here, 1 at the next site")
    return int(number)


def lighthouse_of(settings: DilocoConfig) -> tuple[str, int]:
    address = settings.lighthouse or os.environ.get(LIGHTHOUSE)
    if not address:
        raise UsageError(
            "nothing says where the lighthouse is", f'set [diloco] lighthouse = "http://…", or {LIGHTHOUSE}'
        )
    place = urlsplit(address)
    if not place.hostname or not place.port:
        raise UsageError(f"{address} is no address of a lighthouse", "give http://host:port")
    return place.hostname, place.port


def own_address(lighthouse: tuple[str, int]) -> str:
    """By which the way to the lighthouse leaves this machine. Its host name often means loopback, which peers cannot
    reach, and torchft, its store and gloo would each give it out."""
    try:
        with socket.create_connection(lighthouse, CONNECT_S) as way:
            return way.getsockname()[0]
    except OSError as error:
        shown = "{}:{}".format(*lighthouse)
        raise UsageError(f"no lighthouse at {shown}: {error}", "recompose train RUN --lighthouse") from error


def open_lighthouse(settings: DilocoConfig) -> Any:
    from torchft.coordination import LighthouseServer  # pyright: ignore[reportMissingImports]

    host, port = lighthouse_of(settings)
    address = socket.gethostbyname(host)
    try:
        return LighthouseServer(
            # Only there: whoever reaches a lighthouse can end a replica.
            bind=f"{address}:{port}",
            min_replicas=settings.min_replicas,
            # After torchft's 60 s the window goes on without a replica that is slower, and its work is thrown away.
            join_timeout_ms=int(settings.patience_s * 1000),
            heartbeat_timeout_ms=int(settings.heartbeat_timeout_s * 1000),
        )
    except RuntimeError as error:
        raise UsageError(
            f"the lighthouse cannot listen on {address}:{port}: {error}", "change [diloco] lighthouse"
        ) from error


def watch(settings: DilocoConfig, run: str) -> None:
    """Be the lighthouse until interrupted."""
    server = open_lighthouse(settings)
    where = "http://{}:{}".format(*lighthouse_of(settings))
    print(f"lighthouse at {where}; next: {NUMBER}=0 recompose train {quoted(run)} --diloco", flush=True)
    try:
        Event().wait()
    finally:
        server.shutdown()


def open_store(host: str) -> Any:
    """A replica's own, at one address: a store that opens its port itself listens on every interface."""
    from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage]

    listening = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    port = listening.getsockname()[1]
    return TCPStore(host, port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach())


def open_group(host: str, timeout: timedelta) -> Any:
    """torchft's gloo on one address, with what it was given to sum counted in `summed_bytes`."""
    from torch.distributed import ProcessGroup
    from torch.distributed import ProcessGroupGloo as Gloo
    from torchft import ProcessGroupGloo  # pyright: ignore[reportMissingImports]

    gloo: Any = Gloo

    class AddressedGloo(ProcessGroupGloo):  # pyright: ignore[reportUntypedBaseClass]
        summed_bytes = 0

        @property
        def replicas(self) -> list[int]:
            """By number, those of the last meeting."""
            return self._global_ranks or []

        def _create_pg(self, store: Any, rank: int, world_size: int) -> ProcessGroup:
            options: Any = gloo._Options()
            options._timeout, options._devices = timeout, [gloo.create_device(hostname=host)]
            backend = gloo(store, rank, world_size, options)
            backend._set_sequence_number_for_group()
            group: Any = ProcessGroup(store, rank, world_size)
            group._set_default_backend(ProcessGroup.BackendType.GLOO)
            for device in ("cpu", "cuda"):
                with suppress(RuntimeError):
                    group._register_backend(_device(device), ProcessGroup.BackendType.GLOO, backend)
            return group

        def allreduce(self, tensors: list[Any], opts: Any) -> Any:
            if self.size() > 1:
                self.summed_bytes += sum(tensor.nbytes for tensor in tensors)
            return super().allreduce(tensors, opts)

    logging.getLogger("torchft").setLevel(logging.CRITICAL)  # what fails is told by the replica
    return AddressedGloo(timeout=timeout)


def _device(name: str) -> Any:
    import torch

    return torch.device(name)
