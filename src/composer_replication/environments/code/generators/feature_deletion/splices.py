"""Cut marked statements and list items out of a module's text, and empty marked functions. All else keeps its bytes.

The text is cut by the parser's own positions, never printed anew, and the result is parsed and compared with what the
marks ask for. A module that cannot be cut exactly (several statements on a line, odd brackets) raises `InexactEdit`.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from composer_replication.syntax import parse

from ...tasks.symbols import DefinitionNode, FunctionNode, Module, blocks_of, docstring_node, first_line, parse_source

Container = ast.Import | ast.ImportFrom | ast.List | ast.Tuple | ast.Set | ast.Dict | ast.Delete
ENCODING = re.compile(r"#.*?coding[:=]")
STUB = "raise NotImplementedError"


class InexactEdit(Exception):
    """The cut would touch more than what is marked."""


@dataclass
class Marks:
    """What goes from one module. Nodes are those of its own tree."""

    statements: set[ast.stmt] = field(default_factory=set[ast.stmt])
    items: dict[Container, set[int]] = field(default_factory=dict[Container, set[int]])
    stubs: dict[FunctionNode, bool] = field(default_factory=dict[FunctionNode, bool])
    """Function -> whether its docstring stays."""
    closing_lines: dict[ast.ClassDef, list[str]] = field(default_factory=dict[ast.ClassDef, list[str]])
    """Class -> simple statements to add at the end of its body."""

    def __bool__(self) -> bool:
        return bool(self.statements or self.items or self.stubs or self.closing_lines)


@dataclass(frozen=True)
class _Cut:
    start: int
    end: int
    replacement: str = ""


def cut(module: Module, marks: Marks) -> str:
    """The text of the module without what is marked."""
    marks = _outside_dropped(marks)
    cuts = [
        *_statement_cuts(module, module.tree.body, marks, at_top=True),
        *(each for container, dropped in marks.items.items() for each in _item_cuts(module, container, dropped)),
        *(_stub_cut(module, node, documented) for node, documented in marks.stubs.items()),
        *(_closing_cut(module, node, lines) for node, lines in marks.closing_lines.items()),
    ]
    text, position = "", 0
    for each in sorted(cuts, key=lambda one: (one.start, one.end)):
        shared = module.text[each.start : position] if each.start < position else ""
        if shared.strip() or (shared and each.replacement and each.start != each.end):
            raise InexactEdit("cuts overlap")
        text += module.text[position : max(each.start, position)] + each.replacement
        text += shared if each.replacement else ""
        position = max(each.end, position)
    text += module.text[position:]
    _verify(module, marks, text)
    return text


def _outside_dropped(marks: Marks) -> Marks:
    """Without the marks that lie inside a statement that goes anyway."""
    ranges = [(first_line(each), each.end_lineno or each.lineno) for each in marks.statements]

    def stays(node: ast.AST) -> bool:
        line: int = getattr(node, "lineno", 0)
        return not any(first <= line <= last for first, last in ranges)

    return Marks(
        marks.statements,
        {container: dropped for container, dropped in marks.items.items() if stays(container)},
        {node: documented for node, documented in marks.stubs.items() if stays(node)},
        {node: lines for node, lines in marks.closing_lines.items() if stays(node)},
    )


def items_of(container: Container) -> Sequence[tuple[ast.AST, ast.AST]]:
    """First and last node of every item."""
    if isinstance(container, ast.Dict):
        return [(key or value, value) for key, value in zip(container.keys, container.values, strict=True)]
    if isinstance(container, ast.Import | ast.ImportFrom):
        return [(alias, alias) for alias in container.names]
    items = container.targets if isinstance(container, ast.Delete) else container.elts
    return [(item, item) for item in items]


def header_end(module: Module, node: DefinitionNode) -> int:
    """Offset right after the colon that ends the signature."""
    text = "".join(module.lines[node.lineno - 1 : node.end_lineno])
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
                if token.string == ":" and depth == 0:
                    row, column = token.end
                    return _line_start(module, node.lineno + row - 1) + column
    except (tokenize.TokenError, IndentationError) as error:
        raise InexactEdit("the signature cannot be read") from error
    raise InexactEdit("the signature has no end")


def _statement_cuts(module: Module, body: list[ast.stmt], marks: Marks, at_top: bool = False) -> Iterator[_Cut]:
    dropped = [statement for statement in body if statement in marks.statements]
    placeholder = bool(dropped) and len(dropped) == len(body) and not at_top
    for statement in body:
        if statement in marks.statements:
            first, last = _whole_lines(module, statement)
            if placeholder and statement is dropped[0]:
                filler = _indent(module, statement) + "pass" + _line_end(module, last)
                yield _Cut(_line_start(module, first), _line_start(module, last + 1), filler)
            else:
                yield _Cut(*_with_blank_lines(module, first, last))
        elif not isinstance(statement, FunctionNode):
            for block in blocks_of(statement):
                yield from _statement_cuts(module, block, marks)


def _whole_lines(module: Module, statement: ast.stmt) -> tuple[int, int]:
    """First and last line of a statement that has them for itself, with the comments that stand right above it."""
    first, last = first_line(statement), statement.end_lineno or statement.lineno
    before = module.lines[first - 1][: _column(module, first, statement.col_offset)]
    after = module.lines[last - 1][_column(module, last, statement.end_col_offset or 0) :].strip()
    if before.strip() or (after and not after.startswith("#")):
        raise InexactEdit("the statement shares its line")
    if isinstance(statement, DefinitionNode):
        indent = len(before.expandtabs())
        last = _end_of_block(module, last, indent)
        while first > 1 and _is_comment(module, first - 1, indent):
            first -= 1
    return first, last


def _is_comment(module: Module, line: int, indent: int) -> bool:
    text = module.lines[line - 1]
    stripped = text.lstrip()
    special = line <= 2 and (stripped.startswith("#!") or ENCODING.match(stripped))
    return stripped.startswith("#") and not special and _width(text) == indent


def _end_of_block(module: Module, last: int, indent: int) -> int:
    """Comments after the last statement that are indented deeper than the definition belong to it."""
    line = last + 1
    while line <= len(module.lines):
        text = module.lines[line - 1]
        if text.strip() and not (text.lstrip().startswith("#") and _width(text) > indent):
            break
        if text.strip():
            last = line
        line += 1
    return last


def _with_blank_lines(module: Module, first: int, last: int) -> tuple[int, int]:
    """The blank lines after a cut go with it where there are others before it; at the end of the file, those before."""
    after = last
    while after < len(module.lines) and not module.lines[after].strip():
        after += 1
    at_end = after == len(module.lines)
    blank_before = first == 1 or not module.lines[first - 2].strip()
    if at_end:
        while first > 1 and not module.lines[first - 2].strip():
            first -= 1
    elif not blank_before:
        after = last
    return _line_start(module, first), _line_start(module, after + 1)


def _item_cuts(module: Module, container: Container, dropped: set[int]) -> Iterator[_Cut]:
    spans = [
        (_offset(module, first.lineno, first.col_offset), _offset(module, last.end_lineno, last.end_col_offset))
        for first, last in _positioned(container)
    ]
    if len(dropped) == len(spans) and isinstance(container, ast.Set | ast.Import | ast.ImportFrom | ast.Delete):
        raise InexactEdit("nothing would be left")
    alone = {index for index in dropped if _has_lines_alone(module, container, index)}
    for index in alone:
        first, last = _positioned(container)[index]
        yield _Cut(_line_start(module, first.lineno), _line_start(module, last.end_lineno + 1))
    inline = sorted(dropped - alone)
    while inline:
        run = [inline.pop(0)]
        while inline and inline[0] == run[-1] + 1:
            run.append(inline.pop(0))
        yield _inline_cut(module.text, spans, run)


def _inline_cut(text: str, spans: list[tuple[int, int]], run: list[int]) -> _Cut:
    start, end = spans[run[0]][0], spans[run[-1]][1]
    behind = len(text[end:]) - len(text[end:].lstrip())
    if text[end + behind : end + behind + 1] == ",":
        end += behind + 1
        end += len(text[end:]) - len(text[end:].lstrip(" \t"))
        if text[end : end + 1] not in ("\r", "\n"):
            return _Cut(start, end)
        before = text[:start].rstrip(" \t")
        whole_line = before.endswith("\n") or not before
        return _Cut(len(before), text.index("\n", end) + 1) if whole_line else _Cut(len(before), end)
    if run[0] > 0:
        start = spans[run[0] - 1][1]
        if len(spans) == 2 and text[start - 1 : start] != ",":
            return _Cut(start, end, "," if _in_parentheses(text, spans[0][0], end) else "")
    return _Cut(start, end)


def _in_parentheses(text: str, start: int, end: int) -> bool:
    return text[:start].rstrip().endswith("(") and text[end:].lstrip().startswith(")")


def _has_lines_alone(module: Module, container: Container, index: int) -> bool:
    items = _positioned(container)
    first, last = items[index]
    if not container.lineno < first.lineno or not last.end_lineno < (container.end_lineno or 0):
        return False
    before = module.lines[first.lineno - 1][: _column(module, first.lineno, first.col_offset)]
    after = module.lines[last.end_lineno - 1][_column(module, last.end_lineno, last.end_col_offset) :].strip()
    return not before.strip() and after.partition("#")[0].strip() in ("", ",") and (after.startswith(",") or index > 0)


def _positioned(container: Container) -> list[tuple[Any, Any]]:
    return list(items_of(container))


def _stub_cut(module: Module, node: FunctionNode, documented: bool) -> _Cut:
    indent = _indent(module, node)
    last = _end_of_block(module, node.end_lineno or node.lineno, len(indent.expandtabs()))
    doc = docstring_node(node) if documented else None
    inner, header = node.body[0], header_end(module, node)
    on_own_line = inner.lineno > module.line_at(header)
    body_indent = _indent(module, inner) if on_own_line else indent + "    "
    line_end = _line_end(module, node.lineno) or "\n"
    stub = line_end + body_indent + STUB + _line_end(module, last)
    end = _line_start(module, last + 1)
    if doc is None:
        rest = module.text[header : _line_start(module, module.line_at(header) + 1)].rstrip("\r\n")
        return _Cut(header + len(rest) if rest.lstrip().startswith("#") else header, end, stub)
    documentation_end = _offset(module, doc.end_lineno or doc.lineno, doc.end_col_offset or 0)
    if on_own_line:
        return _Cut(documentation_end, end, stub)
    documentation = module.text[_offset(module, doc.lineno, doc.col_offset) : documentation_end]
    return _Cut(header, end, line_end + body_indent + documentation + stub)


def _closing_cut(module: Module, node: ast.ClassDef, lines: list[str]) -> _Cut:
    last = node.end_lineno or node.lineno
    end = _line_start(module, last + 1)
    if node.body[0].lineno == node.lineno:
        raise InexactEdit("the class stands on one line")
    indent, line_end = _indent(module, node.body[0]), _line_end(module, node.lineno) or "\n"
    opening = "" if _line_end(module, last) else line_end
    return _Cut(end, end, opening + "".join(f"{indent}{line}{line_end}" for line in lines))


def _verify(module: Module, marks: Marks, text: str) -> None:
    try:
        result = parse_source(text)
    except (SyntaxError, ValueError) as error:
        raise InexactEdit("the result does not parse") from error
    if not _same(module.tree, result, marks, _marked_lines(marks)):
        raise InexactEdit("the result is not what was asked for")


def _marked_lines(marks: Marks) -> list[int]:
    """In order; statements without one of these lines were copied as they are."""
    nodes: list[Any] = [*marks.statements, *marks.items, *marks.stubs, *marks.closing_lines]
    return sorted(node.lineno for node in nodes)


def _same(before: object, after: object, marks: Marks, lines: list[int]) -> bool:
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(
            _same(one, other, marks, lines) for one, other in zip(before, after, strict=True)
        )
    if not isinstance(before, ast.AST):
        return before == after
    if type(before) is not type(after):
        return False
    if isinstance(before, ast.stmt) and not _has_line(before, lines):
        return True
    return all(
        _same(_expected(before, name, marks), getattr(after, name, None), marks, lines) for name in before._fields
    )


def _has_line(node: ast.stmt, lines: list[int]) -> bool:
    following = bisect_left(lines, first_line(node)) if hasattr(node, "lineno") else len(lines)
    return following < len(lines) and lines[following] <= (node.end_lineno or node.lineno)


def _expected(node: ast.AST, name: str, marks: Marks) -> Any:
    value = getattr(node, name, None)
    if isinstance(node, FunctionNode) and name == "body" and node in marks.stubs:
        doc = docstring_node(node) if marks.stubs[node] else None
        return [*([doc] if doc else []), *parse(STUB).body]
    if isinstance(node, Container) and node in marks.items and isinstance(value, list) and name != "ctx":
        return [each for index, each in enumerate(value) if index not in marks.items[node]]
    if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
        kept = [each for each in value if each not in marks.statements]
        if not kept and not isinstance(node, ast.Module):
            kept = [ast.Pass()]
        if isinstance(node, ast.ClassDef) and node in marks.closing_lines:
            kept += parse("\n".join(marks.closing_lines[node])).body
        return kept
    return value


def _line_start(module: Module, line: int) -> int:
    return module.line_starts[line - 1]


def _line_end(module: Module, line: int) -> str:
    text = module.lines[line - 1]
    return text[len(text.rstrip("\r\n")) :]


def _indent(module: Module, node: ast.stmt) -> str:
    text = module.lines[first_line(node) - 1]
    return text[: len(text) - len(text.lstrip())]


def _width(text: str) -> int:
    return len(text[: len(text) - len(text.lstrip())].expandtabs())


def _column(module: Module, line: int, utf8_column: int) -> int:
    """The parser counts columns in bytes of UTF-8."""
    text = module.lines[line - 1].removeprefix("\ufeff") if line == 1 else module.lines[line - 1]
    column = utf8_column if text.isascii() else len(text.encode()[:utf8_column].decode())
    return column + (len(module.lines[line - 1]) - len(text))


def _offset(module: Module, line: int, utf8_column: int) -> int:
    return _line_start(module, line) + _column(module, line, utf8_column)
