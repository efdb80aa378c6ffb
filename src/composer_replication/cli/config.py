"""`recompose config [FILE | RUN]` and `recompose config --schema`"""

from __future__ import annotations

import json as json_module
import os
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic import TypeAdapter

from composer_replication.config import parse_config, read_toml
from composer_replication.errors import UsageError
from composer_replication.runs import Run
from composer_replication.settings import DEFAULT, Setting, changed, origins, schema, told_sources, with_changes

from .arguments import Json, Set

FROM_ENVIRONMENT = {"diloco.lighthouse": "TORCHFT_LIGHTHOUSE"}
"""Settings that a variable stands in for where they are not set."""


def config(
    source: Annotated[Path | None, Parameter(help="A TOML file or a run folder; the defaults without it.")] = None,
    /,
    *,
    changes: Set = (),
    only_changed: Annotated[
        bool, Parameter(name="--changed", negative="", help="Leave out what stands at its default.")
    ] = False,
    show_schema: Annotated[
        bool, Parameter(name="--schema", negative="", help="Print the JSON schema of such a file, for editors.")
    ] = False,
    json: Json = False,
) -> None:
    """Show every setting as a run would have it, and where it comes from. Nothing is written."""
    if show_schema:
        if source or changes or only_changed:
            raise UsageError("the schema is the same for every file", "recompose config --schema")
        print(json_module.dumps(schema(), indent=2))
        return
    found = [one for one in _settings(source, changes) if not only_changed or one.origin != DEFAULT]
    if json:
        print(json_module.dumps({one.key: {"value": _plain(one.value), "origin": one.origin} for one in found}))
        return
    for section, settings in groupby(found, lambda one: one.key.rpartition(".")[0]):
        if section:
            print(f"\n[{section}]")
        for one in settings:
            key = one.key.rpartition(".")[2]
            print(f"{key} = {json_module.dumps(_plain(one.value), ensure_ascii=False)}".ljust(48) + f"  # {one.origin}")


def _settings(source: Path | None, changes: tuple[str, ...]) -> list[Setting]:
    stored = source / "config.json" if source else None
    if source and stored and stored.exists():
        found = origins(with_changes(Run.open(source).config, changes), {}, DEFAULT, changes, str(stored))
    else:
        values = read_toml(source) if source else {}
        resolved = parse_config(changed(values, changes), told_sources(source, changes))
        found = origins(resolved, values, str(source), changes)
    return [
        Setting(one.key, os.environ[variable], f"environment, {variable}")
        if one.value is None and (variable := FROM_ENVIRONMENT.get(one.key, "")) in os.environ
        else one
        for one in found
    ]


def _plain(value: Any) -> Any:
    return TypeAdapter(Any).dump_python(value, mode="json")
