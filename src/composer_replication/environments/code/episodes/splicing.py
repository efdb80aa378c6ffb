"""Put definitions of a code block into a file, at the place of the old ones; every other line keeps its bytes.

Reads and gives text. From the block come the wanted definitions, and imports and helpers that the file does not have.
What the file already defines stays as it is, and nothing else of the block, such as examples of its use, is taken.
The result is parsed, and the definitions in it are compared with those of the block.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..generators.feature_deletion.import_time import bound_names
from ..tasks.symbols import Definition, DefinitionNode, FunctionNode, Module, first_line, parse_module
from .code_blocks import CodeBlock, find_definition, indent_of
from .tools import ToolError

RECEIVERS = ("self", "cls")


class _Edit(NamedTuple):
    first: int
    """First line to go, from 1; with `last` before it, nothing goes and the lines stand before `first`."""
    last: int
    lines: list[str]


def splice(path: str, text: str, block: CodeBlock, wanted: Sequence[str]) -> str:
    """`wanted` are qualified names, none inside another. Raises a `ToolError` for a block that does not fit."""
    module = parse_module(path, text)
    edits: list[_Edit] = []
    for name in wanted:
        node = find_definition(block, name)
        assert node is not None
        edits += _definition_edits(module, block, node, name)
    edits += _extra_edits(module, block, wanted, min(edit.first for edit in edits))
    result = _applied(module, edits)
    if not _holds(path, result, block, wanted):
        raise ToolError(f"Your response could not be parsed: the code block does not fit into {path}.")
    return result


def outermost(names: Sequence[str]) -> tuple[str, ...]:
    """Without the names that lie inside another."""
    return tuple(name for name in dict.fromkeys(names) if not any(name.startswith(f"{other}.") for other in names))


def definitions_of(module: Module, name: str) -> list[Definition]:
    return [each for each in module.definitions if each.symbol.name == name]


def _definition_edits(module: Module, block: CodeBlock, node: DefinitionNode, name: str) -> Iterator[_Edit]:
    found = definitions_of(module, name)
    if found:
        old = found[0].node
        indent = indent_of(module.lines[old.lineno - 1])
        # Who writes only the function does not mean to take `@property` away.
        first = first_line(old) if node.decorator_list else old.lineno
        lines = block.lines_of(node, indent)
        yield _Edit(first, old.end_lineno or old.lineno, lines + _more_methods(module, block, node, name, indent))
        return
    owner, _, _ = name.rpartition(".")
    if not owner:
        yield _after(len(module.lines), ["", "", *block.lines_of(node, "")])
        return
    classes = definitions_of(module, owner)
    if not classes:
        raise ToolError(
            f"Your response could not be parsed: the code block does not fit, as {module.path} has no class `{owner}`."
        )
    body = classes[0].node
    indent = indent_of(module.lines[body.body[-1].lineno - 1])
    yield _after(body.end_lineno or body.lineno, ["", *block.lines_of(node, indent)])


def _more_methods(module: Module, block: CodeBlock, node: DefinitionNode, name: str, indent: str) -> list[str]:
    """Methods next to the wanted one that the file's class does not have, in the class or written without it."""
    owner, _, _ = name.rpartition(".")
    if not owner:
        return []
    around = find_definition(block, owner)
    inside = around.body if isinstance(around, ast.ClassDef) else [each for each in block.body if _is_method(each)]
    new = [
        each
        for each in inside
        if isinstance(each, FunctionNode)
        and each.name != node.name
        and not definitions_of(module, f"{owner}.{each.name}")
        and not definitions_of(module, each.name)
    ]
    return [line for each in new for line in ("", *block.lines_of(each, indent))]


def _extra_edits(module: Module, block: CodeBlock, wanted: Sequence[str], near: int) -> Iterator[_Edit]:
    known = bound_names(module)
    taken = {part for name in wanted for part in name.split(".")}
    has_methods = any("." in name for name in wanted)
    imports, helpers, futures = list[str](), list[str](), list[str]()
    present = {ast.dump(each) for each in module.tree.body if isinstance(each, ast.Import | ast.ImportFrom)}
    for node in block.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
            if ast.dump(node) not in present:
                (futures if is_future else imports).extend(block.lines_of(node, ""))
        elif isinstance(node, DefinitionNode):
            if node.name not in taken | known and not (has_methods and _is_method(node)):
                helpers += [*block.lines_of(node, ""), "", ""]
        elif (names := _assigned(node)) and not names & known:
            helpers += [*block.lines_of(node, ""), ""]
    # What is named last stands above the others at the same line.
    yield _Edit(_top_statement(module, near), 0, helpers)
    yield _after(_end_of_head(module), imports)
    yield _after(_end_of_head(module, only_docstring=True), futures)


def _assigned(node: ast.stmt) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)} if targets else set()


def _is_method(node: ast.stmt) -> bool:
    if not isinstance(node, FunctionNode):
        return False
    arguments = [*node.args.posonlyargs, *node.args.args]
    return bool(arguments) and arguments[0].arg in RECEIVERS


def _end_of_head(module: Module, only_docstring: bool = False) -> int:
    """Last line of the docstring and the imports that a module begins with; 0 where it has neither."""
    end = 0
    for place, node in enumerate(module.tree.body):
        is_docstring = place == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not is_docstring and (only_docstring or not isinstance(node, ast.Import | ast.ImportFrom)):
            break
        end = node.end_lineno or node.lineno
    return end or (first_line(module.tree.body[0]) - 1 if module.tree.body else 0)


def _top_statement(module: Module, line: int) -> int:
    """First line of the module's own statement that a line lies in, else the line itself."""
    starts = [first_line(node) for node in module.tree.body if first_line(node) <= line <= (node.end_lineno or 0)]
    return starts[0] if starts else line


def _after(line: int, lines: list[str]) -> _Edit:
    return _Edit(line + 1, 0, lines)


def _applied(module: Module, edits: Sequence[_Edit]) -> str:
    ends = [line[len(line.rstrip("\r\n")) :] for line in module.lines]
    line_end = next((end for end in ends if end), "\n")
    lines = list(module.lines)
    if lines and not ends[-1]:
        lines[-1] += line_end
    for edit in sorted(edits, key=lambda each: each.first, reverse=True):
        new = [line + line_end for line in edit.lines]
        lines[edit.first - 1 : max(edit.last, edit.first - 1)] = new
    return "".join(lines)


def _holds(path: str, result: str, block: CodeBlock, wanted: Sequence[str]) -> bool:
    try:
        module = parse_module(path, result)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for name in wanted:
        found, node = definitions_of(module, name), find_definition(block, name)
        if len(found) != 1 or node is None or not _same(found[0].node, node):
            return False
    return True


def _same(put_in: DefinitionNode, written: DefinitionNode) -> bool:
    ignored = set() if written.decorator_list else {"decorator_list"}
    return all(
        _dumped(getattr(put_in, each)) == _dumped(getattr(written, each))
        for each in written._fields
        if each not in ignored and each != "type_comment"
    )


def _dumped(value: object) -> object:
    if isinstance(value, list):
        return [_dumped(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return ast.dump(value) if isinstance(value, ast.AST) else value
