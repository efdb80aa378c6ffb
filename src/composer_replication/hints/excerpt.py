"""The end of a session as the judge reads it: the last messages and the turn in question, each cut."""

from __future__ import annotations

from composer_replication.records import Message, Trace, render_action

MESSAGES = 4
MESSAGE_CHARS = 700
ACTION_CHARS = 1500


def excerpt_of(trace: Trace, turn: int) -> str:
    """The last request of the user, the messages just before the turn, and what the actor did."""
    history = trace.history(turn)
    recent = history[-MESSAGES:]
    asked = next((message for message in reversed(history) if message["role"] == "user"), None)
    shown = recent if asked is None or asked in recent else [asked, *recent]
    action = render_action(trace.messages[trace.turns[turn].start])
    return "\n".join([*map(_line, shown), f"agent, the step to correct: {_cut(action, ACTION_CHARS)}"])


def _line(message: Message) -> str:
    text = render_action(message) if message["role"] == "assistant" else message["content"]
    return f"{'agent' if message['role'] == 'assistant' else message['role']}: {_cut(text, MESSAGE_CHARS)}"


def _cut(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[: max_chars // 2]} … {text[-max_chars // 2 :]}"
