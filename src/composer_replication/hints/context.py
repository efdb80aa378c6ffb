"""What a template may know about an error."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from .facts import FailingArgument


class HintContext(TypedDict, total=False):
    """What is known about one error. `facts.context_of` fills it for a site."""

    error_kind: str
    secondary_kind: str
    """The kind of a repeated failure."""
    error_message: str
    error_line: str
    """The line of a longer error text that says most."""
    available_tools: list[str]
    choices: list[str]
    """Names that the error offers instead of the one that was used."""
    tool_name: str
    tool_schema: dict[str, Any]
    failing_argument: FailingArgument
    refusal: str
    """What the tool says about one of its own arguments."""
    reproduces: bool
    """Whether the call runs a script whose purpose is to fail."""
    after_edit: bool
    """Whether the turn is an edit that broke a command which had passed."""
    any_tool_may_do: bool
    """Whether each listed tool could be the right one, as in the toolbox; in a session the others do other work."""
    feedback: str
    """The user's own words, where the user rejected or stopped the turn."""
    hook_reason: str
    state_excerpt: str
    """The end of the history and the turn itself; only the judge reads it."""
    trace_id: str
    task_id: str
    turn: int
