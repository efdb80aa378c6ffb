"""Every scene of every kind in one pair of processes: to start them takes longer than a scene."""

from __future__ import annotations

import pytest

from .launch import launch
from .matrix import EVEN, PARITY, UNEVEN

TIMEOUT_S = 800


@pytest.fixture(scope="session")
def seen_by_kind(tmp_path_factory):
    parity = [f"{trainer}{name}" for name in PARITY for trainer in ("plain", "off")]
    shared = [*EVEN, "online_capped", *UNEVEN]
    return launch({"ddp": [*parity, *shared], "fsdp2": shared}, tmp_path_factory.mktemp("pair"), TIMEOUT_S)
