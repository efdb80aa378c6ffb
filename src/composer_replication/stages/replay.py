"""`RUN/replay`: what each teacher would have done at the states that are worth asking about."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from composer_replication.config import ReplayConfig
from composer_replication.environments.opening import open_environment
from composer_replication.errors import RecomposeError, UsageError, quoted
from composer_replication.progress import Progress
from composer_replication.records import TeacherReply, Trace
from composer_replication.replay import State, Teacher, states_to_ask
from composer_replication.replay.askable import Asking, askable
from composer_replication.replay.choice import configured_teachers
from composer_replication.replay.gate import AskedState, Choice, choose_states
from composer_replication.replay.model_settings import batched
from composer_replication.replay.quorum import Quorum, refuse_hopeless, with_quorum
from composer_replication.replay.runner import replay_asking
from composer_replication.runs import RECORDS, Run, StageFolder, read_records, write_records
from composer_replication.sites.marking import StoredTraces

from .samples import stored_samples

ASKED_STATES = "replay/states.jsonl.zst"


def replay(
    run: Run,
    progress: Progress,
    chosen: Sequence[Teacher] = (),
    own_family: bool = False,
    ask_nobody: bool = False,
    batch: bool = False,
    one_teacher: bool = False,
) -> None:
    from composer_replication.llm.bill import last_words, summary
    from composer_replication.llm.ledger import Ledger
    from composer_replication.llm.reconcile import reconcile

    started, inputs = time.monotonic(), [run.stage("ingestion"), run.stage("sites")]
    config, choices = replay_config(run, own_family, one_teacher), replay_plan(run, chosen)
    states = [choice.state for choice in choices]
    with ExitStack() as stack:
        teachers = [] if ask_nobody else stack.enter_context(replay_teachers(run, chosen, batch))
        if not teachers:
            progress.note("nobody is asked: there will be no pairs, and channel 3 has nothing to learn from")
        asking, quorum = hopeful(run, states, teachers, config)
        ledger = Ledger(run.path / "ledger.sqlite")
        stack.callback(ledger.close)
        outcomes: Counter[str] = Counter()
        replies = replay_asking(asking, teachers, ledger, config, progress, quorum)
        written = write_records(run.stage("replay").path / RECORDS, _counted(replies, outcomes))
        names = {teacher.name for teacher in teachers}
        if summary(ledger, names)["in_doubt_micros"]:
            try:
                progress.note(f"{reconcile(ledger)} calls in doubt were looked up at their provider")
            except UsageError as error:  # a key of an earlier command is not there now
                progress.note(f"calls in doubt stay at their worst case: {error}")
        spent, said = summary(ledger, names), last_words(ledger, names)
    if written.records and outcomes["failed"] == written.records:
        raise RecomposeError(
            f"all {written.records} teacher calls failed{said and f'; {said}'}",
            f"check the server, then recompose replay {quoted(run.path)}",
        )
    counts = {
        "states": len(states),
        "buckets": dict(Counter(choice.bucket for choice in choices)),
        "replies": written.records,
        "outcomes": dict(outcomes),
        "not_asked": {
            "own_family": asking.own_family.total(),
            "too_long": asking.too_long.total(),
            "too_few": asking.too_few,
        },
        "windowed": asking.windowed.total(),
        "own_family": config.own_family,
        "one_teacher": config.one_teacher,
        "teachers": sorted({teacher.model for teacher in teachers}),
        "simulated": config.simulated and not chosen,
        **spent,
    }
    write_records(run.path / ASKED_STATES, (choice.stored() for choice in choices))
    made_with = [*inputs, run.stage("samples")] if run.stage("samples").is_done else inputs
    run.stage("replay").seal(written, counts, made_with, started)


def _counted(replies: Iterator[TeacherReply], outcomes: Counter[str]) -> Iterator[TeacherReply]:
    for reply in replies:
        outcomes[reply.outcome] += 1
        yield reply


def hopeful(
    run: Run, states: Sequence[State], teachers: Sequence[Teacher], config: ReplayConfig
) -> tuple[Asking, Quorum | None]:
    """Whom to ask where, and what a pair needs. Raises where none can come of it. Simulated teachers are free."""
    asking = askable(states, teachers, config)
    if all(teacher.simulated for teacher in teachers):
        return asking, None
    if config.one_teacher and not stored_samples(run):
        raise UsageError("--one-teacher sets one teacher against samples of the policy", "add --policy MODEL")
    quorum = Quorum.of(run.config, config)
    kept = with_quorum(asking, quorum)
    refuse_hopeless(kept, teachers, quorum)
    return kept, quorum


def replay_plan(run: Run, chosen: Sequence[Teacher]) -> list[Choice]:
    """Which states are asked about. Simulated teachers are free: without samples they get the errors, and no gate."""
    config, samples = run.config.replay, stored_samples(run)
    traces = StoredTraces(run.stage("ingestion"), run.stage("sites"))
    if config.simulated and not chosen and not samples:
        return [Choice(state, "error") for state in states_to_ask(traces, traces.sites(), config.max_states)]
    return choose_states(traces, traces.sites(), config.gate, config.max_states, run.config.seed, samples)


def replay_config(run: Run, own_family: bool, one_teacher: bool = False) -> ReplayConfig:
    flags = {"own_family": own_family, "one_teacher": one_teacher}
    return run.config.replay.model_copy(update={name: True for name, is_set in flags.items() if is_set})


def asked_states(run: Run) -> list[AskedState]:
    path = run.path / ASKED_STATES
    return list(read_records(path, AskedState)) if path.exists() else []


@contextmanager
def replay_teachers(run: Run, chosen: Sequence[Teacher], batch: bool = False) -> Generator[Sequence[Teacher]]:
    """Those of the command line, else those of the config; nobody where simulated ones know none of the tasks."""
    config = run.config.replay
    if chosen or not config.simulated:
        teachers = chosen or configured_teachers(config)
        yield [batched(teacher) for teacher in teachers] if batch else teachers
        return
    if batch:
        raise UsageError("simulated teachers have no batch endpoint", "leave --batch out, or name teachers")
    with open_environment(run.config) as environment, ExitStack() as stack:
        offered = environment.simulated_teachers(
            run.stage("ingestion").stream(Trace), config.simulated_error_rates, run.config.seed
        )
        simulated = stack.enter_context(offered) if offered else []
        yield [Teacher(teacher.name, teacher.base_url, simulated=True) for teacher in simulated]


def refuse_teachers_who_know_nothing(run: Run) -> None:
    if not run.config.replay.simulated:
        return
    with replay_teachers(run, ()) as teachers:
        known = bool(teachers)
    if not known:
        command = f"recompose replay {quoted(run.path)}"
        raise UsageError(
            f"simulated teachers know only their environment, and no trace of {run.path} is of "
            f"{run.config.environment.name}",
            f"{command} --teacher default --dry-run, or {command} --no-teachers to train without pairs",
        )


def refuse_other_options(
    run: Run, chosen: Sequence[Teacher], own_family: bool, policy: str | None, one_teacher: bool = False
) -> None:
    """What was asked for is what the finished stage was made with. Without any option that is always so."""
    stage = run.stage("replay")
    with_own_family = stage.counts.get("own_family", False)
    wrong = ""
    if chosen and {teacher.model for teacher in chosen} != (asked := set(stage.counts["teachers"])):
        wrong = f"with other teachers ({', '.join(sorted(asked)) or 'none'})"
    elif alias := _alias_it_lacks(stage, chosen):
        wrong = f"without --alias {quoted(alias)}"
    elif own_family and not with_own_family:
        wrong = "without --own-family"
    elif one_teacher and not stage.counts.get("one_teacher", False):
        wrong = "without --one-teacher"
    elif chosen and with_own_family and not replay_config(run, own_family).own_family:
        wrong = "with --own-family"
    elif policy and not (run.stage("samples").is_done and "samples" in stage.require()["inputs"]):
        wrong = "without samples of a policy"
    if wrong:
        raise UsageError(
            f"{run.path} was replayed {wrong}",
            f"delete {quoted(stage.path)} and what comes after, then run the same command: no answer is paid again",
        )


def _alias_it_lacks(stage: StageFolder, chosen: Sequence[Teacher]) -> str | None:
    """A name that would make answers count which the stage holds as those of another model."""
    aliases = {(one.model, served): f"{one.name}={served}" for one in chosen for served in one.served_as}
    if not aliases or not stage.counts.get("outcomes", {}).get("mismatched"):
        return None
    other = (reply for reply in stage.stream(TeacherReply) if reply.outcome == "mismatched")
    return next(filter(None, (aliases.get((reply.teacher, reply.served_model or "")) for reply in other)), None)
