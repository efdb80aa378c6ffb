"""A teacher with the settings that the user gave it, and one that is asked in batches."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from composer_replication.config import TeacherSettings
from composer_replication.errors import UsageError
from composer_replication.llm.dialects import DIALECTS
from composer_replication.llm.outgoing import secret_in
from composer_replication.llm.pricing import PER_TOKENS, Prices
from composer_replication.llm.wire import ChatWire

from .teachers import Teacher

_KEY_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"})


def settled_teacher(teacher: Teacher, settings: TeacherSettings | None) -> Teacher:
    """What the settings do not say stays as it is."""
    if settings is None:
        return teacher
    cached, written = _micros(settings.cache_prices) or (teacher.cached_micros, teacher.cache_write_micros)
    usd = _micros(settings.prices)
    return teacher._replace(
        key_variable=settings.key_variable or teacher.key_variable,
        prices=Prices(*usd) if usd else teacher.prices,
        cached_micros=cached,
        cache_write_micros=written,
        context_tokens=settings.context_tokens or teacher.context_tokens,
        private_network=settings.private_network,
        served_as=settings.served_as or teacher.served_as,
        spoken=_wire(teacher, settings),
    )


def batched(teacher: Teacher) -> Teacher:
    """Asked by way of its provider's batch endpoint, at half the price."""
    if teacher.simulated or not DIALECTS[teacher.wire.dialect].batch or urlsplit(teacher.base_url).query:
        raise UsageError(
            f"{teacher.name} has no batch endpoint that is known here",
            "leave --batch out, or ask OpenAI and Anthropic directly",
        )
    prices = teacher.prices
    return teacher._replace(
        prices=Prices(_half(prices.prompt_micros), _half(prices.completion_micros)) if prices else None,
        cached_micros=None if teacher.cached_micros is None else _half(teacher.cached_micros),
        cache_write_micros=None if teacher.cache_write_micros is None else _half(teacher.cache_write_micros),
        batch=True,
    )


def _half(micros: int) -> int:
    return -(-micros // 2)


def _wire(teacher: Teacher, settings: TeacherSettings) -> ChatWire:
    for name, value in settings.headers.items():
        if name.lower() in _KEY_HEADERS or secret_in({name: value}):
            raise UsageError(f"the header {name} of {teacher.name} may hold a key", "name its variable: key_variable")
    known = teacher.wire
    temperature = settings.temperature
    return ChatWire(
        settings.dialect or known.dialect,
        known.parameters._replace(
            limit=settings.limit or known.parameters.limit,
            temperature=known.parameters.temperature if temperature is None else _sent(temperature),
            reasoning_effort=settings.reasoning_effort,
            extra_body=json.dumps(settings.extra_body, sort_keys=True),
        ),
        tuple(sorted(settings.headers.items())),
    )


def _sent(temperature: float | str) -> float | None:
    return None if isinstance(temperature, str) else temperature


def _micros(usd: tuple[float, float] | None) -> tuple[int, int] | None:
    return (round(usd[0] * PER_TOKENS), round(usd[1] * PER_TOKENS)) if usd else None
