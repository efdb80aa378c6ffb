"""Many toolbox episodes at once: the policy writes a turn, the environment answers, until every episode has ended.

A rollout keeps the ids that were sampled. Nothing is tokenised again later, so a trained position is always the one
that was sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from composer_replication.environments.toolbox import Episode, ToolboxTask

from .sampling import sample_turns
from .stored import TokenizedTrace
from .tokens import ChatTokens


@dataclass
class Rollout:
    """`completion_ids` holds sampled turns and observations; `turn_spans` cuts out the turns."""

    episode: Episode
    prompt_ids: list[int]
    completion_ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    turn_spans: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def stored(self, trace_id: str, tokenizer: str) -> TokenizedTrace:
        offset = len(self.prompt_ids)
        return TokenizedTrace(
            trace_id=trace_id,
            tokenizer=tokenizer,
            ids=tuple(self.prompt_ids + self.completion_ids),
            turn_spans=tuple((start + offset, end + offset) for start, end in self.turn_spans),
            logprobs=(0.0,) * offset + tuple(self.logprobs),
            reward=self.episode.reward,
        )

    @property
    def sampled_mask(self) -> list[int]:
        """1 where the policy sampled the token, 0 where the environment wrote it."""
        mask = [0] * len(self.completion_ids)
        for start, end in self.turn_spans:
            mask[start:end] = [1] * (end - start)
        return mask


def roll_out(
    model: Any,
    tokens: ChatTokens,
    tasks: Sequence[ToolboxTask],
    *,
    max_turn_tokens: int,
    temperature: float,
    generator: torch.Generator | None = None,
    batch_size: int = 512,
) -> list[Rollout]:
    rollouts = [Rollout(Episode(task), tokens.prompt(task.messages)) for task in tasks]
    for start in range(0, len(rollouts), batch_size):
        active = rollouts[start : start + batch_size]
        while active:
            turns = sample_turns(
                model,
                [rollout.prompt_ids + rollout.completion_ids for rollout in active],
                end_of_turn_id=tokens.end_of_turn_id,
                pad_id=tokens.tokenizer.pad_token_id,
                max_new_tokens=max_turn_tokens,
                temperature=temperature,
                generator=generator,
            )
            for rollout, turn in zip(active, turns, strict=True):
                _take_turn(rollout, tokens, turn.ids, turn.logprobs)
            active = [rollout for rollout in active if not rollout.episode.finished]
    return rollouts


def _take_turn(rollout: Rollout, tokens: ChatTokens, ids: list[int], logprobs: list[float]) -> None:
    begin = len(rollout.completion_ids)
    rollout.completion_ids += ids
    rollout.logprobs += logprobs
    rollout.turn_spans.append((begin, len(rollout.completion_ids)))
    result = rollout.episode.step(tokens.text(ids))
    if not rollout.episode.finished and result.observation is not None:
        answer = tokens.after_turn(result.observation)
        rollout.completion_ids += answer
        rollout.logprobs += [0.0] * len(answer)
