"""Episodes as traces, and what a turn of a trace was written as."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from composer_replication.records import Message, Source, Trace, Turn, canonical_json, content_id, family_of

if TYPE_CHECKING:
    from .episode import ToolboxEpisode, TurnResult

AGENT = "toolbox"


def trace_of(episode: ToolboxEpisode, source_model: str, sample: int) -> Trace:
    """The whole episode, failed and unparsable turns included."""
    messages: list[Message] = list(episode.task.messages)
    turns: list[Turn] = []
    for number, result in enumerate(episode.turns):
        start = len(messages)
        messages += _messages_of(result, f"call_{number}")
        turns.append(Turn(start=start, end=len(messages), source_model=source_model, family=family_of(source_model)))
    return Trace(
        trace_id=content_id(AGENT, episode.task.task_id, source_model, sample, messages),
        source=Source(agent=AGENT),
        task_id=episode.task.task_id,
        messages=tuple(messages),
        turns=tuple(turns),
        tools=episode.task.tool_schemas,
        outcome=episode.reward,
    )


def _messages_of(result: TurnResult, call_id: str) -> list[Message]:
    if result.call is None:
        said: list[Message] = [{"role": "assistant", "content": result.text}]
        if result.observation is None:
            return said
        return [*said, {"role": "tool", "content": result.observation, "is_error": True}]
    arguments = canonical_json(result.call.arguments)
    call = {"id": call_id, "type": "function", "function": {"name": result.call.name, "arguments": arguments}}
    answer: Message = {"role": "tool", "content": result.observation or "", "tool_call_id": call_id}
    if result.error:
        answer["is_error"] = True
    return [{"role": "assistant", "content": "", "tool_calls": [call]}, answer]  # type: ignore[list-item]


def text_of(message: Message) -> str:
    """What the policy wrote: the call as JSON, or plain text."""
    for call in message.get("tool_calls", []):
        function = call["function"]
        return f'{{"name":{canonical_json(function["name"])},"arguments":{function["arguments"]}}}'
    return message["content"]


def prompt_key(messages: Sequence[Message]) -> str:
    """What a task is recognised by in any conversation about it."""
    return canonical_json([message["content"] for message in messages[:2]])
