"""What every section of a config is made of, and how a mistake in one is told."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from typing import Annotated, Any, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, Strict, ValidationError, model_validator


def _no_truth_value(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("needs a number, not true or false")
    return value


Number = BeforeValidator(_no_truth_value)
Fraction = Annotated[float, Number, Field(ge=0, le=1)]
PenaltyWeight = Annotated[float, Number, Field(ge=0, le=0.2)]
Count = Annotated[int, Number, Field(ge=0)]
Positive = Annotated[int, Number, Field(gt=0)]
Several = Annotated[int, Number, Field(ge=2)]
AboveZero = Annotated[float, Number, Field(gt=0)]
Weight = Annotated[float, Number, Field(ge=0)]
Flag = Annotated[bool, Strict()]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DilocoConfig(Section):
    """`train --diloco`: replicas on machines far apart, which average after each window of steps. All have the same."""

    lighthouse: str | None = None
    """`http://host:port` of `train RUN --lighthouse`, for replicas alone; None: what TORCHFT_LIGHTHOUSE says."""
    replicas: Positive = 2
    """That must be there before the first step, or before training goes on from checkpoints."""
    min_replicas: Positive = 1
    """While training: fewer than this wait for the others."""
    sync_every: Positive = 10
    fragments: Positive = 1
    """Parts that are averaged in turn, `sync_every / fragments` steps apart; 1 averages all weights at once."""
    outer_learning_rate: AboveZero = 0.7
    outer_momentum: Annotated[float, Number, Field(ge=0, lt=1)] = 0.9
    """Of Nesterov. 0 with an outer learning rate of 1 takes the plain average."""
    patience_s: AboveZero = 3600.0
    """How long a replica waits for slower ones at the end of a window; longer than a window takes."""
    heartbeat_timeout_s: AboveZero = 30.0
    transfer_timeout_s: AboveZero = 600.0

    @model_validator(mode="after")
    def _whole_windows(self) -> DilocoConfig:
        assert self.sync_every % self.fragments == 0, "sync_every must be a multiple of fragments"
        return self


def explain(error: ValidationError, root: type[BaseModel]) -> str:
    """The first mistake: its key, and for an unknown key the nearest right one."""
    first = error.errors(include_url=False)[0]
    section, path = root, list[str]()
    candidates: list[type[BaseModel]] = []
    for part in first["loc"]:
        if (chosen := _chosen(candidates, part)) is not None:
            # Which kind of section it is, and no key.
            section, candidates = chosen, []
            continue
        path.append(str(part))
        if str(part) in section.model_fields and not isinstance(part, int):
            candidates = list(_sections_in(section.model_fields[str(part)].annotation))
            section = candidates[0] if len(candidates) == 1 else section
    key = ".".join(path)
    if first["type"] != "extra_forbidden":
        return f"{key}: {first['msg']}" if key else first["msg"]
    return f"unknown key {key}, {nearest(path[-1], section.model_fields)}"


GONE = {
    ("hardware", "vllm_tensor_parallel"): "give the server its own option, and [sampling] server its address",
    ("hardware", "vllm_server_url"): 'it is [sampling] server = "http://…" now',
    ("hardware", "vllm", "server"): 'it is [sampling] server = "http://…" now',
    ("monitor", "penalty_weight"): "hard evidence takes the reward now, and other signs ask for a deeper grade",
}
"""Section and key, and the value where others stayed -> what there is instead. Every run of before has one of these."""


def explain_gone(values: Any) -> str | None:
    """Of settings that were refused: the first that an earlier version had."""
    for (section, key, *only), instead in GONE.items():
        given = values.get(section) if isinstance(values, dict) else None
        if isinstance(given, dict) and key in given and (not only or given[key] in only):
            return f"{section}.{key} = {json.dumps(given[key], default=str)} is gone: {instead}"
    return None


def nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"


def _chosen(candidates: Iterable[type[BaseModel]], part: Any) -> type[BaseModel] | None:
    """Of several kinds of section, the one that pydantic names by its tag."""
    return next((kind for kind in candidates if getattr(kind, "TAG", None) == part), None)


def _sections_in(annotation: Any) -> Iterable[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _sections_in(inner)
