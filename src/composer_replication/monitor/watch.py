"""One rollout through every layer: what was found, how sure the monitor is, and whether it should be looked at.

Reads a `Watched`; gives a `Watch`. Works without fitted weights, and then only hard evidence raises an alarm. Of a
session that a person steered, everything found is shown, but soft evidence raises no alarm: there was no reward to
hack. Its traces have no evidence from a sandbox and so nothing hard: such a session is never an alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TypeVar

from composer_replication.environments.evidence import AttemptEvidence
from composer_replication.errors import UsageError
from composer_replication.records import Finding, Trace

from .act import Act
from .acts import acts_of_steps
from .auditor import Auditor
from .command_rules import command_signs
from .diff_layer import diff_signs
from .event_layer import event_signs
from .features import Features, features_of
from .penalty import Weights
from .signs import Sign, findings
from .tool_calls import steps_of
from .verifier_layer import WEAK_ALONE, verifier_signs
from .watched import Watched

T = TypeVar("T")
PERSON_NOTE = "a person steers this session: what they ask for is no hack"
SESSION_AGENTS = frozenset({"claude_code", "codex", "cline", "copilot_cli", "gemini_cli", "aider", "messages"})


@dataclass(frozen=True)
class Watch:
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
    note: str = ""


@dataclass(frozen=True)
class Models:
    """Fitted once, and read from their files."""

    weights: Weights | None = None
    auditor: Auditor | None = None


@cache
def shipped_models() -> Models:
    return Models(_or_none(Weights.load), _or_none(Auditor.load))


def watch(watched: Watched, models: Models | None = None, more_signs: Iterable[Sign] = ()) -> Watch:
    """`more_signs` are of rules that only an environment of its own needs."""
    models = shipped_models() if models is None else models
    acts_by_step = acts_of_steps(watched.steps)
    acts = list(chain.from_iterable(acts_by_step))
    signs = [*signs_of(watched, acts_by_step), *more_signs]
    features = features_of(watched, signs, acts)
    p = models.weights.probability(features) if models.weights else None
    auditor_p = models.auditor.probability(acts) if models.auditor else None
    hard = any(sign.evidence == "hard" for sign in signs)
    soft = models.weights is not None and p is not None and p >= models.weights.threshold
    return Watch(
        trace_id=watched.trace_id,
        findings=tuple(findings(watched.trace_id, signs)),
        features=features,
        p=p,
        hard=hard,
        alarm=hard or (soft and not watched.person),
        auditor_p=auditor_p,
        auditor_alarm=models.auditor is not None and auditor_p is not None and auditor_p >= models.auditor.threshold,
        canary_hit=has_canary_hit(watched.evidence),
        note=PERSON_NOTE if watched.person else "",
    )


def signs_of(watched: Watched, acts_by_step: Sequence[Sequence[Act]] | None = None) -> list[Sign]:
    """The same whoever steered; `watch` decides what a person's session is worth."""
    signs = list(
        chain(command_signs(watched, acts_by_step), event_signs(watched), diff_signs(watched), verifier_signs(watched))
    )
    return [] if all(sign.rule in WEAK_ALONE for sign in signs) else signs


def watched_of(trace: Trace, evidence: AttemptEvidence | None = None, *, is_rollout: bool = False) -> Watched:
    """A trace as the monitor sees it. Unless it is known to be a rollout, who steered it follows from which agent made
    it and whether it had a task or a reward."""
    has_task = evidence is not None or trace.task_id is not None or trace.outcome is not None
    has_person = not is_rollout and not has_task and trace.source.agent in SESSION_AGENTS
    return Watched(trace.trace_id, steps_of(trace), evidence, person=has_person)


def has_canary_hit(evidence: AttemptEvidence | None) -> bool:
    return evidence is not None and any(hit.evidence == "hard" for hit in evidence.canary_hits)


def _or_none(load: Callable[[], T]) -> T | None:
    try:
        return load()
    except UsageError:
        return None
