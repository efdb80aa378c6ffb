"""Fresh turns of the policy at frozen states: what it would do there now, several times over."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence

import torch

from composer_replication.environments.calls import CallError, parse_call
from composer_replication.records import JsonObject, Message, ToolCall

from ..models.loading import Policy
from .sampling import SampledTurn, sample_turns

BATCH_TOKENS = 1 << 16
BATCH_ROWS = 256
_WRITTEN_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


def sample_states(
    policy: Policy,
    contexts: Sequence[Sequence[int]],
    *,
    samples: int,
    max_new_tokens: int,
    temperature: float,
    seed: int,
    tools: Sequence[Sequence[JsonObject]] = (),
    on_batch: Callable[[int], None] = lambda done: None,
) -> list[list[Message]]:
    """`samples` turns for each context, in their order; a turn that was cut off is left out.

    `tools` of each context give arguments their types where a model writes calls without them. Contexts of like length
    are sampled together, each batch from a seed of its own. `on_batch` hears how many contexts
    are done.
    """
    found: list[list[Message]] = [[] for _ in contexts]
    done = 0
    for number, batch in enumerate(_batches(contexts, samples, max_new_tokens)):
        turns = sample_turns(
            policy.model,
            [contexts[index] for index in batch for _ in range(samples)],
            end_of_turn_id=policy.tokens.end_of_turn_id,
            pad_id=policy.tokenizer.pad_token_id,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            generator=torch.Generator(device=policy.model.device).manual_seed(seed * 1_000_003 + number),
        )
        for place, turn in enumerate(turns):
            if _ended(turn, policy):
                index = batch[place // samples]
                known = tools[index] if tools else ()
                found[index].append(read_turn(policy.tokens.said(contexts[index], turn.ids, known)))
        done += len(batch)
        on_batch(done)
    return found


def sample_greedily(
    policy: Policy,
    context: Sequence[int],
    max_new_tokens: int,
    tools: Sequence[JsonObject] = (),
    on_token: Callable[[int], None] = lambda done: None,
) -> str | None:
    """The likeliest turn, without thoughts; None where it does not end."""
    (turn,) = sample_turns(
        policy.model,
        [context],
        end_of_turn_id=policy.tokens.end_of_turn_id,
        pad_id=policy.tokenizer.pad_token_id,
        max_new_tokens=max_new_tokens,
        temperature=0.0,
        on_token=on_token,
    )
    return policy.tokens.said(context, turn.ids, tools) if _ended(turn, policy) else None


def read_turn(text: str) -> Message:
    """An assistant message: one call as bare JSON, calls between `<tool_call>` marks, or what else was written.

    Arguments keep the policy's own order, so that what is learnt is what it would write.
    """
    written = _WRITTEN_CALL.findall(text) or [text]
    try:
        calls = [parse_call(each.strip()) for each in written]
    except CallError:
        return {"role": "assistant", "content": text}
    said = _WRITTEN_CALL.sub("", text).strip() if written != [text] else ""
    tool_calls: list[ToolCall] = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": json.dumps(call.arguments, separators=(",", ":"), ensure_ascii=False),
            },
        }
        for number, call in enumerate(calls)
    ]
    return {"role": "assistant", "content": said, "tool_calls": tool_calls}


def _ended(turn: SampledTurn, policy: Policy) -> bool:
    return turn.ids[-1:] == [policy.tokens.end_of_turn_id]


def _batches(contexts: Sequence[Sequence[int]], samples: int, max_new_tokens: int) -> Iterator[list[int]]:
    """Indexes of contexts, shortest first, so that little is padded."""
    batch: list[int] = []
    for index in sorted(range(len(contexts)), key=lambda index: len(contexts[index])):
        rows = (len(batch) + 1) * samples
        if batch and (rows > BATCH_ROWS or rows * (len(contexts[index]) + max_new_tokens) > BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
