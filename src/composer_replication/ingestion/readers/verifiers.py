"""Episodes of verifiers, one per line of `traces.jsonl`: what its evaluations save, and prime-rl each training step.

An episode has a trace per agent; a trace stores each message once and names the one before it. Every leaf with the way
to it is one session. An assistant message that no model sampled is history, and so is a turn of an earlier leaf. Left
out: token ids and log-probabilities. Lost: whether a tool failed, which verifiers does not record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from composer_replication.records import JsonObject

from ..chat_messages import openai_tools
from ..conversation import Conversation
from ..documents import outcome_of, read_rows
from ..reading import Document, InputFile
from ..session import Session
from ..values import as_int, as_name, as_object, as_objects
from .openai_messages import Chat

AGENT = "verifiers"


def recognises(value: Any) -> bool:
    fields = as_object(value)
    return {"env", "task", "ok"} <= fields.keys() and isinstance(fields.get("traces"), list)


def read(file: InputFile) -> Iterator[Session]:
    return read_rows(file, _sessions, lambda value: [value])


def _sessions(file: InputFile, document: Document) -> Iterator[Session]:
    for trace in as_objects(as_object(document.value).get("traces")):
        # A key is unique in the world: prime-rl writes an episode that it trains on into two files.
        nodes, seen, name = as_objects(trace.get("nodes")), set[int](), as_name(trace.get("id"))
        models = {call.get("node"): as_name(call.get("model")) for call in as_objects(trace.get("calls"))}
        parents = {as_int(node.get("parent")) for node in nodes}
        for leaf in sorted(set(range(len(nodes))) - parents):
            path = _path(nodes, leaf)
            conversation = Conversation(file, AGENT, "exact")
            conversation.version = as_name(as_object(trace.get("verifiers")).get("version"))
            conversation.tools(openai_tools(nodes[path[0]].get("tools") or trace.get("tools")))
            chat = Chat(conversation, file.report, document)
            for place in path:
                chat.add(as_object(nodes[place].get("message")), models.get(place), f"{name}/{place}")
            history = {f"{name}/{place}" for place in path if place in seen or nodes[place].get("sampled") is not True}
            seen.update(path)
            task = as_object(trace.get("task"))
            task_id = as_name(as_object(task.get("data")).get("id")) or as_name(task.get("key"))
            yield conversation.session(f"{name}/{leaf}", task_id=task_id, outcome=_reward(trace)).without(history)


def _path(nodes: Sequence[JsonObject], leaf: int) -> list[int]:
    """A parent comes before its children, so that a broken file cannot lead in a circle."""
    path = [leaf]
    while (parent := as_int(nodes[path[-1]].get("parent"))) is not None and 0 <= parent < path[-1]:
        path.append(parent)
    return path[::-1]


def _reward(trace: JsonObject) -> float | None:
    """None where nothing was scored."""
    scored = [as_object(reward) for reward in as_object(trace.get("rewards")).values() if reward]
    values = [outcome_of(reward.get("score")) for reward in scored]
    if not values or None in values:
        return None
    weights = [outcome_of(reward.get("weight", 1.0)) or 0.0 for reward in scored]
    return sum(value * weight for value, weight in zip(values, weights, strict=True) if value is not None)
