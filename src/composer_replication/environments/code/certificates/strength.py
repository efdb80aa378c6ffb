"""How much the hidden tests demand: solutions that should earn nothing, and the true one with a statement dropped.

From source text to source text; the gates run what comes out. A test is cheap if it can pass without the feature: the
reward does not pay for it alone. To find those, the solution is changed so that it answers only where the answer can be
had cheaply (`cheap_answers.py`); what still passes is cheap.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from itertools import cycle
from pathlib import Path
from random import Random

from composer_replication.syntax import PlacedSource, parse

from ..tasks.symbols import FunctionNode, docstring_node, first_line
from ..tasks.task import Symbol, TaskFolder
from ..tasks.trees import files_of
from .cheap_answers import bare

LAZY_BODIES: dict[str, Callable[[FunctionNode], str]] = {
    "none": lambda function: "return None",
    "first_argument": lambda function: f"return {_first_argument(function)}",
    "constant": lambda function: "return True",
    "raise": lambda function: "raise NotImplementedError",
}
YES_OR_NO: dict[str, Callable[[FunctionNode], str]] = {
    "truth": lambda function: f"return bool({_first_argument(function)})",
    "denial": lambda function: f"return not {_first_argument(function)}",
}
"""Where something of the feature is a question: tests of both answers can often be met so."""
QUESTIONS = frozenset(("all", "any", "bool", "callable", "hasattr", "isinstance", "issubclass"))
MAX_NEIGHBOURS = 2
NOT_WORTH_DROPPING = (ast.Pass, ast.Global, ast.Nonlocal, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
MODULE = "recompose_cheap_answers"
SOURCE = Path(__file__).with_name("cheap_answers.py")
READ_SUFFIXES = (".py", ".md", ".rst", ".txt")
MAX_READ_BYTES = 400_000
SHOWN = re.compile(r"^[ \t]*>>> *(?P<call>.+)\n[ \t]*(?P<want>[^\s>].*)$", re.MULTILINE)
ASSERTED = re.compile(r"^[ \t]*assert +(?P<call>[\w.]+\(.*\)) == (?P<want>.+)$", re.MULTILINE)
CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)$")


def lazy_solutions(sources: Mapping[str, str], symbols: Iterable[Symbol]) -> Iterator[tuple[str, dict[str, str]]]:
    """Kind -> the sources with every function of the feature replaced by one line; then those with each function that
    has neighbours replaced by the call of one."""
    wanted = list(symbols)
    names = {path: _names(wanted, path) for path in sources}
    asks = any(
        _is_question(function) for path, text in sources.items() for function in functions_of(parse(text), names[path])
    )
    for kind, body in (LAZY_BODIES | (YES_OR_NO if asks else {})).items():
        yield kind, {path: _with_bodies(source, names[path], body) for path, source in sources.items()}
    for number in range(MAX_NEIGHBOURS):
        texts = {path: _calling_neighbours(source, names[path], number) for path, source in sources.items()}
        if texts != dict(sources):
            yield f"neighbour_{number}", texts


def dropped_statements(
    sources: Mapping[str, str],
    symbols: Iterable[Symbol],
    limit: int,
    seed: int,
    lines: Mapping[str, Collection[int]] | None = None,
) -> list[dict[str, str]]:
    """The sources with one statement of the feature gone, for at most `limit` statements. With `lines` only statements
    that begin there, from 1."""
    wanted = list(symbols)
    found = [
        (path, statement)
        for path, source in sources.items()
        for function in functions_of(parse(source), _names(wanted, path))
        for statement in _statements(function)
        if not PlacedSource(source).code(statement).startswith(b"elif")
        and (not lines or statement.lineno in lines.get(path, ()))
    ]
    chosen = found if len(found) <= limit else Random(seed).sample(found, limit)
    changed: list[dict[str, str]] = []
    for path, statement in chosen:
        text = _replace(sources[path], statement, statement, "pass")
        if _parses(text):
            changed.append({**sources, path: text})
    return changed


def _names(symbols: list[Symbol], path: str) -> set[str]:
    return {symbol.name for symbol in symbols if symbol.file == path}


def functions_of(tree: ast.AST, names: set[str], prefix: str = "", inside: bool = False) -> Iterator[FunctionNode]:
    """Outermost functions that are named, or that stand in a class that is."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if inside or prefix + node.name in names:
                yield node
        elif isinstance(node, ast.ClassDef):
            yield from functions_of(node, names, f"{prefix}{node.name}.", inside or prefix + node.name in names)
        elif not isinstance(node, ast.expr):
            yield from functions_of(node, names, prefix, inside)


def _body(function: FunctionNode) -> list[ast.stmt]:
    """Without the docstring, unless there is nothing else."""
    return function.body[1:] if docstring_node(function) and len(function.body) > 1 else function.body


def _statements(function: FunctionNode) -> Iterator[ast.stmt]:
    docstring = function.body[0] if _body(function) != function.body else None
    for node in ast.walk(function):
        if isinstance(node, ast.stmt) and not isinstance(node, NOT_WORTH_DROPPING) and node is not docstring:
            yield node


def _first_argument(function: FunctionNode) -> str:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    names = [name for name in names if name not in ("self", "cls")]
    return names[0] if names else function.args.vararg.arg if function.args.vararg else "None"


def _is_question(function: FunctionNode) -> bool:
    return any(isinstance(node, ast.Return) and _is_yes_or_no(node.value) for node in ast.walk(function))


def _is_yes_or_no(value: ast.expr | None) -> bool:
    match value:
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Constant(value=True | False):
            return True
        case ast.BoolOp(values=[*parts]):
            return all(map(_is_yes_or_no, parts))
        case ast.Call(func=ast.Name(id=name)):
            return name in QUESTIONS
        case _:
            return False


def _with_bodies(source: str, names: set[str], body: Callable[[FunctionNode], str]) -> str:
    functions = sorted(functions_of(parse(source), names), key=lambda function: function.lineno, reverse=True)
    for function in functions:
        statements = _body(function)
        source = _replace(source, statements[0], statements[-1], body(function))
    return source


def _calling_neighbours(source: str, names: set[str], number: int) -> str:
    """Unchanged where no function of the feature has that many neighbours; one without any gives nothing."""
    tree = parse(source)
    functions = list(functions_of(tree, names))
    calls = calls_of_neighbours(tree, functions, number + 1)
    if not any(len(each) > number for each in calls.values()):
        return source
    return _with_bodies(source, names, lambda function: (calls.get(function.lineno) or ["return None"])[-1])


def _replace(source: str, first: ast.stmt, last: ast.stmt, text: str) -> str:
    placed = PlacedSource(source)
    start = placed.line_starts[first_line(first) - 1] + first.col_offset
    return (placed.content[:start] + text.encode() + placed.content[placed.end(last) :]).decode()


def _parses(source: str) -> bool:
    try:
        parse(source)
    except SyntaxError:
        return False
    return True


def calls_of_neighbours(tree: ast.AST, wanted: list[FunctionNode], most: int) -> dict[int, list[str]]:
    """First line of a wanted function -> statements that call a neighbour, the one with the likest name first."""
    ours = set(map(id, wanted))
    found: dict[int, list[str]] = {}
    for block in _blocks(tree):
        others = [function for function in block if id(function) not in ours]
        for function in block:
            if id(function) in ours:
                near = [other for other in others if _parameters(other) == _parameters(function)]
                near.sort(key=lambda other: -SequenceMatcher(None, other.name, function.name).ratio())
                found[function.lineno] = [f"return {_call(other)}" for other in near[:most]]
    return found


def _blocks(tree: ast.AST) -> Iterator[list[FunctionNode]]:
    """The plain functions of the module, then the plain methods of each class."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef)):
            yield [each for each in node.body if isinstance(each, ast.FunctionDef) and not each.decorator_list]


def _parameters(function: FunctionNode) -> str:
    """Their names: what they are taken to be, and what stands for them where they are left out, may differ."""
    given = function.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return f"{' '.join(each.arg if each else '-' for each in every)} {len(given.args)}"


def _call(function: FunctionNode) -> str:
    given = function.args
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    is_method = names[:1] == ["self"]
    handed = [*names[is_method:], *([f"*{given.vararg.arg}"] if given.vararg else [])]
    handed += [f"{each.arg}={each.arg}" for each in given.kwonlyargs]
    handed += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return f"{'self.' if is_method else ''}{function.name}({', '.join(handed)})"


def units(hidden: Collection[str], telling: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """What the reward counts: each test that proves something, joined by its share of those that do not. Without any,
    all tests together: no one answer that is cheap passes them all."""
    found = [[test] for test in sorted(telling)] or [[]]
    for unit, test in zip(cycle(found), sorted(set(hidden) - set(telling)), strict=False):
        unit.append(test)
    return tuple(map(tuple, found))


def cheap_solution(task: TaskFolder, sources: Mapping[str, str], symbols: Iterable[Symbol]) -> dict[str, str]:
    """The sources whose functions give only cheap answers, with the module that judges; empty where none gives any."""
    wanted = list(symbols)
    judged = {path: _judged(text, _names(wanted, path)) for path, text in sources.items()}
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
    lines = [
        f"{name} = {json.dumps({key: sorted(table[key]) for key in sorted(table)})}" for name, table in tables.items()
    ]
    return "\n".join([SOURCE.read_text(encoding="utf-8"), *lines, ""])


def _readable(task: TaskFolder) -> Iterable[str]:
    yield task.code_task.task.statement
    for path in files_of(task.tree):
        file = task.tree / path
        if path.endswith(READ_SUFFIXES) and file.stat().st_size <= MAX_READ_BYTES:
            yield file.read_bytes().decode(errors="replace")
