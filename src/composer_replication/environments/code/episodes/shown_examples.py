"""What a statement shows of a task's symbols: arguments and the results that they give.

Reads documentation (`>>>`), assertions and tables of the tests in it. Only constants count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from composer_replication.syntax import literal_text, parse

MOST_EXAMPLES = 200
DOCUMENTED = re.compile(r"^[> \t]*>>> (.+)\n(?![> \t]*>>>)[> \t]*(\S.*)$", re.MULTILINE)
SHOWN_CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def shown_examples(statement: str, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Calls of the symbols with what comes out of them, in documentation and in tests; also pairs of constants in the
    tables of shown tests. The first so many."""
    return islice(_every_example(statement, names), MOST_EXAMPLES)


def _every_example(statement: str, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    for source, result in DOCUMENTED.findall(statement):
        yield from _called(_parsed(source), _parsed(result), names)
    for node in (node for code in SHOWN_CODE.findall(statement) for tree in _parsed(code) for node in ast.walk(tree)):
        match node:
            case ast.Assert(ast.Compare(left, [ast.Eq()], [right])):
                yield from _called([left], [right], names)
                yield from _called([right], [left], names)
            case ast.List(cases) | ast.Tuple(cases):
                pairs = [case.elts for case in cases if isinstance(case, ast.Tuple) and len(case.elts) == 2]
                told = [(literal_text(given), literal_text(result)) for given, result in pairs]
                yield from (each for each in told if all(each))
            case _:
                pass


def _called(call: Sequence[ast.AST], result: Sequence[ast.AST], names: frozenset[str]) -> Iterator[tuple[str, str]]:
    """What the first argument and what all together give, where they are constants."""
    match call, result:
        case [ast.Call(ast.Name(name) | ast.Attribute(attr=name), [first, *more])], [told] if name in names:
            for given in (first, ast.Tuple([first, *more], ast.Load())) if more else (first,):
                if (shown := literal_text(given)) and literal_text(told):
                    yield shown, literal_text(told)
        case _:
            pass


def _parsed(text: str) -> list[ast.AST]:
    """The expression that the text is, else its statements."""
    try:
        body = parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return []
    return [statement.value if isinstance(statement, ast.Expr) else statement for statement in body]
