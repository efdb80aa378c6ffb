"""Settings from a file and the command line, each with its origin; and the schema that editors check a file with.

Reads a TOML file, or the `config.json` of a run, and words like `training.steps=40`. A channel is named instead of
numbered: `channels.sdpo.weight=0.2`.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator, Sequence
from inspect import getsource
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from .config import Config, parse_config, read_toml
from .errors import UsageError
from .objective import DEFAULT_CHANNELS, ChannelSettings, OwnSettings, in_new_form
from .sections import Section

COMMAND_LINE, DEFAULT, DERIVED = "command line", "default", "follows from model.name"


class Setting(NamedTuple):
    key: str
    value: Any
    origin: str


def load_settings(path: Path | None, changes: Sequence[str] = ()) -> Config:
    """A file, or the defaults, with `KEY=VALUE` changes on top."""
    if path is None and not changes:
        return Config()
    return parse_config(changed(read_toml(path) if path else {}, changes), told_sources(path, changes))


def with_changes(config: Config, changes: Sequence[str]) -> Config:
    return parse_config(changed(config.model_dump(mode="json"), changes), "--set") if changes else config


def differences(config: Config, other: Config) -> list[str]:
    """Keys whose values differ, in the order of the settings."""
    before, after = dict(_leaves(config)), dict(_leaves(other))
    return [key for key in {**before, **after} if key not in before or key not in after or before[key] != after[key]]


def told_sources(path: Path | None, changes: Sequence[str]) -> str:
    return " and ".join(filter(None, (str(path or ""), "--set" if changes else "")))


def changed(values: dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """A copy of plain settings with `KEY=VALUE` changes. A value is TOML, or else a text."""
    values = in_new_form(values) if any(change.startswith("channels.") for change in changes) else values
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set {change} is not KEY=VALUE", "write it like --set training.steps=40")
        values = _with(values, key.strip().split("."), _value(text.strip()))
    return values


def origins(
    config: Config, values: dict[str, Any], where: str, changes: Sequence[str] = (), otherwise: str = DERIVED
) -> Iterator[Setting]:
    """Every setting of `config`, which was made from the plain `values` of the file `where` and from `changes`.
    `otherwise` is the origin of a value that neither has and that is not the default."""
    defaults = dict(_leaves(Config()))
    given = [change.partition("=")[0].strip() for change in changes]
    for key, value in _leaves(config):
        origin = DEFAULT if key in defaults and defaults[key] == value else otherwise
        if _mentions(in_new_form(values), key.split(".")):
            origin = where
        if any(key == one or key.startswith(f"{one}.") for one in given):
            origin = COMMAND_LINE
        yield Setting(key, value, origin)


def schema() -> dict[str, Any]:
    """JSON schema of a settings file, with the words that stand under each setting in the source."""
    found = Config.model_json_schema()
    described = {**_docstrings(Config), **_docstrings(ChannelSettings), **_docstrings(Section)}
    for name, section in {**found["$defs"], "Config": found}.items():
        for key, field in section["properties"].items():
            if text := described.get(name, {}).get(key):
                field["description"] = text
    # The code tells channels apart by their names, and the schema must too.
    for kind in (*map(type, DEFAULT_CHANNELS), OwnSettings):
        channel = found["$defs"][kind.__name__]
        channel["required"] = sorted({"name", *channel.get("required", ())})
        channel["properties"]["name"] |= {"pattern": ":"} if kind is OwnSettings else {"const": kind.TAG}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found, "title": "Settings of recompose"}


def _leaves(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any]]:
    named = [(name, getattr(section, name)) for name in type(section).model_fields]
    for name, value in [*named, *(section.model_extra or {}).items()]:
        if isinstance(value, BaseModel):
            yield from _leaves(value, f"{prefix}{name}.")
        elif name == "channels":
            for channel in value:
                yield from _leaves(channel, f"{prefix}{name}.{channel.name}.")
        else:
            yield f"{prefix}{name}", value


def _mentions(values: Any, path: Sequence[str]) -> bool:
    if not path:
        return True
    if isinstance(values, list):
        # The name of an own channel has dots.
        named = [(entry, str(entry.get("name")).split(".")) for entry in values if isinstance(entry, dict)]
        return any(path[: len(name)] == name and _mentions(entry, path[len(name) :]) for entry, name in named)
    return isinstance(values, dict) and path[0] in values and _mentions(values[path[0]], path[1:])


def _with(values: dict[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    first, *rest = path
    if not rest:
        return {**values, first: value}
    inner: Any = values.get(first)
    if first == "channels" and len(rest) > 1:
        entries: list[dict[str, Any]] = inner or [{"name": channel.name} for channel in DEFAULT_CHANNELS]
        by_name = {str(entry.get("name")): entry for entry in entries}
        by_name[rest[0]] = _with(by_name.get(rest[0], {"name": rest[0]}), rest[1:], value)
        return {**values, first: list(by_name.values())}
    return {**values, first: _with(inner if isinstance(inner, dict) else {}, rest, value)}


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _docstrings(kind: type[BaseModel]) -> dict[str, dict[str, str]]:
    """By class and field of the module that `kind` is in: the text under the field."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(getsource(sys.modules[kind.__module__])).body:
        if isinstance(node, ast.ClassDef):
            for field, below in zip(node.body, node.body[1:], strict=False):
                if (
                    isinstance(field, ast.AnnAssign)
                    and isinstance(field.target, ast.Name)
                    and isinstance(below, ast.Expr)
                    and isinstance(below.value, ast.Constant)
                ):
                    found.setdefault(node.name, {})[field.target.id] = " ".join(str(below.value.value).split())
    return found
