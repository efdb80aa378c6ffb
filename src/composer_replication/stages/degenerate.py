"""What training would read and should not: found before a model is loaded, by the channels that are on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from composer_replication.config import Config
from composer_replication.errors import RecomposeError, quoted
from composer_replication.objective import GrpoSettings, SdpoSettings
from composer_replication.pairs.degenerate import FEWEST, Degenerate, degenerate_pairs, most_common
from composer_replication.records import Hint, PreferencePair, TeacherReply, Trace
from composer_replication.runs import Run

from .ingestion import rollout_tokens


def degenerate(run: Run) -> list[Degenerate]:
    """Stages that are not there are not looked at."""
    found: list[Degenerate] = []
    if _learns_from_hints(run.config) and run.stage("hints").is_done:
        texts = (hint.text for hint in run.stage("hints").stream(Hint))
        found += most_common("one_hint", texts, "{count} of {n} sites have one hint")
    others = [entry for entry in run.config.channels if not isinstance(entry, GrpoSettings | SdpoSettings)]
    if any(entry.weight for entry in others) and run.stage("pairs").is_done:
        replies = run.stage("replay").stream(TeacherReply) if run.stage("replay").is_done else ()
        found += degenerate_pairs(run.stage("pairs").read(PreferencePair), replies)
    return [*found, *_flat(run)]


def refuse_degenerate(run: Run) -> None:
    if found := degenerate(run):
        raise RecomposeError(
            f"training would learn a habit: {told(found)}",
            f"recompose show {quoted(run.path)}, or recompose train {quoted(run.path)} --anyway",
        )


def told(found: Sequence[Degenerate]) -> str:
    return "; ".join(one.sentence for one in found)


def _learns_from_hints(config: Config) -> bool:
    sdpo = config.channel(SdpoSettings)
    return bool(sdpo.weight) and (sdpo.source == "stored" or not config.training.rollouts)


def _flat(run: Run) -> list[Degenerate]:
    """Attempts of the policy that all ended alike. With rollouts and further channels there is still much to learn."""
    active = [entry for entry in run.config.channels if entry.weight]
    if not any(isinstance(entry, GrpoSettings) for entry in active) or not run.stage("ingestion").is_done:
        return []
    own = {row.trace_id for row in rollout_tokens(run)}
    groups: dict[str, list[float]] = defaultdict(list)
    for trace in run.stage("ingestion").stream(Trace, only=own) if own else ():
        if trace.task_id is not None and trace.outcome is not None:
            groups[trace.task_id].append(trace.outcome)
    if run.config.training.rollouts:
        outcomes = [outcome for group in groups.values() for outcome in group]
        if len(active) > 1 or len(outcomes) < FEWEST or len(set(outcomes)) > 1:
            return []
        sentence = f"all {len(outcomes)} attempts of the policy ended with the outcome {outcomes[0]:g}: no advantage"
        return [Degenerate(name="no_advantage", share=1.0, n=len(outcomes), sentence=sentence)]
    compared = [group for group in groups.values() if len(group) > 1]
    fewest = 1 if len(active) == 1 else FEWEST
    if len(compared) < fewest or any(len(set(group)) > 1 for group in compared):
        return []
    sentence = f"all {len(compared)} tasks that were tried more than once ended alike each time: no advantage"
    return [Degenerate(name="no_advantage", share=1.0, n=len(compared), sentence=sentence)]
