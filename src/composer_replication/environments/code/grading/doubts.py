"""The last run of a submission that passed something: each test in a process of its own, some of them contradicted.

Hidden tests whose verdict rests on the submission's own process (not lowered, or lowered and exposed), guards and facts
about the interpreter, all in their ordinary form: those that are contradicted (`challenge.py`) must fail, the others
pass again.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from ..tasks.task import TaskFolder
from ..tasks.test_ids import file_of
from .challenge import Challenge, draw_challenge
from .contradict import function_names
from .orders import drawn_facts, known_texts, shown_texts
from .recorded import Recorded
from .reward import challenge_objections
from .trusted_run import Order, RunOutcome

HIDDEN_SHARE = 0.6
GUARD_SHARE = 0.5
FACT_SHARE = 0.5
MAX_GUARDS = 16


@dataclass(frozen=True)
class Doubts:
    order: Order
    challenge: Challenge

    def objections(self, outcome: RunOutcome) -> tuple[str, ...]:
        return challenge_objections(self.challenge, outcome)


def draw_doubts(task: TaskFolder, recorded: Recorded, passed: frozenset[str], draw: Random) -> Doubts:
    """`passed` are hidden tests."""
    doubted = tuple(test for test in task.code_task.hidden_tests if test in passed and recorded.rests_on_process(test))
    guards = tuple(draw.sample(task.code_task.guard_tests, min(MAX_GUARDS, len(task.code_task.guard_tests))))
    facts = drawn_facts(task, draw)
    fact_ids = facts.tests(sorted(function_names(facts.text)))
    known = known_texts(task) | shown_texts(task, hidden_too=bool(doubted)) | {facts.path: facts.text}
    groups = ((doubted, HIDDEN_SHARE), (guards, GUARD_SHARE), (fact_ids, FACT_SHARE))
    challenge = draw_challenge(known, groups, draw)
    tests = (*doubted, *guards, *fact_ids)
    files = tuple(sorted({file_of(test) for test in tests}))
    return Doubts(Order(tests, files, {**known, **challenge.texts}, isolated=True), challenge)
