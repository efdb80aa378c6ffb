"""For backends without a mount table: where a spec's paths are mentioned, put the host's instead."""

from __future__ import annotations

import re
from collections.abc import Mapping


def rewrite_paths(text: str, places: Mapping[str, str]) -> str:
    """Whole paths and their children only: `/work/a` but neither `/workshop` nor `/home/work`."""
    present = [re.escape(inside) for inside in sorted(places, key=len, reverse=True) if inside in text]
    if not present:
        return text
    return re.sub(rf"(?<![\w./-])({'|'.join(present)})(?![\w.-])", lambda match: places[match[1]], text)
