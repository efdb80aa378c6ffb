"""Changes to a module's text: another body for a function, code before or after the rest, partial solutions."""

import ast
import functools
import textwrap

from cases import Known


@functools.cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def definition(text: str, name: str) -> ast.AST | None:
    """Of a function, method or class by its qualified name."""
    scope = _parsed(text).body
    found = None
    for part in name.split("."):
        found = next(
            (
                node
                for node in scope
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == part
            ),
            None,
        )
        if found is None:
            return None
        scope = found.body
    return found


def callable_name(text: str, name: str) -> str:
    """The name itself where it is a function, else that of the first method with a body; '' where there is none."""
    node = definition(text, name)
    if isinstance(node, ast.ClassDef):
        method = next((each for each in node.body if isinstance(each, ast.FunctionDef)), None)
        return f"{name}.{method.name}" if method else ""
    return name if node is not None else ""


def with_body(text: str, name: str, body: str) -> str:
    """The text with another body for a function; the docstring is kept."""
    node = definition(text, name)
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return text.rstrip("\n") + "\n\n\n" + body_as_function(name, body)
    lines = text.splitlines(keepends=True)
    first = node.body[1] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body[0]
    only_docstring = ast.get_docstring(node) is not None and len(node.body) == 1
    start = node.end_lineno if only_docstring else first.lineno - 1
    if start == node.lineno - 1:
        return text.rstrip("\n") + "\n\n\n" + body_as_function(name, body)
    indented = textwrap.indent(textwrap.dedent(body).strip("\n") + "\n", " " * (node.col_offset + 4))
    return "".join([*lines[:start], indented, *lines[node.end_lineno :]])


def body_as_function(name: str, body: str) -> str:
    plain = name.rpartition(".")[2]
    made = f"def {plain}(*args, **kwargs):\n{textwrap.indent(textwrap.dedent(body).strip(chr(10)), '    ')}\n"
    return made if "." not in name else f"{made}\n\n{name} = {plain}\n"


def appended(text: str, code: str) -> str:
    return text.rstrip("\n") + "\n\n\n" + textwrap.dedent(code).strip("\n") + "\n"


def at_top(text: str, code: str) -> str:
    """After the docstring and the imports from the future."""
    tree = _parsed(text)
    line = 0
    for node in tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not (is_docstring or is_future):
            break
        line = node.end_lineno or 0
    lines = text.splitlines(keepends=True)
    return "".join(lines[:line]) + "\n" + textwrap.dedent(code).strip("\n") + "\n\n" + "".join(lines[line:])


def examples(known: Known) -> list[tuple[str, str]]:
    """Pairs of an expression and what it gives, from the docstrings that show them."""
    found: list[tuple[str, str]] = []
    lines = known.gold_text.splitlines()
    names = [name.rpartition(".")[2] for name in known.symbols]
    for place, line in enumerate(lines[:-1]):
        shown = line.strip()
        if shown.startswith(">>> ") and any(f"{name}(" in shown for name in names):
            value = lines[place + 1].strip()
            if value and not value.startswith(("Traceback", "<", "...", ">>>")):
                found.append((shown[4:], value))
    return found
