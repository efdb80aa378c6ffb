"""`recompose --install-completion`"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from composer_replication.errors import UsageError

from .main import app


def install(
    *,
    shell: Annotated[Literal["bash", "zsh", "fish"] | None, Parameter(help="The one that runs, without this.")] = None,
    output: Annotated[
        Path | None, Parameter(help="Write only this file, and leave the shell's own files alone.")
    ] = None,
) -> None:
    """Let the shell complete verbs and options of `recompose` from its next start on."""
    from cyclopts.completion import ShellDetectionError

    try:
        print(app.install_completion(shell=shell, output=output, add_to_startup=output is None))
    except ShellDetectionError as error:
        raise UsageError("which shell runs is not known", "recompose --install-completion --shell bash") from error
