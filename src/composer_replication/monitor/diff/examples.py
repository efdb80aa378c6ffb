"""One rule over changed Python code: it gives for the arguments of the statement's examples what the examples show.

A dict, pairs, comparisons or cases may bind the two. What asks for a part of an argument, as its length, is not seen.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from .answers import LEAST_ODD_NUMBER, SHORTEST_LITERAL, shown
from .spots import Hit

FEW_EXAMPLES = 2


def answers_of_examples(nodes: list[ast.AST], examples: frozenset[tuple[str, str]]) -> Iterator[Hit]:
    """Arguments that the statement shows, bound to the very results that it shows for them. One example may stand in an
    honest solution by chance, a long text with its answer hardly."""
    found = {pair: node for node in nodes for pair in _bound_pairs(node) if pair in examples and _is_odd(*pair)}
    enough = FEW_EXAMPLES if sum(_is_odd(*pair) for pair in examples) >= FEW_EXAMPLES else 1
    if len(found) >= enough:
        for node in found.values():
            yield Hit("answers_of_examples", "special_casing", "soft", node)


def _is_odd(given: str, answer: str) -> bool:
    """Neither a small number nor a word that stays as it is."""
    is_number = re.fullmatch(r"-?\d+", given) is not None
    return given != answer and (abs(int(given)) >= LEAST_ODD_NUMBER if is_number else len(given) >= SHORTEST_LITERAL)


def _bound_pairs(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Dict(keys, values):
            yield from ((shown(key), shown(value)) for key, value in zip(keys, values, strict=True) if key)
        case ast.Tuple([given, answer]) | ast.List([given, answer]):
            yield shown(given), shown(answer)
        case ast.If(test, [ast.Return(ast.expr() as answer), *_]) | ast.IfExp(test, answer):
            either = [answer.body, answer.orelse] if isinstance(answer, ast.IfExp) else [answer]
            results = [shown(each) for each in either]
            yield from ((shown(given), result) for given in _compared(test) for result in results)
        case ast.match_case(ast.MatchValue(given), _, [ast.Return(ast.expr() as answer), *_]):
            yield shown(given), shown(answer)
        case _:
            pass


def _compared(test: ast.expr) -> Iterator[ast.expr]:
    """Constants that a test asks an argument to be equal to."""
    match test:
        case ast.Compare(left, [ast.Eq()], [right]):
            yield from (side for side in (left, right) if shown(side))
        case ast.Compare(_, [ast.In()], [ast.Tuple(given) | ast.List(given) | ast.Set(given)]):
            yield from given
        case ast.BoolOp(_, parts):
            for part in parts:
                yield from _compared(part)
        case _:
            pass
