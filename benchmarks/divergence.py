"""Time, memory and exactness of the divergence from hidden states, against the matrix products that it cannot avoid.

    python benchmarks/divergence.py [--json FILE]           V = 151,936, H = 4,096, bfloat16 on a GPU
    python benchmarks/divergence.py --small [--json FILE]   a small form for a CPU, without memory

Jensen-Shannon 0.5, forward and backward, at each number of loss tokens, with a trainable and a frozen head. The bare
products run on the same chunks with half-precision results and nothing in between: four, or three with a frozen head.
Peers: TRL's chunked divergence if it can be imported, and autograd over the full vocabulary. Memory is the peak beyond
the inputs and the returned gradients. The error is that of the gradients, relative, against float32 autograd.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from composer_replication.losses import hidden_divergence, token_divergence
from composer_replication.losses.kernels.chunking import token_chunks
from composer_replication.losses.kernels.products import multiply

MAX_RATIO, MAX_ERROR = 1.15, 1e-2
MAX_GIB = {"trainable": 1.0, "frozen": 0.5}
GIB = 1 << 30
BETA = 0.5
REFERENCE_TOKENS = 512
# The first of them still feels how hot its predecessor left the device, and does not count.
IN_A_ROW = 3
# The device is kept busy for about a millisecond first, so that the host is ahead of it as it is in training.
HOST_LEAD_CYCLES = 2_000_000


class Sides(NamedTuple):
    student_NH: Tensor
    student_VH: Tensor
    teacher_NH: Tensor
    teacher_VH: Tensor
    weights_N: Tensor


def draw_sides(n_tokens: int, n_words: int, width: int, device: str, dtype: torch.dtype, head: str) -> Sides:
    """A teacher near its student, as a hint or an average of past weights leaves it; logits of a few units."""
    generator = torch.Generator(device).manual_seed(0)
    draw = partial(torch.randn, generator=generator, device=device, dtype=dtype)
    hidden_NH, weight_VH = draw(n_tokens, width), draw(n_words, width).mul_(3 * width**-0.5)
    teacher_NH = hidden_NH + 0.3 * draw(n_tokens, width)
    teacher_VH = weight_VH + draw(n_words, width).mul_(0.3 * width**-0.5)
    weights_N = torch.full((n_tokens,), 1 / n_tokens, device=device)
    return Sides(
        hidden_NH.requires_grad_(), weight_VH.requires_grad_(head == "trainable"), teacher_NH, teacher_VH, weights_N
    )


def ours(sides: Sides, backend: str) -> None:
    found = hidden_divergence(*sides[:4], weights_N=sides.weights_N, beta=BETA, backend=backend)  # type: ignore[arg-type]
    found.loss.backward()


def scaled(sides: Sides) -> None:
    found = hidden_divergence(*sides[:4], weights_N=sides.weights_N, beta=BETA)
    (0.1 * found.loss).backward()


def full_vocabulary(sides: Sides) -> None:
    student_NV, teacher_NV = sides.student_NH @ sides.student_VH.t(), sides.teacher_NH @ sides.teacher_VH.t()
    (token_divergence(student_NV, teacher_NV, BETA) * sides.weights_N).sum().backward()


def bare_products(sides: Sides, chunks: list[slice]) -> None:
    """The products of `hidden_divergence` on operands of the same shapes; what they compute means nothing."""
    student_NH, student_VH, teacher_NH, teacher_VH = (side.detach() for side in sides[:4])
    hidden_gradient_NH = torch.empty_like(student_NH)
    weight_gradient_VH = torch.empty_like(student_VH) if sides.student_VH.requires_grad else None
    student_CV = student_NH.new_empty(chunks[0].stop, len(student_VH))
    teacher_CV = torch.empty_like(student_CV)
    for chunk in chunks:
        student_cV, teacher_cV = (buffer[: chunk.stop - chunk.start] for buffer in (student_CV, teacher_CV))
        multiply(student_cV, student_NH[chunk], student_VH.t())
        multiply(teacher_cV, teacher_NH[chunk], teacher_VH.t())
        multiply(hidden_gradient_NH[chunk], student_cV, student_VH)
        if weight_gradient_VH is not None:
            multiply(weight_gradient_VH, student_cV.t(), student_NH[chunk], add=chunk.start > 0)


def our_chunks(sides: Sides, backend: str) -> list[slice]:
    return token_chunks(
        len(sides.student_NH),
        len(sides.student_VH),
        n_buffers=2 if backend == "triton" else 8,
        is_frozen=not sides.student_VH.requires_grad,
        chunk_tokens=None,
    )


def forget(sides: Sides) -> None:
    sides.student_NH.grad = sides.student_VH.grad = None


def measured_ms(run: Callable[[], None], sides: Sides, repeats: int) -> list[float]:
    times_ms: list[float] = []
    for _ in range(repeats):
        forget(sides)
        if sides.student_NH.is_cuda:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(HOST_LEAD_CYCLES)
            start.record()
            run()
            end.record()
            end.synchronize()
            times_ms.append(start.elapsed_time(end))
        else:
            begin_s = time.perf_counter()
            run()
            times_ms.append(1e3 * (time.perf_counter() - begin_s))
    return times_ms


def measured_extra_gib(run: Callable[[], None], sides: Sides) -> float | None:
    if not sides.student_NH.is_cuda:
        return None
    forget(sides)
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    gradients = [side.grad for side in (sides.student_NH, sides.student_VH) if side.grad is not None]
    returned = sum(gradient.nbytes for gradient in gradients)
    return (torch.cuda.max_memory_allocated() - before - returned) / GIB


def reference_gradients(sides: Sides) -> tuple[Tensor, Tensor]:
    """Float32 autograd over the full vocabulary, some tokens at a time."""
    student_NH = sides.student_NH.detach().float().requires_grad_()
    student_VH = sides.student_VH.detach().float().requires_grad_()
    teacher_VH = sides.teacher_VH.float()
    for start in range(0, len(student_NH), REFERENCE_TOKENS):
        rows = slice(start, start + REFERENCE_TOKENS)
        teacher_CV = sides.teacher_NH[rows].float() @ teacher_VH.t()
        divergence_C = token_divergence(student_NH[rows] @ student_VH.t(), teacher_CV, BETA)
        (divergence_C * sides.weights_N[rows]).sum().backward()
    assert student_NH.grad is not None and student_VH.grad is not None
    return student_NH.grad, student_VH.grad


def relative_error(sides: Sides, expected: tuple[Tensor, Tensor]) -> float:
    def error(found: Tensor, wanted: Tensor) -> float:
        return ((found.float() - wanted).norm() / wanted.norm()).item()

    found = (sides.student_NH.grad, sides.student_VH.grad)
    return max(error(f, e) for f, e in zip(found, expected, strict=True) if f is not None)


def trls(sides: Sides) -> None:
    from trl.kernels.chunked_divergence import ChunkedDivergenceFunction

    student_NH, student_VH, teacher_NH, teacher_VH, weights_N = sides
    divergence_N, _entropy_N = ChunkedDivergenceFunction.apply(
        student_NH, student_VH, None, teacher_NH, teacher_VH, None, BETA, 1.0
    )
    (divergence_N * weights_N).sum().backward()


def trl_is_here() -> bool:
    try:
        from trl.kernels.chunked_divergence import ChunkedDivergenceFunction  # noqa: F401
    except ImportError:
        return False
    return True


def measure(head: str, n_tokens: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    sides = draw_sides(n_tokens, options.vocabulary, options.width, options.device, options.dtype, head)
    fused = "triton" if options.device == "cuda" else "torch"
    chunks = our_chunks(sides, fused)
    runs: dict[str, Callable[[], None]] = {
        "bare products": partial(bare_products, sides, chunks),
        "ours": partial(ours, sides, "auto"),
        "ours, loss times 0.1": partial(scaled, sides),
        "ours, plain torch": partial(ours, sides, "torch"),
        "full vocabulary": partial(full_vocabulary, sides),
    }
    if trl_is_here():
        runs["trl"] = partial(trls, sides)
    expected = reference_gradients(sides)
    times_ms: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        measured_ms(run, sides, options.warm_up)
    for _ in range(options.rounds):
        for name, run in runs.items():
            times_ms[name] += measured_ms(run, sides, 1 + IN_A_ROW)[1:]
    bare_ms = statistics.median(times_ms["bare products"])
    found: list[dict[str, Any]] = []
    for name, run in runs.items():
        line: dict[str, Any] = {
            "tokens": n_tokens,
            "head": head,
            "side": name,
            "ms": round(statistics.median(times_ms[name]), 3),
            "ms_lo": round(min(times_ms[name]), 3),
            "ms_hi": round(max(times_ms[name]), 3),
            "ratio_to_products": round(statistics.median(times_ms[name]) / bare_ms, 3),
        }
        if name != "bare products":
            line["extra_gib"] = measured_extra_gib(run, sides)
            if line["extra_gib"] is None:
                measured_ms(run, sides, 1)
            if name != "ours, loss times 0.1":
                line["gradient_error"] = relative_error(sides, expected)
        if name == "ours":
            line["chunk_tokens"] = chunks[0].stop
            line["misses"] = misses(line, options.device)
        found.append(line)
    return found


def misses(line: dict[str, Any], device: str) -> list[str]:
    """The targets are for a GPU; on a CPU only the error has one."""
    checks = {"error": line["gradient_error"] <= MAX_ERROR}
    if device == "cuda":
        checks["time"] = line["ratio_to_products"] <= MAX_RATIO
        checks["memory"] = line["extra_gib"] <= MAX_GIB[line["head"]]
    return [name for name, is_met in checks.items() if not is_met]


def show(lines: list[dict[str, Any]]) -> None:
    print(f"{'tokens':>6}  {'head':9}  {'side':20}  {'ms':>8}  {'ratio':>6}  {'GiB':>6}  {'error':>8}  verdict")
    for line in lines:
        gib, error = line.get("extra_gib"), line.get("gradient_error")
        verdict = "" if "misses" not in line else ", ".join(f"MISSES {name}" for name in line["misses"]) or "ok"
        print(
            f"{line['tokens']:>6}  {line['head']:9}  {line['side']:20}  {line['ms']:>8.2f}  "
            f"{line['ratio_to_products']:>6.2f}  {'' if gib is None else f'{gib:.2f}':>6}  "
            f"{'' if error is None else f'{error:.1e}':>8}  {verdict}"
        )


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--small", action="store_true", help="on the CPU, in float32, small enough for a test")
    parser.add_argument("--tokens", type=int, nargs="+")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args(arguments)
    options.warm_up = 1 if options.small else 3
    options.device, options.dtype = ("cpu", torch.float32) if options.small else ("cuda", torch.bfloat16)
    options.vocabulary, options.width = (2_000, 32) if options.small else (151_936, 4_096)
    options.tokens = options.tokens or ([16, 64] if options.small else [256, 1_024, 4_096])
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parsed(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("No GPU here; `--small` runs on the CPU.", file=sys.stderr)
        return 2
    lines: list[dict[str, Any]] = []
    for n_tokens in options.tokens:
        for head in MAX_GIB:
            lines += measure(head, n_tokens, options)
    show(lines)
    if options.json:
        machine = torch.cuda.get_device_name() if options.device == "cuda" else platform.machine()
        report = {
            "machine": machine,
            "torch": torch.__version__,
            "vocabulary": options.vocabulary,
            "width": options.width,
            "dtype": str(options.dtype).removeprefix("torch."),
            "rounds": options.rounds,
            "targets": {"ratio": MAX_RATIO, "gib": MAX_GIB, "error": MAX_ERROR},
            "lines": lines,
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 1 if any(line.get("misses") for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
