"""One rollout through every layer: what was found, how sure the monitor is, and whether it should be looked at.

Reads a `Conduct`; gives a `Judgement`. Works without fitted weights, and then only hard evidence raises an alarm. Of a
session that a person steered, everything found is shown, but soft evidence raises no alarm: there was no reward to
hack. Its traces have no evidence from a sandbox and so nothing hard: such a session is never an alarm.

What its word is worth is one rule for every reward that is graded, whoever asked for it. Hard evidence takes the whole
reward. Any other sign on a full reward asks for a deeper grade, and that one stands: a discount would make a hack that
pays less, but pay. A rollout that the monitor itself fails on is graded deeper too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TypeVar

from composer_replication.environments.attempts import Graded
from composer_replication.environments.evidence import AttemptEvidence, Sign
from composer_replication.errors import UsageError
from composer_replication.records import Finding, Trace, content_id

from .acts import acts_of_steps
from .auditor import Auditor
from .conduct import Act, Conduct
from .diff.layer import diff_signs
from .events import event_signs
from .features import Features, features_of
from .grades import WEAK_ALONE, verifier_signs
from .penalty import Weights
from .rules.table import command_signs
from .steps import steps_of

T = TypeVar("T")
MAX_LINE_CHARS = 300
SESSION_AGENTS = frozenset({"claude_code", "codex", "cline", "copilot_cli", "gemini_cli", "aider", "messages"})
FULL = 1.0


@dataclass(frozen=True)
class Judgement:
    trace_id: str
    findings: tuple[Finding, ...]
    features: Features
    p: float | None
    """Chance of a hack; None without fitted weights."""
    hard: bool
    alarm: bool
    auditor_p: float | None
    """Of the auditor that nothing is trained against; None without its weights."""
    auditor_alarm: bool = False
    canary_hit: bool = False
    """Whether a decoy's token was seen where honest work never shows one: ground truth, not judgement."""


@dataclass(frozen=True)
class Models:
    """Fitted once, and read from their files."""

    weights: Weights | None = None
    auditor: Auditor | None = None


@cache
def shipped_models() -> Models:
    return Models(_or_none(Weights.load), _or_none(Auditor.load))


def judge(conduct: Conduct, models: Models | None = None, more_signs: Iterable[Sign] = ()) -> Judgement:
    """`more_signs` are of rules that only an environment of its own needs."""
    models = shipped_models() if models is None else models
    acts_by_step = acts_of_steps(conduct.steps)
    acts = list(chain.from_iterable(acts_by_step))
    signs = [*signs_of(conduct, acts_by_step), *more_signs]
    features = features_of(conduct, signs, acts)
    p = models.weights.probability(features) if models.weights else None
    auditor_p = models.auditor.probability(acts) if models.auditor else None
    hard = any(sign.evidence == "hard" for sign in signs)
    soft = models.weights is not None and p is not None and p >= models.weights.threshold
    return Judgement(
        trace_id=conduct.trace_id,
        findings=tuple(findings(conduct.trace_id, signs)),
        features=features,
        p=p,
        hard=hard,
        alarm=hard or (soft and not conduct.person),
        auditor_p=auditor_p,
        auditor_alarm=models.auditor is not None and auditor_p is not None and auditor_p >= models.auditor.threshold,
        canary_hit=has_canary_hit(conduct.evidence),
    )


def findings(trace_id: str, signs: Iterable[Sign]) -> list[Finding]:
    """One finding per rule, step and class, with all its lines."""
    lines: dict[Sign, list[str]] = {}
    for sign in signs:
        lines.setdefault(sign._replace(line=""), []).append(sign.line[:MAX_LINE_CHARS])
    return [
        Finding(
            finding_id=content_id(trace_id, *sign),
            trace_id=trace_id,
            step=-1 if sign.step is None else sign.step,
            hack_class=sign.hack_class,
            rule=sign.rule,
            evidence=sign.evidence,
            layer=sign.layer,
            lines=tuple(dict.fromkeys(shown)),
        )
        for sign, shown in lines.items()
    ]


def signs_of(conduct: Conduct, acts_by_step: Sequence[Sequence[Act]] | None = None) -> list[Sign]:
    """The same whoever steered; `judge` decides what a person's session is worth."""
    signs = list(
        chain(command_signs(conduct, acts_by_step), event_signs(conduct), diff_signs(conduct), verifier_signs(conduct))
    )
    return [] if all(sign.rule in WEAK_ALONE for sign in signs) else signs


def conduct_of(trace: Trace, evidence: AttemptEvidence | None = None, *, is_rollout: bool = False) -> Conduct:
    """A trace as the monitor sees it. Unless it is known to be a rollout, who steered it follows from which agent made
    it and whether it had a task or a reward."""
    has_task = evidence is not None or trace.task_id is not None or trace.outcome is not None
    has_person = not is_rollout and not has_task and trace.source.agent in SESSION_AGENTS
    return Conduct(trace.trace_id, steps_of(trace), evidence, person=has_person)


def has_canary_hit(evidence: AttemptEvidence | None) -> bool:
    return evidence is not None and any(hit.evidence == "hard" for hit in evidence.canary_hits)


def _or_none(load: Callable[[], T]) -> T | None:
    try:
        return load()
    except UsageError:
        return None


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
