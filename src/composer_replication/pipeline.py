"""The sentence: ingest → sites → hint → replay → pair → train → evaluate.

Each function below is one stage: it reads the records of earlier stages from the run directory, calls the package that
does the work, and finishes its own folder. Nothing is handed over in memory, so any stage can be run, resumed, looked
at or replaced alone. `policy` comes first where a policy is needed: it makes the starting model.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .environments.toolbox import task_by_id, task_stream, trace_of
from .errors import UsageError
from .hints import write_hints
from .ingestion import ReadResult, ingest_paths
from .ingestion.embedded import EMBEDDED_LICENCE, embedded_session
from .pairs import extract_dpo_pairs
from .progress import Progress
from .records import ErrorSite, Hint, PreferencePair, TeacherReply, Trace
from .replay import Teacher, replay_states, states_to_ask
from .runs import Run, read_records, write_atomically, write_records
from .sites import find_sites

if TYPE_CHECKING:
    from .training.models import Policy

FIRST_ROLLOUT_TASK = 200_000_000
TASKS_PER_SEED = 1_000_000


class Stage(NamedTuple):
    noun: str
    what: str
    work: Callable[[Run, Progress], None]


def prepare_policy(run: Run, progress: Progress) -> None:
    """Load or build the model and warm it up on noisy old logs. The warm-up is never counted as a gain."""
    from .training.models import load_policy
    from .training.warmup import warm_up

    config, started = run.config, time.monotonic()
    policy = load_policy(config.model.name, config.toolbox, config.seed)
    losses: list[float] = []

    def on_step(step: int, loss: float) -> None:
        losses.append(loss)
        progress.step(step, config.warmup.steps, f"loss {loss:.2f}")

    warm_up(policy.model, policy.tokens, config.toolbox, config.warmup, config.seed, on_step)
    policy.save(run.path / "policy" / "model")
    counts = {"steps": len(losses), "parameters": sum(p.numel() for p in policy.model.parameters())}
    run.stage("policy").finish([], counts, [], started)


def ingest(run: Run, progress: Progress) -> None:
    """Session files and the policy's own toolbox rollouts become traces."""
    config, started = run.config.ingestion, time.monotonic()
    with ExitStack() as stack:
        paths = [Path(path) for path in config.paths]
        found = ingest_paths(paths) if paths else ReadResult()
        sessions = list(found.traces)
        if config.embedded_session:
            shipped = ingest_paths([stack.enter_context(embedded_session())])
            found.skipped.update(shipped.skipped)
            sessions += [_with_licence(trace) for trace in shipped.traces]
    rollouts = _play(run, progress) if config.rollouts else []
    counts = {
        "sessions": len(sessions),
        "rollouts": len(rollouts),
        "turns": sum(len(trace.turns) for trace in [*sessions, *rollouts]),
        "quarantined": [vars(item) for item in found.quarantined],
        "skipped": dict(found.skipped),
    }
    inputs = [run.stage("policy")] if config.rollouts else []
    run.stage("ingestion").finish([*sessions, *rollouts], counts, inputs, started)


def locate(run: Run, progress: Progress) -> None:
    """Turns where something went wrong."""
    started, traces = time.monotonic(), run.stage("ingestion").read(Trace)
    sites = [site for trace in traces for site in find_sites(trace)]
    counts = {
        "sites": len(sites),
        "kinds": dict(Counter(site.error_kind for site in sites)),
        "faults": dict(Counter(site.fault for site in sites)),
    }
    run.stage("sites").finish(sites, counts, [run.stage("ingestion")], started)


def hint(run: Run, progress: Progress) -> None:
    """A short reminder for each site."""
    started = time.monotonic()
    traces = {trace.trace_id: trace for trace in run.stage("ingestion").read(Trace)}
    hints, dropped = write_hints(traces, run.stage("sites").read(ErrorSite), run.config.hints.max_tokens)
    counts = {
        "hints": len(hints),
        "layers": dict(Counter(hint.layer for hint in hints)),
        "leak_levels": dict(Counter(hint.leak_level for hint in hints)),
        "dropped": dict(dropped),
    }
    run.stage("hints").finish(hints, counts, [run.stage("ingestion"), run.stage("sites")], started)


def replay(run: Run, progress: Progress) -> None:
    """What each teacher would have done at the error states."""
    from .llm.ledger import Ledger

    started, config = time.monotonic(), run.config.replay
    traces = run.stage("ingestion").read(Trace)
    states = states_to_ask(traces, run.stage("sites").read(ErrorSite), config.max_states)
    ledger = Ledger(run.path / "ledger.sqlite")
    with _teachers(run, traces) as teachers:
        replies = replay_states(states, teachers, ledger, config, lambda done, total: progress.step(done, total))
    counts = {
        "states": len(states),
        "replies": len(replies),
        "outcomes": dict(Counter(reply.outcome for reply in replies)),
        "simulated": config.simulated,
        "spent_micros": ledger.spent_micros(),
    }
    ledger.close()
    run.stage("replay").finish(replies, counts, [run.stage("ingestion"), run.stage("sites")], started)


def pair(run: Run, progress: Progress) -> None:
    """What the teachers agree on, over what the actor did."""
    started = time.monotonic()
    traces, replies = run.stage("ingestion").read(Trace), run.stage("replay").read(TeacherReply)
    pairs, verdicts = extract_dpo_pairs(traces, replies, run.config.model.name)
    counts = {"pairs": len(pairs), "verdicts": dict(verdicts)}
    run.stage("pairs").finish(pairs, counts, [run.stage("ingestion"), run.stage("replay")], started)


def train(run: Run, progress: Progress) -> None:
    """GRPO + alpha · SDPO + beta · TR-DPO, from the warmed-up policy."""
    from .training.card import model_card
    from .training.examples import build_examples
    from .training.stored import TokenizedTrace
    from .training.train import train as train_policy

    started, config = time.monotonic(), run.config
    inputs = [run.stage(noun) for noun in ("ingestion", "sites", "hints", "pairs")]
    sites = {site.site_id: site for site in inputs[1].read(ErrorSite)}
    hints, pairs = inputs[2].read(Hint), inputs[3].read(PreferencePair)
    if not run.stage("policy").is_done:
        run_stage(run, "policy", progress)
    policy = _load(run, "policy")
    tokens_file = run.path / "training" / "tokens" / "rollouts.jsonl.zst"
    tokenized = list(read_records(tokens_file, TokenizedTrace)) if tokens_file.exists() else []
    examples, skipped = build_examples(policy.tokens, tokenized, sites, hints, pairs, config.training.max_tokens)
    folder = run.path / "training"
    steps = train_policy(policy, config, examples, folder / "scratch", progress)
    policy.save(folder / "model")
    counts = {
        "steps": len(steps),
        "stored_traces": len(examples),
        "hinted_sites": sum(len(example.sites) for example in examples),
        "pairs": sum(len(example.pairs) for example in examples),
        "skipped": dict(skipped),
    }
    write_atomically(folder / "model" / "README.md", model_card(config, counts))
    run.stage("training").finish(steps, counts, [run.stage("policy"), *inputs], started)


def evaluate(run: Run, progress: Progress) -> None:
    """Held-out success of the policy just before and after training, and the report."""
    from .evaluation.compare import PHASES, TaskOutcome, evaluate_policy
    from .evaluation.summary import write_report

    started, config = time.monotonic(), run.config
    run.stage("training").require()
    policies = {"before": _load(run, "policy"), "after": _load(run, "training")}
    outcomes: list[TaskOutcome] = []
    for done, (phase, split) in enumerate(product(PHASES, config.evaluation.splits), start=1):
        outcomes += evaluate_policy(policies[phase], config, phase, split)
        progress.step(done, len(PHASES) * len(config.evaluation.splits), f"{split}, {phase}")
    run.stage("evaluation").finish(outcomes, {"episodes": len(outcomes)}, [run.stage("training")], started)
    write_report(run)


STAGES: tuple[Stage, ...] = (
    Stage("policy", "warm up the policy", prepare_policy),
    Stage("ingestion", "collect traces", ingest),
    Stage("sites", "find error sites", locate),
    Stage("hints", "write hints", hint),
    Stage("replay", "ask the teachers", replay),
    Stage("pairs", "vote on pairs", pair),
    Stage("training", "train with three channels", train),
    Stage("evaluation", "measure held-out success", evaluate),
)


def run_stage(run: Run, noun: str, progress: Progress) -> bool:
    """Do one stage unless it is done already; tells which."""
    stage = next(stage for stage in STAGES if stage.noun == noun)
    if run.stage(noun).is_done:
        progress.note(f"{noun}: kept, finished earlier")
        return False
    progress.stage(noun, stage.what)
    stage.work(run, progress)
    return True


def run_pipeline(run: Run, progress: Progress) -> None:
    """Every stage in order, from the first one that is not finished."""
    if any(run.stage(stage.noun).is_done for stage in STAGES):
        progress.note(f"resuming {run.path}")
    for stage in STAGES:
        run_stage(run, stage.noun, progress)


def _play(run: Run, progress: Progress) -> list[Trace]:
    """Toolbox rollouts of the starting policy; their sampled ids are kept for training."""
    import torch

    from .training.rollouts import roll_out

    config = run.config
    policy = _load(run, "policy")
    first = FIRST_ROLLOUT_TASK + config.seed * TASKS_PER_SEED
    tasks = list(islice(task_stream(config.toolbox, "train", first), config.ingestion.rollouts))
    rollouts = roll_out(
        policy.model,
        policy.tokens,
        tasks,
        max_turn_tokens=config.training.max_turn_tokens,
        temperature=config.training.temperature,
        generator=torch.Generator(device=policy.model.device).manual_seed(config.seed),
    )
    traces = [trace_of(rollout.episode, config.model.name, sample) for sample, rollout in enumerate(rollouts)]
    fingerprint = policy.tokenizer_fingerprint
    rows = [rollout.stored(trace.trace_id, fingerprint) for trace, rollout in zip(traces, rollouts, strict=True)]
    write_records(run.path / "training" / "tokens" / "rollouts.jsonl.zst", rows)
    progress.note(f"{len(traces)} rollouts, {sum(trace.outcome or 0 for trace in traces):.0f} solved")
    return traces


@contextmanager
def _teachers(run: Run, traces: list[Trace]) -> Generator[list[Teacher]]:
    from .environments.toolbox.teachers import SimulatedTeachers, teacher_names

    config = run.config.replay
    if not config.simulated:
        if not config.base_url or not config.teachers:
            raise UsageError("replay.base_url and replay.teachers are not set", "set both in the config file")
        yield [Teacher(name, config.base_url) for name in config.teachers]
        return
    tasks = [task_by_id(run.config.toolbox, trace.task_id) for trace in traces if trace.task_id]
    with SimulatedTeachers(tasks, config.simulated_error_rates, run.config.seed) as server:
        names = teacher_names(config.simulated_error_rates)
        yield [Teacher(name, server.base_url, simulated=True) for name in names]


def _load(run: Run, noun: str) -> Policy:
    from .training.models import load_saved_policy

    return load_saved_policy(run.path / noun / "model", run.config.model.name)


def _with_licence(trace: Trace) -> Trace:
    return trace.model_copy(update={"source": trace.source.model_copy(update={"licence": EMBEDDED_LICENCE})})
