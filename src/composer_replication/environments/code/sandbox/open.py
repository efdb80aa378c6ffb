"""Which backends there are, and how one is chosen. Never the host itself, unless somebody writes `unsafe`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import NamedTuple, cast

from .interface import INSTALL, Sandbox, SandboxSpec, SandboxUnavailable

Opener = Callable[[SandboxSpec], Sandbox]
PACKAGE = "composer_replication.environments.code.sandbox"


class Backend(NamedTuple):
    """Both are dotted paths, `module:name`, so that an unused backend costs nothing."""

    opener: str
    why_unavailable: str


BACKENDS: Mapping[str, Backend] = {
    "bubblewrap": Backend(f"{PACKAGE}.bubblewrap:BubblewrapSandbox", f"{PACKAGE}.bubblewrap:why_unavailable"),
    "landlock": Backend(f"{PACKAGE}.landlock:LandlockSandbox", f"{PACKAGE}.landlock:why_unavailable"),
    "docker": Backend(f"{PACKAGE}.containers:open_docker", f"{PACKAGE}.containers:why_no_docker"),
    "podman": Backend(f"{PACKAGE}.containers:open_podman", f"{PACKAGE}.containers:why_no_podman"),
    "unsafe": Backend(f"{PACKAGE}.unsafe:UnsafeSandbox", ""),
}
AUTOMATIC = ("bubblewrap", "landlock")


def open_sandbox(spec: SandboxSpec, backend: str = "auto") -> Sandbox:
    """`backend`: `auto`, a name of `BACKENDS`, or `package.module:function` of one's own."""
    if backend == "auto":
        backend = _first_available(spec)
    elif backend in BACKENDS:
        if why := why_unavailable(backend):
            raise SandboxUnavailable(f"the backend {backend} does not work here: {why}", INSTALL)
    elif ":" not in backend:
        raise SandboxUnavailable(f"no backend {backend!r}; there are {', '.join(BACKENDS)}", "choose one of them")
    opener = cast(Opener, _load(BACKENDS[backend].opener if backend in BACKENDS else backend))
    return opener(spec)


def available_backends() -> dict[str, str]:
    """Name -> empty, or why it does not work here. `unsafe` is not among them: it is no sandbox."""
    return {name: why_unavailable(name) for name in BACKENDS if name != "unsafe"}


@cache
def why_unavailable(name: str) -> str:
    """Tried once per process, by running a command in one."""
    check = BACKENDS[name].why_unavailable
    return cast(Callable[[], str], _load(check))() if check else ""


def _first_available(spec: SandboxSpec) -> str:
    reasons: list[str] = []
    for name in AUTOMATIC:
        why = why_unavailable(name)
        if not why and name == "landlock" and spec.network != "none":
            why = f"it cannot hold the network policy {spec.network!r}"
        if not why:
            return name
        reasons.append(f"{name}: {why}")
    raise SandboxUnavailable(f"no sandbox works on this machine ({'; '.join(reasons)})", INSTALL)


def _load(dotted: str) -> object:
    module, _, name = dotted.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SandboxUnavailable(f"{dotted} cannot be loaded: {error}", "correct the name of the backend") from None
