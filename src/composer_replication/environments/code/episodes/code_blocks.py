"""The code block of a reply, read as Python: which definitions it holds, and their lines.

Reads text, writes nothing, runs nothing. What is wrong with a reply is raised as a `ToolError`, in words for whoever
wrote it.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..tasks.symbols import DefinitionNode, FunctionNode, first_line, parse_source
from .tools import ToolError

_FENCED = re.compile(r"^[ \t]*(```+|~~~+)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_FENCED_EVENLY = re.compile(r"^([ \t]*(?:```+|~~~+))[^\n]*\n(.*?)(?:^\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
"""The end is indented as the beginning: marks inside a documentation string do not end a block."""
_OTHER_PARTS = ("setter", "deleter", "getter", "overload")
_UNDER_A_CONDITION = "if True:\n"


@dataclass(frozen=True)
class CodeBlock:
    lines: tuple[str, ...]
    """Without their ends; line 1 of the nodes is the first."""
    body: tuple[ast.stmt, ...]

    def lines_of(self, node: ast.stmt, indent: str) -> list[str]:
        """As they stand, moved to another indentation. The inside of a string over several lines is not moved."""
        first, last = first_line(node), node.end_lineno or node.lineno
        inside_strings = set(_string_lines(node))
        before = indent_of(self.lines[first - 1])
        moved: list[str] = []
        for number in range(first, last + 1):
            line = self.lines[number - 1]
            if number in inside_strings:
                moved.append(line)
            elif not line.strip():
                moved.append("")
            else:
                moved.append(indent + (line[len(before) :] if line.startswith(before) else line.lstrip()))
        return moved


def read_answer(reply: str, wanted: Sequence[str]) -> CodeBlock:
    """The last block that defines all of `wanted`; several blocks count as one where only together they do."""
    evenly, texts = _bodies(_FENCED_EVENLY, reply), _bodies(_FENCED, reply)
    if not texts and any(f"{kind} " in reply for kind in ("def", "class")):
        texts = [reply]
    if not any(text.strip() for text in texts):
        raise ToolError("Your response did not hold a code block: write the definition between ``` marks.")
    error: ToolError | None = None
    together = ["\n\n".join(texts)] if len(texts) > 1 else []
    for text in dict.fromkeys([*reversed(evenly), *reversed(texts), *together]):
        try:
            block = parse_block(text)
        except ToolError as trouble:
            error = error or trouble
            continue
        missing = [name for name in wanted if find_definition(block, name) is None]
        if not missing:
            return block
        names = ", ".join(f"`{name}`" for name in missing)
        error = ToolError(f"Your response did not define {names}: the code block must hold the whole definition.")
    assert error is not None
    raise error


def _bodies(fenced: re.Pattern[str], reply: str) -> list[str]:
    return [body.rstrip().removesuffix("```") for _, body in fenced.findall(reply.replace("\r\n", "\n"))]


def parse_block(text: str) -> CodeBlock:
    """Also where the whole block, or all of it but its first line, is indented as it was inside a class."""
    plain = textwrap.dedent(text.replace("\r\n", "\n").replace("\r", "\n")).strip("\n")
    first_line_moved = textwrap.dedent(f"    {plain}")
    trouble: Exception | None = None
    for source, wrapped in ((plain, False), (first_line_moved, False), (_UNDER_A_CONDITION + plain, True)):
        try:
            body = parse_source(source).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            trouble = trouble or error
            continue
        if wrapped:
            condition = body[0]
            assert isinstance(condition, ast.If)
            body = [*condition.body, *body[1:]]
        return CodeBlock(tuple(source.split("\n")), tuple(body))
    raise ToolError(f"Your response could not be parsed: {_told(trouble, plain)}") from trouble


def find_definition(block: CodeBlock, name: str) -> DefinitionNode | None:
    """Under its whole name, or a method or nested class that was written without the class around it."""
    *owners, last = name.split(".")
    bodies = [list(block.body)]
    for owner in owners:
        classes = [node for node in _named(bodies[-1], owner) if isinstance(node, ast.ClassDef)]
        bodies.append([each for node in classes for each in node.body])
    found = [*_named(list(block.body), last), *_named(bodies[-1], last)] if owners else _named(bodies[0], last)
    main = [node for node in found if not _is_other_part(node)]
    return (main or found or [None])[-1]


def _named(body: Sequence[ast.stmt], name: str) -> list[DefinitionNode]:
    return [node for node in body if isinstance(node, DefinitionNode) and node.name == name]


def _is_other_part(node: DefinitionNode) -> bool:
    return isinstance(node, FunctionNode) and any(
        ast.unparse(decorator).rpartition(".")[2] in _OTHER_PARTS for decorator in node.decorator_list
    )


def _string_lines(node: ast.AST) -> Iterator[int]:
    """Lines that begin inside a string."""
    for each in ast.walk(node):
        if (isinstance(each, ast.Constant) and isinstance(each.value, str | bytes)) or isinstance(each, ast.JoinedStr):
            yield from range(each.lineno + 1, (each.end_lineno or each.lineno) + 1)


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _told(trouble: Exception | None, text: str) -> str:
    if not isinstance(trouble, SyntaxError) or trouble.lineno is None:
        return "the code block is no Python."
    lines = text.split("\n")
    line = lines[trouble.lineno - 1].strip() if trouble.lineno <= len(lines) else ""
    return f"{trouble.msg} in line {trouble.lineno} of the code block: `{line[:120]}`"
