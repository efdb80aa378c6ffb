"""Commands and settings of the pages that people copy from, so that tests run them as they stand."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

from tests.command_line import Ended, recompose

ROOT = Path(__file__).parents[1]


def commands(page: str) -> list[list[str]]:
    """The words of each line that a person would type, without its comment."""
    blocks = re.findall(r"^```console\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    typed = [
        line.removeprefix("$ ")
        for block in blocks
        for line in block.replace("\\\n", "").splitlines()
        if line.startswith("$ ")
    ]
    return [shlex.split(line, comments=True) for line in typed]


def verbs(page: str) -> list[list[str]]:
    return [words[1:] for words in commands(page) if words[0] == "recompose"]


def settings(page: str) -> dict[str, str]:
    """The TOML blocks of a page by the file name in their first line."""
    blocks = re.findall(r"^```toml\n# (\S+\.toml)(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    return {name: text.partition("\n")[2] for name, text in blocks}


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    inner = {key: merged(one[key], value) for key, value in other.items() if isinstance(one.get(key), dict)}
    return one | other | inner


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {as_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value)


def write_toml(path: Path, values: dict[str, Any]) -> None:
    path.write_text("".join(f"{key} = {as_toml(value)}\n" for key, value in values.items()))


def done(words: list[str], cwd: Path, *more: object) -> Ended:
    ended = recompose(*map(os.path.expanduser, words), *more, cwd=cwd)
    assert ended.returncode == 0, (words, ended.stderr[-2000:])
    return ended
