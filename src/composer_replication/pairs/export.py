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
from composer_replication.records import JsonObject, PreferencePair, Trace, canonical_json, canonical_tool_call

from .rendering import ByCharacters, NotExportableError, PairRenderer, RenderedPair, RowLengths

Format = Literal["trl", "kto", "sft", "verl"]
FILE = "train.parquet"
MESSAGES = ("prompt", "chosen", "rejected", "completion")


class Exported(NamedTuple):
    path: Path
    rows: int
    left_out: Counter[str]
    """Pairs that could not be written, by reason."""
    windowed: int
    """Pairs whose prompt is a window of the history."""
    malformed_histories: int
    """Pairs whose prompt shows a call as text, because its arguments are no JSON object."""
    tokens: tuple[int, ...]
    """Of each pair that was written, with its longer side."""


def export_pairs(
    pairs: Iterable[PreferencePair],
    traces: Iterable[Trace],
    format: Format,
    folder: Path,
    calls_as_text: bool = False,
    max_tokens: int | None = None,
    failed_calls: Mapping[str, Set[str]] | None = None,
    lengths: RowLengths | None = None,
) -> Exported:
    """Write `folder/train.parquet`. `failed_calls` are by trace: windows keep these errors."""
    known = {trace.trace_id: trace for trace in traces}
    renderer = PairRenderer(calls_as_text, max_tokens, lengths or ByCharacters())
    left_out: Counter[str] = Counter()
    rows: list[JsonObject] = []
    written: Counter[str] = Counter()
    tokens: list[int] = []
    for pair in pairs:
        try:
            shown = renderer.render(pair, known[pair.trace_id], (failed_calls or {}).get(pair.trace_id, frozenset()))
            rows += _checked(ROWS[format](shown))
            written.update(windowed=shown.is_windowed, malformed=shown.has_malformed_history)
            tokens.append(shown.tokens)
        except NotExportableError as error:
            left_out[str(error)] += 1
    if format == "verl":
        for index, row in enumerate(rows):
            row["extra_info"]["index"] = index
    if not rows:
        lost = ", ".join(f"{number} lost: {reason}" for reason, number in left_out.items())
        following = "give a larger --max-tokens, or none" if left_out and max_tokens else "recompose pair RUN --json"
        raise UsageError(f"there is no pair to export ({lost or 'the run has none'})", following)
    _write(rows, folder / FILE)
    return Exported(folder / FILE, len(rows), left_out, written["windowed"], written["malformed"], tuple(tokens))


def _origin(shown: RenderedPair) -> JsonObject:
    return shown.pair.model_dump(include={"pair_id", "trace_id", "precision", "simulated"})


def _tools(shown: RenderedPair) -> str | None:
    return json.dumps(shown.tools, ensure_ascii=False) if shown.tools else None


def _trl(shown: RenderedPair) -> list[JsonObject]:
    sided = {"prompt": shown.prompt, "chosen": shown.chosen, "rejected": shown.rejected}
    return [{**sided, "tools": _tools(shown), **_origin(shown)}]


def _kto(shown: RenderedPair) -> list[JsonObject]:
    return [
        {"prompt": shown.prompt, "completion": said, "label": label, "tools": _tools(shown), **_origin(shown)}
        for said, label in ((shown.chosen, True), (shown.rejected, False))
    ]


def _sft(shown: RenderedPair) -> list[JsonObject]:
    """The history is the prompt, so that the actor's mistakes in it are not trained on."""
    return [{"prompt": shown.prompt, "completion": shown.chosen, "tools": _tools(shown), **_origin(shown)}]


def _verl(shown: RenderedPair) -> list[JsonObject]:
    """Columns of verl's `RLHFDataset`. verl takes tools from its own config, so they travel in `extra_info`."""
    calls = shown.pair.chosen.get("tool_calls", [])
    truth = canonical_tool_call(calls[0]) if len(calls) == 1 else shown.pair.chosen["content"]
    extra = {
        "split": "train", "index": 0, **_origin(shown), "tools": _tools(shown) or "[]",
        "rejected": canonical_json(shown.rejected),
    }  # fmt: skip
    return [
        {
            "data_source": "composer_replication/pairs",
            "prompt": shown.prompt,
            "ability": "tool_use",
            "reward_model": {"style": "rule", "ground_truth": truth},
            "extra_info": extra,
        }
    ]


ROWS: dict[Format, Callable[[RenderedPair], list[JsonObject]]] = {"trl": _trl, "kto": _kto, "sft": _sft, "verl": _verl}


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
            raise NotExportableError("no dataset can hold it")
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
