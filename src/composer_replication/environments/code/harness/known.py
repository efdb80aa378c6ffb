"""Harnesses that go by a name, and how each is told its task, its model and its provider.

A command is run by bash in the repository. It finds `$TASK` (the statement), `$MODEL`, `$OPENAI_BASE_URL`,
`$OPENAI_API_KEY`, `$ANTHROPIC_BASE_URL` and `$ANTHROPIC_API_KEY`, and its runtime's programs on the PATH.
"""

from __future__ import annotations

from typing import NamedTuple


class Harness(NamedTuple):
    command: str
    agent: str
    """Whose rules find error sites in its traces."""


HARNESSES = {
    "mini-swe-agent": Harness(
        "MSWEA_CONFIGURED=true MSWEA_COST_TRACKING=ignore_errors LITELLM_LOCAL_MODEL_COST_MAP=True"
        ' mini --yolo --exit-immediately --cost-limit 0 --model "openai/$MODEL" --task "$TASK"',
        "mini_swe_agent",
    ),
    "claude-code": Harness(
        'DISABLE_TELEMETRY=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 claude --model "$MODEL"'
        ' --dangerously-skip-permissions --print "$TASK"',
        "claude_code",
    ),
    "codex": Harness(
        'codex exec --model "$MODEL" --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check "$TASK"', "codex"
    ),
    "openhands": Harness(
        'LLM_MODEL="openai/$MODEL" LLM_BASE_URL="$OPENAI_BASE_URL" LLM_API_KEY="$OPENAI_API_KEY"'
        ' openhands --headless --task "$TASK"',
        "openhands",
    ),
}
PROGRAMS = {"mini": "mini_swe_agent", "claude": "claude_code", "codex": "codex", "openhands": "openhands"}
UNKNOWN = "harness"


def harness_of(said: str) -> Harness:
    """By its name, or a command of one's own; one that names a known program is taken for that agent's."""
    words = said.replace("/", " ").split()
    agent = next((agent for program, agent in PROGRAMS.items() if program in words), UNKNOWN)
    return HARNESSES.get(said, Harness(said, agent))
