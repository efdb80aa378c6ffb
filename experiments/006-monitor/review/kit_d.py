"""Helpers of a careful agent: calls, small edits, and texts that are filled with the facts of a task."""

import ast
import difflib
import doctest
import random
from pathlib import PurePosixPath
from textwrap import dedent

from cases import Call, Known


def bash(command: str) -> Call:
    return "bash", {"command": command}


def read(path: str, start: int = 0, lines: int = 0) -> Call:
    arguments: dict[str, object] = {"path": path}
    if start:
        arguments["start"] = start
    if lines:
        arguments["lines"] = lines
    return "read_file", arguments


def write(path: str, content: str) -> Call:
    return "write_file", {"path": path, "content": content}


def run_tests(known: Known) -> Call:
    return "run_tests", {"ids": [known.visible_tests[0]]} if known.visible_tests else {}


SUBMIT: Call = ("submit", {})


def dotted(known: Known) -> str:
    parts = list(PurePosixPath(known.module_file).with_suffix("").parts)
    if parts[0] in ("src", "lib"):
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def top(known: Known) -> str:
    return known.symbols[0].split(".")[0]


def leaf(known: Known) -> str:
    return known.symbols[0].split(".")[-1]


def python(known: Known) -> str:
    """The interpreter, with the tree on its path."""
    root = PurePosixPath(known.module_file).parts[0]
    return f"PYTHONPATH={root if root in ('src', 'lib') else '.'} python"


def tests_folder(known: Known) -> str:
    return str(PurePosixPath(known.visible_tests[0]).parent) if known.visible_tests else "tests"


def a_test(known: Known, rng: random.Random) -> str:
    return rng.choice(known.visible_tests) if known.visible_tests else "tests"


def fill(known: Known, text: str, **more: object) -> str:
    """A dedented text with @MODULE@, @TOP@, @LEAF@, @FILE@, @PACKAGE@, @TESTS@, @PY@ and own words put in."""
    words = {
        "MODULE": dotted(known),
        "TOP": top(known),
        "LEAF": leaf(known),
        "FILE": known.module_file,
        "PACKAGE": known.package,
        "TESTS": tests_folder(known),
        "PY": python(known),
        **more,
    }
    text = dedent(text).lstrip("\n")
    for word, value in words.items():
        text = text.replace(f"@{word}@", str(value))
    return text


def sh(known: Known, text: str, **more: object) -> Call:
    return bash(fill(known, text, **more).rstrip("\n"))


def put(known: Known, path: str, text: str, **more: object) -> Call:
    return write(fill(known, path, **more), fill(known, text, **more))


def _blocks(known: Known) -> list[tuple[int, int, int, int]]:
    old, new = known.module_text.splitlines(True), known.gold_text.splitlines(True)
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [(a, b, c, d) for tag, a, b, c, d in codes if tag != "equal"]


def edits(known: Known, most: int = 2) -> list[Call]:
    """The solution in small edits, or as a whole file where those would be too many."""
    blocks = _blocks(known)
    if not blocks or len(blocks) > most:
        return [write(known.module_file, known.gold_text)]
    old, new = known.module_text.splitlines(True), known.gold_text.splitlines(True)
    calls: list[Call] = []
    for a, b, c, d in reversed(blocks):
        before, after = 0, 0
        while True:
            piece = "".join(old[a - before : b + after])
            if piece and known.module_text.count(piece) == 1:
                break
            if a - before > 0 and before <= after:
                before += 1
            elif b + after < len(old):
                after += 1
            elif a - before > 0:
                before += 1
            else:
                return [write(known.module_file, known.gold_text)]
        replacement = "".join(old[a - before : a] + new[c:d] + old[b : b + after])
        calls.append(("edit_file", {"path": known.module_file, "old": piece, "new": replacement}))
    return calls


def solve(known: Known) -> Call:
    """The solution in one call."""
    return edits(known, 1)[0]


def solve_and(known: Known, extra: str) -> Call:
    """The solution with more at the end of the file."""
    return write(known.module_file, known.gold_text.rstrip("\n") + "\n\n\n" + fill(known, extra))


def gold_node(known: Known) -> ast.AST | None:
    for node in ast.walk(ast.parse(known.gold_text)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and node.name == leaf(known):
            return node
    return None


def examples(known: Known, most: int = 4) -> list[tuple[str, str]]:
    """Expressions and their results from the documentation of the first symbol."""
    node = gold_node(known)
    docstring = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None
    found: list[tuple[str, str]] = []
    try:
        parsed = doctest.DocTestParser().get_examples(docstring or "")
    except ValueError:
        parsed = []
    for example in parsed:
        source, want = example.source.strip(), example.want.strip()
        if want and "\n" not in source + want and "Traceback" not in want and _is_expression(source):
            found.append((source.split("  #")[0].strip(), want))
    return found[:most]


def _is_expression(source: str) -> bool:
    try:
        ast.parse(source, mode="eval")
    except SyntaxError:
        return False
    return True


def probe(known: Known) -> str:
    """A line of Python that shows how the symbol behaves."""
    found = examples(known, 1)
    return f"print({found[0][0]})" if found else f"print(callable({top(known)}), {top(known)}.__doc__)"
