"""The teachers that come with the package, and which of them to ask next.

`DEFAULT_TEACHERS`: five families whose weights carry a licence without a clause on training with their output. A host
may add terms of its own, so OpenRouter is also told `enforce_distillable_text`. `ORIGIN_TEACHERS`: the paper's three,
to price its spike 001; two of them must not be trained on, and so have no place in a run.

Prices move. They are those of OpenRouter in two public lists, the dearer where these differ: pydantic/genai-prices of
2026-08-21 and anomalyco/models.dev of 2026-07-02, which also tells the longest prompt. What a call did cost comes from
its answer, never from here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from composer_replication.llm.pricing import Prices
from composer_replication.records import TeacherReply

from .teachers import OPENROUTER, OPENROUTER_KEY, Licence, Teacher

CHECKED = "2026-11-15"
ENOUGH_FAMILIES = 2
BOTH_LISTS = "OpenRouter, genai-prices 2026-08-21 and models.dev 2026-07-02 alike"
DEARER_LIST = "OpenRouter, the dearer of genai-prices 2026-08-21 and models.dev 2026-07-02"


def _teacher(
    model: str,
    usd: tuple[float, float, float | None],
    note: str,
    context_tokens: int,
    licence: Licence,
    tier: int = 0,
    write_usd: float | None = None,
) -> Teacher:
    """`usd`: dollars per million tokens of prompt, answer and cached prompt."""
    prompt, completion, cached = (None if price is None else round(price * 1_000_000) for price in usd)
    assert prompt is not None and completion is not None
    return Teacher(
        model,
        OPENROUTER,
        key_variable=OPENROUTER_KEY,
        prices=Prices(prompt, completion),
        cached_micros=cached,
        cache_write_micros=None if write_usd is None else round(write_usd * 1_000_000),
        prices_note=note,
        context_tokens=context_tokens,
        tier=tier,
        licence=licence,
    )


DEFAULT_TEACHERS = (
    _teacher(
        "openai/gpt-oss-120b",
        (0.039, 0.18, None),
        DEARER_LIST,
        131_072,
        Licence("Apache-2.0", "https://github.com/openai/gpt-oss/blob/main/README.md", CHECKED),
    ),
    _teacher(
        "qwen/qwen3-coder-next",
        (0.11, 0.80, 0.07),
        BOTH_LISTS,
        262_144,
        Licence("Apache-2.0", "https://huggingface.co/Qwen/Qwen3-Coder-Next", CHECKED),
    ),
    _teacher(
        "deepseek/deepseek-v3.2",
        (0.2288, 0.3432, 0.02288),
        f"{BOTH_LISTS}; cached: models.dev only",
        128_000,
        Licence("MIT", "https://huggingface.co/deepseek-ai/DeepSeek-V3.2", CHECKED),
    ),
    _teacher(
        "z-ai/glm-4.6",
        (0.43, 1.74, 0.08),
        BOTH_LISTS,
        202_752,
        Licence("MIT", "https://huggingface.co/zai-org/GLM-4.6", CHECKED),
        tier=1,
    ),
    _teacher(
        "mistralai/mistral-large-2512",
        (0.50, 1.50, 0.05),
        BOTH_LISTS,
        262_144,
        Licence("Apache-2.0", "https://huggingface.co/mistralai/Mistral-Large-3-675B-Instruct-2512", CHECKED),
        tier=1,
    ),
)
# Left out: Kimi K2.5, whose modified MIT licence asks large users of derived works to show its name.

ORIGIN_TEACHERS = (
    _teacher(
        "anthropic/claude-opus-4.7",
        (5.0, 25.0, 0.5),
        "OpenRouter, genai-prices, checked 2026-04-16; models.dev doubles it above 200k tokens",
        1_000_000,
        Licence("no training of competing models", "https://www.anthropic.com/legal/commercial-terms", CHECKED, False),
        write_usd=6.25,
    ),
    _teacher(
        "openai/gpt-5",
        (1.25, 10.0, 0.125),
        BOTH_LISTS,
        272_000,
        Licence("no training of competing models", "https://openai.com/policies/services-agreement", CHECKED, False),
    ),
    _teacher(
        "deepseek/deepseek-v4-pro",
        (0.435, 0.87, 0.003625),
        BOTH_LISTS,
        1_048_576,
        Licence("MIT", "https://huggingface.co/deepseek-ai/DeepSeek-V4-Pro", CHECKED),
    ),
)


def without_family(teachers: Iterable[Teacher], family: str | None) -> list[Teacher]:
    """Those whose vote counts on a turn of a model of this family; all of them where nobody knows whose it is."""
    return [teacher for teacher in teachers if family is None or teacher.family != family]


def teachers_to_ask(teachers: Sequence[Teacher], replies: Iterable[TeacherReply]) -> list[Teacher]:
    """Whom to ask next at one state, given every reply there so far. Empty when there is nothing more to learn.

    Starts with the lowest tier, one teacher per family. Goes on to the next while fewer than two families have a vote
    or two votes differ. A family that has voted is not asked again.
    """
    votes: dict[str, set[str]] = defaultdict(set)
    asked: set[str] = set()
    for reply in replies:
        asked.add(reply.teacher)
        if reply.outcome == "answered" and reply.action is not None:
            votes[reply.family].add(reply.action)
    if len(votes) >= ENOUGH_FAMILIES and len(set[str]().union(*votes.values())) == 1:
        return []
    left = [teacher for teacher in teachers if teacher.model not in asked and teacher.family not in votes]
    tier = min((teacher.tier for teacher in left), default=0)
    first: dict[str, Teacher] = {}
    for teacher in left:
        if teacher.tier == tier:
            first.setdefault(teacher.family, teacher)
    return list(first.values())
