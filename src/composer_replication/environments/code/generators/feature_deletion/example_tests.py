"""Tests as a statement can show them, and what of a test module a test stands on.

Reads the repository before the deletion. A test is shown with its decorators, a method with the head of its class and
what sets it up, and with the tables and helpers of its module that it names. No line of the solution is shown.
"""

from __future__ import annotations

import ast
import itertools
import textwrap
from collections.abc import Iterable, Iterator

from ...tasks.repository import Repository
from ...tasks.symbols import Definition, Module, SourceIndex, code_lines, definition_nodes, first_line, source_index
from ...tasks.task import Symbol
from ...tasks.test_ids import test_function

MAX_FIRST_EXAMPLES = 2
MAX_LINES = 40
OWN = frozenset(("self", "cls"))
SETTING_UP = frozenset(("setUp", "setup_method", "setUpClass", "setup_class"))
MIN_GOLD_LINE = 8
"""Characters without spaces: `else:` is nobody's secret."""


def standing_on(module: Module, name: str) -> list[ast.stmt]:
    """A test of a module (`Class.method`, its own or inherited in the module), and what sets it up or is named by it
    and by that; empty where the module does not define it once."""
    found = _defined(module, name)
    if found is None:
        return []
    own = {name.partition(".")[0]}
    wanted: list[ast.stmt] = _members(found.owner, found.node) if found.owner else [found.node]
    place = 0
    while place < len(wanted):
        named = _names(wanted[place]) - own
        own |= named
        wanted += [each for each in module.tree.body if named & set(_bound(each))]
        place += 1
    return wanted


def _members(owner: ast.ClassDef, test: ast.stmt) -> list[ast.stmt]:
    """The test, what sets its class up, and what they read of it by `self`."""
    wanted: list[ast.stmt] = [test, *(each for each in definition_nodes(owner.body) if each.name in SETTING_UP)]
    for member in wanted:
        read = {
            each.attr
            for each in ast.walk(member)
            if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id in OWN
        }
        wanted += [each for each in owner.body if each not in wanted and read & set(_bound(each))]
    return wanted


def _defined(module: Module, name: str) -> Definition | None:
    by_name = {each.symbol.name: each for each in module.definitions}
    if [each.symbol.name for each in module.definitions].count(name) > 1:
        return None
    owner, _, method = name.rpartition(".")
    if name in by_name or owner not in by_name:
        return by_name.get(name)
    node = by_name[owner].node
    bases = [base.id for base in node.bases if isinstance(base, ast.Name)] if isinstance(node, ast.ClassDef) else []
    found = (_defined(module, f"{base}.{method}") for base in bases if base != owner)
    return next((each for each in found if each is not None), None)


def example_text(index: SourceIndex, function: str, gold: frozenset[str]) -> str | None:
    """The source of a test function (`path::name`) that is short and holds no line of the solution, with as much of
    what it stands on as fits."""
    path, _, name = function.partition("::")
    module = index.tests.get(path)
    name = name.replace("::", ".")
    found = _defined(module, name) if module else None
    if module is None or found is None or found.symbol.name != name:
        return None  # an inherited one would be shown without what its own class makes of it
    nodes = standing_on(module, name)
    inner = [node for node in nodes if node is found.node or (found.owner and node in found.owner.body)]
    test = _in_class(module, found, inner)
    if not _can_be_shown(test, gold):
        return None
    helpers: dict[int, str] = {}
    for node in sorted((node for node in nodes if node not in inner), key=_length):
        more = {**helpers, first_line(node): _source(module, node)}
        if _can_be_shown("\n".join([*more.values(), test]), gold):
            helpers = more
    return "```python\n" + "\n\n".join([*(text for _, text in sorted(helpers.items())), test]) + "\n```"


def chosen_examples(
    repository: Repository, symbols: Iterable[Symbol], tests: Iterable[str], needed: int
) -> frozenset[str]:
    """Up to two short test functions to show, where more than enough stay hidden. The shortest names first."""
    index = source_index(repository)
    gold = gold_lines(index, symbols)
    functions = sorted(set(map(test_function, tests)), key=lambda name: (len(name), name))
    spare = min(MAX_FIRST_EXAMPLES, len(functions) - needed - 1)
    fitting = (name for name in functions if example_text(index, name, gold))
    return frozenset(itertools.islice(fitting, max(spare, 0)))


def possible_examples(repository: Repository, symbols: Iterable[Symbol], tests: Iterable[str]) -> dict[str, str]:
    """Test functions that are short enough to be shown and tell nothing of the solution, with their texts."""
    index = source_index(repository)
    gold = gold_lines(index, symbols)
    texts = ((name, example_text(index, name, gold)) for name in sorted(set(map(test_function, tests))))
    return {name: text for name, text in texts if text is not None}


def _can_be_shown(text: str, gold: frozenset[str]) -> bool:
    lines = text.splitlines()
    return len(lines) <= MAX_LINES and not any(plain(line) in gold for line in lines)


def _in_class(module: Module, found: Definition, inner: list[ast.stmt]) -> str:
    members = [_source(module, node) for node in sorted(inner, key=first_line)]
    if found.owner is None:
        return members[0]
    head = module.lines[found.owner.lineno - 1].strip()
    return f"{head}\n" + textwrap.indent("\n\n".join(members), "    ")


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - first_line(node)


def _source(module: Module, node: ast.stmt) -> str:
    return textwrap.dedent("".join(module.lines[first_line(node) - 1 : node.end_lineno])).rstrip()


def _names(node: ast.AST) -> set[str]:
    """Also of parameters: a fixture is asked for by its name."""
    return {
        each.id if isinstance(each, ast.Name) else each.arg
        for each in ast.walk(node)
        if isinstance(each, ast.Name | ast.arg)
    }


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def gold_lines(index: SourceIndex, symbols: Iterable[Symbol]) -> frozenset[str]:
    """Lines of the bodies that go, without spaces: nothing else may show them."""
    lines = (
        plain(line)
        for symbol in symbols
        for definition in index.definitions[symbol]
        for member in (index.class_members(symbol) if definition.kind == "class" else (definition,))
        for line in code_lines(index.sources[symbol.file], member.node)
    )
    return frozenset(line for line in lines if len(line) >= MIN_GOLD_LINE)


def without_gold(text: str, gold: frozenset[str]) -> str:
    return "\n".join(line for line in text.splitlines() if plain(line) not in gold)


def plain(line: str) -> str:
    """Without spaces, and without the signs of quotation and of an interactive session."""
    return "".join(line.split()).lstrip(">").removeprefix("...")
