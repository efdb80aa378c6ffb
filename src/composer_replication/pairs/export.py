"""Pairs as datasets for other trainers: `trl` (preference), `kto`, `sft`, `verl`. Parquet, one file.

Chat templates want the arguments of a call as an object, but Arrow pads objects of different shapes with nulls, and a
template would print them. Messages are therefore stored in the `Json` type of `datasets` (4.7 or newer), which gives
back exactly what was put in. Tools are one JSON text, which TRL's trainers parse. A pair that would not come back the
same is left out and counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from composer_replication.errors import UsageError
from composer_replication.records import JsonObject, Message, PreferencePair, canonical_json, canonical_tool_call
from composer_replication.windows import CHARACTERS_PER_TOKEN, TurnHistory, fit_messages

Format = Literal["trl", "kto", "sft", "verl"]
FILE = "train.parquet"
MESSAGES = ("prompt", "chosen", "rejected", "completion", "messages")


class Exported(NamedTuple):
    path: Path
    rows: int
    left_out: Counter[str]
    """Pairs that could not be written, by reason."""
    windowed: int
    """Pairs whose prompt is a window of the history."""


class _NotExportableError(Exception):
    pass


def export_pairs(
    pairs: Iterable[PreferencePair],
    format: Format,
    folder: Path,
    calls_as_text: bool = False,
    max_tokens: int | None = None,
    failed_calls: Mapping[str, Set[str]] | None = None,
) -> Exported:
    """Write `folder/train.parquet`.

    `calls_as_text` puts calls into the text of a message, for models whose chat template knows no tools: it would
    leave calls out without a word. A pair that is longer than `max_tokens`, by about four characters to a token, gets
    a window of its prompt, which keeps the errors of `failed_calls`, by trace.
    """
    left_out: Counter[str] = Counter()
    rows: list[JsonObject] = []
    windowed = 0
    for pair in pairs:
        try:
            failed = (failed_calls or {}).get(pair.trace_id, frozenset[str]())
            shown = pair if max_tokens is None else _windowed(pair, max_tokens, failed)
            rows += _checked(ROWS[format](_Sides(shown, calls_as_text)))
            windowed += shown.prompt != pair.prompt
        except _NotExportableError as error:
            left_out[str(error)] += 1
    if format == "verl":
        for index, row in enumerate(rows):
            row["extra_info"]["index"] = index
    if not rows:
        raise UsageError(f"there is no pair to export ({left_out.total()} left out)", "recompose pair RUN --json")
    _write(rows, folder / FILE)
    return Exported(folder / FILE, len(rows), left_out, windowed)


def _windowed(pair: PreferencePair, max_tokens: int, failed_calls: Set[str]) -> PreferencePair:
    reserved = max(_tokens(pair.chosen), _tokens(pair.rejected)) + (_tokens(pair.tools) if pair.tools else 0)
    found = fit_messages(TurnHistory(pair.prompt, pair.rejected, failed_calls), max_tokens, reserved, _tokens)
    if found is None:
        raise _NotExportableError("too long for any window")
    return pair.model_copy(update={"prompt": tuple(found.messages)})


def _tokens(value: object) -> int:
    return -(-len(canonical_json(value)) // CHARACTERS_PER_TOKEN)


class _Sides:
    """A pair's messages as a chat template takes them."""

    def __init__(self, pair: PreferencePair, calls_as_text: bool) -> None:
        self.pair = pair
        self.prompt = [_message(message, calls_as_text) for message in pair.prompt]
        self.chosen = [_message(pair.chosen, calls_as_text)]
        self.rejected = [_message(pair.rejected, calls_as_text)]
        self.tools = None if calls_as_text or not pair.tools else json.dumps(pair.tools, ensure_ascii=False)
        self.origin = pair.model_dump(include={"pair_id", "trace_id", "precision", "simulated"})


def _trl(sides: _Sides) -> list[JsonObject]:
    sided = {"prompt": sides.prompt, "chosen": sides.chosen, "rejected": sides.rejected}
    return [{**sided, "tools": sides.tools, **sides.origin}]


def _kto(sides: _Sides) -> list[JsonObject]:
    return [
        {"prompt": sides.prompt, "completion": said, "label": label, "tools": sides.tools, **sides.origin}
        for said, label in ((sides.chosen, True), (sides.rejected, False))
    ]


def _sft(sides: _Sides) -> list[JsonObject]:
    return [{"messages": sides.prompt + sides.chosen, "tools": sides.tools, **sides.origin}]


def _verl(sides: _Sides) -> list[JsonObject]:
    """Columns of verl's `RLHFDataset`. verl takes tools from its own config, so they travel in `extra_info`."""
    calls = sides.pair.chosen.get("tool_calls", [])
    truth = canonical_tool_call(calls[0]) if len(calls) == 1 else sides.pair.chosen["content"]
    extra = {
        "split": "train", "index": 0, **sides.origin, "tools": sides.tools or "[]",
        "rejected": canonical_json(sides.rejected),
    }  # fmt: skip
    return [
        {
            "data_source": "composer_replication/pairs",
            "prompt": sides.prompt,
            "ability": "tool_use",
            "reward_model": {"style": "rule", "ground_truth": truth},
            "extra_info": extra,
        }
    ]


ROWS: dict[Format, Callable[[_Sides], list[JsonObject]]] = {"trl": _trl, "kto": _kto, "sft": _sft, "verl": _verl}


def _message(message: Message, calls_as_text: bool) -> JsonObject:
    calls = [
        {**call, "function": {"name": call["function"]["name"], "arguments": _arguments(call["function"]["arguments"])}}
        for call in message.get("tool_calls", [])
    ]
    kept: JsonObject = {"role": message["role"], "content": message["content"]}
    if "tool_call_id" in message and not calls_as_text:
        kept["tool_call_id"] = message["tool_call_id"]
    if calls and calls_as_text:
        said = [json.dumps(call["function"], ensure_ascii=False, separators=(",", ":")) for call in calls]
        kept["content"] = "\n".join(part for part in (message["content"], *said) if part)
    elif calls:
        kept["tool_calls"] = calls
    return kept


def _arguments(text: str) -> JsonObject:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _NotExportableError("arguments are no JSON") from error
    if not isinstance(value, dict):
        raise _NotExportableError("arguments are no object")
    return cast("JsonObject", value)


def _checked(rows: list[JsonObject]) -> list[JsonObject]:
    """Refuses what `datasets` would give back changed: integers over 64 bits, some long fractions, lone surrogates.

    Messages are encoded here: its own encoder cuts fractions to ten digits.
    """
    from datasets import Json

    feature = Json()

    def encode(message: JsonObject) -> str:
        try:
            text = json.dumps(message, ensure_ascii=False)
            text.encode()
            same = feature.decode_example(text) == message
        except ValueError:
            same, text = False, ""
        if not same:
            raise _NotExportableError("no dataset can hold it")
        return text

    return [
        {name: list(map(encode, value)) if name in MESSAGES else value for name, value in row.items()} for row in rows
    ]


def _write(rows: list[JsonObject], path: Path) -> None:
    import pyarrow.parquet as parquet
    from datasets import Dataset, Features, Json, List

    features: dict[str, Any] = {name: List(Json()) if name in MESSAGES else _feature(rows, name) for name in rows[0]}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}")
    parquet.write_table(Dataset.from_list(rows, features=Features(features)).data.table, temporary)
    temporary.rename(path)


def _feature(rows: list[JsonObject], name: str) -> Any:
    from datasets import Value

    value = next((row[name] for row in rows if row[name] is not None), "")
    if isinstance(value, dict):
        inner = [row[name] for row in rows]
        return {key: _feature(inner, key) for key in cast("JsonObject", value)}
    kinds = {bool: "bool", int: "int64", float: "float64", str: "string"}
    return Value("float64" if name == "precision" else kinds[type(value)])
