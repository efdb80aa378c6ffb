"""Who is asked. One vote per family, whatever the number of its members."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from composer_replication.llm.cache_prices import Rates
from composer_replication.llm.dialects import dialect_of
from composer_replication.llm.parameters import parameters_of
from composer_replication.llm.pricing import Prices
from composer_replication.llm.wire import ChatWire
from composer_replication.records import FAMILIES, family_of

OPENROUTER = "https://openrouter.ai/api/v1"
OPENROUTER_KEY = "OPENROUTER_API_KEY"

ROUTES = ("free", "nitro", "floor", "exacto", "extended", "beta")
"""Suffixes by which OpenRouter names a way to the same weights. `:thinking`, or Ollama's `:20b`, is another model."""
_ROUTE = re.compile(rf":(?:{'|'.join(ROUTES)})$")
_VERSION = re.compile(r"(?:-(?:v?\d[\d.-]*|preview|exp|beta))*")
"""How the names that `-latest` stands for go on: `-2512`, `-v2`, `-preview-09-2026`."""
_DATE = re.compile(r"[-@](20\d\d)-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])$")


class Licence(NamedTuple):
    """Whether a model's output is `trainable`; the `source` that says so, and the day it was `checked`."""

    name: str
    source: str
    checked: str
    trainable: bool = True


class Teacher(NamedTuple):
    """A model behind a server that speaks one of the dialects."""

    model: str
    """Its name at the server."""
    base_url: str
    """The server's address."""
    simulated: bool = False
    """Whether it is a noisy oracle, not a model."""
    key_variable: str | None = None
    """Name of the environment variable that holds the key; None for a server that wants none."""
    prices: Prices | None = None
    """None is an unknown price: nothing is spent on such a teacher."""
    cached_micros: int | None = None
    """Per million prompt tokens that the provider still had in its cache, where that price is known."""
    cache_write_micros: int | None = None
    """Per million prompt tokens put into the cache; None where that costs what an uncached prompt does."""
    prices_note: str = ""
    """Where the prices come from."""
    context_tokens: int | None = None
    """Longest prompt, with room for its answer, where that is known."""
    tier: int = 0
    """Lower tiers are asked first, higher ones only where those disagree or too few of them answer."""
    licence: Licence | None = None
    label: str = ""
    """What the user calls it, where that is not the model's name."""
    spoken: ChatWire | None = None
    """How it is asked, where that is not what is known of its server and its model."""
    private_network: bool = False
    """Whether the server may have a private address."""
    served_as: tuple[str, ...] = ()
    """Other names under which its answers are its own."""
    batch: bool = False
    """Asked through its provider's batch endpoint; its prices are those of a batch."""

    @property
    def wire(self) -> ChatWire:
        return self.spoken or ChatWire(dialect_of(self.model, self.base_url), parameters_of(self.model))

    @property
    def rates(self) -> Rates | None:
        """Every token at its own price; one whose price is not known as a fresh token of the prompt."""
        if self.prices is None:
            return None
        prompt, completion = self.prices
        cached, written = self.cached_micros, self.cache_write_micros
        return Rates(prompt, completion, prompt if cached is None else cached, prompt if written is None else written)

    @property
    def name(self) -> str:
        return self.label or self.model

    @property
    def family(self) -> str:
        """By the first of its names that tells one: a deployment may be called anything."""
        told = map(family_of, (self.model, self.label, *self.served_as))
        return next((family for family in told if family in FAMILIES), family_of(self.model) or self.model)


def same_model(requested: str, served: str | None, served_as: Collection[str] = ()) -> bool:
    """Whether the model that answered is the one that was asked. An answer that does not say is believed.

    A vendor or a date that only one side names is no difference; two vendors, two dates, or any other word is. What
    `-latest` stands for may end in any date or version. `served_as` are more names that the user vouches for.
    """
    if served is None or served in served_as:
        return True
    (vendor, name, date), (other_vendor, other_name, other_date) = _parts(requested), _parts(served)
    return (
        (name == other_name or _is_latest(name, other_name) or _is_latest(other_name, name))
        and (vendor == other_vendor or not vendor or not other_vendor)
        and (date == other_date or not date or not other_date)
    )


def _is_latest(alias: str, name: str) -> bool:
    stem = alias.removesuffix("-latest")
    return stem != alias and name.startswith(stem) and bool(_VERSION.fullmatch(name[len(stem) :]))


def _parts(model: str) -> tuple[str, str, str]:
    """Vendor, name without route and date, and the date's digits."""
    vendor, _, name = _ROUTE.sub("", model.strip().lower()).rpartition("/")
    date = _DATE.search(name)
    return vendor, name[: date.start()] if date else name, "".join(date.groups()) if date else ""
