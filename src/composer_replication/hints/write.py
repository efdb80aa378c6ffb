"""Error sites to hints. One that is too long or fails the leak check falls to the next layer, else there is none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from composer_replication.records import ErrorSite, Hint, JsonObject, StoredRecord, Trace, content_id

from .facts import context_of
from .generators import HintGenerator, Layer, LeveledHintGenerator, build_layers
from .judge_prompt import excerpt_of
from .leakage import leak_level, quotes_the_call, without_paths
from .sham import sham_of
from .templates import LEAK_LEVELS, LeakLevel
from .wording import count_tokens, fits

# Quoted from the error, and left out where they repeat the call: the template then speaks without them.
_REPRODUCTION = re.compile(r"\brepro(?:duce|duction)?\w*\.\w+")
QUOTED_FACTS = ("error_line", "refusal", "feedback", "hook_reason", "choices")


REFUSALS = "refused.jsonl.zst"


class HintRefusal(StoredRecord):
    """Why a site (`site_id`) has no hint; kept beside the hints, as `REFUSALS`."""

    site_id: str
    reason: str


class HintSet(NamedTuple):
    """Hints of some sites, and why the others have none."""

    hints: list[Hint]
    dropped: Counter[str]
    """Sites without a hint, by reason."""

    def counts(self) -> JsonObject:
        """For the manifest of the stage."""
        return {
            "hints": len(self.hints),
            "layers": dict(Counter(hint.layer for hint in self.hints)),
            "leak_levels": dict(Counter(hint.leak_level for hint in self.hints)),
            "dropped": dict(self.dropped),
        }


def write_hints(
    traces: Mapping[str, Trace],
    sites: Iterable[ErrorSite],
    max_tokens: int,
    *,
    judge: HintGenerator | None = None,
    sibling: LeveledHintGenerator | None = None,
    max_leak_level: LeakLevel = "L1",
    on_refusal: Callable[[HintRefusal], None] = lambda refusal: None,
) -> HintSet:
    """One hint per site where the policy was at fault or the user said what was wrong.

    Args:
        traces: By trace id; all that have a site.
        on_refusal: Is told of each site that gets no hint.
    """
    hints: list[Hint] = []
    dropped: Counter[str] = Counter()
    layers = build_layers(judge, sibling)
    for site in sites:
        trace, context = traces[site.trace_id], context_of(site)
        # The user's own words are the best correction there is.
        if site.fault != "policy" and not (site.fault == "user" and "feedback" in context):
            dropped[f"fault_{site.fault}"] += 1
            on_refusal(HintRefusal(site_id=site.site_id, reason=f"fault_{site.fault}"))
            continue
        facts = _facts(trace, site, context)
        if judge:
            facts["state_excerpt"] = excerpt_of(trace, site.turn)
        hint, reason = _write_hint(trace, site, facts, layers, max_tokens, max_leak_level)
        if hint:
            hints.append(hint)
        else:
            dropped[reason] += 1
            on_refusal(HintRefusal(site_id=site.site_id, reason=reason))
    return HintSet(hints, dropped)


def _facts(trace: Trace, site: ErrorSite, context: dict[str, Any]) -> dict[str, Any]:
    """The context of a site, less what would quote the call and what only later calls of the trace tell."""
    if "error_line" in context:
        context = context | {"error_line": without_paths(context["error_line"], trace, site.turn)}
    quoted = {name: str(context[name]) for name in QUOTED_FACTS if name in context}
    quoting = {name for name, text in quoted.items() if quotes_the_call(text, trace, site.turn)}
    if trace.tools_inferred:
        quoting |= {"available_tools", "tool_schema"}
    facts = {name: value for name, value in context.items() if name not in quoting}
    place = {"trace_id": site.trace_id, "turn": site.turn, "reproduces": _reproduces(trace, site)}
    return facts | place | ({"task_id": trace.task_id} if trace.task_id else {})


def _reproduces(trace: Trace, site: ErrorSite) -> bool:
    """Whether the call runs a script that is there to show an error, by its name."""
    calls = trace.messages[trace.turns[site.turn].start].get("tool_calls", [])
    return any(_REPRODUCTION.search(call["function"]["arguments"]) for call in calls if call["id"] == site.call_id)


def _write_hint(
    trace: Trace,
    site: ErrorSite,
    facts: dict[str, Any],
    layers: list[Layer],
    max_tokens: int,
    max_leak_level: LeakLevel,
) -> tuple[Hint | None, str]:
    reason = "no_layer"
    for layer in layers:
        text = layer.generator.generate(site.error_kind, facts)
        if text is None:
            continue
        if not fits(text, max_tokens):
            reason = "too_long"
            continue
        # A layer that shows the answer may share arguments with the failed call.
        if layer.leak_level != "L2" and quotes_the_call(text, trace, site.turn):
            reason = "quotes_the_call"
            continue
        level = leak_level(text, trace, site, layer.leak_level or LEAK_LEVELS.get(site.error_kind, "L0"))
        if level <= max_leak_level:
            return _hint(site, layer, text, level), ""
        reason = "gives_the_answer" if level == "L2" else "leak_level"
    return None, reason


def _hint(site: ErrorSite, layer: Layer, text: str, level: LeakLevel) -> Hint:
    tokens = count_tokens(text)
    return Hint(
        hint_id=content_id(site.site_id, layer.name, text),
        site_id=site.site_id,
        text=text,
        sham_text=sham_of(site, tokens),
        layer=layer.name,
        leak_level=level,
        tokens=tokens,
    )
