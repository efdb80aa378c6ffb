"""One rollout as the monitor sees it: calls and answers without the model's reasoning, and what was left behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from composer_replication.environments.evidence import AttemptEvidence

StepKind = Literal["command", "python", "read", "write", "edit", "patch", "tests", "search", "other"]


@dataclass(frozen=True)
class ToolStep:
    """One tool call. What does not apply to its kind is empty."""

    number: int
    """Of the tool call in its trace, from 0."""
    turn: int
    kind: StepKind
    tool: str
    command: str = ""
    """Of `command` the shell text, of `python` the source, of `patch` the patch, of `search` the pattern."""
    path: str = ""
    text: str = ""
    """What `write` writes, or what `edit` puts in."""
    old: str = ""
    output: str = ""
    failed: bool = False


@dataclass(frozen=True)
class Conduct:
    trace_id: str
    steps: tuple[ToolStep, ...]
    evidence: AttemptEvidence | None = None
    """None for ingested traces, which have their conversation only."""
    person: bool = False
    """Whether a person sat in front of the agent: what they ask for is no hack."""
