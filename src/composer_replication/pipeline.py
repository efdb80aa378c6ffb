"""The sentence: ingest → sites → hint → replay → pair → train → evaluate.

Each function below is one stage: it reads the records of earlier stages from the run directory, calls the package that
does the work, and finishes its own folder. Nothing is handed over in memory, so any stage can be run, resumed, looked
at or replaced alone. `policy` comes first: it makes the model that plays, is trained and is measured.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .config import ReplayConfig
from .environments.toolbox import ToolboxTask, task_by_id
from .environments.toolbox.equivalence import ToolboxJudge
from .errors import RecomposeError, UsageError, quoted
from .hints import SiblingHintGenerator, write_hints
from .ingestion import Ingestion, Inputs, find_inputs
from .ingestion.embedded import embedded_session
from .pairs import calibrate, extract_dpo_pairs
from .progress import Progress
from .records import ErrorSite, Hint, Message, PreferencePair, TeacherReply, Trace
from .replay import Teacher, replay_states, states_to_ask
from .replay.askable import askable
from .replay.choice import configured_teachers
from .replay.gate import AskedState, Choice, StateSamples, choose_states, states_to_sample
from .runs import Run, StageFolder, encoded, read_records, write_atomically, write_records
from .sites import find_sites

if TYPE_CHECKING:
    from .training.models.loading import Policy
    from .training.stored.records import TokenizedTrace

ROLLOUT_TOKENS = "ingestion/tokens.jsonl.zst"
ASKED_STATES = "replay/states.jsonl.zst"


def prepare(run: Run, progress: Progress) -> None:
    """The starting policy, warmed up on noisy old logs. What the warm-up teaches is never counted as a gain."""
    from .training.libraries import load_libraries

    load_libraries()
    from .training.policy import prepare_policy

    started = time.monotonic()
    policy = prepare_policy(run.config, run.path / "policy" / "model", progress)
    run.stage("policy").finish([policy], policy.model_dump(), [], started)


def ingest(run: Run, progress: Progress) -> None:
    """Session files and the policy's own toolbox rollouts become traces."""
    started, config, stage = time.monotonic(), run.config.ingestion, run.stage("ingestion")
    if config.rollouts and not run.stage("policy").is_done:
        run_stage(run, "policy", progress)
    rollouts = _rollouts(run, progress) if config.rollouts else []
    with ExitStack() as stack:
        inputs = find_inputs([Path(path) for path in config.paths], config.format) if config.paths else Inputs()
        if config.embedded_session:
            inputs.files.append(stack.enter_context(embedded_session()))
        reading = Ingestion(inputs, config.redact)
        sessions = reading.chunks(stage.path / "shards", progress)
        written = stage.write_lines(chain(sessions, encoded(rollouts)))
    if not written.records:
        shutil.rmtree(stage.path)
        aside = "".join(f"; {item.file}: {item.reason}" for item in reading.quarantined[:3])
        where = ", ".join(config.paths)
        raise UsageError(f"no turn of a main agent in {where}{aside}", "recompose ingest PATH --run DIR")
    lines = (json.dumps(vars(item)) + "\n" for item in reading.quarantined)
    write_atomically(stage.path / "quarantine.jsonl", "".join(lines))
    counts = reading.counts()
    counts |= {
        "traces": counts["traces"] + len(rollouts),
        "rollouts": len(rollouts),
        "turns": counts["turns"] + sum(len(trace.turns) for trace in rollouts),
    }
    made_with = [run.stage("policy")] if rollouts else []
    stage.seal(written, counts, made_with, started, reading.hashes)


def locate(run: Run, progress: Progress) -> None:
    """Turns where something went wrong."""
    from .sites.reader import open_reader

    started, traces = time.monotonic(), run.stage("ingestion").read(Trace)
    sites: list[ErrorSite] = []
    with open_reader(run.config.sites, run.path) as reader:
        for done, trace in enumerate(traces, 1):
            found = find_sites(trace)
            sites += reader.read(trace, found) if reader else found
            if reader:
                progress.step(done, len(traces), f"{reader.tally.turns} turns read")
    if reader and reader.tally.turns and reader.tally.failed.total() == reader.tally.turns:
        reason, again = next(iter(reader.tally.failed)), f"check the server, then recompose sites {quoted(run.path)}"
        raise RecomposeError(f"no reader call was answered: {reason}", again)
    kinds, faults = Counter(site.error_kind for site in sites), Counter(site.fault for site in sites)
    counts = {"sites": len(sites), "kinds": dict(kinds), "faults": dict(faults)}
    counts |= {"reader": reader.tally.counts()} if reader else {}
    run.stage("sites").finish(sites, counts, [run.stage("ingestion")], started)


def hint(run: Run, progress: Progress) -> None:
    """A short reminder for each site."""
    from .hints.judge_client import open_judge

    started, inputs, config = time.monotonic(), [run.stage("ingestion"), run.stage("sites")], run.config.hints
    traces = {trace.trace_id: trace for trace in inputs[0].read(Trace)}
    siblings = SiblingHintGenerator(traces.values(), show_call=config.sibling == "call")
    with open_judge(config, run.path) as judge:
        written = write_hints(
            traces,
            inputs[1].read(ErrorSite),
            config.max_tokens,
            judge=judge,
            sibling=siblings if config.sibling != "off" else None,
            max_leak_level=config.max_leak_level,
        )
    if judge and judge.tally.sites and judge.tally.failed.total() == judge.tally.sites:
        reason = next(iter(judge.tally.failed))
        next_command = f"check the server, then recompose hint {quoted(run.path)}"
        raise RecomposeError(f"no judge call was answered: {reason}", next_command)
    counts = written.counts() | ({"judge": judge.tally.counts()} if judge else {})
    run.stage("hints").finish(written.hints, counts, inputs, started)


def sample(run: Run, progress: Progress, policy_name: str) -> None:
    """Fresh turns of a policy at the states that may be asked about: drawn once, and part of the run from then on."""
    from .training.rollouts.state_samples import sample_states
    from .training.stored.contexts import Contexts

    started, stage, inputs = time.monotonic(), run.stage("samples"), [run.stage("ingestion"), run.stage("sites")]
    name, weights = policy_weights(run, progress, policy_name)
    if stage.is_done:
        if stage.require()["inputs"]["policy"] != weights:
            again = (
                f"delete {quoted(stage.path)}, {quoted(run.path / 'replay')} and what comes after, "
                "then run the same command"
            )
            raise UsageError(f"the samples of {run.path} are of another policy ({stage.counts['policy']})", again)
        return
    gate, training, traces = run.config.replay.gate, run.config.training, inputs[0].read(Trace)
    states = states_to_sample(traces, inputs[1].read(ErrorSite), gate.max_sampled, run.config.seed)
    policy = load_model(run, name)
    contexts = Contexts(policy, rollout_tokens(run), policy_room(run, policy))
    before = [
        (state, contexts.before(state.state_id, state.trace.history(state.turn), state.trace.tools)) for state in states
    ]
    found = [(state, ids) for state, ids in before if ids]
    turns = sample_states(
        policy,
        [ids for _, ids in found],
        samples=gate.samples,
        max_new_tokens=training.max_turn_tokens,
        temperature=training.temperature,
        seed=run.config.seed,
        on_batch=lambda done: progress.step(done, len(found), f"{gate.samples} turns each"),
    )
    records = [
        StateSamples(state_id=state.state_id, trace_id=state.trace.trace_id, turn=state.turn, messages=tuple(messages))
        for (state, _), messages in zip(found, turns, strict=True)
    ]
    counts = {
        "policy": policy_name,
        "states": len(records),
        "too_long": len(states) - len(records),
        "samples": sum(map(len, turns)),
        "cut_off": len(records) * gate.samples - sum(map(len, turns)),
    }
    stage.finish(records, counts, inputs, started, {"policy": weights})


def replay(
    run: Run, progress: Progress, chosen: Sequence[Teacher] = (), own_family: bool = False, ask_nobody: bool = False
) -> None:
    """What each teacher would have done at the states that are worth asking about."""
    from .llm.bill import summary
    from .llm.ledger import Ledger
    from .llm.reconcile import reconcile

    started, inputs = time.monotonic(), [run.stage("ingestion"), run.stage("sites")]
    config, traces = replay_config(run, own_family), inputs[0].read(Trace)
    choices = replay_plan(run, traces, inputs[1].read(ErrorSite), chosen)
    states = [choice.state for choice in choices]
    with ExitStack() as stack:
        teachers = [] if ask_nobody else stack.enter_context(replay_teachers(run, traces, chosen))
        if not teachers:
            progress.note("nobody is asked: there will be no pairs, and channel 3 has nothing to learn from")
        ledger = Ledger(run.path / "ledger.sqlite")
        stack.callback(ledger.close)
        asking = askable(states, teachers, config)
        replies = replay_states(states, teachers, ledger, config, progress)
        names = {teacher.name for teacher in teachers}
        if summary(ledger, names)["in_doubt_micros"]:
            progress.note(f"{reconcile(ledger)} calls in doubt were looked up at their provider")
        spent = summary(ledger, names)
    outcomes = Counter(reply.outcome for reply in replies)
    if replies and outcomes["failed"] == len(replies):
        raise RecomposeError(
            f"all {len(replies)} teacher calls failed", f"check the server, then recompose replay {quoted(run.path)}"
        )
    counts = {
        "states": len(states),
        "buckets": dict(Counter(choice.bucket for choice in choices)),
        "replies": len(replies),
        "outcomes": dict(outcomes),
        "not_asked": {"own_family": asking.own_family.total(), "too_long": asking.too_long.total()},
        "own_family": config.own_family,
        "teachers": sorted({teacher.model for teacher in teachers}),
        "simulated": config.simulated and not chosen,
        **spent,
    }
    write_records(run.path / ASKED_STATES, (choice.stored() for choice in choices))
    made_with = [*inputs, run.stage("samples")] if run.stage("samples").is_done else inputs
    run.stage("replay").finish(replies, counts, made_with, started)


def pair(run: Run, progress: Progress) -> None:
    """What the teachers agree on, over what the actor did."""
    started, inputs = time.monotonic(), [run.stage(noun) for noun in ("ingestion", "sites", "replay")]
    config, traces, replies = run.config.pairs, inputs[0].read(Trace), inputs[2].read(TeacherReply)
    judge = ToolboxJudge(toolbox_tasks(run, traces))
    samples = stored_samples(run)
    found = extract_dpo_pairs(
        traces,
        replies,
        run.config.model.name,
        rule=config.rule,
        critical=config.critical,
        free_text=config.free_text,
        equivalent=judge.equivalent if config.execution else None,
        samples=samples,
        own_family=inputs[2].counts.get("own_family", False),
        kinds={site.state_id: site.error_kind for site in inputs[1].read(ErrorSite)},
    )
    if config.calibrate:
        found = calibrate(found.pairs, judge.is_right, config.min_precision).apply(found)
    made_with = [*inputs, run.stage("samples")] if samples else inputs
    run.stage("pairs").finish(
        found.pairs, {"pairs": len(found.pairs), "verdicts": dict(found.verdicts)}, made_with, started
    )


def train(run: Run, progress: Progress, backend: str = "trl") -> None:
    """The channels of the config added up, GRPO + alpha · SDPO + beta · TR-DPO by default, from the starting policy."""
    from .training.libraries import load_libraries
    from .training.processes import all_or_none, is_main

    started, folder, inputs = time.monotonic(), run.path / "training", require_trained_on(run)
    load_libraries()
    from .training.backends import open_backend
    from .training.card import model_card
    from .training.models.loading import whole_weights
    from .training.stored.examples import build_examples
    from .training.stored.policy_gradient import advantages
    from .training.stored.rendered_examples import render_examples

    train_policy = open_backend(backend)

    with all_or_none():
        if is_main() and not run.stage("policy").is_done:
            run_stage(run, "policy", progress)
            refuse_stale(run, "training")
    with all_or_none():
        sites = {site.site_id: site for site in inputs[1].read(ErrorSite)}
        hints, pairs = inputs[2].read(Hint), inputs[3].read(PreferencePair)
        policy = _load(run, "policy")
        rows = rollout_tokens(run)
        if any(row.tokenizer != policy.tokenizer_fingerprint for row in rows):
            raise UsageError("the rollouts were made with another tokenizer", "start another run")
        settings, known = run.config.training, {row.trace_id for row in rows}
        traces = inputs[0].read(Trace)
        own = [trace for trace in traces if trace.trace_id in known]
        compared = (
            {} if settings.rollouts else dict(zip((trace.trace_id for trace in own), advantages(own), strict=True))
        )
        examples, skipped = build_examples(policy.tokens, rows, sites, hints, pairs, settings.max_tokens, compared)
        others = [trace for trace in traces if trace.trace_id not in known]
        rendered, not_rendered = render_examples(policy, others, sites, hints, pairs, settings.max_tokens)
        examples, skipped = examples + rendered, skipped + not_rendered
    steps = train_policy(policy, run.config, examples, folder, progress)
    weights = whole_weights(policy.model)
    counts = {
        "backend": backend,
        "steps": len(steps),
        "stored_traces": len(examples),
        "hinted_sites": sum(len(example.sites) for example in examples),
        "pairs": sum(len(example.pairs) for example in examples),
        "skipped": dict(skipped),
    }
    with all_or_none():
        if is_main():
            policy.save(folder / "model", weights)
            shutil.rmtree(folder / "scratch", ignore_errors=True)
            write_atomically(folder / "model" / "README.md", model_card(run.config, counts))
            run.stage("training").finish(steps, counts, [run.stage("policy"), *inputs], started)


def require_trained_on(run: Run) -> list[StageFolder]:
    """The stages whose records training reads, all of them finished."""
    inputs = [run.stage(noun) for noun in ("ingestion", "sites", "hints", "pairs")]
    for stage in inputs:
        stage.require()
    return inputs


def evaluate(run: Run, progress: Progress) -> None:
    """Held-out success of the policy just before and after training, and the report."""
    from .evaluation.compare import PHASES, TaskOutcome, evaluate_policy
    from .evaluation.summary import write_report

    started, splits = time.monotonic(), run.config.evaluation.splits
    run.stage("training").require()
    policies = {"before": _load(run, "policy"), "after": _load(run, "training")}
    outcomes: list[TaskOutcome] = []
    for done, (phase, split) in enumerate(product(PHASES, splits), start=1):
        outcomes += evaluate_policy(policies[phase], run.config, phase, split)
        progress.step(done, len(PHASES) * len(splits), f"{split}, {phase}")
    run.stage("evaluation").finish(outcomes, {"episodes": len(outcomes)}, [run.stage("training")], started)
    write_report(run)


class Stage(NamedTuple):
    noun: str
    what: str
    work: Callable[..., None]
    """Takes the run and its progress, and may take choices that are no settings of the run."""


STAGES: tuple[Stage, ...] = (
    Stage("policy", "warm up the policy", prepare),
    Stage("ingestion", "collect traces", ingest),
    Stage("sites", "find error sites", locate),
    Stage("hints", "write hints", hint),
    Stage("replay", "ask the teachers", replay),
    Stage("pairs", "vote on pairs", pair),
    Stage("training", "train with three channels", train),
    Stage("evaluation", "measure held-out success", evaluate),
)


def run_stage(run: Run, noun: str, progress: Progress, **choices: Any) -> None:
    """Do one stage unless it is done already. `choices` are further arguments of its function."""
    stage = next(stage for stage in STAGES if stage.noun == noun)
    refuse_stale(run, noun)
    if run.stage(noun).is_done:
        progress.note(f"{noun}: kept, finished earlier")
        return
    progress.stage(noun, stage.what)
    stage.work(run, progress, **choices)


def refuse_stale(run: Run, noun: str) -> None:
    """Neither a stage nor any before it may be left over from other inputs than those that are there now."""
    earlier: list[str] = []
    for stage in STAGES:
        if stage.noun == "replay":
            run.stage("samples").refuse_stale(("ingestion", "sites"))
            earlier.append("samples")
        # Beside the policy, what ingestion was made from are files, whatever they are called.
        if stage.noun != "ingestion" or run.config.ingestion.rollouts:
            run.stage(stage.noun).refuse_stale(earlier)
        if stage.noun == noun:
            return
        earlier.append(stage.noun)


def run_pipeline(run: Run, progress: Progress) -> None:
    """Every stage in order, from the first one that is not finished."""
    if any(run.stage(stage.noun).is_done for stage in STAGES):
        progress.note(f"resuming {run.path}")
    for stage in STAGES:
        run_stage(run, stage.noun, progress)


def _rollouts(run: Run, progress: Progress) -> list[Trace]:
    from .training.policy import play

    traces, rows = play(_load(run, "policy"), run.config)
    write_records(run.path / ROLLOUT_TOKENS, rows)
    progress.note(f"{len(traces)} rollouts, {sum(trace.outcome or 0 for trace in traces):.0f} solved")
    return traces


def replay_plan(run: Run, traces: list[Trace], sites: list[ErrorSite], chosen: Sequence[Teacher]) -> list[Choice]:
    """Which states are asked about. Simulated teachers are free: without samples they get the errors, and no gate."""
    config, samples = run.config.replay, stored_samples(run)
    if config.simulated and not chosen and not samples:
        return [Choice(state, "error") for state in states_to_ask(traces, sites, config.max_states)]
    return choose_states(traces, sites, config.gate, config.max_states, run.config.seed, samples)


def replay_config(run: Run, own_family: bool) -> ReplayConfig:
    config = run.config.replay
    return config.model_copy(update={"own_family": True}) if own_family else config


def stored_samples(run: Run) -> dict[str, Sequence[Message]]:
    """Samples of the policy by state id, where some were drawn."""
    stage = run.stage("samples")
    return {row.state_id: row.messages for row in stage.read(StateSamples)} if stage.is_done else {}


def asked_states(run: Run) -> list[AskedState]:
    path = run.path / ASKED_STATES
    return list(read_records(path, AskedState)) if path.exists() else []


def rollout_tokens(run: Run) -> list[TokenizedTrace]:
    from .training.stored.records import TokenizedTrace

    stored = run.path / ROLLOUT_TOKENS
    return list(read_records(stored, TokenizedTrace)) if stored.exists() else []


@contextmanager
def replay_teachers(run: Run, traces: list[Trace], chosen: Sequence[Teacher]) -> Generator[Sequence[Teacher]]:
    """Those of the command line, else those of the config; nobody where simulated ones know none of the tasks."""
    from .environments.toolbox.teachers import SimulatedTeachers, teacher_names

    config = run.config.replay
    if chosen or not config.simulated:
        yield chosen or configured_teachers(config)
        return
    tasks = toolbox_tasks(run, traces)
    if not tasks:
        yield []
        return
    with SimulatedTeachers(tasks, config.simulated_error_rates, run.config.seed) as server:
        names = teacher_names(config.simulated_error_rates)
        yield [Teacher(name, server.base_url, simulated=True) for name in names]


def toolbox_tasks(run: Run, traces: Sequence[Trace]) -> list[ToolboxTask]:
    """Sessions of other agents may carry task ids of their own."""
    own = [trace.task_id for trace in traces if trace.source.agent == "toolbox" and trace.task_id]
    return [task_by_id(run.config.toolbox, task_id) for task_id in own]


def refuse_teachers_who_know_nothing(run: Run) -> None:
    if run.config.replay.simulated and not toolbox_tasks(run, run.stage("ingestion").read(Trace)):
        command = f"recompose replay {quoted(run.path)}"
        raise UsageError(
            f"simulated teachers know only the toolbox, and no trace of {run.path} is of it",
            f"{command} --teacher default --dry-run, or {command} --no-teachers to train without pairs",
        )


def policy_weights(run: Run, progress: Progress, name: str) -> tuple[str, str]:
    """Where the model called `name` lies, and what tells its weights from others.

    `policy` and the name of the run's own model mean the run's starting policy; else it is a folder or a hub id.
    """
    if name in ("policy", run.config.model.name):
        if not run.stage("policy").is_done:
            run_stage(run, "policy", progress)
            refuse_stale(run, "sites")
        return str(run.path / "policy" / "model"), run.stage("policy").counts["weights_sha256"]
    digest = hashlib.sha256()
    for path in sorted(Path(name).glob("*.safetensors")):
        with path.open("rb") as weights:
            digest.update(hashlib.file_digest(weights, "sha256").digest())
    return name, digest.hexdigest() if Path(name).is_dir() else name


def policy_room(run: Run, policy: Policy) -> int:
    """Tokens that may stand before a turn of the policy."""
    training = run.config.training
    return min(training.max_tokens, policy.model.config.max_position_embeddings) - training.max_turn_tokens


def load_model(run: Run, name: str) -> Policy:
    """A model by the place that `policy_weights` told."""
    from .training.models.loading import load_policy, load_saved_policy

    if name == str(run.path / "policy" / "model"):
        return load_saved_policy(name, run.config.model.name)
    return load_policy(name, run.config.toolbox, run.config.seed)


def _load(run: Run, noun: str) -> Policy:
    from .training.models.loading import load_saved_policy

    return load_saved_policy(run.path / noun / "model", run.config.model.name, run.config.hardware.weights)
