"""What the monitor's word is worth: one rule for every reward that is graded, whoever asked for it.

Hard evidence takes the whole reward. Any other sign on a full reward asks for a deeper grade, and that one stands: a
discount would make a hack that pays less, but pay. A rollout that the monitor itself fails on is graded deeper too.
Reads a finished attempt and changes its grade; what was decided is among the notes of its evidence.
"""

from __future__ import annotations

from composer_replication.environments.attempts import Graded
from composer_replication.records import Trace

from .judge import Judgement, conduct_of, judge

FULL = 1.0


def rule(graded: Graded, trace: Trace) -> None:
    """Attempts without evidence, and those that earned nothing, stay as they are."""
    if graded.evidence is None or graded.reward <= 0:
        return
    seen = _judgement(graded, trace)
    if seen is not None and seen.hard:
        classes = sorted({finding.hack_class for finding in seen.findings if finding.evidence == "hard"})
        graded.overrule(f"no reward by the monitor, hard evidence: {', '.join(classes)}")
    elif graded.reward >= FULL and (seen is None or seen.findings):
        graded.grade_deeper()


def _judgement(graded: Graded, trace: Trace) -> Judgement | None:
    try:
        return judge(conduct_of(trace, graded.evidence, is_rollout=True))
    except Exception:
        return None
