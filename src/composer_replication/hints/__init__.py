"""Error sites to hints."""

from .generators import (
    CompositeHintGenerator,
    HintGenerator,
    RawErrorHintGenerator,
    RoutingHintGenerator,
    TemplateHintGenerator,
    default_composite,
    is_tool_runtime_kind,
)
from .templates import HINT_TEMPLATES, HintContext, dispatch, register
from .write import HintSet, write_hints

__all__ = [
    "HINT_TEMPLATES", "CompositeHintGenerator", "HintContext", "HintGenerator", "HintSet", "RawErrorHintGenerator",
    "RoutingHintGenerator", "TemplateHintGenerator", "default_composite", "dispatch", "is_tool_runtime_kind",
    "register", "write_hints",
]  # fmt: skip
