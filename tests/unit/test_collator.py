"""Stored traces as batches: the promised keys, aligned turns, and padding that never looks at token values."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from composer_replication.training import ComposerDataCollator
from composer_replication.training.stored.examples import (
    PairTokens,
    SiteTokens,
    TraceExample,
    build_examples,
)
from composer_replication.training.stored.lines import policy_text

KEYS = {
    "input_ids", "attention_mask", "response_mask", "rewards", "advantages", "behaviour_logps",
    "ctx_teacher_input_ids", "ctx_teacher_attention_mask", "sdpo_loss_mask", "sdpo_row", "sdpo_start",
    "dpo_chosen_input_ids", "dpo_chosen_attention_mask", "dpo_chosen_response_mask",
    "dpo_rejected_input_ids", "dpo_rejected_attention_mask", "dpo_rejected_response_mask",
    "dpo_reference_chosen_logps", "dpo_reference_rejected_logps", "dpo_label_smoothing",
}  # fmt: skip
PAD = 0


@pytest.fixture
def batch(examples):
    return ComposerDataCollator(PAD)(examples)


def trimmed(ids, mask):
    assert mask.tolist() == sorted(mask.tolist(), reverse=True), "padding is on the right"
    return ids[mask.bool()].tolist()


def test_keys_are_the_documented_ones(batch):
    assert set(batch) == KEYS


def test_masks_are_zero_or_one_and_shaped_like_their_ids(batch):
    for key in KEYS:
        if key.endswith("_mask"):
            assert set(batch[key].flatten().tolist()) <= {0, 1}, key
    for prefix, loss in (
        ("", "response_mask"),
        ("ctx_teacher_", "sdpo_loss_mask"),
        ("dpo_chosen_", "dpo_chosen_response_mask"),
        ("dpo_rejected_", "dpo_rejected_response_mask"),
    ):
        ids, attention = batch[f"{prefix}input_ids"], batch[f"{prefix}attention_mask"]
        assert ids.shape == attention.shape == batch[loss].shape
        assert (batch[loss] <= attention).all()
        assert 0 < batch[loss].sum() < attention.sum()


def test_rows_are_the_stored_traces(batch, examples):
    for row, example in enumerate(examples):
        assert trimmed(batch["input_ids"][row], batch["attention_mask"][row]) == example.ids
        assert batch["response_mask"][row].tolist()[: len(example.ids)] == example.response_mask
        assert batch["response_mask"][row, len(example.ids) :].sum() == 0
    assert batch["rewards"].tolist() == [example.reward for example in examples]


def test_response_mask_is_the_policy_s_turns(stored, tiny_tokens, examples):
    by_ids = {row.ids: row for row in stored.rows}
    for example in examples:
        row = by_ids[tuple(example.ids)]
        inside = {position for start, end in row.turn_spans for position in range(start, end)}
        assert [position for position, own in enumerate(example.response_mask) if own] == sorted(inside)


def test_teacher_rows_end_with_the_student_s_own_turn(batch, examples, stored):
    sites = [site for example in examples for site in example.sites]
    assert len(sites) == len(stored.hints) == 4
    for site in range(4):
        teacher = trimmed(batch["ctx_teacher_input_ids"][site], batch["ctx_teacher_attention_mask"][site])
        row, start = int(batch["sdpo_row"][site]), int(batch["sdpo_start"][site])
        length = int(batch["sdpo_loss_mask"][site].sum())
        turn = batch["input_ids"][row, start : start + length].tolist()
        assert teacher[-length:] == turn
        assert batch["response_mask"][row, start : start + length].all()
        assert not batch["response_mask"][row, start - 1]
        where = batch["sdpo_loss_mask"][site].nonzero()[:, 0].tolist()
        assert where == list(range(len(teacher) - length, len(teacher)))
        assert examples[row].ids[start : start + length] == turn
        assert sites[site].start == start


def test_teacher_context_is_the_student_s_with_the_hint(stored, tiny_tokens, examples):
    texts = {hint.text for hint in stored.hints}
    for example in examples:
        for site in example.sites:
            assert site.teacher_context in [tiny_tokens.splice_hint(example.ids[: site.start], text) for text in texts]
            assert len(site.teacher_context) > site.start


def test_pairs_share_their_prompt_and_differ_in_the_answer(batch, stored, tiny_tokens):
    histories = [trace.history(0) for trace in stored.traces]
    prompts = {tuple(tiny_tokens.prompt(seen)): pair for seen, pair in zip(histories, stored.pairs, strict=True)}
    assert len(batch["dpo_chosen_input_ids"]) == 3
    for number in range(3):
        sides = {}
        for side in ("chosen", "rejected"):
            ids, own = batch[f"dpo_{side}_input_ids"][number], batch[f"dpo_{side}_response_mask"][number].bool()
            start = int(own.nonzero()[0])
            sides[side] = (tuple(ids[:start].tolist()), tiny_tokens.text(ids[own].tolist()))
        pair = prompts[sides["chosen"][0]]
        assert sides["rejected"][0] == sides["chosen"][0]
        assert sides["chosen"][1] == policy_text(pair.chosen)
        assert sides["rejected"][1] == policy_text(pair.rejected)


def test_padding_never_depends_on_token_values():
    row = [PAD, PAD, 7, PAD, 8, PAD]
    example = TraceExample(
        row, [0, 0, 0, 1, 1, 1], 1.0, [SiteTokens(3, 6, [PAD, 5, PAD])], [PairTokens([PAD, 1], [PAD], [2, PAD])]
    )
    longer = TraceExample([1] * 9, [0] * 8 + [1], 0.0, [SiteTokens(8, 9, [2] * 12)], [PairTokens([3] * 9, [4], [5])])
    alone, together = ComposerDataCollator(PAD)([example]), ComposerDataCollator(PAD)([example, longer])
    assert alone["attention_mask"].tolist() == [[1] * 6]
    assert alone["ctx_teacher_attention_mask"].tolist() == [[1] * 6]
    assert alone["dpo_chosen_attention_mask"].tolist() == [[1] * 3]
    assert together["attention_mask"].sum(1).tolist() == [6, 9]
    assert together["ctx_teacher_attention_mask"].sum(1).tolist() == [6, 13]
    assert together["dpo_rejected_attention_mask"].sum(1).tolist() == [4, 10]
    assert together["input_ids"][0].tolist() == [*row, PAD, PAD, PAD]
    relabelled = ComposerDataCollator(99)([example, longer])
    for key in KEYS:
        if key.endswith("_mask"):
            assert torch.equal(relabelled[key], together[key]), key


def test_traces_without_sites_or_pairs_give_empty_tensors(examples):
    bare = [replace(example, sites=[], pairs=[]) for example in examples]
    batch = ComposerDataCollator(PAD)(bare)
    assert set(batch) == KEYS
    full = ComposerDataCollator(PAD)(examples)
    for key in KEYS - {"input_ids", "attention_mask", "response_mask", "rewards", "advantages", "behaviour_logps"}:
        assert batch[key].shape[0] == 0, key
        assert batch[key].ndim == full[key].ndim, key
        assert batch[key].dtype == full[key].dtype, key
    assert torch.equal(batch["input_ids"], full["input_ids"])


def test_batches_mix_traces_with_and_without_sites(examples):
    mixed = [replace(examples[0], sites=[]), examples[1], replace(examples[2], pairs=[])]
    batch = ComposerDataCollator(PAD)(mixed)
    assert batch["sdpo_row"].tolist() == [row for row in (1, 2) for _ in mixed[row].sites]
    assert len(batch["dpo_chosen_input_ids"]) == 2


def test_what_cannot_be_used_is_counted(stored, tiny_tokens):
    def build(rows, limit):
        return build_examples(tiny_tokens, rows, stored.sites, stored.hints, stored.pairs, limit)

    examples, too_long = build(stored.rows, 10)
    assert too_long == {"site_too_long": 4, "pair_too_long": 3}
    assert not any(example.sites or example.pairs for example in examples)


def test_the_length_limit_counts_the_hint_and_the_longer_side(stored, tiny_tokens):
    def build(limit):
        return build_examples(tiny_tokens, stored.rows, stored.sites, stored.hints, stored.pairs, limit)

    full, _ = build(2048)
    openings = {row.trace_id: row.turn_spans[0][0] for row in stored.rows}
    sites = [(e, len(s.teacher_context) + s.end - s.start, s) for e in full for s in e.sites]
    pairs = [len(p.prompt) + max(len(p.chosen), len(p.rejected)) for e in full for p in e.pairs]
    least = [length - (site.start - openings[example.trace_id]) for example, length, site in sites]
    assert any(small < length for small, (_, length, _) in zip(least, sites, strict=True))
    for limit in (min(least) - 1, min(least), max(pairs) - 1, max(pairs), max(length for _, length, _ in sites)):
        kept, skipped = build(limit)
        assert sum(len(example.sites) for example in kept) == sum(length <= limit for length in least)
        assert sum(len(example.pairs) for example in kept) == sum(length <= limit for length in pairs)
        assert skipped["site_too_long"] == sum(length > limit for length in least)
        assert skipped["pair_too_long"] == sum(length > limit for length in pairs)
        for example in kept:
            assert len(example.ids) <= limit
            assert all(len(site.teacher_context) + site.end - site.start <= limit for site in example.sites)


def test_pairs_that_teach_nothing_are_left_out(stored, tiny_tokens):
    same = stored.pairs[0].model_copy(
        update={"chosen": stored.pairs[0].rejected, "chosen_from": "policy", "rejected_from": "policy"}
    )
    empty = stored.pairs[0].model_copy(
        update={"rejected": {"role": "assistant", "content": ""}, "rejected_from": "policy"}
    )
    examples, skipped = build_examples(tiny_tokens, stored.rows, stored.sites, [], [same, empty], 2048)
    assert skipped == {"pair_sides_are_the_same": 1, "pair_side_is_empty": 1}
    assert not any(example.pairs for example in examples)


def test_a_row_has_room_for_the_actor_s_own_turn_beside_short_sides(stored, tiny_tokens):
    short, other = ({"role": "assistant", "content": text} for text in ("done", "{}"))
    pair = max(stored.pairs, key=lambda pair: pair.turn).model_copy(
        update={"chosen": short, "rejected": other, "chosen_from": "policy", "rejected_from": "policy"}
    )
    (row,) = (row for row in stored.rows if row.trace_id == pair.trace_id)
    start, end = row.turn_spans[pair.turn]
    assert end - start > 4
    for limit in range(start + 3, end):
        for example in build_examples(tiny_tokens, stored.rows, stored.sites, [], [pair], limit)[0]:
            assert len(example.ids) <= limit


def test_a_trace_with_nothing_usable_is_no_example(stored, tiny_tokens):
    examples, _ = build_examples(tiny_tokens, stored.rows, stored.sites, stored.hints, stored.pairs, 10)
    assert examples == []


def test_examples_do_not_depend_on_the_order_of_the_inputs(stored, tiny_tokens, examples):
    reversed_inputs = [list(reversed(part)) for part in (stored.rows, stored.hints, stored.pairs)]
    again, _ = build_examples(tiny_tokens, reversed_inputs[0], stored.sites, *reversed_inputs[1:], 2048)
    assert [example.ids for example in again] == [example.ids for example in examples]
