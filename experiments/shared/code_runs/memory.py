"""Does the model know a solution by heart? It is asked for the definition with no statement, and compared with it."""

from __future__ import annotations

import ast
import difflib
import io
import tokenize
from collections.abc import Sequence

from composer_replication.environments.code.environment import CodeEnvironment
from composer_replication.environments.code.episodes.code_blocks import read_answer
from composer_replication.environments.code.episodes.definition import (
    SYSTEM,
    check_answerable,
    place_of,
    solving_block,
)
from composer_replication.environments.code.episodes.tools import ToolError
from composer_replication.environments.code.tasks.task import TaskFolder
from composer_replication.records import Message


class Bare(CodeEnvironment):
    """Asks for the same definitions by their names and signatures alone: no text, no example, no test, no bug."""

    def _opening(self, folder: TaskFolder) -> list[Message]:
        check_answerable(folder)
        place, package = place_of(folder), folder.code_task.packages[0]
        heads = "\n".join(signatures(solving_block(folder)))
        asked = (
            f"The package `{package}` has a file `{place.path}`. Write the definition of "
            f"{', '.join(f'`{name}`' for name in place.names)} as it stands there, from memory.\n\n"
            f"```python\n{heads}\n```\n\nAnswer with one code block."
        )
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": asked}]


def signatures(block: str) -> list[str]:
    """First lines of the definitions, without documentation, decorators and bodies."""
    heads: list[str] = []
    for node in ast.parse(block).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            empty = ast.parse("class Empty: ...").body[0]
            assert isinstance(empty, ast.ClassDef)
            node.body, node.decorator_list = empty.body, []
            heads.append(ast.unparse(node).removesuffix("\n    ..."))
    return heads


def likeness(task: TaskFolder, turn: str) -> float:
    """Of the tokens of the answer's definitions to those of the solution, 0 to 1; 0 for what is no definition."""
    names = place_of(task).names
    try:
        block = read_answer(turn, names)
    except ToolError:
        return 0.0
    said, gold = tokens_of("\n".join(block.lines)), tokens_of(solving_block(task))
    return difflib.SequenceMatcher(None, said, gold, autojunk=False).ratio()


def tokens_of(source: str) -> Sequence[str]:
    """Without imports, documentation, comments and layout."""
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    plain = io.StringIO(ast.unparse(tree)).readline
    return [token.string for token in tokenize.generate_tokens(plain) if token.string.strip()]
