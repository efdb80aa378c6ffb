"""Hint sources in layers, cheapest first; the first one that has something to say wins.

The origin's names and routing are kept: tool and runtime errors may use their raw text, style and communication errors
wait for a judge. The judge itself is not part of this version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, cast

from composer_replication.records import ERROR_KINDS

from .templates import HintContext, dispatch

JUDGED_KINDS = frozenset({"style", "communication", "effort"})
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

    def generate(self, error_kind: str, error_meta: dict[str, Any]) -> str | None: ...


class TemplateHintGenerator:
    """The reminders of `templates.py`."""

    def generate(self, error_kind: str, error_meta: dict[str, Any]) -> str | None:
        return dispatch(error_kind, cast("HintContext", {**error_meta, "error_kind": error_kind}))


class RawErrorHintGenerator:
    """The error text itself, shortened, with a nudge to read it."""

    def __init__(self, max_chars: int = MAX_ERROR_CHARS) -> None:
        self.max_chars = max_chars

    def generate(self, error_kind: str, error_meta: dict[str, Any]) -> str | None:
        message = " ".join(str(error_meta.get("error_message") or "").split())[: self.max_chars]
        return f"Reminder: here the environment answers: {message} Take that into account first." if message else None


def is_tool_runtime_kind(error_kind: str) -> bool:
    """Whether an error's raw text makes a useful hint. Unknown kinds follow the origin's substring rule."""
    kind = error_kind.lower()
    if kind in ERROR_KINDS:
        return kind not in JUDGED_KINDS
    if any(mark in kind for mark in STYLE_MARKS):
        return False
    return any(mark in kind for mark in RUNTIME_MARKS)


class RoutingHintGenerator:
    """Lets an inner layer speak only for the kinds that `route` admits."""

    def __init__(self, inner: HintGenerator, route: Callable[[str], bool] = is_tool_runtime_kind) -> None:
        self.inner = inner
        self.route = route

    def generate(self, error_kind: str, error_meta: dict[str, Any]) -> str | None:
        return self.inner.generate(error_kind, error_meta) if self.route(error_kind) else None


class CompositeHintGenerator:
    def __init__(self, layers: Sequence[HintGenerator]) -> None:
        self.layers = layers

    def generate(self, error_kind: str, error_meta: dict[str, Any]) -> str | None:
        hints = (layer.generate(error_kind, error_meta) for layer in self.layers)
        return next((hint for hint in hints if hint is not None), None)

    def as_collator_hook(self) -> Callable[[str, dict[str, Any]], str | None]:
        return self.generate


Layer = Literal["template", "raw_error"]
LAYERS: dict[Layer, HintGenerator] = {
    "template": TemplateHintGenerator(),
    "raw_error": RoutingHintGenerator(RawErrorHintGenerator()),
}


def default_composite(*, enable_raw_error: bool = True) -> CompositeHintGenerator:
    return CompositeHintGenerator([layer for name, layer in LAYERS.items() if enable_raw_error or name != "raw_error"])
