"""Hint sources in layers; the first one that has something to say wins.

    sibling (only when asked for) ▶ template ▶ raw error ▶ judge (only with a client) ▶ template of a judged kind

The origin's names and routing are kept: tool and runtime errors may use their raw text; style, communication and effort
go to the judge. Beyond the origin, these three have a plain template that speaks when no judge does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, cast

from composer_replication.records import ERROR_KINDS

from .templates import HintContext, LeakLevel, dispatch
from .wording import one_line

JUDGED_KINDS = frozenset({"style", "communication", "effort"})
NOT_RAW_KINDS = JUDGED_KINDS | {"correction"}
"""What a user corrects may have been done turns before, and the words may hold the next request: raw they mislead."""
RUNTIME_MARKS = (
    "error", "exception", "fail", "decode", "timeout", "traceback", "exit_code", "nonzero", "syntax", "import",
    "assertion", "tool", "runtime", "crash", "exec",
)  # fmt: skip
STYLE_MARKS = (
    "style", "communic", "verbose", "effort", "concise", "tone", "format", "wordy", "rambl", "explanation", "etiquette",
    "clarity",
)  # fmt: skip
MAX_ERROR_CHARS = 240


class HintGenerator(Protocol):
    """Returns a hint for an error, or None to leave it to the next layer."""

    def generate(self, error_kind: str, error_meta: dict[str, Any]) -> str | None:
        """The hint, or None."""
        ...


class TemplateHintGenerator:
    """The reminders of `templates.py`."""

    def generate(self, error_kind: str, error_meta: dict[str, Any]) -> str | None:
        return dispatch(error_kind, cast("HintContext", {**error_meta, "error_kind": error_kind}))


class RawErrorHintGenerator:
    """The error text itself, cut to `max_chars`, with a nudge to read it."""

    def __init__(self, max_chars: int = MAX_ERROR_CHARS) -> None:
        self.max_chars = max_chars

    def generate(self, error_kind: str, error_meta: dict[str, Any]) -> str | None:
        message = one_line(str(error_meta.get("error_message") or ""))[: self.max_chars]
        return f"Reminder: here the environment answers: {message} Take that into account first." if message else None


def is_tool_runtime_kind(error_kind: str) -> bool:
    """Whether an error's raw text makes a useful hint. Unknown kinds follow the origin's substring rule."""
    kind = error_kind.lower()
    if kind in ERROR_KINDS:
        return kind not in NOT_RAW_KINDS
    if any(mark in kind for mark in STYLE_MARKS):
        return False
    return any(mark in kind for mark in RUNTIME_MARKS)


def is_judged_kind(error_kind: str) -> bool:
    """Whether the judge comes before the template. A kind that a user registers has its template first."""
    return error_kind.lower() in JUDGED_KINDS


class RoutingHintGenerator:
    """Lets the layer `inner` speak only for the kinds that `route` admits."""

    def __init__(self, inner: HintGenerator, route: Callable[[str], bool] = is_tool_runtime_kind) -> None:
        self.inner = inner
        self.route = route

    def generate(self, error_kind: str, error_meta: dict[str, Any]) -> str | None:
        return self.inner.generate(error_kind, error_meta) if self.route(error_kind) else None


class CompositeHintGenerator:
    """Layers in order: the first with something to say wins."""

    def __init__(self, layers: Sequence[HintGenerator]) -> None:
        self.layers = layers

    def generate(self, error_kind: str, error_meta: dict[str, Any]) -> str | None:
        hints = (layer.generate(error_kind, error_meta) for layer in self.layers)
        return next((hint for hint in hints if hint is not None), None)

    def as_collator_hook(self) -> Callable[[str, dict[str, Any]], str | None]:
        """`generate` under the origin's name."""
        return self.generate


class Layer(NamedTuple):
    """`leak_level` None: the template's own, which differs by kind."""

    name: Literal["template", "raw_error", "judge", "sibling"]
    generator: HintGenerator
    leak_level: LeakLevel | None


class LeveledHintGenerator(HintGenerator, Protocol):
    """A generator that says how much its hints give away."""

    leak_level: LeakLevel


def build_layers(
    judge: HintGenerator | None = None, sibling: LeveledHintGenerator | None = None, *, enable_raw_error: bool = True
) -> list[Layer]:
    """The layers in the order in which they are asked."""
    template = TemplateHintGenerator()
    layers = [Layer("sibling", sibling, sibling.leak_level)] if sibling else []
    layers.append(Layer("template", RoutingHintGenerator(template, lambda kind: not is_judged_kind(kind)), None))
    if enable_raw_error:
        layers.append(Layer("raw_error", RoutingHintGenerator(RawErrorHintGenerator()), "L0"))
    if judge:
        layers.append(Layer("judge", judge, "L1"))
    layers.append(Layer("template", RoutingHintGenerator(template, is_judged_kind), None))
    return layers


def default_composite(
    *,
    judge: HintGenerator | None = None,
    sibling: LeveledHintGenerator | None = None,
    enable_raw_error: bool = True,
) -> CompositeHintGenerator:
    """The layers as one generator. It checks neither length nor leaks: only `write_hints` has the trace for that."""
    layers = build_layers(judge, sibling, enable_raw_error=enable_raw_error)
    return CompositeHintGenerator([layer.generator for layer in layers])
