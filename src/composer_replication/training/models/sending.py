"""Small tensors to the device while it works.

A plain copy to a GPU waits until all that was queued before is done, and then nothing is queued any more.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def sent(values: Tensor, device: Any) -> Tensor:
    """The host does not wait for a copy from the CPU."""
    if torch.device(device).type != "cuda" or values.device.type != "cpu":
        return values.to(device)
    return values.pin_memory().to(device, non_blocking=True)
