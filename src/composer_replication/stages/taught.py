"""What training learns from, shard by shard: traces with the sites, hints and pairs that are about them.

Reads the finished stages of a run and writes `RUN/training/tokens`;
the examples themselves lie in a file without a name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from composer_replication.errors import UsageError
from composer_replication.progress import Progress, Silent
from composer_replication.records import ErrorSite, Hint, PreferencePair, Trace
from composer_replication.runs import Run, Shard

from .held_out import held_out_of
from .ingestion import rollout_tokens
from .sharding import shards_together

if TYPE_CHECKING:
    from composer_replication.training.models.loading import Policy
    from composer_replication.training.stored.example_file import StoredExamples
    from composer_replication.training.stored.sessions import RenderedSessions


class Examples(NamedTuple):
    stored: StoredExamples
    sessions: RenderedSessions
    skipped: Counter[str]
    """What could not be used, by reason."""
    held_out: set[str]
    sources: Counter[str]
    """Traces that something is learnt from, by the agent that made them."""


def make_examples(
    run: Run, policy: Policy, max_tokens: int, folder: Path, progress: Progress | None = None
) -> Examples:
    """At most a shard of the run is in memory, and the rows of one trace."""
    from composer_replication.training.processes import is_main
    from composer_replication.training.stored.example_file import StoredExamples
    from composer_replication.training.stored.examples import build_examples
    from composer_replication.training.stored.policy_gradient import advantages
    from composer_replication.training.stored.sessions import RenderedSessions

    rows = {row.trace_id: row for row in rollout_tokens(run)}
    if any(row.tokenizer != policy.tokenizer_fingerprint for row in rows.values()):
        raise UsageError("the rollouts were made with another tokenizer", "start another run")
    compared: dict[str, float] = {}
    if rows and not run.config.training.rollouts:
        own = list(run.stage("ingestion").stream(Trace, only=rows))
        compared = dict(zip((trace.trace_id for trace in own), advantages(own), strict=True))
    sessions = RenderedSessions(policy, max_tokens, folder / "tokens" if is_main() else None)
    stored, skipped, held_out = StoredExamples.in_folder(folder), Counter[str](), held_out_of(run)
    done, total = 0, run.stage("ingestion").require()["records"] if run.stage("ingestion").is_done else 0
    sources: Counter[str] = Counter()
    what = f"traces looked through, {len(held_out)} of them held out" if held_out else "traces looked through"
    for taught in taught_by_shard(run, held_out, compared):
        added, lost = build_examples(
            policy.tokens,
            [rows[trace.trace_id] for trace in taught.traces if trace.trace_id in rows],
            taught.sites,
            taught.hints,
            taught.pairs,
            max_tokens,
            taught.advantages,
            taught.traces,
            sessions,
        )
        stored.add(added)
        used = {example.trace_id for example in added}
        sources.update(trace.source.agent for trace in taught.traces if trace.trace_id in used)
        skipped += lost
        done += taught.looked_at
        (progress or Silent()).step(done, total, what)
    return Examples(stored.by_trace(), sessions, skipped, held_out, sources)


class Taught(NamedTuple):
    traces: list[Trace]
    """Those with something to learn from."""
    sites: dict[str, ErrorSite]
    hints: list[Hint]
    pairs: list[PreferencePair]
    advantages: dict[str, float]
    looked_at: int
    """Traces of the shard."""


def taught_by_shard(run: Run, held_out: Container[str], advantages: Mapping[str, float]) -> Iterator[Taught]:
    """Stages that are not done teach nothing. Sessions that are held out are left out."""
    ingestion, sites, hints, paired = (run.stage(noun) for noun in ("ingestion", "sites", "hints", "pairs"))
    if not ingestion.is_done:
        return
    pairs: dict[str, list[PreferencePair]] = defaultdict(list)
    for pair in paired.stream(PreferencePair) if paired.is_done else ():
        pairs[pair.trace_id].append(pair)
    is_hinted = sites.is_done and hints.is_done
    stages = (ingestion, sites, hints) if is_hinted else (ingestion, sites) if sites.is_done else (ingestion,)
    for traces_here, *others in shards_together(*stages):
        found = list(sites.stream(ErrorSite, others[0])) if others else []
        reminders = list(hints.stream(Hint, others[1])) if is_hinted else []
        by_id = {site.site_id: site for site in found}
        wanted = {by_id[hint.site_id].trace_id for hint in reminders} | pairs.keys() | advantages.keys()
        traces = [trace for trace in _traces(run, traces_here, wanted) if trace.trace_id not in held_out]
        here = {trace.trace_id for trace in traces}
        yield Taught(
            traces,
            by_id,
            [hint for hint in reminders if by_id[hint.site_id].trace_id in here],
            [pair for trace in traces for pair in pairs.get(trace.trace_id, ())],
            {trace_id: advantages[trace_id] for trace_id in here if trace_id in advantages},
            traces_here.records,
        )


def _traces(run: Run, shard: Shard, wanted: Container[str]) -> Iterator[Trace]:
    return run.stage("ingestion").stream(Trace, shard, only=wanted)
