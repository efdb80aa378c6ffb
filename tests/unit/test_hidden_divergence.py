"""Losses from hidden states against full-vocabulary autograd in float64, and what they must never allocate."""

from __future__ import annotations

import importlib.util
import json
import os
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from composer_replication.losses import hidden_divergence, hidden_logprobs, token_divergence
from composer_replication.losses.kernels import products
from composer_replication.losses.kernels.chunking import GIB, token_chunks
from composer_replication.losses.kernels.rows import DivergenceRule, torch_rows

ROOT = Path(__file__).parents[2]
BETAS = (0.0, 0.3, 0.5, 1.0)
N, V, H = 7, 53, 9
RULES = [
    {"beta": beta, "top_k": top_k, "token_clip": token_clip, "temperature": temperature}
    for beta, top_k, token_clip, temperature in product(BETAS, (None, 3), (None, 0.2), (1.0, 0.6))
]
CAN_FUSE = importlib.util.find_spec("triton") is not None and (
    torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1"
)
FUSES = pytest.mark.skipif(not CAN_FUSE, reason="needs triton and a GPU, or TRITON_INTERPRET=1")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BACKENDS = ["torch", pytest.param("triton", marks=FUSES)]


def draw(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def make_sides(n: int = N, v: int = V, h: int = H, with_bias: bool = True) -> dict[str, Tensor | None]:
    hidden, weight = draw(n, h, seed=1), draw(v, h, seed=2, scale=0.7)
    return {
        "student_hidden_NH": hidden,
        "student_weight_VH": weight,
        "teacher_hidden_NH": hidden + draw(n, h, seed=3, scale=0.5),
        "teacher_weight_VH": weight + draw(v, h, seed=4, scale=0.1),
        "student_bias_V": draw(v, seed=5) if with_bias else None,
        "teacher_bias_V": draw(v, seed=6) if with_bias else None,
    }


def trainable(sides: dict[str, Tensor | None], dtype: torch.dtype | None = None) -> dict[str, Tensor | None]:
    copies = {name: None if side is None else side.detach().to(dtype or side.dtype) for name, side in sides.items()}
    for name, side in copies.items():
        if side is not None and name.startswith("student"):
            side.requires_grad_()
    return copies


def full_vocabulary(
    student_hidden_NH, student_weight_VH, teacher_hidden_NH, teacher_weight_VH, *, weights_N, beta=0.5, temperature=1.0,
    top_k=None, token_clip=None, student_bias_V=None, teacher_bias_V=None,
):  # fmt: skip
    student_NV, teacher_NV = student_hidden_NH @ student_weight_VH.T, teacher_hidden_NH @ teacher_weight_VH.T
    if student_bias_V is not None:
        student_NV = student_NV + student_bias_V
    if teacher_bias_V is not None:
        teacher_NV = teacher_NV + teacher_bias_V
    divergence_N = token_divergence(student_NV, teacher_NV, beta, temperature, top_k)
    factor_N = 1.0 if token_clip is None else (token_clip / divergence_N.detach()).clamp(max=1)
    return (weights_N * factor_N * divergence_N).sum(), divergence_N.detach()


def gradients(sides: dict[str, Tensor | None], loss: Tensor, scale: float = 1.0) -> dict[str, Tensor]:
    (scale * loss).backward()
    return {name: side.grad for name, side in sides.items() if side is not None and side.grad is not None}


def relative_error(found: Tensor, expected: Tensor) -> float:
    return ((found.double() - expected.double()).norm() / expected.double().norm()).item()


def weights_of(n: int = N) -> Tensor:
    return draw(n, seed=7).abs() + 0.1


def show(rule) -> str:
    return "-".join(f"{name}={value}" for name, value in rule.items())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rule", RULES, ids=show)
def test_loss_and_gradients_equal_full_vocabulary_autograd_in_float64(rule, backend):
    if rule["top_k"] is not None and backend != "torch":
        with pytest.raises(ValueError, match="top_k"):
            hidden_divergence(**make_sides(), weights_N=weights_of(), backend=backend, **rule)
        return
    exact, sides = trainable(make_sides(), torch.float64), trainable(make_sides())
    expected_loss, expected_N = full_vocabulary(**exact, weights_N=weights_of().double(), **rule)
    found = hidden_divergence(**sides, weights_N=weights_of(), chunk_tokens=3, backend=backend, **rule)
    assert found.divergence_N.dtype == torch.float32
    assert not found.divergence_N.requires_grad
    assert relative_error(found.divergence_N, expected_N) < 1e-5
    assert found.loss.item() == pytest.approx(expected_loss.item(), rel=1e-5)
    expected, got = gradients(exact, expected_loss), gradients(sides, found.loss)
    assert got.keys() == expected.keys() == {"student_hidden_NH", "student_weight_VH", "student_bias_V"}
    for name, gradient in got.items():
        assert relative_error(gradient, expected[name]) < 1e-5, name


@pytest.mark.parametrize("top_k", [None, 4])
@pytest.mark.parametrize("beta", BETAS)
def test_float64_in_is_float64_throughout(beta, top_k):
    exact, sides = trainable(make_sides(), torch.float64), trainable(make_sides(), torch.float64)
    rule = {"beta": beta, "top_k": top_k, "weights_N": weights_of().double()}
    expected = gradients(exact, full_vocabulary(**exact, **rule)[0])
    got = gradients(sides, hidden_divergence(**sides, **rule).loss)
    for name, gradient in got.items():
        assert relative_error(gradient, expected[name]) < 1e-12, name


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("token_clip", [None, 1.0, 0.1, 0.01])
@pytest.mark.parametrize("top_k", [None, 1])
def test_a_step_lowers_the_wrong_token_and_raises_the_right_one(beta, token_clip, top_k, backend):
    if top_k is not None and backend == "triton":
        pytest.skip("no top_k in the fused form")
    wrong, right = 0, 1
    # With the identity as head, hidden states are logits.
    head = torch.eye(4, device=DEVICE)
    student = torch.tensor([[0.8, 0.1, 0.05, 0.05]], device=DEVICE).log().requires_grad_()
    teacher = torch.tensor([[0.1, 0.8, 0.05, 0.05]], device=DEVICE).log()
    one = torch.ones(1, device=DEVICE)
    rule = {"beta": beta, "token_clip": token_clip, "top_k": top_k}
    hidden_divergence(student, head, teacher, head, weights_N=one, backend=backend, **rule).loss.backward()
    step = -1e-2 * student.grad / student.grad.norm()
    assert step[0, wrong] < 0 < step[0, right]
    before, after = student.detach().softmax(-1)[0], (student.detach() + step).softmax(-1)[0]
    assert after[wrong] < before[wrong]
    assert after[right] > before[right]


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_tokens_give_exactly_zero_and_a_graph(backend):
    sides = trainable(make_sides(n=0))
    found = hidden_divergence(**sides, weights_N=torch.zeros(0, device=DEVICE), backend=backend)
    assert found.loss.item() == 0
    assert found.divergence_N.shape == (0,)
    got = gradients(sides, found.loss)
    assert torch.equal(got["student_weight_VH"], torch.zeros_like(sides["student_weight_VH"]))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("beta", BETAS)
def test_equal_sides_have_no_divergence(beta, backend):
    sides = make_sides()
    student = {name: side for name, side in sides.items() if name.startswith("student")}
    teacher = {name.replace("student", "teacher"): side for name, side in student.items()}
    found = hidden_divergence(**student, **teacher, weights_N=weights_of(), beta=beta, backend=backend)
    assert found.divergence_N.abs().max() < 1e-6


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("beta", BETAS)
def test_a_word_ruled_out_on_both_sides_changes_nothing(beta, backend):
    short = trainable(make_sides())
    long = make_sides()
    for name in ("student_weight_VH", "teacher_weight_VH"):
        long[name] = torch.cat([long[name], draw(1, H, seed=8)])
    for name in ("student_bias_V", "teacher_bias_V"):
        long[name] = torch.cat([long[name], torch.full((1,), -torch.inf, device=DEVICE)])
    long = trainable(long)
    rule = {"beta": beta, "weights_N": weights_of(), "backend": backend}
    expected, found = hidden_divergence(**short, **rule), hidden_divergence(**long, **rule)
    torch.testing.assert_close(found.loss, expected.loss)
    expected, got = gradients(short, expected.loss), gradients(long, found.loss)
    torch.testing.assert_close(got["student_hidden_NH"], expected["student_hidden_NH"])
    assert (got["student_weight_VH"][-1] == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("top_k", [None, 2])
@pytest.mark.parametrize("beta", BETAS)
def test_extreme_logits_give_finite_values(beta, top_k, backend):
    if top_k is not None and backend == "triton":
        pytest.skip("no top_k in the fused form")
    student = torch.tensor([[1e4, -1e4, 0.0, 3.0], [-1e4, 1e4, 0.0, 1.0], [1e4, 1e4, -1e4, -1e4]], device=DEVICE)
    teacher = torch.tensor([[-1e4, 1e4, 0.0, 3.0], [-1e4, 1e4, 0.0, 1.0], [-1e4, -1e4, 1e4, 1e4]], device=DEVICE)
    head, student = torch.eye(4, device=DEVICE), student.requires_grad_()
    exact = student.detach().double().requires_grad_()
    rule = {"beta": beta, "top_k": top_k}
    found = hidden_divergence(
        student, head, teacher, head, weights_N=torch.ones(3, device=DEVICE), backend=backend, **rule
    )
    token_divergence(exact, teacher.double(), beta, top_k=top_k).sum().backward()
    found.loss.backward()
    assert found.divergence_N.isfinite().all()
    torch.testing.assert_close(student.grad.double(), exact.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_second_backward_pass_gives_the_same_gradients_again(backend):
    sides = trainable(make_sides())
    loss = hidden_divergence(**sides, weights_N=weights_of(), backend=backend).loss
    (2 * loss).backward(retain_graph=True)
    first = {name: side.grad.clone() for name, side in sides.items() if side.grad is not None}
    for side in sides.values():
        side.grad = None
    got = gradients(sides, loss, scale=3.0)
    for name, gradient in got.items():
        torch.testing.assert_close(gradient, 3 / 2 * first[name])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scale", [65536.0, 0.25, -1.0, 0.0])
def test_an_upstream_factor_scales_every_gradient(scale, backend):
    plain, scaled = trainable(make_sides()), trainable(make_sides())
    rule = {"weights_N": weights_of(), "backend": backend}
    expected = gradients(plain, hidden_divergence(**plain, **rule).loss)
    got = gradients(scaled, hidden_divergence(**scaled, **rule).loss, scale)
    for name, gradient in got.items():
        torch.testing.assert_close(gradient, scale * expected[name], rtol=1e-6, atol=0)


def test_gradients_are_handed_over_without_a_copy():
    sides = trainable(make_sides())
    loss = hidden_divergence(**sides, weights_N=weights_of(), backend="torch").loss
    made = [gradient.data_ptr() for gradient in loss.grad_fn.gradients]
    loss.backward()
    assert made == [
        sides[name].grad.data_ptr() for name in ("student_hidden_NH", "student_weight_VH", "student_bias_V")
    ]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_teacher_gets_no_gradient(backend):
    sides = {name: side.requires_grad_() for name, side in make_sides().items()}
    got = gradients(sides, hidden_divergence(**sides, weights_N=weights_of(), backend=backend).loss)
    assert got.keys() == {"student_hidden_NH", "student_weight_VH", "student_bias_V"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tied_head_gets_the_students_gradient_alone(backend):
    tied, apart = trainable(make_sides()), trainable(make_sides())
    tied["teacher_weight_VH"] = tied["student_weight_VH"]
    apart["teacher_weight_VH"] = apart["student_weight_VH"].detach().clone()
    rule = {"weights_N": weights_of(), "backend": backend}
    expected = gradients(apart, hidden_divergence(**apart, **rule).loss)
    got = gradients(tied, hidden_divergence(**tied, **rule).loss)
    assert torch.equal(got["student_weight_VH"], expected["student_weight_VH"])


class Products(TorchDispatchMode):
    """Counts matrix products and keeps the largest tensor that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.n_products, self.largest = 0, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.n_products += func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm)
        sizes = (leaf.untyped_storage().nbytes() for leaf in tree_leaves(out) if isinstance(leaf, Tensor))
        self.largest = max(self.largest, *sizes, 0)
        return out


@pytest.mark.parametrize(("trains_head", "n_products"), [(True, 4), (False, 3)])
def test_each_chunk_takes_four_products_and_a_frozen_head_three(trains_head, n_products):
    sides = trainable(make_sides(n=6))
    sides["student_weight_VH"].requires_grad_(trains_head)
    with Products() as seen:
        hidden_divergence(**sides, weights_N=weights_of(6), chunk_tokens=2, backend="torch").loss.backward()
    assert seen.n_products == 3 * n_products


def test_without_gradients_there_are_two_products():
    with torch.no_grad(), Products() as seen:
        found = hidden_divergence(**trainable(make_sides(n=6)), weights_N=weights_of(6), backend="torch")
    assert seen.n_products == 2
    assert not found.loss.requires_grad


@pytest.mark.parametrize("top_k", [None, 5])
def test_no_tensor_of_all_tokens_and_words_is_made(top_k):
    n, v, h, chunk = 64, 999, 3, 4
    sides = trainable(make_sides(n, v, h))
    with Products() as seen:
        hidden_divergence(**sides, weights_N=weights_of(n), top_k=top_k, chunk_tokens=chunk).loss.backward()
    with Products() as naive:
        full_vocabulary(**trainable(make_sides(n, v, h)), weights_N=weights_of(n), top_k=top_k)[0].backward()
    assert naive.largest >= 4 * n * v
    assert seen.largest <= 4 * chunk * (v + 7) < 4 * n * v
    labels = torch.arange(n, device=DEVICE)
    with Products() as seen:
        logprobs = hidden_logprobs(sides["student_hidden_NH"], sides["student_weight_VH"], labels, chunk_tokens=chunk)
        logprobs.sum().backward()
    assert seen.largest <= 4 * chunk * (v + 7)


def test_a_bfloat16_head_is_compared_in_float32():
    sides = trainable(make_sides(), torch.bfloat16)
    exact = trainable({name: side.double() for name, side in sides.items()})
    expected_loss, _ = full_vocabulary(**exact, weights_N=weights_of().double())
    found = hidden_divergence(**sides, weights_N=weights_of(), chunk_tokens=3)
    assert found.loss.dtype == torch.float32
    assert found.loss.item() == pytest.approx(expected_loss.item(), rel=1e-5)
    expected, got = gradients(exact, expected_loss), gradients(sides, found.loss)
    for name, gradient in got.items():
        assert gradient.dtype == torch.bfloat16
        assert relative_error(gradient, expected[name]) < 1e-2, name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_leaves_dtypes_and_values_alone(dtype):
    sides = {name: side.bfloat16().float() for name, side in make_sides().items()}
    plain, cast = trainable(sides), trainable(sides)
    expected_loss = hidden_divergence(**plain, weights_N=weights_of()).loss
    with torch.autocast(DEVICE, dtype=dtype):
        found_loss = hidden_divergence(**cast, weights_N=weights_of(), chunk_tokens=3).loss
        logprobs = hidden_logprobs(cast["student_hidden_NH"], cast["student_weight_VH"], torch.arange(N, device=DEVICE))
    assert found_loss.dtype == logprobs.dtype == torch.float32
    expected, got = gradients(plain, expected_loss), gradients(cast, found_loss)
    for name, gradient in got.items():
        assert gradient.dtype == torch.float32
        assert relative_error(gradient, expected[name]) < 1e-2, name


def test_many_bfloat16_chunks_are_added_in_float32():
    hidden, weight = draw(40, 8, seed=1).bfloat16(), draw(30, 8, seed=2).bfloat16()
    for n_chunks, dtype in ((products.MAX_BFLOAT16_ADDITIONS, torch.bfloat16), (17, torch.float32)):
        summed = products.HeadGradients(hidden, weight, None, (True, True, False), torch.bfloat16, n_chunks)
        assert summed._weight_VH.dtype == dtype
        assert summed.take()[1].dtype == torch.bfloat16


@FUSES
@pytest.mark.parametrize("n_words", [53, 20_001])
@pytest.mark.parametrize(
    "rule", [DivergenceRule(beta, 0.8, None, clip) for beta in BETAS for clip in (None, 0.1)], ids=str
)
def test_the_fused_gradient_may_take_half_the_width_of_the_logits(rule, n_words):
    from composer_replication.losses.kernels.rows_triton import triton_rows

    student, teacher, weights = draw(5, n_words, seed=1), draw(5, n_words, seed=2), weights_of(5)
    exact = (student.double(), teacher.double(), weights.double())
    expected_divergence, expected = torch_rows(*exact, rule, torch.float64)
    divergence, found = triton_rows(student, teacher, weights, rule, torch.bfloat16)
    assert found.data_ptr() == student.data_ptr()
    assert relative_error(divergence, expected_divergence) < 1e-5
    assert relative_error(found, expected) < 2**-7  # one unit in bfloat16's last place


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beta": 1.5}, "beta"),
        ({"temperature": 0.0}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"token_clip": 0.0}, "token_clip"),
        ({"chunk_tokens": 0}, "chunk_tokens"),
        ({"weights_N": torch.ones(3)}, "number of tokens"),
        ({"teacher_weight_VH": torch.ones(V - 1, H)}, "vocabulary"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        hidden_divergence(**{**make_sides(), "weights_N": weights_of(), **change})


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("chunk_tokens", [None, 3])
def test_logprobs_and_their_gradients_equal_float64_autograd(temperature, with_bias, chunk_tokens):
    labels, upstream = torch.tensor([0, 52, 3, 3, 17, 1, 8], device=DEVICE), draw(N, seed=9)
    tensors = make_sides(with_bias=with_bias)
    names = ["student_hidden_NH", "student_weight_VH", "student_bias_V"]
    exact, sides = trainable(tensors, torch.float64), trainable(tensors)
    logits = exact[names[0]] @ exact[names[1]].T + (exact[names[2]] if with_bias else 0)
    expected_N = (logits / temperature).log_softmax(-1)[torch.arange(N), labels]
    found_N = hidden_logprobs(
        sides[names[0]],
        sides[names[1]],
        labels,
        temperature=temperature,
        bias_V=sides[names[2]],
        chunk_tokens=chunk_tokens,
    )
    assert found_N.dtype == torch.float32
    assert relative_error(found_N, expected_N) < 1e-5
    expected, got = gradients(exact, (upstream * expected_N).sum()), gradients(sides, (upstream * found_N).sum())
    assert got.keys() == expected.keys()
    for name, gradient in got.items():
        assert relative_error(gradient, expected[name]) < 1e-5, name


def test_logprobs_of_a_bfloat16_head_are_taken_in_float32():
    sides, labels = trainable(make_sides(), torch.bfloat16), torch.arange(N, device=DEVICE)
    exact = trainable({name: side.double() for name, side in sides.items()})
    names = ["student_hidden_NH", "student_weight_VH", "student_bias_V"]
    logits = exact[names[0]] @ exact[names[1]].T + exact[names[2]]
    expected_N = logits.log_softmax(-1)[torch.arange(N), labels]
    found_N = hidden_logprobs(sides[names[0]], sides[names[1]], labels, bias_V=sides[names[2]], chunk_tokens=3)
    assert found_N.dtype == torch.float32
    assert relative_error(found_N, expected_N) < 1e-5
    expected, got = gradients(exact, expected_N.sum()), gradients(sides, found_N.sum())
    for name, gradient in got.items():
        assert gradient.dtype == torch.bfloat16
        assert relative_error(gradient, expected[name]) < 1e-2, name


def test_logprobs_of_no_tokens_have_a_graph():
    sides = trainable(make_sides(n=0))
    found_N = hidden_logprobs(
        sides["student_hidden_NH"], sides["student_weight_VH"], torch.zeros(0, dtype=torch.long, device=DEVICE)
    )
    assert found_N.shape == (0,)
    assert torch.equal(gradients(sides, found_N.sum())["student_weight_VH"], torch.zeros(V, H, device=DEVICE))


@pytest.mark.parametrize(("is_frozen", "most_bytes"), [(False, GIB), (True, GIB // 2)])
@pytest.mark.parametrize("n_tokens", [1, 256, 1024, 4096, 100_000])
def test_chunks_cover_all_tokens_within_the_memory_budget(is_frozen, most_bytes, n_tokens):
    chunks = token_chunks(n_tokens, 151_936, n_buffers=2, is_frozen=is_frozen, chunk_tokens=None)
    assert [row for chunk in chunks for row in range(n_tokens)[chunk]] == list(range(n_tokens))
    assert max(chunk.stop - chunk.start for chunk in chunks) * 2 * 4 * 151_936 <= most_bytes


def test_the_benchmark_runs_small_on_a_cpu(tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("divergence_benchmark", ROOT / "benchmarks" / "divergence.py")
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    path = tmp_path / "found.json"
    assert benchmark.main(["--small", "--tokens", "8", "--rounds", "1", "--json", str(path)]) == 0
    lines = json.loads(path.read_text())["lines"]
    ours = [line for line in lines if line["side"] == "ours"]
    assert [line["head"] for line in ours] == ["trainable", "frozen"]
    assert all(line["gradient_error"] < 1e-5 and not line["misses"] for line in ours)
    assert all(line["ratio_to_products"] == 1 for line in lines if line["side"] == "bare products")
    assert capsys.readouterr().out.count(" ok") == 2


@pytest.mark.parametrize(("temperature", "labels", "words"), [(0.0, 2, "positive, not 0.0"), (1.0, 3, "same number")])
def test_what_has_no_log_probability_is_refused(temperature, labels, words):
    with pytest.raises(ValueError, match=words):
        hidden_logprobs(
            torch.zeros(2, 4), torch.zeros(5, 4), torch.zeros(labels, dtype=torch.long), temperature=temperature
        )
