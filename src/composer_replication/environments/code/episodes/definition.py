"""A code task answered with one code block: it is put into the file, visible tests run, and their output is read.

The episode ends when the visible tests that cover the definition pass, or when the tries are used up; hidden tests then
decide, and nothing of what they say is told. A block that is no Python or lacks the definition is a try as well. Each
try starts from the task's own file. This is the setting of self-distillation from execution feedback.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from composer_replication.records import Message

from ..sandbox.interface import Limits
from ..tasks.symbols import Module, first_line, parse_module
from ..tasks.task import AskedTask, TaskFolder
from ..tasks.trees import files_of, read_text
from .code_blocks import parse_block, read_answer
from .session import Grader, SessionLimits, TaskSession
from .splicing import definitions_of, outermost, splice
from .text_episode import TextEpisode
from .tools import ToolError
from .turns import Taken
from .visible_tests import RUN_S, VisibleTestsOf, test_report

MOST_DEFINITIONS = 6
"""Of one answer: more are a module, not a block."""
SYSTEM = "You are a careful Python programmer. You answer with one code block in Python and nothing else."


class Place(NamedTuple):
    """The file that a task is about, as the policy starts from it, and the definitions to write."""

    path: str
    text: str
    names: tuple[str, ...]


class CannotBeAnswered(Exception):
    """Why a task needs more than definitions in one file, in a few words."""


class DefinitionEpisode(TextEpisode):
    def __init__(
        self,
        task: AskedTask,
        visible: VisibleTestsOf,
        backend: str = "auto",
        tries: int = 3,
        grader: Grader | None = None,
    ) -> None:
        bounds = Limits(cpu_s=task.folder.code_task.cpu_limit_s)
        super().__init__(task, backend, SessionLimits(steps=tries, command_s=RUN_S, sandbox=bounds), grader)
        self._visible_of = visible

    def open_session(self) -> TaskSession:
        self._visible = self._visible_of(self.task.folder)
        self._place = place_of(self.task.folder)
        laid_in = self._visible.laid_in
        return TaskSession(self.task.folder, self.backend, self.limits, self.grader, laid_in=laid_in)

    def take(self, session: TaskSession, turn: str) -> Taken:
        place, visible = self._place, self._visible
        try:
            text = splice(place.path, place.text, read_answer(turn, place.names), place.names)
        except ToolError as error:
            return self.refuse(session, turn, error)
        result = session.try_out(place.path, text, visible.ids, lambda told: test_report(told, visible.covering))
        self._transcript.add_text(turn, result)
        return Taken([result], called=True)


def place_of(task: TaskFolder) -> Place:
    """Of a task that can be answered."""
    symbols = task.code_task.symbols
    path = symbols[0].file
    return Place(path, read_text(task.tree, path), outermost([symbol.name for symbol in symbols]))


def check_answerable(task: TaskFolder) -> None:
    """Raises `CannotBeAnswered` for a task whose solution is more than a few definitions in one file."""
    known = task.code_task
    paths = {symbol.file for symbol in known.symbols}
    solved = set(files_of(task.gold))
    if known.grader != "tests":
        raise CannotBeAnswered("asks for tests")
    if len(paths) != 1 or solved != paths:
        raise CannotBeAnswered("several files")
    if not (task.tree / paths.pop()).is_file():
        raise CannotBeAnswered("a whole file is gone")
    place = place_of(task)
    if len(place.names) > MOST_DEFINITIONS:
        raise CannotBeAnswered("too many definitions")
    if not _definitions_solve(place.path, place.text, read_text(task.gold, place.path), place.names):
        raise CannotBeAnswered("more than definitions")


def question(task: TaskFolder, tries: int) -> list[Message]:
    """Raises `CannotBeAnswered`."""
    check_answerable(task)
    place = place_of(task)
    module = parse_module(place.path, place.text)
    named = ", ".join(f"`{name}`" for name in place.names)
    parts = [task.code_task.task.statement.strip(), *_context(module, place.names)]
    if task.code_task.generator != "feature_deletion" or task.code_task.level in ("L2", "L3"):
        parts += [_as_it_is(module, name) for name in place.names if definitions_of(module, name)]
    many = "definitions" if len(place.names) > 1 else "definition"
    again = f" Where some fail, you read why and answer again: {tries} blocks at most." if tries > 1 else ""
    parts.append(
        f"Answer with one code block that holds the complete {many} of {named}. It is put into `{place.path}`, and "
        f"tests run on it.{again}"
    )
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n\n".join(parts)}]


def _context(module: Module, names: Sequence[str]) -> list[str]:
    imports = [
        "".join(module.lines[node.lineno - 1 : node.end_lineno]).strip()
        for node in module.tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    top = [each.symbol.name for each in module.definitions if "." not in each.symbol.name]
    constants = [
        target.id
        for node in module.tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    others = [name for name in dict.fromkeys([*constants, *top]) if name not in names and not name.startswith("__")]
    parts = [f"`{module.path}` begins with:\n\n```python\n" + "\n".join(imports) + "\n```"] if imports else []
    if others:
        parts.append(f"Other names in `{module.path}`: {', '.join(others)}.")
    return [*parts, *_class_contexts(module, names)]


def _class_contexts(module: Module, names: Sequence[str]) -> list[str]:
    told: list[str] = []
    for owner in dict.fromkeys(name.rpartition(".")[0] for name in names if "." in name):
        found = definitions_of(module, owner)
        members = [each.symbol.name for each in module.definitions if each.symbol.name.startswith(f"{owner}.")]
        methods = [name.removeprefix(f"{owner}.") for name in members if name not in names]
        attributes = sorted({name for each in found for name in _attributes(each.node)})
        told.append(f"Other names in the class `{owner}`: {', '.join(dict.fromkeys([*methods, *attributes]))}.")
    return told


def _attributes(node: ast.AST) -> list[str]:
    return [
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == "self"
    ]


def _as_it_is(module: Module, name: str) -> str:
    node = definitions_of(module, name)[0].node
    lines = module.lines[first_line(node) - 1 : node.end_lineno]
    return f"`{name}` reads now:\n\n```python\n{''.join(lines).rstrip()}\n```"


def solving_block(task: TaskFolder) -> str:
    """The solution's own imports and definitions. It alone reads what no policy may see."""
    place = place_of(task)
    return _block_of(parse_module(place.path, read_text(task.gold, place.path)), place.names)


def _definitions_solve(path: str, text: str, gold: str, names: Sequence[str]) -> bool:
    """Whether the solution's own definitions, with its imports, make the solution of the file."""
    try:
        module, solved = parse_module(path, text), parse_module(path, gold)
        if any(len(definitions_of(solved, name)) != 1 or len(definitions_of(module, name)) > 1 for name in names):
            return False
        spliced = splice(path, text, parse_block(_block_of(solved, names)), names)
        return _statements(parse_module(path, spliced)) == _statements(solved)
    except (SyntaxError, ValueError, RecursionError, ToolError):
        return False


def _block_of(module: Module, names: Sequence[str]) -> str:
    parts = [
        "".join(module.lines[node.lineno - 1 : node.end_lineno])
        for node in module.tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    for name in names:
        node = definitions_of(module, name)[0].node
        block = parse_block("".join(module.lines[first_line(node) - 1 : node.end_lineno]))
        parts.append("\n".join(block.lines_of(block.body[0], "")))
    return "\n".join(part.rstrip("\r\n") for part in parts)


def _statements(module: Module) -> Counter[str]:
    """In no order: what was taken out is put back at the end."""
    return Counter(_dump(node) for node in module.tree.body)


def _dump(node: ast.stmt) -> str:
    if isinstance(node, ast.ClassDef):
        body = sorted(_dump(each) for each in node.body if not isinstance(each, ast.Pass))
        head = ast.ClassDef(node.name, node.bases, node.keywords, [], node.decorator_list)
        return ast.dump(head) + "".join(body)
    return ast.dump(node)
