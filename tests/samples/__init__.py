"""Real session files, compressed; `SOURCES.md` says where each comes from and under which licence."""

from __future__ import annotations

from pathlib import Path

import zstandard

SAMPLES = Path(__file__).parent


def sample_files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders or ("*",) for path in SAMPLES.glob(f"{folder}/**/*.zst"))


def sample_bytes(path: Path) -> bytes:
    with path.open("rb") as raw:
        return zstandard.ZstdDecompressor().stream_reader(raw).read()
