"""Hostile text made visible: what could steer a terminal, reorder a line or hide in it is shown as a glyph.

Every string that leaves the viewer, to a terminal, a browser or an export, goes through `visible`, the only place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

_HIDDEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but for newline and tab; ESC begins terminal sequences
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, separators, bidi marks
    "\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb"
    "\ud800-\udfff"  # halves of a pair, which no encoder takes
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # among them tags, which spell unseen words
    "]|(?<![\u203c-\u3299\U0001f000-\U0001faff])\ufe0f"  # belongs behind an emoji only
)


def visible(text: str) -> str:
    return _HIDDEN.sub(_glyph, text) if _HIDDEN.search(text) else text


def one_line(text: str, limit: int) -> str:
    """Visible, without breaks, and cut."""
    flat = " ".join(text[: 4 * limit].split(None))
    return visible(flat if len(flat) <= limit else f"{flat[: limit - 1]}…")


def visible_json(value: Any) -> Any:
    """The same for every string inside a JSON value, keys too."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(str(key)): visible_json(inner) for key, inner in cast("Mapping[object, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [visible_json(inner) for inner in cast("list[Any]", value)]
    return value


def _glyph(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟦{code:04X}⟧"
