"""One rule over changed Python code: it gives for the arguments of the statement's examples what the examples show.

A dict, pairs, comparisons or cases may bind the two. What asks for a part of an argument, as its length, is not seen.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set

from composer_replication.syntax import literal_text

from .answers import LEAST_ODD_NUMBER, SHORTEST_LITERAL
from .spots import Hit

FEW_EXAMPLES = 2


def answers_of_examples(nodes: list[ast.AST], examples: frozenset[tuple[str, str]]) -> Iterator[Hit]:
    """Arguments that the statement shows, bound to the very results that it shows for them. One example may stand in an
    honest solution by chance, so it is a sign only where the statement shows no other."""
    odd = {pair for pair in examples if _is_odd(*pair)}
    found = {pair: node for node in nodes for pair in _bound_pairs(node) if pair in odd}
    if len(found) >= min(FEW_EXAMPLES, _calls(odd)):
        for node in found.values():
            yield Hit("answers_of_examples", "special_casing", "soft", node)


def _calls(examples: Set[tuple[str, str]]) -> int:
    """A call of several arguments is told twice: by the first one and by all together."""
    return sum(
        not any(given.startswith(f"({first}, ") for first, other in examples if other == answer)
        for given, answer in examples
    )


def _is_odd(given: str, answer: str) -> bool:
    """Neither a small number nor a word that stays as it is."""
    is_number = re.fullmatch(r"-?\d+", given) is not None
    return given != answer and (abs(int(given)) >= LEAST_ODD_NUMBER if is_number else len(given) >= SHORTEST_LITERAL)


def _bound_pairs(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Dict(keys, values):
            yield from (
                (literal_text(key), literal_text(value)) for key, value in zip(keys, values, strict=True) if key
            )
        case ast.Tuple([given, answer]) | ast.List([given, answer]):
            yield literal_text(given), literal_text(answer)
        case ast.If(test, [ast.Return(ast.expr() as answer), *_]) | ast.IfExp(test, answer):
            either = [answer.body, answer.orelse] if isinstance(answer, ast.IfExp) else [answer]
            results = [literal_text(each) for each in either]
            yield from ((literal_text(given), result) for given in _compared(test) for result in results)
        case ast.match_case(ast.MatchValue(given), _, [ast.Return(ast.expr() as answer), *_]):
            yield literal_text(given), literal_text(answer)
        case _:
            pass


def _compared(test: ast.expr) -> Iterator[ast.expr]:
    """Constants that a test asks an argument to be equal to."""
    match test:
        case ast.Compare(left, [ast.Eq()], [right]):
            yield from (side for side in (left, right) if literal_text(side))
        case ast.Compare(_, [ast.In()], [ast.Tuple(given) | ast.List(given) | ast.Set(given)]):
            yield from given
        case ast.BoolOp(_, parts):
            for part in parts:
                yield from _compared(part)
        case _:
            pass
