"""Every scene of every kind in one launched job: imports take longer than many scenes."""

from __future__ import annotations

import pytest

from .launch import launch
from .matrix import EVEN, MUON, PARITY, UNEVEN

TIMEOUT_S = 800


@pytest.fixture(scope="session")
def seen_by_kind(tmp_path_factory):
    parity = [f"{trainer}{name}" for name in PARITY for trainer in ("plain", "off")]
    shared = [*EVEN, "online_capped", *UNEVEN, MUON]
    kinds = {
        "2ddp": [*parity, *shared],
        "2fsdp2": shared,
        "2bare": ["muon", "resumed_muon", "stock_muon"],
        "4hsdp": ["both", MUON],
        "4bare": ["muon", "resumed_muon"],
    }
    return launch(kinds, tmp_path_factory.mktemp("processes"), TIMEOUT_S)
