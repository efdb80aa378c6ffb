"""Token rows to the batch that the three channels read.

    input_ids attention_mask response_mask rewards                              the stored traces
    advantages behaviour_logps                                                  0 where there is nothing to compare
    ctx_teacher_input_ids ctx_teacher_attention_mask sdpo_loss_mask             one row per hinted turn, hint spliced in
    sdpo_row sdpo_start                                                         where that turn lies in input_ids
    dpo_{chosen,rejected}_{input_ids,attention_mask,response_mask}              one row per pair
    dpo_reference_{chosen,rejected}_logps dpo_label_smoothing

Masks are 0/1. The attention mask marks real tokens, the loss masks mark the policy's own: never the one for the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..models.states import padded
from .examples import PairTokens, TraceExample

Batch = dict[str, Tensor]
"""Padded tensors by the names that `composer_replication.training.stored.collator` lists."""


class ComposerDataCollator:
    """Stored traces as padded tensors; a channel's keys are there only where the examples have something for it.

    Args:
        pad_id: The token that rows are padded with; masks leave it out.
    """

    def __init__(self, pad_id: int) -> None:
        self.pad_id = pad_id

    def __call__(self, examples: Sequence[TraceExample]) -> Batch:
        """Tensors by name, for `Channel.loss`."""
        batch: Batch = {"rewards": torch.tensor([example.reward for example in examples])}
        batch["input_ids"], batch["attention_mask"] = self._pad([example.ids for example in examples])
        batch["response_mask"] = padded([example.response_mask for example in examples], 0)
        batch["advantages"] = torch.tensor([example.advantage for example in examples])
        batch["behaviour_logps"] = torch.zeros(batch["input_ids"].shape)
        for row, example in enumerate(examples):
            batch["behaviour_logps"][row, : len(example.logprobs)] = torch.tensor(example.logprobs)
        return {**batch, **self._sites(examples), **self._pairs([p for example in examples for p in example.pairs])}

    def _sites(self, examples: Sequence[TraceExample]) -> Batch:
        located = [(row, site) for row, example in enumerate(examples) for site in example.sites]
        turns = [examples[row].ids[site.start : site.end] for row, site in located]
        ids, attention = self._pad(
            [site.teacher_context + turn for (_, site), turn in zip(located, turns, strict=True)]
        )
        masks = [
            [0] * len(site.teacher_context) + [1] * len(turn) for (_, site), turn in zip(located, turns, strict=True)
        ]
        return {
            "ctx_teacher_input_ids": ids,
            "ctx_teacher_attention_mask": attention,
            "sdpo_loss_mask": padded(masks, 0),
            "sdpo_row": torch.tensor([row for row, _ in located], dtype=torch.long),
            "sdpo_start": torch.tensor([site.start for _, site in located], dtype=torch.long),
        }

    def _pairs(self, pairs: Sequence[PairTokens]) -> Batch:
        batch: Batch = {
            "dpo_reference_chosen_logps": torch.tensor([pair.reference_chosen for pair in pairs]),
            "dpo_reference_rejected_logps": torch.tensor([pair.reference_rejected for pair in pairs]),
            "dpo_label_smoothing": torch.tensor([pair.label_smoothing for pair in pairs]),
        }
        sides = {"chosen": [pair.chosen for pair in pairs], "rejected": [pair.rejected for pair in pairs]}
        for side, answers in sides.items():
            rows = [pair.prompt + answer for pair, answer in zip(pairs, answers, strict=True)]
            masks = [[0] * len(pair.prompt) + [1] * len(answer) for pair, answer in zip(pairs, answers, strict=True)]
            batch[f"dpo_{side}_input_ids"], batch[f"dpo_{side}_attention_mask"] = self._pad(rows)
            batch[f"dpo_{side}_response_mask"] = padded(masks, 0)
        return batch

    def _pad(self, rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Right-padded ids and their attention mask, which never depends on token values."""
        return padded(rows, self.pad_id), padded([[1] * len(row) for row in rows], 0)
