"""How likely a policy finds a given answer behind a context, and which of its tokens the task does not show already.

What two contexts share at their begin is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from composer_replication.training.models.tokens import ChatTokens, shared_length


class Reader:
    def __init__(self, model: Any) -> None:
        self._model, self._cache, self._read = model, DynamicCache(), list[int]()

    @torch.no_grad()
    def logprobs(self, context: Sequence[int], turn: Sequence[int]) -> list[float]:
        """Of each token of `turn`, in nats."""
        kept = min(shared_length(self._read, context), len(context) - 1)
        self._cache.crop(kept - len(self._read))
        if kept < len(context) - 1:
            self._forward(context[kept:-1], logits_to_keep=1)
        logits_TV = self._forward([context[-1], *turn[:-1]])
        self._read = [*context, *turn[:-1]]
        labels_T1 = torch.tensor(turn, device=logits_TV.device)[:, None]
        return logits_TV.float().log_softmax(-1).gather(1, labels_T1)[:, 0].tolist()

    def _forward(self, ids: Sequence[int], logits_to_keep: int = 0) -> torch.Tensor:
        ids_1T = torch.tensor([list(ids)], device=self._model.device)
        output = self._model(
            input_ids=ids_1T, past_key_values=self._cache, use_cache=True, logits_to_keep=logits_to_keep
        )
        return output.logits[0]


def is_new(tokens: ChatTokens, answer: str, shown: str) -> list[bool]:
    """Of each token of the turn `answer`: is it of a line that does not stand in the text `shown`? Imports,
    documentation and signatures mostly do; the marks of the code block and the end of the turn count as shown."""
    known, new, place = {line.strip() for line in shown.splitlines()}, list[range](), 0
    for line in answer.splitlines(keepends=True):
        if line.strip() and line.strip() not in known and not line.startswith("```"):
            new.append(range(place, place + len(line)))
        place += len(line)
    read = tokens.tokenizer(answer, add_special_tokens=False, return_offsets_mapping=True)
    if read["input_ids"] != tokens.turn(answer)[:-1]:
        raise ValueError("the template writes a turn otherwise than the answer stands there")
    return [any(first in line or last - 1 in line for line in new) for first, last in read["offset_mapping"]] + [False]
