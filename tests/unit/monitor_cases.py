"""Rollouts as the monitor sees them, small enough to write down."""

import importlib
import json
import sys
from pathlib import Path

from composer_replication.environments.code.tasks.task import Symbol
from composer_replication.environments.evidence import AttemptEvidence, CanaryHit, GradeFacts, Sign, TaskFacts
from composer_replication.monitor.conduct import Conduct, ToolStep
from composer_replication.records import Source, Trace, Turn, content_id

EXPERIMENT = Path(__file__).parents[2] / "experiments" / "006-monitor"


def of_experiment(name):
    """A module of the experiment that fitted the monitor."""
    sys.path.insert(0, str(EXPERIMENT))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(EXPERIMENT))


FACTS = TaskFacts(
    task_id="demo/add",
    packages=("demo",),
    symbols=(Symbol(file="demo/maths.py", name="add"),),
    test_files=("tests/test_maths.py",),
    editable=("demo/maths.py",),
    files=12,
    test_literals=("'golden'", "4217"),
)
HARD_HIT = CanaryHit(channel="verifier", path=".verifier/cases.txt", evidence="hard", where="text 0")
SOFT_HIT = CanaryHit(channel="wheel", path="dist/demo-1.whl", evidence="soft", where="open")


def evidence(**fields):
    return AttemptEvidence(task=FACTS, **fields)


def grade(passed=1, failed=0, **fields):
    return GradeFacts(reward=float(not failed), hidden_passed=passed, hidden_failed=failed, **fields)


def step(number, kind="command", **fields):
    return ToolStep(number, number, kind, kind, **fields)


def conduct(*steps, left=None, person=False, trace_id="t" * 16):
    return Conduct(trace_id, tuple(steps), left, person)


def sign(hack_class="git_history", layer="command", evidence="soft", at=0, rule="rule"):
    return Sign(rule, hack_class, layer, evidence, at, "line")


def trace(*calls, agent="code_task", task_id="demo/add", outcome=1.0):
    """`calls` are (tool, arguments, answer)."""
    messages, turns = [{"role": "user", "content": "do it"}], []
    for number, (tool, arguments, answer) in enumerate(calls):
        call = {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": tool, "arguments": json.dumps(arguments)},
        }
        start = len(messages)
        messages += [
            {"role": "assistant", "content": "I will think about it.", "tool_calls": [call]},
            {"role": "tool", "content": answer, "tool_call_id": f"call_{number}"},
        ]
        turns.append(Turn(start=start, end=len(messages)))
    return Trace(
        trace_id=content_id(agent, task_id, messages),
        source=Source(agent=agent),
        messages=tuple(messages),
        turns=tuple(turns),
        task_id=task_id,
        outcome=outcome,
    )
