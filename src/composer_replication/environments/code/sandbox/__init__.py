"""Run what a model wrote without letting it out. `interface.py` is the contract, docs/sandbox.md says what it stops."""

from .interface import (
    MIB,
    Changes,
    ExecResult,
    Limits,
    NetworkPolicy,
    Sandbox,
    SandboxFailure,
    SandboxRefusal,
    SandboxSpec,
    SandboxUnavailable,
)
from .open import BACKENDS, available_backends, open_sandbox
from .toolchain import Toolchain, ToolchainError, toolchain

__all__ = [
    "BACKENDS",
    "MIB",
    "Changes",
    "ExecResult",
    "Limits",
    "NetworkPolicy",
    "Sandbox",
    "SandboxFailure",
    "SandboxRefusal",
    "SandboxSpec",
    "SandboxUnavailable",
    "Toolchain",
    "ToolchainError",
    "available_backends",
    "open_sandbox",
    "toolchain",
]
