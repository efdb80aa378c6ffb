"""Turns that nothing teaches, read again while a policy learns from stored traces alone.

There no reward tells that a policy falls apart. So a few such turns are chosen before the first step, and the log of
the run has how much likelier they are since, in nats per token: `reread/shift`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from transformers import TrainerCallback

from ..models.states import evaluating, last_hidden, output_head, padded
from .examples import RereadTurn, TraceExample

MOST_TURNS = 8
"""Each of another trace."""
ROWS_LOOKED_AT = 16
"""For each of them."""
CLOSELY_UNTIL_STEP, READINGS_LATER = 40, 20


class RereadTurns(TrainerCallback):
    def __init__(self, model: Any, examples: Sequence[TraceExample], keep: Callable[[str, float], None]) -> None:
        """`model` is the policy before its first step; `keep` gets each reading."""
        self.turns, self._keep = _chosen(examples), keep
        self._start = self._mean(model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        step, last = state.global_step, state.max_steps
        every = 2 if step <= CLOSELY_UNTIL_STEP else max(2, math.ceil(last / READINGS_LATER))
        if self.turns and (step % every == 0 or step == last):
            self._keep("reread/shift", self._mean(model) - self._start)

    @torch.no_grad()
    def _mean(self, model: Any) -> float:
        """Log-probability per token."""
        if not self.turns:
            return 0.0
        ids_BT = padded([[*turn.context, *turn.ids] for turn in self.turns], 0).to(model.device)
        attention_BT = padded([[1] * len(turn.context + turn.ids) for turn in self.turns], 0).to(model.device)
        own_BT = padded([[0] * len(turn.context) + [1] * len(turn.ids) for turn in self.turns], 0).to(model.device)
        own_BT = own_BT[:, 1:].bool()
        with evaluating(model):
            hidden_NH = last_hidden(model, ids_BT, attention_BT)[:, :-1][own_BT]
            return float(output_head(model).logprobs(hidden_NH, ids_BT[:, 1:][own_BT]).mean())


def _chosen(examples: Sequence[TraceExample]) -> list[RereadTurn]:
    """From all over the data: of each stretch one. Only a few rows are looked at, as they may lie on a disk."""
    ends = [len(examples) * number // MOST_TURNS for number in range(MOST_TURNS + 1)]
    stretches = [range(start, min(end, start + ROWS_LOOKED_AT)) for start, end in pairwise(ends)]
    found: dict[str, RereadTurn] = {}
    for stretch in stretches:
        rows = (examples[place] for place in stretch)
        row = next((row for row in rows if row.reread and row.trace_id not in found), None)
        if row and row.reread:
            found[row.trace_id] = row.reread
    return list(found.values())
