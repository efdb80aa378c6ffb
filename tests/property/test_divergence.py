"""What the losses from hidden states must not depend on: order, chunks, shards, rows without weight."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from composer_replication.losses import hidden_divergence, hidden_logprobs

LEARNS = ("student_hidden_NH", "student_weight_VH", "student_bias_V")
rules = st.fixed_dictionaries(
    {
        "beta": st.sampled_from([0.0, 0.3, 0.5, 1.0]) | st.floats(0.01, 0.99),
        "temperature": st.floats(0.3, 3.0),
        "top_k": st.none() | st.integers(1, 40),
        "token_clip": st.none() | st.floats(0.01, 2.0),
    }
)
shapes = st.tuples(st.integers(1, 12), st.integers(2, 40), st.integers(1, 8), st.integers(0, 10**6))
few = settings(max_examples=60, deadline=None, derandomize=True)


def draw_sides(shape: tuple[int, int, int, int]) -> dict[str, Tensor]:
    n, v, h, seed = shape
    generator = torch.Generator().manual_seed(seed)

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    return {
        "student_hidden_NH": draw(n, h),
        "student_weight_VH": draw(v, h),
        "student_bias_V": draw(v),
        "teacher_hidden_NH": draw(n, h),
        "teacher_weight_VH": draw(v, h),
        "teacher_bias_V": draw(v),
        "weights_N": draw(n).abs(),
    }


def rows_of(sides: dict[str, Tensor], rows: Tensor | slice) -> dict[str, Tensor]:
    return {name: side[rows] if "_N" in name else side for name, side in sides.items()}


def result(sides: dict[str, Tensor], **options) -> dict[str, Tensor]:
    sides = {name: side.clone().requires_grad_(name in LEARNS) for name, side in sides.items()}
    found = hidden_divergence(**sides, **options)
    found.loss.backward()
    return {
        "loss": found.loss.detach(),
        "divergence_N": found.divergence_N,
        **{name: sides[name].grad for name in LEARNS},
    }


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-9, atol=1e-10, msg=lambda m, name=name: f"{name}: {m}")


@few
@given(shapes, rules, st.integers(1, 13))
def test_the_chunk_size_changes_nothing(shape, rule, chunk_tokens):
    sides = draw_sides(shape)
    assert_same(result(sides, chunk_tokens=chunk_tokens, **rule), result(sides, **rule))


@few
@given(shapes, rules, st.integers(1, 5))
def test_the_order_of_tokens_changes_nothing(shape, rule, chunk_tokens):
    sides = draw_sides(shape)
    order = torch.randperm(shape[0], generator=torch.Generator().manual_seed(shape[3]))
    expected = result(sides, **rule)
    for name in ("divergence_N", "student_hidden_NH"):
        expected[name] = expected[name][order]
    assert_same(result(rows_of(sides, order), chunk_tokens=chunk_tokens, **rule), expected)


@few
@given(shapes, rules, st.integers(0, 12))
def test_shards_add_up(shape, rule, cut):
    sides = draw_sides(shape)
    first, second = (result(rows_of(sides, rows), **rule) for rows in (slice(None, cut), slice(cut, None)))
    together = {
        name: torch.cat([first[name], second[name]]) if "_N" in name else first[name] + second[name] for name in first
    }
    assert_same(together, result(sides, **rule))


@few
@given(shapes, rules, st.integers(0, 2**12 - 1), st.floats(0.1, 100))
def test_rows_without_weight_contribute_exactly_nothing(shape, rule, mask, scale):
    sides = draw_sides(shape)
    masked = torch.tensor([bool(mask >> row & 1) for row in range(shape[0])])
    sides["weights_N"] = sides["weights_N"].masked_fill(masked, 0)
    other = dict(sides)
    for name in ("student_hidden_NH", "teacher_hidden_NH"):
        other[name] = torch.where(masked[:, None], scale * sides[name].flip(0), sides[name])
    found, expected = result(other, **rule), result(sides, **rule)
    for name in ("loss", *LEARNS):
        assert torch.equal(found[name], expected[name]), name
    assert (found["student_hidden_NH"][masked] == 0).all()
    kept = rows_of(sides, ~masked)
    for name, value in result(kept, **rule).items():
        torch.testing.assert_close(expected[name][~masked] if "_N" in name else expected[name], value)


@few
@given(shapes, rules)
def test_divergence_is_not_negative_and_the_loss_keeps_under_the_clip(shape, rule):
    sides = draw_sides(shape)
    found = result(sides, **rule)
    assert (found["divergence_N"] >= -1e-9).all()
    if rule["token_clip"] is not None:
        assert found["loss"] <= rule["token_clip"] * sides["weights_N"].sum() * (1 + 1e-9)


@few
@given(shapes, st.floats(0.3, 3.0), st.integers(1, 13), st.data())
def test_logprobs_do_not_depend_on_chunks_or_order(shape, temperature, chunk_tokens, data):
    sides, n_words = draw_sides(shape), shape[1]
    labels = torch.tensor(data.draw(st.lists(st.integers(0, n_words - 1), min_size=shape[0], max_size=shape[0])))
    order = torch.randperm(shape[0], generator=torch.Generator().manual_seed(shape[3]))
    hidden, weight = sides["student_hidden_NH"], sides["student_weight_VH"]
    whole = hidden_logprobs(hidden, weight, labels, temperature=temperature)
    shuffled = hidden_logprobs(hidden[order], weight, labels[order], temperature=temperature, chunk_tokens=chunk_tokens)
    torch.testing.assert_close(shuffled, whole[order], rtol=1e-9, atol=1e-10)
    every = torch.stack([hidden_logprobs(hidden, weight, torch.full_like(labels, word)) for word in range(n_words)])
    torch.testing.assert_close(every.exp().sum(0), torch.ones_like(whole))
