"""Which hidden tests prove something by themselves, and what the reward counts.

A test is cheap if it can pass without the feature: the reward does not pay for it alone. To find out, the solution is
changed so that it answers only where the answer can be had cheaply (`cheap_answers.py`); what still passes is
cheap. Reads the agent's tree and source texts; writes nothing.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterable, Mapping
from itertools import cycle
from pathlib import Path

from composer_replication.syntax import PlacedSource, parse

from ..tasks.symbols import FunctionNode
from ..tasks.task import Symbol, TaskFolder
from ..tasks.trees import files_of
from .cheap_answers import bare
from .strength import functions_of

MODULE = "recompose_cheap_answers"
SOURCE = Path(__file__).with_name("cheap_answers.py")
READ_SUFFIXES = (".py", ".md", ".rst", ".txt")
MAX_READ_BYTES = 400_000
SHOWN = re.compile(r"^[ \t]*>>> *(?P<call>.+)\n[ \t]*(?P<want>[^\s>].*)$", re.MULTILINE)
ASSERTED = re.compile(r"^[ \t]*assert +(?P<call>[\w.]+\(.*\)) == (?P<want>.+)$", re.MULTILINE)
CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)$")


def units(hidden: Collection[str], telling: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """What the reward counts: each test that proves something, joined by its share of those that do not. Without any,
    all tests together: no one answer that is cheap passes them all."""
    found = [[test] for test in sorted(telling)] or [[]]
    for unit, test in zip(cycle(found), sorted(set(hidden) - set(telling)), strict=False):
        unit.append(test)
    return tuple(map(tuple, found))


def cheap_solution(task: TaskFolder, sources: Mapping[str, str], symbols: Iterable[Symbol]) -> dict[str, str]:
    """The sources whose functions give only cheap answers, with the module that judges; empty where none gives any."""
    names: dict[str, set[str]] = {}
    for symbol in symbols:
        names.setdefault(symbol.file, set()).add(symbol.name)
    judged = {path: _judged(text, names.get(path, set())) for path, text in sources.items()}
    changed = {path: text for path, text in judged.items() if text != sources[path]}
    if not changed:
        return {}
    root = task.code_task.source_roots[0]
    return {**changed, (f"{MODULE}.py" if root == "." else f"{root}/{MODULE}.py"): _module(task)}


def _judged(source: str, names: set[str]) -> str:
    tree = parse(source)
    functions = [function for function in functions_of(tree, names) if _gives_value(function)]
    if not functions:
        return source
    placed = PlacedSource(source)
    content = placed.content
    for function in sorted(functions, key=lambda function: function.lineno, reverse=True):
        start = placed.line_starts[function.lineno - 1]
        indent = content[start : start + function.col_offset].decode()
        content = content[:start] + f"{indent}@__import__({MODULE!r}).judged\n".encode() + content[start:]
    return content.decode() + f"\n\n__import__({MODULE!r}).remember_arguments(globals())\n"


def _gives_value(function: FunctionNode) -> bool:
    nodes = list(ast.walk(function))
    return function.name != "__init__" and any(
        isinstance(node, (ast.Yield, ast.YieldFrom)) or (isinstance(node, ast.Return) and node.value is not None)
        for node in nodes
    )


def _module(task: TaskFolder) -> str:
    documented: dict[str, set[str]] = {}
    answers: dict[str, set[str]] = {}
    for text in _readable(task):
        for example in (*SHOWN.finditer(text), *ASSERTED.finditer(text)):
            if called := CALL.search(example["call"]):
                want = bare(example["want"].strip())
                documented.setdefault(bare(called["arguments"]), set()).add(want)
                answers.setdefault(called["name"], set()).add(want)
    tables = {"DOCUMENTED": documented, "ANSWERS": answers}
    lines = [f"{name} = {_as_text(table)}" for name, table in tables.items()]
    return "\n".join([SOURCE.read_text(encoding="utf-8"), *lines, ""])


def _as_text(table: Mapping[str, set[str]]) -> str:
    return json.dumps({key: sorted(values) for key, values in sorted(table.items())})


def _readable(task: TaskFolder) -> Iterable[str]:
    yield task.code_task.task.statement
    for path in files_of(task.tree):
        file = task.tree / path
        if path.endswith(READ_SUFFIXES) and file.stat().st_size <= MAX_READ_BYTES:
            yield file.read_bytes().decode(errors="replace")
