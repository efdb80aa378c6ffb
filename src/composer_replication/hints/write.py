"""Error sites to hints. One that is too long or quotes the failed call falls to the next layer, else there is none."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast

from composer_replication.records import ErrorSite, Hint, Trace, canonical_json, content_id

from .generators import LAYERS, Layer
from .templates import HINT_TEMPLATES, LEAK_LEVELS, dispatch

# A value this short, a file name or a number, may be needed to say what is wrong.
MIN_QUOTED_CHARS = 12
QUOTED_CHARS = 40
_PIECE = re.compile(r"\w+|[^\w\s]")


class HintSet(NamedTuple):
    hints: list[Hint]
    dropped: Counter[str]
    """Sites without a hint, by reason."""


def write_hints(traces: Mapping[str, Trace], sites: Iterable[ErrorSite], max_tokens: int) -> HintSet:
    """One hint per site where the policy was at fault."""
    hints: list[Hint] = []
    dropped: Counter[str] = Counter()
    for site in sites:
        if site.fault != "policy":
            dropped[f"fault_{site.fault}"] += 1
            continue
        hint, reason = _write_hint(traces[site.trace_id], site, max_tokens)
        if hint:
            hints.append(hint)
        else:
            dropped[reason] += 1
    return HintSet(hints, dropped)


def count_tokens(text: str) -> int:
    """Words and punctuation marks: a count that needs no tokenizer."""
    return len(_PIECE.findall(text))


def _write_hint(trace: Trace, site: ErrorSite, max_tokens: int) -> tuple[Hint | None, str]:
    reason = "no_layer"
    for layer, generator in LAYERS.items():
        text = generator.generate(site.error_kind, context_of(site))
        if text is None:
            continue
        if count_tokens(text) > max_tokens:
            reason = "too_long"
        elif quotes_the_call(text, trace, site.turn):
            reason = "quotes_the_call"
        else:
            return _hint(site, layer, text), ""
    return None, reason


def context_of(site: ErrorSite) -> dict[str, Any]:
    context: dict[str, Any] = {
        "error_message": site.error_message,
        "available_tools": list(site.available_tools),
    }
    if site.tool_name:
        context["tool_name"] = site.tool_name
    if site.tool_schema:
        context["tool_schema"] = site.tool_schema
    return context


def quotes_the_call(text: str, trace: Trace, turn: int) -> bool:
    """Whether the hint repeats the failed action or the arguments of one of its calls."""
    message = trace.messages[trace.turns[turn].start]
    said = " ".join(text.split())
    calls = [call["function"]["arguments"] for call in message.get("tool_calls", [])]
    if any(len(part) > 2 and " ".join(part.split()) in said for part in [message["content"], *calls]):
        return True
    values = [" ".join(value.split())[:QUOTED_CHARS] for call in calls for value in _texts(call)]
    return any(len(value) >= MIN_QUOTED_CHARS and value in said for value in values)


def _texts(arguments: str) -> list[str]:
    try:
        fields: object = json.loads(arguments)
    except ValueError:
        return [arguments]
    values = cast("dict[str, object]", fields).values() if isinstance(fields, dict) else []
    return [value for value in values if isinstance(value, str)]


def _hint(site: ErrorSite, layer: Layer, text: str) -> Hint:
    return Hint(
        hint_id=content_id(site.site_id, layer, text),
        site_id=site.site_id,
        text=text,
        sham_text=_sham(site),
        layer=layer,
        leak_level=LEAK_LEVELS.get(site.error_kind, "L0") if layer == "template" else "L0",
        tokens=count_tokens(text),
    )


def _sham(site: ErrorSite) -> str:
    """The reminder for another kind of error, chosen by the site's id, without any fact of this site."""
    others = sorted(kind for kind in HINT_TEMPLATES if kind != site.error_kind)
    kind = others[int(content_id(canonical_json(site.site_id)), 16) % len(others)]
    return dispatch(kind) or ""
