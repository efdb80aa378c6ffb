"""Error sites to hints."""

from .facts import context_of
from .generators import (
    CompositeHintGenerator,
    HintGenerator,
    RawErrorHintGenerator,
    RoutingHintGenerator,
    TemplateHintGenerator,
    default_composite,
    is_tool_runtime_kind,
)
from .judge import JudgeClient, JudgeFailure, JudgeReply, LLMJudgeHintGenerator
from .sibling import SiblingHintGenerator
from .templates import HINT_TEMPLATES, HintContext, dispatch, register
from .write import HintSet, write_hints

__all__ = [
    "HINT_TEMPLATES", "CompositeHintGenerator", "HintContext", "HintGenerator", "HintSet", "JudgeClient",
    "JudgeFailure", "JudgeReply", "LLMJudgeHintGenerator", "RawErrorHintGenerator", "RoutingHintGenerator",
    "SiblingHintGenerator", "TemplateHintGenerator", "context_of", "default_composite", "dispatch",
    "is_tool_runtime_kind", "register", "write_hints",
]  # fmt: skip
