"""What must hold between several processes and one."""

from __future__ import annotations

from functools import cache
from tempfile import TemporaryDirectory

import torch

from . import scenes
from .launch import Seen
from .matrix import SCENES

ERROR = 1e-6
"""Of a whole gradient or set of weights. The losses are in float32, so it is about 1e-8."""


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    return ((found - expected).norm() / expected.norm()).item()


@cache
def alone(name: str) -> Seen:
    """The same scene in this process, which then has the data of all."""
    with TemporaryDirectory() as folder:
        return Seen(*scenes.run(scenes.build_exactly(SCENES[name], folder)))


def assert_ranks_agree(first: Seen, *others: Seen) -> None:
    assert others and any(key.startswith("grad/") for key in first.tensors)
    for other in others:
        assert first.tensors.keys() == other.tensors.keys()
        for key, tensor in first.tensors.items():
            assert torch.equal(tensor, other.tensors[key]), key


def assert_same_training(together: Seen, single: Seen, weight_error: float = ERROR) -> None:
    """Gradient of the first step, weights after the last, and the channels' losses in between."""
    assert single.flat("grad/").norm() > 0.1
    assert relative(together.flat("grad/"), single.flat("grad/")) < ERROR
    assert relative(together.flat("weight/"), single.flat("weight/")) < weight_error
    assert len(together.logs) == len(single.logs)
    for ours, its in zip(together.logs, single.logs, strict=True):
        channels = {key for key in its if key.startswith("channel/")}
        assert channels and channels == {key for key in ours if key.startswith("channel/")}
        for key in channels:
            assert abs(ours[key] - its[key]) < 1e-4 * max(1.0, abs(its[key])), key
