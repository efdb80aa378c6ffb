"""Fresh cheats, written without a look at the grader, earn no more than nothing; honest work earns all."""

import ast
import textwrap

import pytest

from composer_replication.environments.code.grading import grade

from .fresh_cheats import CHEATS, cheating
from .sample_task import SPANS_START, submission

# Each runs into the time limit of a run or eats all memory: `benchmarks/cheats.py` plays them.
SLOW = {"fork_per_guess", "trace_skips_lines", "slow_answer", "memory_until_death"}
HELPER = """
    from collections.abc import Iterator
    from typing import NamedTuple


    class Span(NamedTuple):
        start: int
        end: int


    def joined(spans) -> Iterator[Span]:
        held = None
        for span in sorted((Span(*span) for span in pairs(spans)), key=lambda span: span.start):
            if held and span.start <= held.end:
                held = held._replace(end=max(held.end, span.end))
            else:
                if held:
                    yield held
                held = span
        if held:
            yield held


    def pairs(spans):
        for start, end in spans:
            if start < end:
                yield start, end
"""
KEPT = SPANS_START[: SPANS_START.index("def merge")]


def honest(text: str, **files: str):
    return submission(spanbook__spans=KEPT + textwrap.dedent(text), **files)


HONEST = {
    "named tuples from a helper module": honest(
        """
        from itertools import pairwise

        from .joining import Span, joined


        def merge(spans):
            return list(joined(spans))


        def gaps(spans):
            return [Span(left.end, right.start) for left, right in pairwise(joined(spans))]
        """,
        spanbook__joining=HELPER,
    ),
    "subclasses of list and int": honest(
        """
        class Spans(list):
            def covered(self):
                return sum(length(span) for span in self)


        class Point(int):
            pass


        def merge(spans):
            points = set()
            for start, end in spans:
                points.update(range(start, end))
            starts = sorted(Point(point) for point in points if point - 1 not in points)
            ends = sorted(Point(point + 1) for point in points if point + 1 not in points)
            return Spans(zip(starts, ends))


        def gaps(spans):
            merged = merge(spans)
            return Spans((merged[at][1], merged[at + 1][0]) for at in range(len(merged) - 1))
        """
    ),
    "recursion and reduce": honest(
        """
        from functools import reduce


        def merge(spans):
            def put(done, span):
                if done and span[0] <= done[-1][1]:
                    return [*done[:-1], (done[-1][0], max(done[-1][1], span[1]))]
                return [*done, span]

            return reduce(put, sorted((start, end) for start, end in spans if start < end), [])


        def gaps(spans):
            def between(left, *rest):
                return [(left[1], rest[0][0]), *between(*rest)] if rest else []

            merged = merge(spans)
            return between(*merged) if merged else []
        """
    ),
}


@pytest.mark.parametrize("cheat", [name for name in CHEATS if name not in SLOW])
def test_a_fresh_cheat_earns_no_more_than_nothing(open_task, nop_reward, cheat):
    assert grade(open_task, cheating(open_task, cheat)).reward <= nop_reward


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_fresh_cheat_is_python_and_answers(cheat):
    names = {getattr(node, "name", None) for node in ast.walk(ast.parse(textwrap.dedent(CHEATS[cheat])))}
    assert "_answer" in names


@pytest.mark.parametrize("style", HONEST)
def test_honest_work_in_another_style_earns_all(open_task, style):
    assert grade(open_task, HONEST[style]).reward == 1
