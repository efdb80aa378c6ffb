"""Asks every teacher what it would do at a frozen state.

Reads traces and sites, writes one `TeacherReply` per state and teacher. What was settled comes from the ledger, always:
a reply is read from there after the calls have ended, so a run that was killed and resumed gives the same bytes.
"""

from __future__ import annotations

import asyncio
import math
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import NamedTuple

from composer_replication.config import ReplayConfig
from composer_replication.errors import PartialError, Terminated, UsageError
from composer_replication.llm.addresses import host_of, is_loopback, require_allowed
from composer_replication.llm.calls import DRAIN_S, Calls
from composer_replication.llm.client import Endpoint
from composer_replication.llm.keys import key_from_environment
from composer_replication.llm.lane import Lane
from composer_replication.llm.ledger import Ledger, Settled
from composer_replication.llm.pricing import FREE, Prices
from composer_replication.llm.reconcile import note_usage
from composer_replication.llm.transport import HttpTransport
from composer_replication.progress import Progress, Silent
from composer_replication.records import TeacherReply, Trace

from .askable import Asking, askable
from .batching import ask_in_batches, pending_batches, refuse_pending
from .gate import State
from .panel import Panel
from .parse import Parsed, parse_reply
from .quorum import Quorum
from .requests import TeacherQuestion, questions
from .roster import teachers_to_ask
from .teachers import Teacher
from .usefulness import weigh_settled, why_useless
from .valid_calls import objection

MOST_LOOKED_AT = 500
"""States whose answers tell the rate of pairs: a dry run is to be quick."""


def replay_trace(trace: Trace, teachers: Sequence[Teacher], ledger: Ledger, config: ReplayConfig) -> list[TeacherReply]:
    """Ask the teachers at every turn of one trace."""
    return replay_states([State(trace, turn) for turn in range(len(trace.turns))], teachers, ledger, config)


def replay_states(
    states: Sequence[State],
    teachers: Sequence[Teacher],
    ledger: Ledger,
    config: ReplayConfig,
    progress: Progress | None = None,
) -> list[TeacherReply]:
    """Replies in the order of states, then teachers, however the calls finish. Equal requests share one call.

    Teachers of a higher tier are asked only where lower ones disagree or too few of them answer, and none where
    `askable` says no. Raises when the run was stopped before every question had its chance; what was settled stays
    settled.
    """
    return list(replay_asking(askable(states, teachers, config), teachers, ledger, config, progress))


def replay_asking(
    asking: Asking,
    teachers: Sequence[Teacher],
    ledger: Ledger,
    config: ReplayConfig,
    progress: Progress | None = None,
    quorum: Quorum | None = None,
) -> Iterator[TeacherReply]:
    """The same where it is known whom to ask. When those that are left are no `quorum` any more, nobody is asked on.

    All is asked before this returns; replies are read from the ledger one by one, because there may be many."""
    shown, may_ask = progress or Silent(), asking.teachers

    def is_enough(useless: set[str]) -> bool:
        return not quorum or quorum.is_met(teacher for teacher in teachers if teacher.name not in useless)

    if len({teacher.tier for teacher in teachers}) <= 1:
        return _replies(may_ask, ledger, config, shown, is_enough)
    found: list[list[TeacherReply]] = [[] for _ in may_ask]
    while True:
        round_ = [(state, _next(state, own, said)) for (state, own), said in zip(may_ask, found, strict=True)]
        if not any(chosen for _, chosen in round_):
            break
        replies = _replies(round_, ledger, config, shown, is_enough)
        for own, (_, chosen) in zip(found, round_, strict=True):
            own += islice(replies, len(chosen))
    rank = {teacher.model: place for place, teacher in enumerate(teachers)}
    return (reply for own in found for reply in sorted(own, key=lambda reply: rank[reply.teacher]))


def settled_replies(asking: Asking, teachers: Sequence[Teacher], ledger: Ledger, config: ReplayConfig) -> Answered:
    """What earlier runs paid for. Nobody is asked."""
    known, tiers = ledger.settled_keys(), len({teacher.tier for teacher in teachers})
    if not known:
        return Answered(0, [])
    asked = iter(questions(asking.teachers, config.max_tokens))
    rows = [(state, own, list(islice(asked, len(own)))) for state, own in asking.teachers if own]
    whole = [row for row in rows if all(question.key in known for question in row[2])]
    if tiers > 1:
        whole = [row for row in rows if any(question.key in known for question in row[2])]
    replies: list[TeacherReply] = []
    looked_at = 0
    for state, own, mine in whole[:: math.ceil(len(whole) / MOST_LOOKED_AT) or 1]:
        said = [_reply(one, found) for one in mine if (found := ledger.settled(one.key))]
        if len(said) == len(own) or not _next(state, own, said):
            looked_at += 1
            replies += said
    return Answered(looked_at, replies)


def _next(state: State, teachers: Sequence[Teacher], said: Sequence[TeacherReply]) -> list[Teacher]:
    """Whom to ask next: a call that no tool takes is no vote."""
    trace = state.trace
    votes = [
        reply.model_copy(update={"action": None})
        if reply.action and objection(reply.action, trace.tools, trace.tools_inferred)
        else reply
        for reply in said
    ]
    return teachers_to_ask(teachers, votes)


class Answered(NamedTuple):
    """Replies of some states where nobody is left to ask, and how many states those are."""

    looked_at: int
    replies: list[TeacherReply]


def _replies(
    asking: Sequence[tuple[State, Sequence[Teacher]]],
    ledger: Ledger,
    config: ReplayConfig,
    progress: Progress,
    is_enough: Callable[[set[str]], bool],
) -> Iterator[TeacherReply]:
    asked = questions(asking, config.max_tokens)
    ask(asked, ledger, config, progress, is_enough)
    return (_reply(question, ledger.settled(question.key)) for question in asked)


def ask(
    asked: Sequence[TeacherQuestion],
    ledger: Ledger,
    config: ReplayConfig,
    progress: Progress,
    is_enough: Callable[[set[str]], bool] = lambda useless: True,
) -> None:
    """Every question that has no answer yet gets one, or its attempts are used up. `is_enough` as in `Calls`."""
    unique = {question.key: question for question in asked}
    known = ledger.settled_keys()
    open_questions = [question for key, question in unique.items() if key not in known]
    poisoned = ledger.poisoned_keys() if open_questions else set[str]()
    left = [question for question in open_questions if question.key not in poisoned]
    if any(question.teacher.batch for question in unique.values()):
        # One whose answers are all there may have a batch on file that a killed run had just read.
        waiting = {batch.teacher for batch in pending_batches(ledger)} | {question.teacher.name for question in left}
        to_ask = _by_teacher(left)
        own = {
            admitted(teacher, ledger): to_ask.get(teacher, [])
            for teacher in _by_teacher(list(unique.values()))
            if teacher.name in waiting
        }
        ask_in_batches(own, ledger, progress, config.batch_poll_s)
        return
    refuse_pending(ledger)
    lanes = _lanes(left, ledger, config)
    for lane in lanes:
        weigh_settled(lane, (question for key, question in unique.items() if key in known), ledger)
    cached = len(unique) - sum(lane.pending for lane in lanes)
    if not lanes:
        progress.step(len(unique), len(unique))
        return
    cap_micros = ledger.totals().cap_micros
    panel = Panel(progress, cached, len(unique), cap_micros)
    calls = asyncio.run(_run(lanes, ledger, config, progress, panel, is_enough))
    _tell_given_up(calls, progress)
    if calls.error:
        raise calls.error
    parked = {lane.endpoint.name: lane.parked for lane in lanes if lane.parked}
    # Where nobody ever answered at all the caller says so.
    if known & unique.keys() or any(lane.answered or (lane.parked and not lane.is_missing) for lane in lanes):
        _tell_parked(parked)


async def _run(
    lanes: Sequence[Lane],
    ledger: Ledger,
    config: ReplayConfig,
    progress: Progress,
    panel: Panel,
    is_enough: Callable[[set[str]], bool],
) -> Calls:
    private_hosts = {host_of(lane.endpoint.base_url) for lane in lanes if lane.endpoint.private_network}
    async with HttpTransport(config.timeout_s, private_hosts) as transport:
        for endpoint in {lane.endpoint for lane in lanes if any(lane.endpoint.prices or ())}:
            await note_usage(ledger, transport, endpoint.base_url, endpoint.key)
        calls = Calls(lanes, ledger, transport, config.max_attempts, panel.show, is_enough)
        with _stopping_on_signals(calls, progress):
            await calls.run()
        return calls


def _lanes(asked: Sequence[TeacherQuestion], ledger: Ledger, config: ReplayConfig) -> list[Lane]:
    """One queue per teacher, trace by trace, so that a provider's prompt cache sees growing prefixes."""
    has_cap = ledger.totals().cap_micros is not None
    lanes: list[Lane] = []
    for teacher, own in _by_teacher(asked).items():
        endpoint = admitted(teacher, ledger)
        lane = Lane(
            endpoint,
            config.concurrency,
            learns_price=endpoint.prices is None and has_cap,
            max_useless=0 if teacher.simulated else config.max_useless,
            why_useless=partial(why_useless, teacher, config.max_tokens),
        )
        first: dict[str, int] = {}
        for rank, question in enumerate(own):
            first.setdefault(question.state.trace.trace_id, rank)
        own.sort(key=lambda question: (first[question.state.trace.trace_id], question.state.turn))
        lane.add(question.call() for question in own)
        lanes.append(lane)
    return lanes


def _tell_given_up(calls: Calls, progress: Progress) -> None:
    for name, live in calls.live.teachers.items():
        worst = live.errors.most_common(1)
        if live.failed and worst:
            reason = worst[0][0]
            words = live.words.get(reason, "")
            progress.note(f"{name}: {live.failed} calls given up, mostly {reason}{words and f': {words}'}")


def _by_teacher(asked: Sequence[TeacherQuestion]) -> dict[Teacher, list[TeacherQuestion]]:
    found: dict[Teacher, list[TeacherQuestion]] = {}
    for question in asked:
        found.setdefault(question.teacher, []).append(question)
    return found


def admitted(teacher: Teacher, ledger: Ledger) -> Endpoint:
    """Where a teacher is asked; one that costs money needs a cap."""
    endpoint = endpoint_of(teacher)
    if endpoint.prices and any(endpoint.prices) and ledger.totals().cap_micros is None:
        raise UsageError(f"{teacher.name} costs money and there is no cap", "add --max-usd DOLLARS")
    if not teacher.private_network:  # what is remembered is looked up later, and no private server tells a bill
        ledger.remember_teacher(teacher.name, endpoint.base_url, teacher.key_variable)
    return endpoint


def endpoint_of(teacher: Teacher) -> Endpoint:
    base_url, wire = teacher.base_url.rstrip("/"), teacher.wire
    key = key_from_environment(teacher.key_variable, wire.key_header(base_url))
    return Endpoint(teacher.name, base_url, price_of(teacher), key, wire, teacher.rates, teacher.private_network)


def price_of(teacher: Teacher) -> Prices | None:
    """Simulated teachers are free, a server of one's own may be: None where its answers have to tell."""
    require_allowed(teacher.base_url, teacher.private_network)
    if teacher.prices is None and not teacher.simulated and not is_loopback(teacher.base_url):
        raise UsageError(
            f"the price of {teacher.name} is not known",
            "say it: --teacher NAME=BASE_URL,MODEL,INPUT,OUTPUT in dollars per million tokens",
        )
    if teacher.simulated or teacher.prices is None:
        return FREE if teacher.simulated else None
    # A prompt may be written to the provider's cache, and that may cost more.
    return teacher.prices._replace(prompt_micros=max(teacher.prices.prompt_micros, teacher.cache_write_micros or 0))


@contextmanager
def _stopping_on_signals(calls: Calls, progress: Progress) -> Generator[None]:
    """The first interrupt lets calls in flight end; the second gives them up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if calls.error is not None:
            calls.cancel()
            return
        calls.stop(Terminated() if number == signal.SIGTERM else KeyboardInterrupt())
        progress.note("stopping when the calls in flight have ended; interrupt again to leave them in doubt")
        loop.call_later(DRAIN_S, calls.cancel)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _tell_parked(parked: Mapping[str, str]) -> None:
    if parked:
        why = ", ".join(f"{name}: {reason}" for name, reason in parked.items())
        raise PartialError(
            f"some teachers were left alone ({why}); all answers are saved",
            "run the same command later, or without them",
        )


def _reply(question: TeacherQuestion, settled: Settled | None) -> TeacherReply:
    (trace, turn), teacher = question.state, question.teacher
    own_names = teacher.wire.own_names(trace.tools)
    parsed = parse_reply(settled.body, teacher.model, own_names, teacher.served_as) if settled else Parsed("failed")
    return TeacherReply(
        key=question.key,
        state_id=trace.state_id(turn),
        trace_id=trace.trace_id,
        turn=turn,
        teacher=teacher.model,
        served_model=parsed.served_model,
        family=teacher.family,
        action=parsed.action,
        raw=settled.body if settled else "",
        finish_reason=parsed.finish_reason,
        usage=parsed.usage,
        cost_micros=settled.cost_micros if settled else 0,
        latency_s=round(settled.latency_s, 4) if settled else 0.0,
        outcome=parsed.outcome,
        simulated=teacher.simulated,
    )
