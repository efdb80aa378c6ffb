"""What every section of a config is made of, and how a mistake in one is told."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    model_validator,
)

from .errors import UsageError


def _no_truth_value(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("needs a number, not true or false")
    return value


def _no_key(address: str) -> str:
    parts = urlsplit(address)
    if "@" in parts.netloc or (parts.query and not parts.query.startswith("api-version=")):
        raise ValueError("an address has no name, password or key in it; key_variable names where a key is")
    return address


def _no_key_itself(variable: str) -> str:
    """Variables have capitals by custom, and keys have other letters too."""
    if not re.fullmatch("[A-Z_][A-Z0-9_]*", variable):
        raise ValueError("name the environment variable that holds the key, in capitals, not the key")
    return variable


def _known_environment(name: str) -> str:
    if name not in ENVIRONMENT_NAMES and ":" not in name:
        raise ValueError(f"no environment {name}, no package.module:factory, {nearest(name, ENVIRONMENT_NAMES)}")
    return name


ENVIRONMENT_NAMES = ("toolbox", "code", "openenv", "verifiers", "harbor")
EnvironmentName = Annotated[str, AfterValidator(_known_environment)]
# Settings are shown, stored and published, so that no key may stand in them.
Address = Annotated[str, AfterValidator(_no_key)]
KeyVariable = Annotated[str, AfterValidator(_no_key_itself)]
Number = BeforeValidator(_no_truth_value)
Fraction = Annotated[float, Field(ge=0, le=1), Number]
PenaltyWeight = Annotated[float, Field(ge=0, le=0.2), Number]
Count = Annotated[int, Field(ge=0), Number]
Positive = Annotated[int, Field(gt=0), Number]
Several = Annotated[int, Field(ge=2), Number]
AboveZero = Annotated[float, Field(gt=0), Number]
Weight = Annotated[float, Field(ge=0), Number]
Flag = Annotated[bool, Strict()]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __new__(cls, **values: Any) -> Self:
        """Has `values` only where Python code makes one: those of a file are validated later, all mistakes at once."""
        if cls.model_config.get("extra") == "forbid":
            refuse_unknown(values, cls.model_fields, cls.__name__)
        return super().__new__(cls)


class WarmupConfig(Section):
    """Supervised warm-up of the policy on noisy old logs; not counted as a gain."""

    steps: Count = 220
    """Without this key 220 for the tiny model, and 0 for any other."""
    batch_size: Positive = 32
    """Logs per step."""
    optimizer: Literal["muon", "adamw"] = "muon"
    """Muon takes the weight matrices of a model trained from scratch; the rest, or everything, goes to AdamW."""
    learning_rate: AboveZero = 4e-3
    """AdamW's."""
    muon_learning_rate: AboveZero = 0.03
    """Muon's."""
    context_weight: Fraction = 0.3
    """Loss weight of tokens that the agent did not write."""
    hint_rate: Fraction = 0.2
    """Share of turns that are preceded by a hint and then better."""
    hints_cure: Literal["everything", "their_kind"] | Fraction = "everything"
    """Whether a turn behind a hint is right throughout, or free only of the fault that the hint speaks of; a number is
    the chance of the latter."""
    stale_name_rates: tuple[Fraction, Fraction] = (0.1, 0.5)
    """How often a log calls a tool by its base name; even and odd tools differ."""
    quoted_int_rates: tuple[Fraction, Fraction] = (0.2, 0.8)
    """How often a log writes an integer as text, likewise."""
    missing_brace_rates: tuple[Fraction, Fraction] = (0.05, 0.6)
    """How often a log leaves out the last brace of a call, likewise."""
    leak_tool_rate: Fraction = 0.0
    """Share of logs that call the leaking tool first and then copy; the toolbox must leak."""
    leak_file_rate: Fraction = 0.0
    """Share of logs that read the hidden file first and then copy."""


class DilocoConfig(Section):
    """`train --diloco`: replicas on machines far apart, which average after each window of steps. All have the same."""

    lighthouse: str | None = None
    """`http://host:port` of `train RUN --lighthouse`, for replicas alone; None: what TORCHFT_LIGHTHOUSE says."""
    replicas: Positive = 2
    """That must be there before the first step, or before training goes on from checkpoints."""
    min_replicas: Positive = 1
    """While training: fewer than this wait for the others."""
    sync_every: Positive = 10
    """Steps of a window."""
    fragments: Positive = 1
    """Parts that are averaged in turn, `sync_every / fragments` steps apart; 1 averages all weights at once."""
    outer_learning_rate: AboveZero = 0.7
    """Of the step that the average of the replicas' changes makes."""
    outer_momentum: Annotated[float, Field(ge=0, lt=1), Number] = 0.9
    """Of Nesterov. 0 with an outer learning rate of 1 takes the plain average."""
    patience_s: AboveZero = 3600.0
    """How long a replica waits for slower ones at the end of a window; longer than a window takes."""
    heartbeat_timeout_s: AboveZero = 30.0
    """Seconds after which a silent replica is forgotten."""
    transfer_timeout_s: AboveZero = 600.0
    """Seconds that one exchange of weights may take."""

    @model_validator(mode="after")
    def _whole_windows(self) -> DilocoConfig:
        assert self.sync_every % self.fragments == 0, "sync_every must be a multiple of fragments"
        return self


def explain(
    error: ValidationError,
    root: type[BaseModel],
    values: Any,
    known: Mapping[str, str] | None = None,
    written: Callable[[str], str] = str,
) -> str:
    """Every mistake in `values`: its key, and for an unknown key the nearest right one. `known` has better words for
    some keys, `written` tells how a key is written in the file."""
    told: dict[str, list[str]] = {}
    for one in error.errors(include_url=False):
        path, section = _place(one["loc"], root, values, is_missing=one["type"] == "missing")
        key, words = written(".".join(path)), one["msg"].removeprefix("Value error, ")
        if known and key in known:
            told[key] = [known[key]]
        elif one["type"] == "extra_forbidden":
            told[key] = [f"unknown key {key}, {nearest(path[-1], section.model_fields)}"]
        elif key not in told:
            told[key] = [f"{key}: {words}" if key else words]
        elif not told[key][0].endswith(words):  # a value may be of several kinds, and is of none
            told[key].append(f"{words[0].lower()}{words[1:]}")
    mistakes = [" or ".join(words) for words in told.values()]
    if len(mistakes) == 1:
        return mistakes[0]
    return f"{len(mistakes)} mistakes: " + "; ".join(f"({number}) {one}" for number, one in enumerate(mistakes, 1))


def _place(
    loc: Sequence[int | str], root: type[BaseModel], values: Any, is_missing: bool
) -> tuple[list[str], type[BaseModel]]:
    """The keys on the way, and the section that has the last one. Parts that stand for no key name a kind of value."""
    section, path = root, list[str]()
    here: Any = values
    candidates: list[type[BaseModel]] = []
    for number, part in enumerate(loc, 1):
        if not _has(here, part) and not (is_missing and number == len(loc)):
            section = next((kind for kind in candidates if getattr(kind, "TAG", None) == part), section)
            continue
        here = here[part] if _has(here, part) else None
        # An entry of a list is told by its name, as `--set` writes it.
        named = here.get("name") if isinstance(part, int) and isinstance(here, dict) else None
        path.append(named if isinstance(named, str) else str(part))
        if part in section.model_fields and number < len(loc):
            candidates = list(_sections_in(section.model_fields[str(part)].annotation))
            section = candidates[0] if len(candidates) == 1 else section
    return path, section


def _has(values: Any, part: int | str) -> bool:
    return (
        part in values if isinstance(values, dict) else isinstance(values, list | tuple) and part in range(len(values))
    )


GONE = {
    ("hardware", "vllm_tensor_parallel"): "give the server its own option, and [sampling] server its address",
    ("hardware", "vllm_server_url"): 'it is [sampling] server = "http://…" now',
    ("hardware", "vllm", "server"): 'it is [sampling] server = "http://…" now',
    ("monitor", "penalty_weight"): "hard evidence takes the reward now, and other signs ask for a deeper grade",
}
"""Section and key, and the value where others stayed -> what there is instead. Every run of before has one of these."""


def told_gone(values: Any) -> dict[str, str]:
    """Of settings that an earlier version had: by key what there is instead."""
    found: dict[str, str] = {}
    for (section, key, *only), instead in GONE.items():
        given = values.get(section) if isinstance(values, dict) else None
        if isinstance(given, dict) and key in given and (not only or given[key] in only):
            written = json.dumps(given[key], default=str)
            found[f"{section}.{key}"] = f"{section}.{key} = {written} is gone: {instead}"
    return found


def nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"


def refuse_unknown(given: Iterable[str], known: Iterable[str], owner: str) -> None:
    """Of keywords of a call in Python, the first that is none of `known`."""
    if unknown := [name for name in given if name not in known]:
        raise UsageError(f"{owner} has no {unknown[0]}", nearest(unknown[0], known))


def _sections_in(annotation: Any) -> Iterable[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _sections_in(inner)
