"""Which teachers a run asks: written on the command line, named in the config, or those of the built-in roster."""

from __future__ import annotations

import re
from collections.abc import Sequence

from composer_replication.config import ReplayConfig
from composer_replication.errors import UsageError
from composer_replication.llm.addresses import is_openrouter, require_allowed
from composer_replication.llm.pricing import PER_TOKENS, Prices

from .model_settings import settled_teacher
from .roster import DEFAULT_TEACHERS, ORIGIN_TEACHERS
from .teachers import OPENROUTER_KEY, Teacher

FORM = "--teacher NAME=BASE_URL,MODEL[,INPUT,OUTPUT][,KEY_VARIABLE], or a name of the roster"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PRICE = re.compile(r"\d+(\.\d*)?|\.\d+")


def written_teachers(texts: Sequence[str], config: ReplayConfig, aliases: Sequence[str] = ()) -> list[Teacher]:
    """Teachers as the command line writes them. An alias is `NAME=SERVED`, for a teacher that is written there too."""
    teachers = [teacher for text in texts for teacher in _written(text, config)]
    names = [teacher.name for teacher in teachers]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"two teachers are called {twice}", "give each a name of its own")
    for alias in aliases:
        name, equals, served = alias.partition("=")
        if not equals or not served or name not in names:
            raise UsageError(
                f"--alias {alias} is not NAME=SERVED of a teacher of this command", "--teacher NAME --alias NAME=SERVED"
            )
        teachers = [one._replace(served_as=(*one.served_as, served)) if one.name == name else one for one in teachers]
    return [_trainable(teacher) for teacher in teachers]


def configured_teachers(config: ReplayConfig) -> list[Teacher]:
    """Teachers of the config; without a server, those of the roster."""
    if config.base_url and not (config.teachers or config.models):
        raise UsageError("replay.base_url is set but replay.teachers is not", "set both in the config file")
    names = config.teachers or tuple(config.models) or ("default",)
    return [_trainable(teacher) for name in names for teacher in _configured(name, config)]


def _configured(name: str, config: ReplayConfig) -> list[Teacher]:
    settings = config.models.get(name)
    base_url = (settings.base_url if settings else None) or config.base_url
    if not base_url:
        return [settled_teacher(teacher, settings) for teacher in _of_roster(name)]
    model = (settings.model if settings else None) or name
    return [_at(base_url, model, name, None, config.key_variable, config)]


def _written(text: str, config: ReplayConfig) -> list[Teacher]:
    name, equals, rest = text.partition("=")
    if not equals:
        return _configured(text, config) if text in config.models else _of_roster(text)
    base_url, *parts = (part.strip() for part in rest.split(","))
    if not name or not parts or not parts[0]:
        raise UsageError(f"{text} is not a teacher", FORM)
    model, prices, variable = parts[0], [part for part in parts[1:] if _PRICE.fullmatch(part)], None
    for part in parts[1:]:
        if not _PRICE.fullmatch(part):
            if variable or not _VARIABLE.fullmatch(part):
                raise UsageError(f"{part!r} in {text} is neither a price nor a variable", FORM)
            variable = part
    if len(prices) not in (0, 2):
        raise UsageError(f"{text} needs two prices or none", FORM)
    usd = (float(prices[0]), float(prices[1])) if prices else None
    return [_at(base_url, model, name, usd, variable or config.key_variable, config)]


def _at(
    base_url: str, model: str, name: str, usd: tuple[float, float] | None, variable: str | None, config: ReplayConfig
) -> Teacher:
    settings = config.models.get(name)
    require_allowed(base_url, bool(settings and settings.private_network))
    usd = usd or config.prices.get(name) or config.prices.get(model)
    prices = Prices(*(round(dollars * PER_TOKENS) for dollars in usd)) if usd else None
    known = next((one for one in _roster() if one.model == model), None) if is_openrouter(base_url) else None
    teacher = Teacher(
        model,
        base_url,
        key_variable=variable or (OPENROUTER_KEY if is_openrouter(base_url) else None),
        prices=prices or (known.prices if known else None),
        licence=known.licence if known else None,
        label=name if name != model else "",
    )
    return settled_teacher(teacher, settings)


def _of_roster(name: str) -> list[Teacher]:
    if name == "default":
        return list(DEFAULT_TEACHERS)
    found = [teacher for teacher in _roster() if teacher.model == name]
    if not found:
        raise UsageError(f"{name} is not in the roster", f"{FORM}, or one of [replay.models] with a base_url")
    return found[:1]


def _roster() -> tuple[Teacher, ...]:
    return (*DEFAULT_TEACHERS, *ORIGIN_TEACHERS)


def _trainable(teacher: Teacher) -> Teacher:
    if teacher.licence and not teacher.licence.trainable:
        raise UsageError(
            f"{teacher.name} must not be trained on: {teacher.licence.name} ({teacher.licence.source})",
            "choose teachers whose licence allows it",
        )
    return teacher
