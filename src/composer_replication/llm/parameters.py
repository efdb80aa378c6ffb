"""What a model wants besides its prompt: the name of the limit on its answer, temperature, effort, and extra fields.

Models differ, and refuse a request with a parameter that they do not know. The roster has those that are known to,
read on `CHECKED`; any setting of a teacher goes before it.
"""

from __future__ import annotations

import json
import re
from typing import Literal, NamedTuple

from composer_replication.records import JsonObject

LimitField = Literal["max_tokens", "max_completion_tokens"]
CHECKED = "2026-11-16"


class Parameters(NamedTuple):
    limit: LimitField = "max_tokens"
    temperature: float | None = 0
    """None: not sent, the provider's own is used."""
    reasoning_effort: str | None = None
    extra_body: str = "{}"
    """A JSON object, as text: more fields of the request, which go before any of ours."""

    def named(self) -> JsonObject:
        """What of it is part of a question's name: nothing where all is as it always was."""
        changed = {key: value for key, value in self._asdict().items() if value != getattr(USUAL, key)}
        return {"parameters": changed} if changed else {}

    def applied(self, request: JsonObject) -> JsonObject:
        found = {key: value for key, value in request.items() if key not in ("max_tokens", "temperature")}
        found[self.limit] = request["max_tokens"]
        if self.temperature is not None:
            found["temperature"] = self.temperature
        if self.reasoning_effort is not None:
            found["reasoning_effort"] = self.reasoning_effort
        return found | json.loads(self.extra_body)


USUAL = Parameters()
_NO_TEMPERATURE = Parameters(temperature=None)
_REASONS = Parameters(limit="max_completion_tokens", temperature=None)

MODELS: tuple[tuple[str, Parameters, str], ...] = (
    (
        r"(^|/)(o[1-9]|gpt-[5-9])(?!.*chat)",
        _REASONS,
        "platform.openai.com/docs/guides/reasoning: max_tokens is refused, and any temperature but 1",
    ),
    (
        r"(^|/)claude-(opus-4[-.]([7-9]|\d\d)(?!\d)|(opus|sonnet|haiku|fable)-[5-9])",
        _NO_TEMPERATURE,
        "platform.claude.com/docs/en/about-claude/models/migration-guide: sampling parameters are refused",
    ),
)
"""By the first pattern found in a model's name."""


def parameters_of(model: str) -> Parameters:
    return next((found for pattern, found, _ in MODELS if re.search(pattern, model.lower())), USUAL)
