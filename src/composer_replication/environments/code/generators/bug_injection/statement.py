"""What the agent is told about a bug, from the most to the least. No level names a line or the change."""

from __future__ import annotations

import ast

from ...tasks.repository import Repository
from ...tasks.task import Level, Symbol
from .source import FunctionNode

END = (
    "Find the cause and correct it in the source. The repository's own tests must stay green; further tests, which you "
    "do not see, check the behaviour.\n"
)


def statements(repository: Repository, symbol: Symbol, function: FunctionNode, symptom: str) -> dict[Level, str]:
    kind = "method" if "." in symbol.name else "function"
    documentation = ast.get_docstring(function) or ""
    quoted = f"\nIts documentation says what it should do:\n\n{indented(documentation)}\n" if documentation else ""
    return {
        "L0": f"The {kind} `{symbol.name}` in `{symbol.file}` misbehaves: {symptom}.\n{quoted}\n{END}",
        "L1": f"The {kind} `{symbol.name}` in `{symbol.file}` does not do what it should.\n{quoted}\n{END}",
        "L2": f"Something that `{symbol.file}` offers does not do what it should.\n\n{END}",
        "L3": f"Something that {repository.name} offers does not do what it should.\n\n{END}",
    }


def indented(text: str) -> str:
    return "\n".join(f"    {line}" if line.strip() else "" for line in text.splitlines())
